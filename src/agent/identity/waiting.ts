/**
 * The keys that wait for an operator's approval. They are kept in memory: an agent that waits asks
 * every two seconds, so after a restart of the server it is here again, with another nonce.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import type { PublicKey } from '../../pki/keys.ts';
import { newNonce } from './approval-code.ts';
import type { TpmFacts } from './redeem-decision.ts';

/** A key that was not asked for this long waits no more. */
const FORGOTTEN_AFTER = duration('30s');
/** How many keys wait for one machine. More than one is rare: somebody else asks in its name. */
const PER_MACHINE = 16;
/** How many of them ask from one address; a machine has one, and one more after it booted again. */
const PER_ADDRESS = 4;
/** How many keys wait together. Each takes about one KiB. */
const ALTOGETHER = 20_000;
/** After this many wrong codes for a machine, all its keys get other nonces. */
const WRONG_CODES = 3;

/** A key that waits. */
export interface WaitingKey {
  readonly machine: string;
  readonly facts: TicketFacts;
  readonly key: PublicKey;
  /** Pin of `key`. */
  readonly pin: string;
  /** What its machine showed of a TPM. */
  readonly tpm: TpmFacts;
  /** The address that it asks from. */
  readonly address: string;
  /** That address is known to be the machine's. */
  readonly known: boolean;
  /** The machine has a certificate of another key, which this one would replace. */
  readonly replaces: boolean;
  /** Hexadecimal. */
  readonly nonce: string;
  /** Wall-clock time at which it began to wait. */
  readonly since: Millis;
}

type Asked = Omit<WaitingKey, 'nonce' | 'since'>;

export interface Waiting {
  /** How many keys wait, those included that did not ask for a while. */
  readonly size: number;
  /**
   * Takes note that a key waits. The nonce stays while it waits. Undefined when the table is full.
   */
  ask(asked: Asked): { readonly nonce: string; readonly isNew: boolean } | undefined;
  /** The keys that wait for this machine, oldest first. */
  of(machine: string): readonly WaitingKey[];
  /** All keys that wait, by machine. */
  list(): readonly WaitingKey[];
  /** Counts a wrong code. True when the machine's keys now have other nonces. */
  wrong(machine: string): boolean;
  /** Gives the machine's keys other nonces. */
  redraw(machine: string): void;
  /** Forgets the keys of a machine, or one of them. */
  forget(machine: string, pin?: string): void;
}

interface Entry {
  key: WaitingKey;
  /** Monotonic. */
  askedAt: Millis;
}

interface Waiter {
  /** By pin. */
  readonly keys: Map<string, Entry>;
  wrongCodes: number;
}

/** Creates an empty table. */
export function createWaiting(clock: Clock): Waiting {
  const machines = new Map<string, Waiter>();
  let size = 0;
  const remove = (machine: string, pin: string): void => {
    const waiter = machines.get(machine);
    if (waiter?.keys.delete(pin)) size--;
    if (waiter?.keys.size === 0) machines.delete(machine);
  };
  const sweep = (machine: string): void => {
    const oldest = clock.monotonic() - FORGOTTEN_AFTER;
    for (const [pin, { askedAt }] of machines.get(machine)?.keys ?? [])
      if (askedAt < oldest) remove(machine, pin);
  };
  const sweepAll = (): void => {
    for (const machine of [...machines.keys()]) sweep(machine);
  };
  let sweptAt = clock.monotonic();
  const redraw = (machine: string): void => {
    const waiter = machines.get(machine);
    if (waiter === undefined) return;
    waiter.wrongCodes = 0;
    for (const entry of waiter.keys.values()) entry.key = { ...entry.key, nonce: newNonce() };
  };
  return {
    get size() {
      return size;
    },
    ask(asked) {
      const { machine, pin, address } = asked;
      const askedAt = clock.monotonic();
      sweep(machine);
      const found = machines.get(machine)?.keys.get(pin);
      if (found !== undefined) {
        found.key = { ...found.key, ...asked };
        found.askedAt = askedAt;
        return { nonce: found.key.nonce, isNew: false };
      }
      // No key that asks loses its place, because its nonce and so its code would change.
      const keys = [...(machines.get(machine)?.keys.values() ?? [])];
      if (keys.filter(({ key }) => key.address === address).length >= PER_ADDRESS) return undefined;
      if (size >= ALTOGETHER && askedAt - sweptAt >= 1000) {
        sweptAt = askedAt;
        sweepAll();
      }
      const waiter = machines.get(machine) ?? { keys: new Map<string, Entry>(), wrongCodes: 0 };
      if (size >= ALTOGETHER || waiter.keys.size >= PER_MACHINE) return undefined;
      const nonce = newNonce();
      waiter.keys.set(pin, { key: { ...asked, nonce, since: clock.now() }, askedAt });
      machines.set(machine, waiter);
      size++;
      return { nonce, isNew: true };
    },
    of(machine) {
      sweep(machine);
      return [...(machines.get(machine)?.keys.values() ?? [])].map(({ key }) => key);
    },
    list() {
      sweepAll();
      return [...machines.values()].flatMap(({ keys }) => [...keys.values()].map(({ key }) => key));
    },
    wrong(machine) {
      const waiter = machines.get(machine);
      if (waiter === undefined || ++waiter.wrongCodes < WRONG_CODES) return false;
      redraw(machine);
      return true;
    },
    redraw,
    forget(machine, pin) {
      for (const one of pin === undefined ? [...(machines.get(machine)?.keys.keys() ?? [])] : [pin])
        remove(machine, one);
    },
  };
}
