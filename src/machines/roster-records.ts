/**
 * The roster's records in the store: statuses and sessions, committed at once where they must not
 * be lost, else written behind in batches.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { KEYS, type Keys } from '../store/keys.ts';
import type { Store, Write } from '../store/store.ts';
import type { BootSession, MachineStatus } from './machine.ts';
import type { Member } from './member.ts';
import { statusWrite } from './member-record.ts';
import type { LiveSession } from './sessions.ts';
import { readSession, readStatus } from './status.ts';
import { createWriteBehind, type WriteBehind } from './write-behind.ts';

interface RecordsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** The present value of a record that is written behind. Undefined: the record is deleted. */
  readonly member: (name: string) => Member | undefined;
  readonly session: (id: string) => LiveSession | undefined;
}

/** Writes the roster's records. Reads what is written from the roster when it is written. */
export class RosterRecords {
  readonly #deps: RecordsDeps;
  readonly #behind: WriteBehind;

  constructor(deps: RecordsDeps) {
    this.#deps = deps;
    this.#behind = createWriteBehind({ ...deps, writeOf: (key) => this.#writeOf(key) });
  }

  /**
   * Commits statuses and sessions in one transaction with `also`. Resolves when they are durable.
   * Rejects with the store's error; statuses and sessions are then written behind.
   */
  async commit(
    members: readonly Member[],
    sessions: readonly LiveSession[],
    also: readonly Write[],
  ): Promise<void> {
    const versions = members.map(({ version }) => version);
    const writes = [...also, ...members.map(statusWrite), ...sessions.map(sessionWrite)];
    // Each stays queued until the commit is known to have taken effect.
    for (const { name } of members) this.memberLater(name);
    for (const { session } of sessions) this.sessionLater(session.id);
    await this.#deps.store.commit(writes);
    for (const [n, { name, version }] of members.entries())
      if (version === versions[n]) this.#behind.done(KEYS.machine.key(name));
    for (const { session } of sessions) this.#behind.done(KEYS.session.key(session.id));
  }

  memberLater(name: string): void {
    this.#behind.later(KEYS.machine.key(name));
  }

  sessionLater(id: string): void {
    this.#behind.later(KEYS.session.key(id));
  }

  flush(): Promise<void> {
    return this.#behind.flush();
  }

  /** Writes what is left; a failure is logged. */
  async close(): Promise<void> {
    this.#behind.stop();
    await this.#behind.flush().catch((error: unknown) => {
      // A sighting is repeated by the machine; whatever mattered was committed when it happened.
      this.#deps.log.warn({ error: String(error) }, 'machine records could not be written');
    });
  }

  #writeOf(key: string): Write {
    const session = KEYS.session.parse(key);
    if (session) {
      const live = this.#deps.session(session[0]);
      return live ? sessionWrite(live) : { key, delete: true };
    }
    const member = this.#deps.member(KEYS.machine.parse(key)![0]);
    return member ? statusWrite(member) : { key, delete: true };
  }
}

/** The write of a session, which is stored from then on. */
export function sessionWrite(live: LiveSession): Write {
  live.stored = true;
  return { key: KEYS.session.key(live.session.id), put: JSON.stringify(live.session) };
}

export interface StoredMachine {
  readonly name: string;
  readonly value: MachineStatus;
}

/** Reads all statuses and sessions; a record that cannot be read is logged and skipped. */
export async function readRecords({ store, log }: Pick<RecordsDeps, 'store' | 'log'>): Promise<{
  readonly machines: readonly StoredMachine[];
  readonly sessions: readonly BootSession[];
}> {
  const read = async <T>(keys: Keys<[string]>, parse: (text: string) => T | undefined) => {
    const found: { name: string; value: T }[] = [];
    for (const { key, value } of (await store.list(keys.prefix())).records) {
      const parsed = parse(value);
      if (parsed === undefined) log.warn({ key }, 'a stored record cannot be read and is skipped');
      else found.push({ name: keys.parse(key)![0], value: parsed });
    }
    return found;
  };
  const sessions = (await read(KEYS.session, readSession)).map(({ value }) => value);
  return { machines: await read(KEYS.machine, readStatus), sessions };
}
