/**
 * The rotation of a cluster's keys as a kind of change: what the boot host does for each step, and
 * what it sees of the cluster as a whole.
 */
import type { Clock } from '../../../base/clock.ts';
import { duration, type Millis } from '../../../base/duration.ts';
import { expectedText } from '../../../base/error-text.ts';
import { encryptionConfig, encryptionConfigHash } from '../../../pki/encryption.ts';
import { leafOf, leavesFor } from '../../../pki/hierarchy.ts';
import { allGenerations, type Keyset, trustBundle } from '../../../pki/keyset.ts';
import type { Keysets, Pki } from '../../../pki/pki.ts';
import {
  generationOf,
  generationsByKeyId,
  type KeysetState,
  stateOf,
  type Transition,
} from '../../../pki/transitions.ts';
import { readAuthority } from '../../../pki/x509.ts';
import { membersOf } from '../../etcd/etcd-plan.ts';
import { firstReady, type Kube } from '../../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../../model/resolved-cluster.ts';
import { pkiRoles } from '../../resolve/certificate-names.ts';
import type { ResolvedClusters } from '../../resolve/resolved-clusters.ts';
import type { AtStep, ChangeWork } from '../kind.ts';
import type { MachineSeen } from '../step.ts';
import { type Needle, needleOf, tokenNeedle } from './leftovers.ts';
import { type RotatedKeyset, type RotationOrder, type RotationSeen, rotationOrder } from './order.ts';
import { namespacesWithout, publishedBy, publishTrust, trustIsPublished } from './published.ts';
import {
  countedIn,
  isQuiet,
  lastsOf,
  type Rehearsing,
  rehearsalOf,
  rehearserOf,
  rehearses,
  rehearsing,
  type Sample,
  sampleOf,
} from './rehearsal.ts';
import { search } from './search.ts';
import { otherKeys, STORED_SECRETS, writeSecretsAgain } from './secrets.ts';
import type { StoredValues } from './stored-values.socket.ts';
import { ROTATION } from './table.ts';
import { keyIdOfTokens } from './token-key.ts';
import { podsWithTokensOf } from './token-pods.ts';

export interface RotationDeps {
  readonly pki: Pki;
  readonly clusters: Pick<ResolvedClusters, 'get'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly storedValues: StoredValues;
  readonly clock: Clock;
}

type At = AtStep<RotationOrder>;
/** What a look found out; the rest is filled in by other looks. */
type Part = Partial<RotationSeen>;

/** What costs requests or reads of the whole ledger is looked at this often. */
const COSTLY_EVERY = duration('3s');
const SEARCH_EVERY = duration('15s');

/** Rotations of clusters' keys, and what else has to be known of them. */
export interface Rotation extends ChangeWork<RotationOrder, RotationSeen> {
  /**
   * Whether a rotation of etcd's CA is under way whose old CA has ended, as of the last look:
   * members that were not restarted yet trust no other.
   */
  trustEnded(cluster: string): boolean;
}

export function rotation(deps: RotationDeps): Rotation {
  const { pki, clock } = deps;
  const ended = new Set<string>();
  /** `CLUSTER STEP WHAT` → the last look at something costly. */
  const looked = new Map<string, { readonly at: Millis; readonly part: Part }>();

  const now = async (at: At, what: string, every: Millis, look: () => Promise<Part>): Promise<Part> => {
    const key = `${at.cluster} ${at.step} ${what}`;
    const known = looked.get(key);
    if (known && clock.monotonic() - known.at < every) return known.part;
    const part = await look().catch((error: unknown): Part => ({ failure: expectedText(error) }));
    looked.set(key, { at: clock.monotonic(), part });
    return part;
  };

  /** The last rehearsal of each cluster since the server started, with its keysets. */
  const rehearsals = new Map<string, { readonly keysets: string; readonly so: Rehearsing }>();
  const rehearse = async ({ at, resolved, machines }: LookInput): Promise<Part> => {
    const lasts = lastsOf(resolved);
    const machine = rehearserOf(resolved, at.without);
    if (machine === undefined || !rehearses(at.order)) return { rehearsal: { lasts } };
    const keysets = JSON.stringify(at.order.keysets);
    const known = rehearsals.get(at.cluster);
    const quiet = isQuiet(machines.find(({ name }) => name === machine));
    const api = deps.kubes(at.cluster, addressOf(resolved.machines.find(({ name }) => name === machine)!));
    const { sample, ...failure } = quiet ? await sampleFrom(api) : {};
    const seen = { step: at.step, machine, quiet, sample, now: clock.monotonic() };
    const so = rehearsing(known?.keysets === keysets ? known.so : {}, seen);
    rehearsals.set(at.cluster, { keysets, so });
    return {
      ...failure,
      rehearsal: {
        machine,
        lasts,
        ...(so.before && { before: countedIn(so.before) }),
        ...(so.now && { now: countedIn(so.now) }),
        ...(so.failed && { failed: so.failed.what }),
      },
    };
  };

  /** Key identifiers by the generations that there are, because reading certificates is slow. */
  const issuersBy = new Map<string, RotationSeen['issuers']>();
  const issuersOf = (keysets: Keysets, states: RotationSeen['keysets']): RotationSeen['issuers'] => {
    const key = JSON.stringify([...states.values()]);
    const found = issuersBy.get(key) ?? generationsByKeyId(keysets.values());
    issuersBy.clear();
    issuersBy.set(key, found);
    return found;
  };

  return {
    ...ROTATION,
    name: 'rotation',
    schema: rotationOrder,
    act: async (at) => {
      const act = ACTS[at.step];
      if (act) return act(deps, at);
      await transitions(deps, at);
      return at.order;
    },
    rehearsal: (record, machine) => {
      const resolved = deps.clusters.get(record.cluster)?.resolved;
      const here = resolved !== undefined && rehearserOf(resolved, record.without) === machine;
      return here ? rehearsalOf({ ...record, machine }) : undefined;
    },
    async look(at, machines) {
      const keysets = await pki.keysets(at.cluster);
      const states = await statesOf(pki, at.cluster, keysets);
      if (oldTrustEnded(at.order, keysets, clock.now())) ended.add(at.cluster);
      else ended.delete(at.cluster);
      const resolved = deps.clusters.get(at.cluster)?.resolved;
      const seen: RotationSeen = {
        keysets: states,
        issuers: issuersOf(keysets, states),
        behind: new Map(),
        oldTokens: oldTokensOf(at.order, keysets),
        ...(await encryptionOf(deps, at.cluster, resolved)),
      };
      if (resolved === undefined) return { ...seen, failure: 'the Cluster is incomplete' };
      const kube = () => apiOf(deps, resolved);
      const input = { ...deps, at, machines, resolved, keysets, states, kube };
      const looks = [...LOOKS, { ...REHEARSAL_LOOK, look: rehearse }];
      const parts = await Promise.all(
        looks
          .filter(({ steps }) => steps.includes(at.step))
          .map(({ what, every, look }) => now(at, what, every, () => look(input))),
      );
      return Object.assign({}, seen, ...parts) as RotationSeen;
    },
    trustEnded: (cluster) => ended.has(cluster),
  };
}

/** Whether etcd's CA is rotated, and the one that it replaces has ended. */
function oldTrustEnded({ keysets }: RotationOrder, all: Keysets, now: number): boolean {
  const rotated = keysets.find(({ name }) => name === 'etcd-ca');
  const keyset = all.get('etcd-ca');
  if (!rotated || !keyset) return false;
  const old = allGenerations(keyset).find(({ id }) => id === rotated.from);
  return old?.certificate !== undefined && readAuthority(old.certificate).notAfter <= now;
}

async function statesOf(
  pki: Pki,
  cluster: string,
  keysets: Keysets,
): Promise<ReadonlyMap<string, KeysetState>> {
  const encryption = await pki.encryption(cluster);
  const all = [...keysets.values(), ...(encryption ? [encryption] : [])];
  return new Map(all.map((keyset) => [keyset.name, stateOf(keyset)]));
}

async function encryptionOf(
  { pki }: RotationDeps,
  cluster: string,
  resolved: ResolvedCluster | undefined,
): Promise<Part> {
  if (resolved === undefined) return {};
  const text = encryptionConfig(await pki.encryption(cluster), resolved.encryptSecrets);
  return { encryption: encryptionConfigHash(text) };
}

/** The key ids of the service-account keys that end. */
function oldTokensOf({ keysets }: RotationOrder, all: Keysets): readonly string[] {
  const sa = keysets.find(({ name }) => name === 'sa');
  const keyset = all.get('sa');
  if (!sa || !keyset) return [];
  return [...keyset.trusted, ...keyset.distrusted]
    .filter(({ id }) => id !== sa.to)
    .map(({ publicKey }) => keyIdOfTokens(publicKey));
}

const apiOf = ({ kubes }: RotationDeps, resolved: ResolvedCluster): Promise<Kube> =>
  firstReady(withRole(resolved, 'control-plane').map((one) => kubes(resolved.name, addressOf(one))));

// --- The boot host's part of the steps

/** What a step does to one keyset in its present state; nothing when it is done already. */
const TRANSITIONS: Readonly<
  Record<
    string,
    (state: KeysetState, keyset: RotatedKeyset & { readonly to: string }) => readonly Transition[]
  >
> = {
  trust: ({ made }, { to, bridged }) =>
    !bridged && made.includes(to) ? [{ do: 'trust', generation: to }] : [],
  issue: ({ primary }, { to }) => (primary === to ? [] : [{ do: 'promote', generation: to }]),
  distrust: ({ trusted }, { to }) =>
    trusted.filter((id) => id !== to).map((generation) => ({ do: 'distrust', generation })),
  replace: ({ made, trusted, primary }, { to, bridged }) => [
    ...(!bridged && made.includes(to) ? [{ do: 'trust', generation: to } as const] : []),
    ...(primary === to ? [] : [{ do: 'promote', generation: to } as const]),
    ...trusted.filter((id) => id !== to).map((generation) => ({ do: 'distrust', generation }) as const),
  ],
  // Old keys that encrypted Secrets stay sealed: a snapshot of etcd may need them.
  forget: ({ name, distrusted }, { known }) =>
    name === 'encryption'
      ? []
      : distrusted.filter((id) => known.includes(id)).map((generation) => ({ do: 'forget', generation })),
  'sign-again': ({ primary }, { from }) => (primary === from ? [] : [{ do: 'promote', generation: from }]),
  untrust: ({ trusted }, { to }) => (trusted.includes(to) ? [{ do: 'distrust', generation: to }] : []),
  'forget-new': ({ made, distrusted }, { to }) =>
    [...made, ...distrusted].includes(to) ? [{ do: 'forget', generation: to }] : [],
};

async function transitions({ pki }: RotationDeps, { cluster, step, order }: At): Promise<void> {
  const states = await statesOf(pki, cluster, await pki.keysets(cluster));
  for (const keyset of order.keysets) {
    // A rotation that is taken back before its new keys were made has nothing to do.
    if (keyset.to === undefined) continue;
    const due = TRANSITIONS[step]?.(states.get(keyset.name)!, { ...keyset, to: keyset.to }) ?? [];
    for (const transition of due) await pki.transition(cluster, keyset.name, transition);
  }
}

const ACTS: Readonly<Record<string, (deps: RotationDeps, at: At) => Promise<RotationOrder>>> = {
  async generate({ pki }, { cluster, order }) {
    const keysets: RotatedKeyset[] = [];
    for (const keyset of order.keysets) {
      const states = await statesOf(pki, cluster, await pki.keysets(cluster));
      const { made, trusted } = states.get(keyset.name)!;
      // The server may have died after it made the generation.
      const there = [...made, ...trusted].find((id) => !keyset.known.includes(id));
      const to = there ?? (await pki.transition(cluster, keyset.name, { do: 'make' })).generation;
      const bridged = keyset.bridged && isBridged((await pki.keysets(cluster)).get(keyset.name as 'ca')!, to);
      keysets.push({ ...keyset, to, bridged });
    }
    return { ...order, keysets };
  },
  // The thief of the old CA's key may have the machines' keys as well, so all make new ones.
  async replace(deps, at) {
    const states = await statesOf(deps.pki, at.cluster, await deps.pki.keysets(at.cluster));
    const signsAlready = at.order.keysets.every(({ name, to }) => states.get(name)?.primary === to);
    if (!signsAlready) await deps.pki.renew(at.cluster, { newKeys: true });
    await transitions(deps, at);
    return at.order;
  },
  rewrite: rewriteSecrets,
  'write-back': rewriteSecrets,
  async publish(deps, { cluster, order }) {
    const keysets = await deps.pki.keysets(cluster);
    await publishTrust(await apiOf(deps, resolvedOf(deps, cluster)), publishedBy(keysets));
    return order;
  },
};

async function rewriteSecrets(deps: RotationDeps, { cluster, order, without }: At): Promise<RotationOrder> {
  // The API server of a machine that was left out may still encrypt with the old key.
  const resolved = resolvedOf(deps, cluster);
  const machines = resolved.machines.filter(({ name }) => !without.includes(name));
  await writeSecretsAgain(await apiOf(deps, { ...resolved, machines }));
  return order;
}

function resolvedOf({ clusters }: RotationDeps, cluster: string): ResolvedCluster {
  const resolved = clusters.get(cluster)?.resolved;
  if (resolved) return resolved;
  throw new Error('the Cluster is incomplete');
}

/** Whether every trusted generation signed a bridge to this one. */
export function isBridged(keyset: Keyset, to: string): boolean {
  const { bridges = [] } = generationOf(keyset, to);
  return keyset.trusted.every(({ id }) => id === to || bridges.some(({ issuer }) => issuer === id));
}

// --- What the boot host sees

interface LookInput extends RotationDeps {
  readonly at: At;
  readonly machines: readonly MachineSeen[];
  readonly resolved: ResolvedCluster;
  readonly keysets: Keysets;
  readonly states: ReadonlyMap<string, KeysetState>;
  readonly kube: () => Promise<Kube>;
}

interface Look {
  readonly what: string;
  readonly every: Millis;
  readonly steps: readonly string[];
  readonly look: (input: LookInput) => Promise<Part>;
}

const LOOKS: readonly Look[] = [
  {
    what: 'certificates',
    every: COSTLY_EVERY,
    steps: ['issue', 'distrust', 'replace', 'publish', 'sign-again', 'untrust'],
    look: async (input) => ({ behind: await certificatesBehind(input) }),
  },
  {
    what: 'kube-root-ca.crt',
    every: COSTLY_EVERY,
    steps: ['trust', 'distrust', 'replace'],
    look: async ({ kube, keysets }) => ({
      rootCa: await namespacesWithout(await kube(), trustBundle(keysets.get('ca')!)),
    }),
  },
  {
    what: 'published trust',
    every: COSTLY_EVERY,
    steps: ['publish'],
    look: async ({ kube, keysets }) => ({
      published: await trustIsPublished(await kube(), publishedBy(keysets)),
    }),
  },
  {
    what: 'stored Secrets',
    every: COSTLY_EVERY,
    steps: ['rewrite', 'write-back'],
    look: async ({ storedValues, resolved, states }) => ({
      secrets: otherKeys(
        await storedValues(resolved.name, membersOf(resolved), STORED_SECRETS),
        states.get('encryption')!.primary,
      ),
    }),
  },
  {
    what: 'leftovers',
    every: SEARCH_EVERY,
    steps: ['search'],
    look: async ({ kube, keysets, at, clock }) => ({
      leftovers: await search(await kube(), needlesOf(at.order, keysets), clock),
    }),
  },
  {
    what: 'pods with old tokens',
    every: COSTLY_EVERY,
    steps: ['search'],
    look: async ({ at, keysets, machines, kube }) => ({
      oldTokenPods: await podsWithTokensOf(oldTokensOf(at.order, keysets), machines, kube),
    }),
  },
];

async function sampleFrom(api: Kube): Promise<{ readonly sample?: Sample; readonly failure?: string }> {
  try {
    const sample = sampleOf((await api('/metrics')).text);
    return sample ? { sample } : { failure: 'its metrics are not complete' };
  } catch (error) {
    return { failure: expectedText(error) };
  }
}

/** Metrics are a large answer. */
const REHEARSAL_LOOK = { what: 'rehearsal', every: COSTLY_EVERY, steps: ['search', 'rehearse'] } as const;

/** Certificates of machines whose newest edition is not of the generation that signs now. */
async function certificatesBehind({ pki, resolved, states, at }: LookInput): Promise<RotationSeen['behind']> {
  const rotated = new Set<string>(at.order.keysets.map(({ name }) => name));
  const newest = new Map<string, { readonly generation: string }>();
  // In the order of issue, so the last one counts.
  for (const { to, leaf, issuer } of await pki.issued(resolved.name)) {
    if (!rotated.has(issuer.keyset)) continue;
    newest.set(`${to} ${leaf}`, { generation: issuer.generation });
  }
  return new Map(
    resolved.machines.map((machine) => {
      const leaves = leavesFor(pkiRoles(machine)).filter((leaf) => !SHORT_LIVED.includes(leaf));
      const old = leaves.filter((leaf) => {
        const has = newest.get(`${machine.name} ${leaf}`);
        return has !== undefined && has.generation !== states.get(leafOf(leaf).parent)?.primary;
      });
      return [machine.name, old] as const;
    }),
  );
}

/** Certificates that machines have for an hour, only while they need them. */
const SHORT_LIVED: readonly string[] = ['applier'];

function needlesOf(order: RotationOrder, keysets: Keysets): readonly Needle[] {
  const certificates = order.keysets.flatMap(({ name, from }) => {
    const keyset = name === 'encryption' ? undefined : keysets.get(name);
    const certificate = keyset && generationOf(keyset, from).certificate;
    return certificate ? [needleOf(`the old ${name}`, certificate)] : [];
  });
  return [...certificates, ...oldTokensOf(order, keysets).map(tokenNeedle)];
}
