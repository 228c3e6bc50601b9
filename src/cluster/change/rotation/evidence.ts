/**
 * What proves that a machine, or a cluster, has done a step of a rotation. Each function judges one
 * thing; a step asks for several. Pure.
 *
 * Files that were written prove nothing: a listener shows its issuer, a probe certificate is
 * accepted or refused, an API server says which configuration it has loaded.
 */
import { type Evidence, LISTENERS, type ListenerName, probeName } from '../../../agent/wire/evidence.ts';
import { firstFew } from '../../../base/first-few.ts';
import type { ProbedKeyset } from '../../../pki/keysets.ts';
import type { ClusterRole } from '../../model/resolved-cluster.ts';
import {
  CLUSTER,
  done,
  held,
  type MachineSeen,
  type Step,
  type StepInput,
  type Verdict,
  waiting,
} from '../step.ts';
import type { RotatedKeyset, RotationOrder, RotationSeen } from './order.ts';

type Input = StepInput<RotationOrder, RotationSeen>;
type Judge = (machine: MachineSeen, input: Input) => Verdict;

/** All judges have to be satisfied; the first that is not says why. */
export const firstNotDone =
  (...judges: readonly Judge[]): NonNullable<Step<RotationOrder, RotationSeen>['machine']> =>
  (machine, input) => {
    const verdicts: Verdict[] = [];
    for (const judge of judges) {
      const verdict = judge(machine, input);
      if (verdict.is !== 'done') return verdict;
      verdicts.push(verdict);
    }
    return done(
      verdicts.flatMap((one) => (one.is === 'done' && one.evidence !== '' ? [one.evidence] : [])).join('; '),
    );
  };

/** The same for what is observed of the cluster as a whole. */
export const firstNotDoneOf =
  (...judges: readonly ((input: Input) => Verdict)[]) =>
  (input: Input): Verdict => {
    const verdicts = judges.map((judge) => judge(input));
    const open = verdicts.find(({ is }) => is !== 'done');
    const said = verdicts.flatMap((one) => (one.is === 'done' && one.evidence !== '' ? [one.evidence] : []));
    return open ?? done(said.join('; '));
  };

/** The agent has carried out the plan, and everything that restarts in turns runs as planned. */
export const carriedOut: Judge = ({ applied, settled, facts }) => {
  if (!applied) {
    const why = facts?.hold;
    return waiting(why ? `it waits (${why.code}): ${why.text}` : 'it is carrying out its plan');
  }
  if (settled === false)
    return waiting('its etcd or API server is not ready, or does not run as planned yet');
  return done('its plan is carried out');
};

/** Listeners that every machine with the role has. */
const LISTENS: Readonly<Record<ClusterRole, readonly ListenerName[]>> = {
  'control-plane': ['kube-apiserver', 'kubelet', 'kube-controller-manager', 'kube-scheduler'],
  etcd: ['etcd-client', 'etcd-peer'],
  worker: ['kubelet'],
};

/** The listeners of a machine with these roles. */
export const listenersOf = (roles: readonly ClusterRole[]): readonly ListenerName[] => [
  ...new Set(roles.flatMap((role) => LISTENS[role])),
];

interface Asked {
  readonly listener: ListenerName;
  readonly keyset: RotatedKeyset;
  readonly seen: Evidence['listeners'] extends ReadonlyMap<unknown, infer One> ? One : never;
}

/**
 * Judges every listener that has to do with a rotated keyset; `related` says by which role.
 */
function eachListener(
  machine: MachineSeen,
  { order }: Input,
  related: (listener: ListenerName, keyset: string) => boolean,
  judge: (asked: Asked) => Verdict,
): Verdict {
  const said: string[] = [];
  for (const listener of listenersOf(machine.roles))
    for (const keyset of order.keysets.filter(({ name }) => related(listener, name))) {
      const seen = machine.facts?.evidence?.listeners.get(listener);
      if (seen === undefined) return waiting(`its agent does not report what its ${listener} shows`);
      const verdict = judge({ listener, keyset, seen });
      if (verdict.is !== 'done') return verdict;
      said.push(verdict.evidence);
    }
  return done(said.join('; '));
}

const serves = (listener: ListenerName, keyset: string): boolean =>
  (LISTENERS[listener] as { readonly serves?: string }).serves === keyset;
const takes = (listener: ListenerName, keyset: string): boolean =>
  (LISTENERS[listener].accepts as readonly string[]).includes(keyset);

/** Every certificate is of the generation, and the listeners and kubelet show so. */
export const issuedBy =
  (which: 'from' | 'to'): Judge =>
  (machine, input) => {
    const { behind, issuers } = input.cluster;
    const old = behind.get(machine.name) ?? [];
    if (old.length > 0) return waiting(`certificates are not issued again yet: ${old.join(', ')}`);
    const shown = eachListener(machine, input, serves, ({ listener, keyset, seen }) => {
      const wanted = keyset[which];
      const issuer = seen.issuer === undefined ? undefined : issuers.get(seen.issuer);
      return issuer?.generation === wanted
        ? done(`${listener} shows a certificate of ${keyset.name} ${wanted}`)
        : waiting(
            `its ${listener} still shows a certificate of ${issuer?.generation ?? 'an unknown issuer'}`,
          );
    });
    if (shown.is !== 'done') return shown;
    const kubelet = kubeletClient(machine, input, which);
    return kubelet.is === 'done'
      ? done([shown.evidence, kubelet.evidence].filter((text) => text !== '').join('; '))
      : kubelet;
  };

function kubeletClient(machine: MachineSeen, { order, cluster }: Input, which: 'from' | 'to'): Verdict {
  const ca = order.keysets.find(({ name }) => name === 'ca');
  const runsKubelet = machine.roles.some((role) => role !== 'etcd');
  if (ca === undefined || !runsKubelet) return done('');
  const keyId = machine.facts?.evidence?.kubeletIssuer;
  if (keyId === undefined) return waiting("its agent does not report kubelet's client certificate");
  const issuer = cluster.issuers.get(keyId)?.generation;
  return issuer === ca[which]
    ? done(`kubelet uses a certificate of ca ${issuer}`)
    : waiting(`its kubelet still uses a certificate of ${issuer ?? 'an unknown issuer'}`);
}

/**
 * Whether a listener may refuse the front proxy altogether: a scheduler does that from its start to
 * its end if its API server did not answer when it started, since it tolerates that
 * (`--authentication-tolerate-lookup-failure`). The front proxy never speaks to it.
 */
const takesNoFrontProxy = (listener: ListenerName, keyset: string): boolean =>
  listener === 'kube-scheduler' && keyset === 'front-proxy-ca';

/**
 * Every listener that takes clients of the keyset accepts both generations, or only the new one.
 * Bridged CAs are in no bundle before the old one is distrusted, so `both` does not ask for them.
 */
export const accepts =
  (which: 'both' | 'new', { published }: { readonly published: boolean }): Judge =>
  (machine, input) =>
    eachListener(machine, input, takes, ({ listener, keyset, seen }) => {
      // The scheduler reads its trust from a ConfigMap, which is corrected after everything else.
      if (listener === 'kube-scheduler' && !published) return done('');
      if (which === 'both' && keyset.bridged) return done('');
      const answer = (generation: string | undefined) =>
        generation === undefined
          ? undefined
          : seen.answers.get(probeName(keyset.name as ProbedKeyset, generation));
      const [old, next] = [answer(keyset.from), answer(keyset.to)];
      if (takesNoFrontProxy(listener, keyset.name) && old === 'refused' && next === 'refused')
        return done(`${listener} takes no clients of the front proxy`);
      const wanted = which === 'both' ? 'accepted' : 'refused';
      if (next !== 'accepted')
        return waiting(
          `its ${listener} does not accept clients of the new ${keyset.name}: ${next ?? 'not asked yet'}`,
        );
      if (old !== wanted)
        return waiting(
          `its ${listener}, asked by a client of the old ${keyset.name}: ${old ?? 'not asked yet'}`,
        );
      return done(`${listener}: old ${keyset.name} ${old}, new one accepted`);
    });

/** API servers say that they have loaded the encryption configuration that they were given. */
export const encryptionLoaded: Judge = ({ roles, facts }, { order, cluster }) => {
  if (!order.keysets.some(({ name }) => name === 'encryption') || !roles.includes('control-plane'))
    return done('');
  const loaded = facts?.evidence?.encryption;
  if (loaded === undefined) return waiting('its API server does not say which encryption keys it has loaded');
  return loaded === cluster.encryption
    ? done(`the API server has loaded encryption configuration ${loaded.slice(0, 16)}`)
    : waiting('its API server has not loaded the new encryption configuration yet');
};

/** No pod of the machine has a token that an old key signed, unless that is left behind. */
export const tokensRenewed: Judge = ({ name, roles, facts }, { order, cluster }) => {
  if (cluster.oldTokens.length === 0 || roles.every((role) => role === 'etcd')) return done('');
  const { tokens } = facts?.evidence ?? {};
  if (tokens === undefined) return waiting('its agent does not report the tokens of its pods');
  const old = cluster.oldTokens.reduce((sum, kid) => sum + (tokens.get(kid) ?? 0), 0);
  if (old === 0) return done('no token of its pods is of the old key');
  if (order.leave.includes(`tokens/${name}`)) return done(`${old} tokens of the old key are left behind`);
  const pods = cluster.oldTokenPods?.get(name) ?? [];
  const open = pods.filter((pod) => !order.leave.includes(`pod/${pod}`));
  if (pods.length > 0 && open.length === 0)
    return done(`${firstFew(pods)} are left behind with tokens of the old key`);
  const named = open.length > 0 ? ` (${firstFew(open)})` : '';
  const leave =
    open.length > 0 ? `--leave pod/${open[0]} or --leave tokens/${name}` : `--leave tokens/${name}`;
  return waiting(
    `${old} tokens in its pods${named} are still of the old key; kubelet renews them within an hour, or leave them behind: leave-out ${leave}`,
  );
};

/** extension-apiserver-authentication holds the new bundles alone. */
export const trustPublished = (input: Input): Verdict =>
  asked(input, input.cluster.published, (is) =>
    is
      ? done('extension-apiserver-authentication holds the new bundles alone')
      : waiting('extension-apiserver-authentication does not hold the new bundles yet'),
  );

const asked = <T>({ cluster }: Input, value: T | undefined, judge: (value: T) => Verdict): Verdict =>
  value === undefined
    ? waiting(`the API server was not asked yet${cluster.failure ? `: ${cluster.failure}` : ''}`)
    : judge(value);

/** kube-root-ca.crt in every namespace is the bundle that machines get. */
export const rootCaPublished = (input: Input): Verdict =>
  asked(input, input.cluster.rootCa, (lacking) =>
    lacking.length === 0
      ? done('kube-root-ca.crt is the new bundle in every namespace')
      : waiting(`kube-root-ca.crt is not the new bundle in ${firstFew(lacking)}`),
  );

/** etcd has no Secret that another key encrypted. */
export const secretsWritten = (input: Input): Verdict =>
  asked(input, input.cluster.secrets, (left) =>
    left === 0 ? done('no Secret names an old key') : waiting(`${left} Secrets still name an old key`),
  );

/** Nothing that the search found depends on the old keys, apart from what is left behind. */
export const nothingLeft = (input: Input): Verdict =>
  asked(input, input.cluster.leftovers, (found) => {
    const left = found.filter(({ name }) => !input.order.leave.includes(name));
    const behind = found.length - left.length;
    if (left.length === 0)
      return done(
        `the search found nothing else${behind > 0 ? `; ${behind} things are left behind as ordered` : ''}`,
      );
    return held(
      'leftovers',
      `These still depend on the old keys: ${firstFew(left.map(({ name, text }) => `${name} (${text})`))}.`,
      `Change them, or leave them behind: \`muster change ${CLUSTER} leave-out --leave ${left[0]!.name}\`.`,
    );
  });
