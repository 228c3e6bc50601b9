/**
 * How a session of IPMI 2.0 is set up: algorithms, the exchange of keys (RAKP), and the keys that
 * follow from it (sections 13.17 to 13.33). Pure: random octets are passed in.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Decoded, Sealing } from './packet.ts';

/**
 * The suites that are offered, the better first. Suite 0 authenticates nobody, and suites 1 and 2
 * do not encrypt: they are never used.
 */
export const SUITES = {
  17: { authentication: 3, integrity: 4, hash: 'sha256', codeLength: 16 },
  3: { authentication: 1, integrity: 1, hash: 'sha1', codeLength: 12 },
} as const;
export type Suite = keyof typeof SUITES;
/** AES-CBC-128, of both suites. */
const AES = 1;
/** Administrator; the BMC is asked for what the account has by `0`. */
export const ADMINISTRATOR = 4;
/** The role is looked up by the user's name alone. */
const BY_NAME = 0x10;
/** The longest password of IPMI 2.0. */
export const MAX_PASSWORD = 20;
const MAX_NAME = 16;

/** What the exchange of keys has so far. */
export interface Exchange {
  readonly suite: Suite;
  readonly user: string;
  readonly password: string;
  /** Our id of the session, not 0. */
  readonly ours: number;
  /** Our 16 random octets. */
  readonly random: Buffer;
}

const TAG = 0;
const ROLE = BY_NAME | ADMINISTRATOR;

/** The first payload: which algorithms we want. */
export function openRequest({ suite, ours }: Pick<Exchange, 'suite' | 'ours'>): Buffer {
  const { authentication, integrity } = SUITES[suite];
  const of = (type: number, algorithm: number) => [type, 0, 0, 8, algorithm, 0, 0, 0];
  const head = Buffer.from([TAG, 0, 0, 0, 0, 0, 0, 0]);
  head.writeUInt32LE(ours, 4);
  return Buffer.concat([head, Buffer.from([...of(0, authentication), ...of(1, integrity), ...of(2, AES)])]);
}

/** Why a BMC refuses a session (table 13-15). */
const REFUSALS: Readonly<Record<number, string>> = {
  1: 'it has no room for another session',
  2: 'it does not know the session',
  9: 'the role is not allowed',
  12: 'the parameter is not valid',
  13: 'it does not know the user',
  15: 'the password is wrong',
  17: 'it has none of the cipher suites',
  18: 'it has none of the cipher suites',
};

/** A BMC refused; `code` is that of the specification. */
export interface Refused {
  readonly ok: false;
  readonly why: string;
  readonly code?: number;
}

const refused = (code: number): Refused => ({
  ok: false,
  why: REFUSALS[code] ?? `status 0x${code.toString(16)}`,
  code,
});

/** The BMC's id of the session. */
export function readOpenAnswer(
  payload: Buffer,
  { suite, ours }: Pick<Exchange, 'suite' | 'ours'>,
): { readonly ok: true; readonly value: number } | Refused {
  if (payload.length < 8) return { ok: false, why: 'cut off' };
  if (payload[1] !== 0) return refused(payload[1]!);
  if (payload.length < 36) return { ok: false, why: 'cut off' };
  if (payload.readUInt32LE(4) !== ours) return { ok: false, why: 'an answer to another session' };
  const { authentication, integrity } = SUITES[suite];
  const [chosen, sealed, hidden] = [payload[16]! & 0x3f, payload[24]! & 0x3f, payload[32]! & 0x3f];
  // A BMC that chooses less than was asked for would get commands that anybody can make.
  if (chosen !== authentication || sealed !== integrity || hidden !== AES)
    return { ok: false, why: 'it chose other algorithms than those that were asked for' };
  return { ok: true, value: payload.readUInt32LE(8) };
}

const nameOf = (user: string): Buffer => Buffer.from(user, 'utf8').subarray(0, MAX_NAME);

/** The second payload: our random octets, role and name. */
export function rakp1({ user, random }: Exchange, theirs: number): Buffer {
  const name = nameOf(user);
  const head = Buffer.alloc(8);
  head.writeUInt32LE(theirs, 4);
  return Buffer.concat([head, random, Buffer.from([ROLE, 0, 0, name.length]), name]);
}

/** What RAKP message 2 brings. */
export interface TheirPart {
  readonly random: Buffer;
  readonly guid: Buffer;
}

const hmac = (suite: Suite, key: Uint8Array, octets: Uint8Array): Buffer =>
  createHmac(SUITES[suite].hash, key).update(octets).digest();

const keyOf = ({ password }: Exchange): Buffer => Buffer.from(password, 'utf8').subarray(0, MAX_PASSWORD);
const id = (value: number): Buffer => {
  const octets = Buffer.alloc(4);
  octets.writeUInt32LE(value);
  return octets;
};
const same = (one: Buffer, other: Buffer): boolean =>
  one.length === other.length && timingSafeEqual(one, other);

/** Reads RAKP message 2, by which the BMC proves that it knows the password. */
export function readRakp2(
  payload: Buffer,
  exchange: Exchange,
  theirs: number,
): { readonly ok: true; readonly value: TheirPart } | Refused {
  const { suite, ours, random, user } = exchange;
  if (payload.length < 2) return { ok: false, why: 'cut off' };
  if (payload[1] !== 0) return refused(payload[1]!);
  if (payload.length < 40) return { ok: false, why: 'cut off' };
  if (payload.readUInt32LE(4) !== ours) return { ok: false, why: 'an answer to another session' };
  const [rm, guid] = [payload.subarray(8, 24), payload.subarray(24, 40)];
  const name = nameOf(user);
  const said = [id(ours), id(theirs), random, rm, guid, Buffer.from([ROLE, name.length]), name];
  const proof = hmac(suite, keyOf(exchange), Buffer.concat(said));
  if (!same(payload.subarray(40, 40 + proof.length), proof))
    return { ok: false, why: 'the password is wrong, or it is another BMC', code: 0x0f };
  return { ok: true, value: { random: rm, guid } };
}

/** The third payload, by which we prove the same. */
export function rakp3(exchange: Exchange, theirs: number, part: TheirPart): Buffer {
  const { suite, ours, user } = exchange;
  const name = nameOf(user);
  const said = [part.random, id(ours), Buffer.from([ROLE, name.length]), name];
  const head = Buffer.alloc(8);
  head.writeUInt32LE(theirs, 4);
  return Buffer.concat([head, hmac(suite, keyOf(exchange), Buffer.concat(said))]);
}

/** The session's first key, from which the others follow. */
export function sessionKey(exchange: Exchange, part: TheirPart): Buffer {
  const { suite, random, user } = exchange;
  const name = nameOf(user);
  const said = [random, part.random, Buffer.from([ROLE, name.length]), name];
  return hmac(suite, keyOf(exchange), Buffer.concat(said));
}

/** Reads RAKP message 4, by which the BMC says that both have the same key. */
export function readRakp4(
  payload: Buffer,
  exchange: Exchange,
  theirs: number,
  part: TheirPart,
  key: Buffer,
): Decoded<undefined> | Refused {
  const { suite, ours, random } = exchange;
  if (payload.length < 2) return { ok: false, why: 'cut off' };
  if (payload[1] !== 0) return refused(payload[1]!);
  if (payload.length < 8 || payload.readUInt32LE(4) !== ours)
    return { ok: false, why: 'an answer to another session' };
  const said = Buffer.concat([random, id(theirs), part.guid]);
  const proof = hmac(suite, key, said).subarray(0, SUITES[suite].codeLength);
  return same(payload.subarray(8, 8 + proof.length), proof)
    ? { ok: true, value: undefined }
    : { ok: false, why: 'it has another key of the session' };
}

const BLOCK = 16;

/** Seals and opens the datagrams of a session with its key. */
export function sealingOf(suite: Suite, key: Buffer): Sealing {
  const { codeLength } = SUITES[suite];
  // Both constants have 20 octets for every hash (section 13.32).
  const integrity = hmac(suite, key, Buffer.alloc(20, 1));
  const secret = hmac(suite, key, Buffer.alloc(20, 2)).subarray(0, BLOCK);
  return {
    codeLength,
    same,
    code: (octets) => hmac(suite, integrity, octets).subarray(0, codeLength),
    encrypt(payload) {
      const vector = randomBytes(BLOCK);
      const padding = (BLOCK - ((payload.length + 1) % BLOCK)) % BLOCK;
      const padded = Buffer.concat([
        payload,
        Buffer.from(Array.from({ length: padding }, (_, n) => n + 1)),
        Buffer.from([padding]),
      ]);
      const cipher = createCipheriv('aes-128-cbc', secret, vector).setAutoPadding(false);
      return Buffer.concat([vector, cipher.update(padded), cipher.final()]);
    },
    decrypt(payload) {
      if (payload.length < 2 * BLOCK || payload.length % BLOCK !== 0) return undefined;
      const cipher = createDecipheriv('aes-128-cbc', secret, payload.subarray(0, BLOCK));
      cipher.setAutoPadding(false);
      const opened = Buffer.concat([cipher.update(payload.subarray(BLOCK)), cipher.final()]);
      const padding = opened.at(-1)!;
      if (padding >= BLOCK) return undefined;
      const end = opened.length - 1 - padding;
      // Some BMCs pad with other octets than 1, 2, 3 …; the code has proved them already.
      return opened.subarray(0, end);
    },
  };
}
