/**
 * The steps of a rotation of a cluster's keys, in one pass for all keysets that rotate together.
 * Pure.
 *
 * generate → trust → issue → rewrite → search → rehearse → distrust → publish → forget
 *
 * A CA whose old generation can sign a bridge to the new one skips the trust: its new generation
 * signs with the bridge behind each leaf, so programs that trust only the old one accept it, and
 * the trust changes once, when the old one ends. Therefore etcd restarts once.
 *
 * Before the old keys end everywhere, one control plane rehearses it (rehearsal.ts). If its API
 * server then refuses clients, it trusts the old keys again, and the rotation is held.
 *
 * In an emergency (`muster pki distrust --now`) one step, replace, takes the place of trust, issue,
 * search and distrust, and machines make new keys for all of their certificates.
 *
 * Taking it back: the old generation signs again, and the new one stays trusted until nothing
 * depends on it; then it is forgotten.
 */
import { duration } from '../../../base/duration.ts';
import { type KeysetRow, keysetRow, type Restarting, type Rotated } from '../../../pki/keysets.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import type { ChangeTable, Route, Scope, Step } from '../step.ts';
import {
  accepts,
  carriedOut,
  encryptionLoaded,
  firstNotDone,
  firstNotDoneOf,
  issuedBy,
  nothingLeft,
  rootCaPublished,
  secretsWritten,
  tokensRenewed,
  trustPublished,
} from './evidence.ts';
import type { RotationOrder, RotationSeen } from './order.ts';
import { rehearsedWell, rehearsesHere, watchedBefore } from './rehearsal.ts';

type RotationStep = Step<RotationOrder, RotationSeen>;

const EVERYWHERE: Scope = { on: 'machines', roles: ['control-plane', 'etcd', 'worker'], atOnce: 'all' };
const BOOT_HOST: Scope = { on: 'boot-host' };

const rotates = ({ keysets }: RotationOrder, wanted: Rotated): boolean =>
  keysets.some(({ name }) => name === wanted);

/** Programs that restart in a step because of these keysets, by the roles of a machine. */
const restartsIn =
  (step: Restarting, { keysets }: RotationOrder) =>
  (roles: readonly ClusterRole[]): readonly string[] => {
    const all = keysets.flatMap(({ name }) => keysetRow(name).restarts?.[step] ?? []);
    return [...new Set(all)].filter((program) => roles.some((role) => RUNS[role].includes(program)));
  };

const RUNS: Readonly<Record<ClusterRole, readonly string[]>> = {
  'control-plane': ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'],
  etcd: ['etcd'],
  worker: ['kubelet'],
};

const generate = (): RotationStep => ({
  name: 'generate',
  sentence: 'The boot host makes the new keys; nothing uses them yet.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

const trust = (order: RotationOrder): RotationStep => ({
  name: 'trust',
  sentence: 'Every machine trusts the new keys next to the old ones.',
  scope: EVERYWHERE,
  acts: true,
  takes: { total: duration('1m'), eachTurn: duration('30s') },
  restarts: restartsIn('trust', order),
  machine: firstNotDone(carriedOut, accepts('both', { published: true }), encryptionLoaded),
  ...(rotates(order, 'ca') && { whole: rootCaPublished }),
});

const issue = (order: RotationOrder): RotationStep => ({
  name: 'issue',
  sentence: 'The new keys sign; every certificate is issued again.',
  scope: EVERYWHERE,
  acts: true,
  takes: { total: duration('1m'), eachTurn: duration('30s') },
  restarts: restartsIn('issue', order),
  machine: firstNotDone(carriedOut, issuedBy('to'), encryptionLoaded),
});

const rewrite = (): RotationStep => ({
  name: 'rewrite',
  sentence: 'The boot host writes every Secret again, so that the new key encrypts it.',
  scope: BOOT_HOST,
  acts: true,
  takes: { total: duration('1m') },
  whole: secretsWritten,
});

const search = (): RotationStep => ({
  name: 'search',
  sentence: 'The boot host searches the cluster for whatever still depends on the old keys.',
  scope: EVERYWHERE,
  takes: { total: duration('1m') },
  machine: firstNotDone(tokensRenewed),
  whole: firstNotDoneOf(nothingLeft, watchedBefore),
});

const rehearse = (): RotationStep => ({
  name: 'rehearse',
  sentence:
    'One control plane trusts the old keys no longer; if its API server then refuses clients, it trusts them again.',
  scope: { on: 'machines', roles: ['control-plane'], atOnce: 'all' },
  takes: { total: duration('2m') },
  machine: rehearsesHere(firstNotDone(carriedOut, issuedBy('to'), accepts('new', { published: false }))),
  whole: rehearsedWell,
});

const distrust = (order: RotationOrder): RotationStep => ({
  name: 'distrust',
  sentence: 'Nothing trusts the old keys any more.',
  scope: EVERYWHERE,
  acts: true,
  noReturn: true,
  takes: { total: duration('1m'), eachTurn: duration('30s') },
  restarts: restartsIn('distrust', order),
  machine: firstNotDone(carriedOut, issuedBy('to'), accepts('new', { published: false }), encryptionLoaded),
  ...(rotates(order, 'ca') && { whole: rootCaPublished }),
});

const replace = (order: RotationOrder): RotationStep => ({
  ...distrust(order),
  name: 'replace',
  sentence:
    'The new keys sign, every machine makes new keys, and nothing trusts the old ones: what still uses them is cut off.',
  takes: { total: duration('1m'), eachTurn: duration('30s') },
});

const publish = (): RotationStep => ({
  name: 'publish',
  sentence: 'The boot host takes the old CAs out of the ConfigMap that aggregated API servers read.',
  scope: { on: 'machines', roles: ['control-plane'], atOnce: 'all' },
  acts: true,
  takes: { total: duration('30s') },
  machine: firstNotDone(accepts('new', { published: true })),
  whole: trustPublished,
});

const forget = (): RotationStep => ({
  name: 'forget',
  sentence:
    'The boot host deletes the old keys; those that encrypted Secrets stay sealed, for old snapshots.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

const signAgain = (order: RotationOrder): RotationStep => ({
  name: 'sign-again',
  sentence: 'The old keys sign again; every certificate is issued again.',
  scope: EVERYWHERE,
  acts: true,
  takes: { total: duration('1m'), eachTurn: duration('30s') },
  restarts: issue(order).restarts!,
  machine: firstNotDone(carriedOut, issuedBy('from'), encryptionLoaded),
});

const writeBack = (): RotationStep => ({
  ...rewrite(),
  name: 'write-back',
  sentence: 'The boot host writes every Secret again, so that the old key encrypts it.',
});

const untrust = (order: RotationOrder): RotationStep => ({
  name: 'untrust',
  sentence: 'Nothing trusts the new keys any more.',
  scope: EVERYWHERE,
  acts: true,
  takes: { total: duration('1m'), eachTurn: duration('30s') },
  restarts: trust(order).restarts!,
  machine: firstNotDone(carriedOut, issuedBy('from'), encryptionLoaded),
});

const forgetNew = (): RotationStep => ({
  name: 'forget-new',
  sentence: 'The boot host deletes the new keys.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

function forward(order: RotationOrder): Route<RotationOrder, RotationSeen> {
  const has = (fits: (row: KeysetRow) => unknown) => order.keysets.some(({ name }) => fits(keysetRow(name)));
  const publishes = has(({ publishedAs }) => publishedAs) ? [publish()] : [];
  if (order.emergency) return [generate(), replace(order), ...publishes, forget()];
  const trusts = order.keysets.some(({ bridged }) => !bridged);
  return [
    generate(),
    ...(trusts ? [trust(order)] : []),
    issue(order),
    ...(rotates(order, 'encryption') ? [rewrite()] : []),
    ...(has(({ ofClients }) => ofClients) ? [search(), rehearse()] : []),
    distrust(order),
    ...publishes,
    forget(),
  ];
}

const back = (order: RotationOrder): Route<RotationOrder, RotationSeen> => [
  signAgain(order),
  ...(rotates(order, 'encryption') ? [writeBack()] : []),
  untrust(order),
  forgetNew(),
];

export const ROTATION: ChangeTable<RotationOrder, RotationSeen> = { forward, back };
