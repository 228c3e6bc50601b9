/**
 * The challenges that TPMs have to open: each a new secret, sealed to one endorsement key, for one
 * boot session, one key of an agent and one attestation key. They are kept in memory; after a
 * restart of the server, agents ask for others.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { makeCredential, SECRET_OCTETS } from '../../pki/tpm/credential.ts';
import type { ShownTpm } from './tpm-shown.ts';

/** How long a challenge can be answered. A slow TPM takes some seconds. */
export const CHALLENGE_LIFETIME = duration('1m');
/** How many challenges are open for one boot session; the oldest gives way. */
const PER_SESSION = 4;
/** How many challenges are open together. Each takes less than half a KiB. */
const ALTOGETHER = 20_000;

/** What a challenge is bound to. */
export interface ChallengeOf {
  readonly session: string;
  /** SHA-256 of the agent's public key (SPKI), hexadecimal. */
  readonly pin: string;
  readonly tpm: ShownTpm;
}

export interface TpmChallenges {
  /**
   * Makes a challenge, in the format that `tpm2_activatecredential` reads. An earlier one for the
   * same session, agent's key and attestation key no longer counts. Undefined when too many
   * challenges are open.
   */
  make(of: ChallengeOf): Buffer | undefined;
  /**
   * Whether `proof` shows that the TPM opened the challenge. The challenge is used up, whether it
   * does or not.
   */
  proves(of: ChallengeOf, proof: string): boolean;
}

interface Open {
  readonly secret: Buffer;
  /** SHA-256 of the endorsement key (SPKI). */
  readonly ek: string;
  /** Monotonic. */
  readonly madeAt: Millis;
}

/** Creates an empty table. */
export function createTpmChallenges(clock: Clock): TpmChallenges {
  /** By session, then by the agent's key and the attestation key. Oldest first. */
  const sessions = new Map<string, Map<string, Open>>();
  let size = 0;
  const remove = (session: string, key: string): void => {
    const open = sessions.get(session);
    if (open?.delete(key)) size--;
    if (open?.size === 0) sessions.delete(session);
  };
  const sweep = (): void => {
    const oldest = clock.monotonic() - CHALLENGE_LIFETIME;
    for (const [session, open] of sessions)
      for (const [key, { madeAt }] of open) if (madeAt < oldest) remove(session, key);
  };
  let sweptAt = clock.monotonic();
  return {
    make({ session, pin, tpm }) {
      const now = clock.monotonic();
      if (size >= ALTOGETHER && now - sweptAt >= 1000) {
        sweptAt = now;
        sweep();
      }
      const key = keyOf(pin, tpm);
      remove(session, key);
      const open = sessions.get(session) ?? new Map<string, Open>();
      for (const first of open.keys()) if (open.size >= PER_SESSION) remove(session, first);
      if (size >= ALTOGETHER) return undefined;
      const secret = randomBytes(SECRET_OCTETS);
      open.set(key, { secret, ek: tpm.ek.publicKey.pin(), madeAt: now });
      sessions.set(session, open);
      size++;
      return makeCredential(tpm.ek, tpm.ak, secret);
    },
    proves({ session, pin, tpm }, proof) {
      const key = keyOf(pin, tpm);
      const open = sessions.get(session)?.get(key);
      remove(session, key);
      if (open === undefined || clock.monotonic() - open.madeAt > CHALLENGE_LIFETIME) return false;
      if (open.ek !== tpm.ek.publicKey.pin() || !/^[0-9a-f]{64}$/.test(proof)) return false;
      return timingSafeEqual(proofOf(open.secret, { session, pin }), Buffer.from(proof, 'hex'));
    },
  };
}

const keyOf = (pin: string, { ak }: ShownTpm): string => `${pin} ${ak.name.toString('hex')}`;

/**
 * The answer to a challenge with this secret. It names the agent's key, so nobody between machine
 * and server can put another key in its place. muster-tpm.sh computes the same.
 */
export const proofOf = (
  secret: Uint8Array,
  { session, pin }: { readonly session: string; readonly pin: string },
): Buffer => createHmac('sha256', secret).update(`muster tpm 1 ${session} ${pin}`).digest();
