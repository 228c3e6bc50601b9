/**
 * Values that a client keeps for the server and cannot read or change. What a log-in needs between
 * its two requests is with its client, so nobody can fill a table of log-ins that were begun.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { fieldsOf, parsed } from '../../base/foreign-json.ts';

const ALGORITHM = 'aes-256-gcm';
const NONCE = 12;
const TAG = 16;

/** Seals with a key of this process: a restart ends what was sealed. */
export class Sealed {
  readonly #key = randomBytes(32);
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #purpose: Buffer;

  /** @param purpose what is sealed for one purpose does not open for another one */
  constructor(purpose: string, clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
    this.#purpose = Buffer.from(purpose);
  }

  /** Seals a JSON value for a while. */
  seal(value: object, lasts: Millis): string {
    const nonce = randomBytes(NONCE);
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce, { authTagLength: TAG }).setAAD(this.#purpose);
    const text = JSON.stringify({ value, until: this.#clock.monotonic() + lasts });
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, body, cipher.getAuthTag()]).toString('base64url');
  }

  /** The value; undefined when it was not sealed here, was changed, or its time is over. */
  open(text: string): Readonly<Record<string, unknown>> | undefined {
    const octets = Buffer.from(text, 'base64url');
    if (octets.length < NONCE + TAG) return undefined;
    const cipher = createDecipheriv(ALGORITHM, this.#key, octets.subarray(0, NONCE), { authTagLength: TAG });
    cipher.setAAD(this.#purpose).setAuthTag(octets.subarray(-TAG));
    try {
      const body = Buffer.concat([cipher.update(octets.subarray(NONCE, -TAG)), cipher.final()]);
      const { value, until } = fieldsOf(parsed(body.toString('utf8')));
      return Number(until) > this.#clock.monotonic() ? fieldsOf(value) : undefined;
    } catch {
      return undefined;
    }
  }
}
