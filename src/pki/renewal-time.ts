/**
 * When leaves are renewed: at two thirds of their life, agents' at half. Certificates that were
 * issued together are renewed at different times, so that not all machines change one in the same
 * minute. Pure.
 */
import { createHash } from 'node:crypto';
import type { Millis } from '../base/duration.ts';
import type { IssuedCertificate } from './records.ts';

/** The part of its life after which a leaf is renewed. */
const RENEWED_AFTER = { agent: 1 / 2, others: 2 / 3 } as const;
/** Renewals are spread over this part of a leaf's life, and end at {@link RENEWED_AFTER}. */
const SPREAD = 1 / 12;

type Dates = Pick<IssuedCertificate, 'leaf' | 'serial' | 'issuedAt' | 'notAfter'>;

/**
 * How long the certificate is good for after it was issued. `notBefore` does not count: it is the
 * day before, or the year 2000.
 */
export const lifeOf = ({ issuedAt, notAfter }: Pick<Dates, 'issuedAt' | 'notAfter'>): Millis =>
  (notAfter - issuedAt) as Millis;

/** A number from 0 to 1 that is always the same for one certificate. */
const share = (serial: string): number =>
  createHash('sha256').update(serial).digest().readUInt32BE(0) / 2 ** 32;

/** From when on the certificate is replaced as soon as its holder asks. */
export function renewsAt(issued: Dates): Millis {
  const after = issued.leaf === 'agent' ? RENEWED_AFTER.agent : RENEWED_AFTER.others;
  return Math.floor(issued.issuedAt + lifeOf(issued) * (after - SPREAD * share(issued.serial))) as Millis;
}
