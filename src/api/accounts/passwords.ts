/**
 * Hashes of operators' passwords (scrypt, RFC 7914), and the queue in which they are computed. A
 * hash costs 32 MiB and 100 to 250 ms of a processor, so at most two are computed at a time, and
 * the addresses that ask take turns: a flood of wrong passwords does not delay other addresses.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';

const derive = promisify(scrypt) as (
  password: Buffer,
  salt: Buffer,
  octets: number,
  options: { N: number; r: number; p: number; maxmem: number },
) => Promise<Buffer>;

/** What scrypt costs: rounds, block size, and how often it is done. */
interface Cost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** OWASP's equivalent of N=2^17, r=8, p=1 that needs a quarter of its memory. */
const COST: Cost = { N: 2 ** 15, r: 8, p: 3 };
const MAX_MEMORY = 64 * 1024 * 1024;
const OCTETS = 32;
/** Longer passwords are refused, so that hashing one costs nothing extra. */
const MAX_PASSWORD = 1024;
const MIN_PASSWORD = 12;

/** A stored hash, with what it was made with. */
export const passwordHash = z.strictObject({
  kind: z.literal('scrypt'),
  N: z
    .int()
    .min(2)
    .max(2 ** 20),
  r: z.int().min(1).max(32),
  p: z.int().min(1).max(16),
  salt: z.base64(),
  hash: z.base64(),
});
export type PasswordHash = z.infer<typeof passwordHash>;

/** @throws {MusterError} E_USAGE when the password is too short or too long */
function checkPassword(password: string): void {
  const length = [...password].length;
  if (length < MIN_PASSWORD || length > MAX_PASSWORD)
    throw new MusterError(
      'E_USAGE',
      `a password has ${MIN_PASSWORD} to ${MAX_PASSWORD} characters; this one has ${length}`,
    );
}

/** Unicode has several spellings of one text; NFKC makes them one (RFC 8265). */
const octetsOf = (password: string): Buffer => Buffer.from(password.normalize('NFKC'), 'utf8');

/**
 * How an address is known: log-ins from there succeeded, or nothing is known of it, or they failed
 * lately.
 */
export type Standing = 'trusted' | 'unknown' | 'suspect';

/** The client that asks for a hash. */
export interface Asker {
  readonly address: string;
  /** Looked up again when the turn of this client comes. */
  readonly standing: () => Standing;
}

/**
 * Computes hashes in turn. An address has one at a time. A hash for an address from which nobody
 * logged in before begins only while no other is computed, and addresses that failed lately come
 * last. So an operator at the usual address waits for no flood, wherever that comes from, and
 * shares the processors with one hash of the flood at most, which began before.
 */
export class Passwords {
  readonly #waiting = new Map<string, { readonly asker: Asker; readonly begin: () => void }[]>();
  /** Addresses with a hash under way. */
  readonly #running = new Set<string>();
  readonly #atOnce: number;
  readonly #perAddress: number;
  readonly #cost: Cost;

  /**
   * @param atOnce how many hashes are computed at a time
   * @param perAddress how many requests of one address may wait
   * @param cost of a new hash; tests make it cheap
   */
  constructor({ atOnce = 2, perAddress = 4, cost = COST } = {}) {
    this.#atOnce = atOnce;
    this.#perAddress = perAddress;
    this.#cost = cost;
  }

  /**
   * Makes the hash of a new password.
   *
   * @throws {MusterError} as {@link checkPassword}; E_LOGIN_LIMIT when too many requests of
   *   the address wait
   */
  async hash(password: string, asker: Asker): Promise<PasswordHash> {
    checkPassword(password);
    const salt = randomBytes(16);
    const hash = await this.#inTurn(asker, () => compute(octetsOf(password), salt, this.#cost));
    return { kind: 'scrypt', ...this.#cost, salt: salt.toString('base64'), hash: hash.toString('base64') };
  }

  /**
   * Whether the password fits. With no hash (an unknown operator) it takes as long and is false.
   *
   * @throws {MusterError} E_LOGIN_LIMIT when too many requests of the address wait
   */
  async fits(password: string, stored: PasswordHash | undefined, asker: Asker): Promise<boolean> {
    if (password.length > MAX_PASSWORD) return false;
    const { N, r, p } = stored ?? this.#cost;
    const salt = stored ? Buffer.from(stored.salt, 'base64') : Buffer.alloc(16);
    const wanted = stored ? Buffer.from(stored.hash, 'base64') : Buffer.alloc(OCTETS);
    const hash = await this.#inTurn(asker, () => compute(octetsOf(password), salt, { N, r, p }));
    const same = wanted.length === hash.length && timingSafeEqual(hash, wanted);
    return stored !== undefined && same;
  }

  async #inTurn<T>(asker: Asker, work: () => Promise<T>): Promise<T> {
    // A request waits behind the earlier ones of its address.
    if (this.#waiting.has(asker.address) || !this.#mayBegin(asker)) await this.#place(asker);
    else this.#running.add(asker.address);
    try {
      return await work();
    } finally {
      this.#running.delete(asker.address);
      this.#next();
    }
  }

  #mayBegin({ address, standing }: Asker): boolean {
    if (this.#running.size >= this.#atOnce || this.#running.has(address)) return false;
    return standing() === 'trusted' || this.#running.size === 0;
  }

  #place(asker: Asker): Promise<void> {
    const queue = this.#waiting.get(asker.address) ?? [];
    if (queue.length >= this.#perAddress)
      throw new MusterError('E_LOGIN_LIMIT', 'too many log-ins from this address wait already', {
        retryAfterSeconds: 1,
      });
    return new Promise((begin) => {
      queue.push({ asker, begin });
      this.#waiting.set(asker.address, queue);
    });
  }

  /** Begins what may begin now, of the addresses whose turns were longest ago. */
  #next(): void {
    for (const wanted of ['trusted', 'unknown', 'suspect'] as const)
      for (const [address, queue] of [...this.#waiting]) {
        const [first, ...rest] = queue;
        if (first === undefined || first.asker.standing() !== wanted) continue;
        if (!this.#mayBegin(first.asker)) continue;
        this.#running.add(address);
        this.#waiting.delete(address);
        // The address comes last now, so that all addresses take turns.
        if (rest.length > 0) this.#waiting.set(address, rest);
        first.begin();
      }
  }
}

const compute = (password: Buffer, salt: Buffer, cost: Cost): Promise<Buffer> =>
  derive(password, salt, OCTETS, { ...cost, maxmem: MAX_MEMORY });
