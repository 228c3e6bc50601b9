/**
 * Guards a cluster whose keys were rotated after the backup from which this store was restored:
 * its machines hold certificates of generations that the store does not know. A plan would put the
 * old generation back on running machines, so all plans and changes of the cluster are held until
 * an operator decides.
 *
 * A machine alone cannot cause that by what it reports: it also has to prove that it has seen a
 * later state of this store (src/agent/wire/revision-claim.ts).
 */
import { z } from 'zod';
import type { Evidence, ProbeName } from '../../agent/wire/evidence.ts';
import type { Plan } from '../../agent/wire/plan.ts';
import type { LaterKeysGuard } from '../../agent/wire/protocol.ts';
import type { Clock } from '../../base/clock.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import type { EventSink } from '../../events/event.ts';
import { everyEncryptionHash } from '../../pki/encryption.ts';
import { allGenerations } from '../../pki/keyset.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import { generationsByKeyId } from '../../pki/transitions.ts';
import { issuerKeyIdOf } from '../../pki/x509.ts';
import { KEYS } from '../../store/keys.ts';
import type { Life } from '../../store/life.ts';
import type { Store } from '../../store/store.ts';
import { keyIdOfTokens } from './rotation/token-key.ts';

const schema = z.strictObject({
  v: z.literal(1),
  cluster: z.string(),
  /** Ms since 1970, as all times. */
  at: z.int(),
  /** What a machine showed first. */
  machine: z.string(),
  what: z.string(),
  key: z.string(),
  /** The life of the store (src/store/life.ts) in which that was. */
  life: z.int(),
  /** An operator decided that the keys of this store count; in a later life he decides again. */
  accepted: z.strictObject({ at: z.int(), by: z.string() }).optional(),
});
type LaterRecord = z.output<typeof schema>;

/** A key of a cluster that this store does not know. */
export interface UnknownKey {
  /** For example `kubelet's client certificate`. */
  readonly what: string;
  /**
   * The identifier of the CA's key or its generation, the `kid` of tokens, or the hash of an
   * encryption configuration.
   */
  readonly key: string;
}

export interface LaterKeys extends LaterKeysGuard {
  /** Why nothing of a cluster is changed, with the remedy; undefined: nothing is held. */
  holds(cluster: string): Fault | undefined;
  /**
   * An operator decides that the keys of this store count, although machines have later ones.
   *
   * @throws {MusterError} E_CHANGE when nothing of the cluster is held
   */
  accept(cluster: string, by: string): Promise<void>;
  /** What is held, for `muster status`. */
  warnings(): readonly Fault[];
}

interface LaterKeysDeps {
  readonly store: Store;
  readonly pki: Pick<Pki, 'keysets' | 'encryption' | 'isFounded' | 'issued'>;
  /** The cluster of a machine. */
  readonly clusterOf: (machine: string) => string | undefined;
  readonly events: EventSink;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  readonly life: Pick<Life, 'number'>;
}

/**
 * Reads which clusters are held.
 *
 * @throws {MusterError} its `accept`: see {@link LaterKeys}
 */
export async function openLaterKeys(deps: LaterKeysDeps): Promise<LaterKeys> {
  const { store, clock, events, log, life } = deps;
  const known = new Map<string, LaterRecord>();
  for (const { key, value } of (await store.list(KEYS.laterKeys.prefix())).records) {
    const read = schema.safeParse(parsed(value));
    if (read.success) known.set(read.data.cluster, read.data);
    else log.warn({ key }, 'a stored record cannot be read and is ignored');
  }
  const write = async (record: LaterRecord): Promise<void> => {
    await store.commit([{ key: KEYS.laterKeys.key(record.cluster), put: JSON.stringify(record) }]);
    known.set(record.cluster, record);
  };
  const held = (cluster: string): LaterRecord | undefined => {
    const record = known.get(cluster);
    return record?.accepted ? undefined : record;
  };
  const isOpen = (cluster: string): boolean => {
    const record = known.get(cluster);
    return record === undefined || (record.accepted !== undefined && record.life !== life.number);
  };
  const tell = (record: LaterRecord): void =>
    events.record({
      kind: 'cluster.later-keys',
      subject: `Cluster/${record.cluster}`,
      reason: { code: record.accepted ? 'accepted' : 'held', text: textOf(record) },
      fields: { machine: record.machine, what: record.what, key: record.key },
    });
  const holds = (cluster: string): Fault | undefined => {
    const record = held(cluster);
    return record && { code: 'E_LATER_KEYS', message: textOf(record) };
  };
  return {
    async heard(machine, facts, ahead) {
      const cluster = deps.clusterOf(machine);
      if (cluster === undefined) return undefined;
      if (ahead && isOpen(cluster) && facts.evidence && (await deps.pki.isFounded(cluster))) {
        const [first] = await unknownKeys(deps.pki, cluster, facts.evidence);
        if (first !== undefined) {
          await write({ v: 1, cluster, at: clock.now(), life: life.number, machine, ...first });
          tell(held(cluster)!);
        }
      }
      const record = held(cluster);
      return record && heldPlan(record);
    },
    holds,
    async accept(cluster, by) {
      const record = held(cluster);
      if (record === undefined)
        throw new MusterError('E_CHANGE', `${cluster}: no machine has shown later keys than this store's`);
      await write({ ...record, accepted: { at: clock.now(), by } });
      tell(known.get(cluster)!);
    },
    warnings: () => [...known.keys()].flatMap((cluster) => holds(cluster) ?? []),
  };
}

const heldPlan = (record: LaterRecord): Plan => ({
  lines: [{ do: 'hold', code: 'later-keys', text: textOf(record) }],
  pollSeconds: 10,
});

function textOf({ cluster, machine, what, key, accepted }: LaterRecord): string {
  if (accepted)
    return `${accepted.by} decided that the keys of this store count for ${cluster}, although ${machine} has later ones.`;
  return `The keys of ${cluster} were rotated after the backup from which this store was restored: ${what} on ${machine} is of the key ${key.slice(0, 16)}, which this store does not know. Machines run on, and nothing of ${cluster} is planned or changed. Restore a later backup; or, if there is none, \`muster pki accept ${cluster} --confirm ${cluster}\` puts this store's keys back on all machines, which interrupts the cluster.`;
}

/**
 * The keys that a machine's evidence names and that no generation of the cluster has or ever had.
 * A generation that was forgotten is known from the ledger of what it has signed.
 */
export async function unknownKeys(
  pki: Pick<Pki, 'keysets' | 'encryption' | 'issued'>,
  cluster: string,
  evidence: Evidence,
): Promise<readonly UnknownKey[]> {
  const keysets = await pki.keysets(cluster);
  const known = new Set([
    ...generationsByKeyId(keysets.values()).keys(),
    ...[...keysets.values()].flatMap((keyset) => allGenerations(keyset).map(({ id }) => id)),
    ...tokenKeysOf(keysets),
    ...(evidence.encryption === undefined ? [] : everyEncryptionHash(await pki.encryption(cluster))),
  ]);
  const unknown = shownKeys(evidence).filter(({ key }) => !known.has(key));
  if (unknown.length === 0) return [];
  const signed = new Set(
    (await pki.issued(cluster)).flatMap(({ certificate, issuer }) => [
      issuerKeyIdOf(firstOf(certificate)),
      issuer.generation,
    ]),
  );
  return unknown.filter(({ key }) => !signed.has(key));
}

const END = '-----END CERTIFICATE-----\n';
/** A certificate without the bridges behind it. */
const firstOf = (pem: string): string => pem.slice(0, pem.indexOf(END) + END.length);

const tokenKeysOf = (keysets: Keysets): readonly string[] => {
  const sa = keysets.get('sa');
  return sa ? allGenerations(sa).map(({ publicKey }) => keyIdOfTokens(publicKey)) : [];
};

/** What evidence says about keys. Controller manager and scheduler make certificates themselves. */
function shownKeys({ listeners, kubeletIssuer, tokens, encryption }: Evidence): readonly UnknownKey[] {
  const shown: UnknownKey[] = [];
  if (kubeletIssuer !== undefined) shown.push({ what: "kubelet's client certificate", key: kubeletIssuer });
  for (const [name, { issuer }] of listeners)
    if (issuer !== undefined && OF_CLUSTER.has(name))
      shown.push({ what: `the certificate of ${name}`, key: issuer });
  for (const [name, { answers }] of listeners)
    for (const [probe, answer] of answers) if (answer === 'accepted') shown.push(acceptedBy(name, probe));
  if (encryption !== undefined) shown.push({ what: 'the encryption configuration', key: encryption });
  for (const kid of tokens.keys()) if (kid !== '-') shown.push({ what: 'a token of a pod', key: kid });
  return shown;
}

function acceptedBy(listener: string, probe: ProbeName): UnknownKey {
  const [keyset, generation] = probe.split('.') as [string, string];
  return { what: `a client of ${keyset} that ${listener} accepts`, key: generation };
}

const OF_CLUSTER: ReadonlySet<string> = new Set(['kube-apiserver', 'kubelet', 'etcd-client', 'etcd-peer']);
