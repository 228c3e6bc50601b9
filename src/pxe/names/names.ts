/**
 * Keeps the names of machines and APIs at name servers. What may be at a server is recorded before
 * it is sent, so that a name is removed when its machine goes, also after a restart; what a server
 * did not take is sent again until it does.
 */
import { randomInt } from 'node:crypto';
import { createRounds, type Rounds } from '../../agent/serve/rounds.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import { inParts } from '../../base/parts.ts';
import type { GivenSecrets } from '../../pki/given-secrets.ts';
import type { Catalog } from '../../resources/catalog.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { LeaseBook } from '../dhcp/leases.ts';
import { encodeUpdate, type NameRecord, readAnswer, readTsigKey, sign, type TsigKey } from './message.ts';
import { keyOf, type NameServer, type WantedName, wantedNames } from './wanted.ts';

const EVERY = duration('2s');
/** A server that failed is asked again after this time, which doubles up to the longest. */
const FIRST_PAUSE = duration('2s');
const LONGEST_PAUSE = duration('5m');
/** Records in an update: the limit of a commit, and far below 64 KiB. */
const AT_ONCE = 100;
/** Time to live of a record: how long others may keep an address that has changed. */
export const NAME_TTL_SECONDS = 300;

/** A record as it is stored. `done`: the server has taken it. */
interface Kept extends WantedName {
  readonly server: NameServer;
  readonly done: boolean;
}

/**
 * `registered`: the server took it. `waiting`: it has not yet. `leaving`: it is to be removed
 * there. `printed`: its zone has no server.
 */
export type NameState = 'registered' | 'waiting' | 'leaving' | 'printed';

export interface NameView extends NameRecord {
  readonly zone: string;
  readonly subject: string;
  readonly server?: string;
  readonly state: NameState;
  /** Why the server did not take it. */
  readonly reason?: string;
}

interface Deps {
  readonly store: Pick<Store, 'list' | 'commit'>;
  readonly catalog: Pick<Catalog, 'list'>;
  readonly leases: Pick<LeaseBook, 'list'>;
  readonly secrets: Pick<GivenSecrets, 'value'>;
  /** Sends a message to a name server, and resolves with its answer. */
  readonly exchange: (server: NameServer, message: Buffer) => Promise<Buffer>;
  readonly clock: Clock;
  readonly log: Log;
}

interface Failure {
  readonly reason: string;
  readonly pause: Millis;
  /** The monotonic time of the next attempt. */
  readonly again: number;
}

const storeKey = (one: Kept): string =>
  KEYS.name.key(one.zone, `${one.server.address} ${one.server.port}/${one.name}/${one.type}/${one.data}`);
const put = (one: Kept) => ({ key: storeKey(one), put: JSON.stringify({ v: 1, ...one }) });
const deleted = (one: Kept) => ({ key: storeKey(one), delete: true as const });
const groupKey = ({ zone, server }: Pick<Kept, 'zone' | 'server'>): string =>
  `${zone} ${server.address} ${server.port} ${server.key?.secret ?? ''} ${server.key?.key ?? ''}`;

/**
 * Reads what was sent before, and keeps names from then on.
 *
 * @throws {MusterError} when the store does
 */
export async function openNames(deps: Deps): Promise<Names> {
  const { records } = await deps.store.list(KEYS.name.prefix());
  return new Names(
    deps,
    records.map(({ value }) => JSON.parse(value) as Kept),
  );
}

/** The names of all zones. */
export class Names {
  readonly #deps: Deps;
  readonly #kept: Map<string, Kept>;
  readonly #failures = new Map<string, Failure>();
  readonly #rounds: Rounds;
  #wanted: ReadonlyMap<string, WantedName> = new Map();

  constructor(deps: Deps, kept: readonly Kept[]) {
    this.#deps = deps;
    this.#kept = new Map(kept.map((one) => [keyOf(one), one]));
    this.#rounds = createRounds({
      ...{ clock: deps.clock, every: EVERY, round: () => this.#round() },
      failed: (reason) => deps.log.warn({ reason }, 'names cannot be kept'),
    });
    this.#rounds.soon();
    this.#rounds.start();
  }

  /** All names, sorted by zone and name. */
  list(): readonly NameView[] {
    const views = [...this.#kept.values()].map((one): NameView => {
      const failure = this.#isDue(one) ? this.#failures.get(groupKey(one)) : undefined;
      const state = !this.#wanted.has(keyOf(one)) ? 'leaving' : one.done ? 'registered' : 'waiting';
      const server = serverText(one.server);
      return { ...recordOf(one), server, state, ...(failure && { reason: failure.reason }) };
    });
    const printed = [...this.#wanted.values()]
      .filter(({ server }) => server === undefined)
      .map((one): NameView => ({ ...recordOf(one), state: 'printed' }));
    const order = ({ zone, name, data }: NameView): string => `${zone} ${name} ${data}`;
    return [...views, ...printed].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  }

  /** Zones whose server has not taken every change, and why. */
  behind(): readonly { readonly zone: string; readonly count: number; readonly reason: string }[] {
    const due = [...this.#kept.values()].filter(
      (one) => this.#isDue(one) && this.#failures.has(groupKey(one)),
    );
    return [...Map.groupBy(due, ({ zone }) => zone)]
      .map(([zone, changes]) => ({
        ...{ zone, count: changes.length },
        reason: this.#failures.get(groupKey(changes[0]!))!.reason,
      }))
      .sort((a, b) => (a.zone < b.zone ? -1 : 1));
  }

  /** Forgets what is to be removed from a zone, and returns how many records that were. */
  async forget(zone: string): Promise<number> {
    const leaving = [...this.#kept.values()].filter(
      (one) => one.zone === zone && !this.#wanted.has(keyOf(one)),
    );
    for (const part of inParts(leaving, AT_ONCE)) {
      await this.#deps.store.commit(part.map(deleted));
      for (const one of part) this.#kept.delete(keyOf(one));
    }
    return leaving.length;
  }

  /** Starts a round when the one under way has ended, and waits for it. */
  now(): Promise<void> {
    return this.#rounds.now();
  }

  /** Ends the rounds. */
  close(): Promise<void> {
    return this.#rounds.close();
  }

  #isDue(one: Kept): boolean {
    return !(one.done && this.#wanted.has(keyOf(one)));
  }

  async #round(): Promise<void> {
    await this.#look();
    const groups = Map.groupBy(
      [...this.#kept.values()].filter((one) => this.#isDue(one)),
      groupKey,
    );
    for (const key of this.#failures.keys()) if (!groups.has(key)) this.#failures.delete(key);
    await Promise.all([...groups].map(([key, changes]) => this.#sendAll(key, changes)));
  }

  /** Computes what should exist, and records what is new before anything is sent. */
  async #look(): Promise<void> {
    this.#wanted = new Map(wantedNow(this.#deps).map((one) => [keyOf(one), one]));
    const changed = [...this.#wanted.values()].flatMap((one): Kept[] => {
      const known = this.#kept.get(keyOf(one));
      if (one.server === undefined) return [];
      const now: Kept = { ...one, server: one.server, done: known?.done ?? false };
      return known && groupKey(known) === groupKey(now) && known.subject === one.subject ? [] : [now];
    });
    for (const part of inParts(changed, AT_ONCE)) {
      await this.#deps.store.commit(part.map(put));
      for (const one of part) this.#kept.set(keyOf(one), one);
    }
  }

  /** Sends what is due to one server for one zone, unless it failed a short time ago. */
  async #sendAll(key: string, changes: readonly Kept[]): Promise<void> {
    const { clock, log } = this.#deps;
    const failed = this.#failures.get(key);
    if (failed !== undefined && failed.again > clock.monotonic()) return;
    for (const part of inParts(changes, AT_ONCE)) {
      const reason = await this.#send(part);
      if (reason === undefined) {
        this.#failures.delete(key);
        continue;
      }
      const { zone, server } = part[0]!;
      if (failed?.reason !== reason) log.warn({ zone, server: server.address, reason }, 'names are behind');
      const pause = millis(Math.min(failed ? 2 * failed.pause : FIRST_PAUSE, LONGEST_PAUSE));
      this.#failures.set(key, { reason, pause, again: clock.monotonic() + pause });
      return;
    }
  }

  /** Sends one update. Returns why it was not taken. */
  async #send(changes: readonly Kept[]): Promise<string | undefined> {
    const { store, clock, exchange } = this.#deps;
    const { zone, server } = changes[0]!;
    const key = this.#keyOf(server);
    if (typeof key === 'string') return key;
    const add = changes.filter((one) => this.#wanted.has(keyOf(one)));
    const remove = changes.filter((one) => !this.#wanted.has(keyOf(one)));
    const id = randomInt(0x10000);
    const plain = encodeUpdate({ id, zone, add, remove, ttl: NAME_TTL_SECONDS });
    const signed = key && sign(plain, key, Math.floor(clock.now() / 1000));
    try {
      const answer = await exchange(server, signed?.message ?? plain);
      const refusal = readAnswer(answer, { id, key, ...(signed && { mac: signed.mac }) });
      if (refusal !== undefined) return `${serverText(server)}: ${refusal}`;
    } catch (error) {
      return messageOf(error);
    }
    const taken = add.map((one) => ({ ...one, done: true }));
    await store.commit([...taken.map(put), ...remove.map(deleted)]);
    for (const one of taken) this.#kept.set(keyOf(one), one);
    for (const one of remove) this.#kept.delete(keyOf(one));
    return undefined;
  }

  /** The key of a server, undefined without one; a text says why it cannot be used now. */
  #keyOf({ key: from }: NameServer): TsigKey | undefined | string {
    if (from === undefined) return undefined;
    const { secrets, clock } = this.#deps;
    const given = secrets.value(from.secret, from.key)?.toString('utf8');
    if (given === undefined) return `Secret "${from.secret}" has no key "${from.key}"`;
    const doubt = clock.doubt();
    // The signature has a time.
    if (doubt) return `the clock of the boot host is in doubt: ${doubt.text}`;
    return readTsigKey(given) ?? `Secret "${from.secret}" is no TSIG key; put what tsig-keygen writes there`;
  }
}

const serverText = ({ address, port }: NameServer): string =>
  port === 53 ? address : `${address} port ${port}`;
const recordOf = ({ zone, subject, name, type, data }: WantedName) => ({ zone, subject, name, type, data });

/** The names that documents and leases want now. */
function wantedNow({ catalog, leases }: Deps): readonly WantedName[] {
  const named = <S>({ document }: { document: { metadata: { name: string }; spec: S } }) => ({
    name: document.metadata.name,
    spec: document.spec,
  });
  const networks = catalog.list('Network').map(named);
  const clusters = catalog.list('Cluster').map(named);
  if (![...networks, ...clusters].some(({ spec }) => spec.names !== undefined)) return [];
  const held = Map.groupBy(
    leases.list().filter(({ state }) => state === 'bound'),
    ({ network, lease }) => `${network} ${lease?.machine}`,
  );
  return wantedNames({
    ...{ networks, clusters, machines: catalog.list('Machine').map(named) },
    leased: (network, machine) =>
      (held.get(`${network} ${machine}`) ?? []).map(({ address }) => formatIpv4(address)),
  });
}
