/** The passkeys of operators, in the store and in memory. A passkey has a public key only. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { Operator } from './operators.ts';
import { decode, randomText, readRecords } from './records.ts';

/** The most passkeys of one operator. */
const MAX_PASSKEYS = 10;

const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);

const record = z.strictObject({
  v: z.literal(1),
  operator: z.string(),
  account: z.int(),
  label: z.string(),
  credential: base64url,
  publicKey: base64url,
  counter: z.int().min(0),
  handle: base64url,
  transports: z.array(z.string()),
  createdAt: z.int(),
  usedAt: z.int().optional(),
});

export interface Passkey {
  readonly id: string;
  readonly operator: string;
  /**
   * When the account was made. A later account with the same name belongs to somebody else, and the
   * passkey does not count for it.
   */
  readonly account: Millis;
  /** What its owner calls it. */
  readonly label: string;
  /** The credential ID of WebAuthn, base64url. */
  readonly credential: string;
  /** A COSE key, base64url. */
  readonly publicKey: string;
  /** The authenticator's counter of uses; 0 when it does not count. */
  readonly counter: number;
  /** By which authenticators name the account, base64url; random, and the same for all of one. */
  readonly handle: string;
  /** How browsers reach the authenticator: `usb`, `internal` and so on. */
  readonly transports: readonly string[];
  readonly createdAt: Millis;
  readonly usedAt?: Millis;
}

/** Reads the record of a passkey; undefined when it is none. */
export function readPasskey(id: string, value: string): Passkey | undefined {
  const read = decode(record, value);
  if (read === undefined) return undefined;
  const { v: _v, account, createdAt, usedAt, ...rest } = read;
  return {
    id,
    ...rest,
    account: account as Millis,
    createdAt: createdAt as Millis,
    ...(usedAt !== undefined && { usedAt: usedAt as Millis }),
  };
}

const textOf = ({ id: _id, ...rest }: Passkey): string => JSON.stringify({ v: 1, ...rest });

interface PasskeysDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** Opens the passkeys. A record that this version cannot read is logged and left alone. */
export async function openPasskeys(deps: PasskeysDeps): Promise<Passkeys> {
  const passkeys = new Passkeys(deps);
  await passkeys.load();
  return passkeys;
}

export class Passkeys {
  readonly #deps: PasskeysDeps;
  /** By credential. */
  readonly #passkeys = new Map<string, Passkey>();

  constructor(deps: PasskeysDeps) {
    this.#deps = deps;
  }

  async load(): Promise<void> {
    for (const one of await readRecords(this.#deps, KEYS.passkey, readPasskey, 'a passkey'))
      this.#passkeys.set(one.credential, one);
  }

  /** The passkeys of an account, the oldest first. */
  of({ name, createdAt }: Pick<Operator, 'name' | 'createdAt'>): readonly Passkey[] {
    return [...this.#passkeys.values()]
      .filter(({ operator, account }) => operator === name && account === createdAt)
      .sort((a, b) => a.createdAt - b.createdAt);
  }

  byCredential(credential: string): Passkey | undefined {
    return this.#passkeys.get(credential);
  }

  /** The name by which authenticators know the account. */
  handleOf(operator: Operator): string {
    return this.of(operator)[0]?.handle ?? randomText();
  }

  /** @throws {MusterError} E_USAGE when the operator has as many as are allowed */
  checkRoom(operator: Operator): void {
    if (this.of(operator).length >= MAX_PASSKEYS)
      throw new MusterError('E_USAGE', `${operator.name} has ${MAX_PASSKEYS} passkeys already; remove one`);
  }

  /** @throws {MusterError} as {@link checkRoom}; E_PASSKEY for a credential that is known */
  async add(
    operator: Operator,
    made: Pick<Passkey, 'label' | 'credential' | 'publicKey' | 'counter' | 'handle' | 'transports'>,
  ): Promise<Passkey> {
    this.checkRoom(operator);
    if (this.#passkeys.has(made.credential))
      throw new MusterError('E_PASSKEY', 'this passkey was added before');
    const id = randomBytes(6).toString('hex');
    const account = operator.createdAt;
    return this.#write({ id, operator: operator.name, account, ...made, createdAt: this.#deps.clock.now() });
  }

  /**
   * Notes that the passkey logged its owner in. False when it must not: it was removed meanwhile,
   * or its counter did not go up since another log-in.
   */
  async used({ credential }: Passkey, counter: number): Promise<boolean> {
    const now = this.#passkeys.get(credential);
    const counts = counter > 0 || (now?.counter ?? 0) > 0;
    if (now === undefined || (counts && counter <= now.counter)) return false;
    await this.#write({ ...now, counter, usedAt: this.#deps.clock.now() });
    return true;
  }

  /** @throws {MusterError} E_NOT_FOUND when the operator has no such passkey */
  async remove(operator: Operator, id: string): Promise<Passkey> {
    const passkey = this.of(operator).find((one) => one.id === id);
    if (passkey === undefined)
      throw new MusterError('E_NOT_FOUND', `${operator.name} has no passkey "${id}"`);
    await this.#forget([passkey]);
    return passkey;
  }

  /** Removes all passkeys for this name, also those of an earlier account. */
  async removeAll(operator: string): Promise<void> {
    await this.#forget([...this.#passkeys.values()].filter((one) => one.operator === operator));
  }

  async #forget(gone: readonly Passkey[]): Promise<void> {
    if (gone.length === 0) return;
    for (const { credential } of gone) this.#passkeys.delete(credential);
    await this.#deps.store.commit(gone.map(({ id }) => ({ key: KEYS.passkey.key(id), delete: true })));
  }

  /** Memory changes at once, so that what happens meanwhile sees it; the store keeps the order. */
  async #write(passkey: Passkey): Promise<Passkey> {
    this.#passkeys.set(passkey.credential, passkey);
    await this.#deps.store.commit([{ key: KEYS.passkey.key(passkey.id), put: textOf(passkey) }]);
    return passkey;
  }
}
