/**
 * What a machine claims to have seen of the store. Every answer to a poll carries the store's
 * revision with a proof that only this boot host can make, and the agent shows both again: a store
 * with a lower revision was rolled back, and founds nothing. Without the proof one member that
 * invents a high number could end the founding of its cluster for good.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** A revision that a machine says it was sent, and the proof that came with it. */
export interface RevisionClaim {
  readonly revision: number;
  /** Base64url of a SHA-256. */
  readonly proof: string;
}

const CLAIM = /^([0-9]{1,15})\.([A-Za-z0-9_-]{43})$/;

/** Reads `REVISION.PROOF`; undefined for every other text. */
export function readRevisionClaim(text: string): RevisionClaim | undefined {
  const [, revision, proof] = CLAIM.exec(text) ?? [];
  return revision === undefined || proof === undefined ? undefined : { revision: Number(revision), proof };
}

export interface RevisionClaims {
  /** The text that `machine` is sent for this revision. */
  of(machine: string, revision: number): string;
  /** Whether this boot host sent the claim to that machine; compares in constant time. */
  believed(machine: string, claim: RevisionClaim): boolean;
}

/**
 * Makes and checks claims with this boot host's secret key.
 *
 * @throws {RangeError} when the key has fewer than 32 octets.
 */
export function createRevisionClaims(key: Uint8Array): RevisionClaims {
  if (key.length < 32) throw new RangeError('a key for revisions has at least 32 octets');
  const proof = (machine: string, revision: number): Buffer =>
    createHmac('sha256', key).update(`muster revision\0${machine}\0${revision}`).digest();
  return {
    of: (machine, revision) => `${revision}.${proof(machine, revision).toString('base64url')}`,
    believed(machine, claim) {
      const given = Buffer.from(claim.proof, 'base64url');
      const own = proof(machine, claim.revision);
      return given.length === own.length && timingSafeEqual(given, own);
    },
  };
}
