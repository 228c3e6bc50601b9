/**
 * Wipes as values: the report of the discovery system, what counts as proved, and the certificate
 * that is kept. Fails closed: what is not shown was not wiped. Pure.
 */
import { z } from 'zod';
import { parsed } from '../../base/foreign-json.ts';
import { printable } from '../identity.ts';
import { WIPE_LEVELS, type Wipe } from './wipe-order.ts';

export const MAX_WIPE_OCTETS = 32 * 1024;

/** What a disk showed. `code`: `done`, why it failed, or why it was left alone. */
export const wipedDisk = z.strictObject({
  name: z.string(),
  result: z.enum(['done', 'failed', 'left']),
  code: z.string(),
  octets: z.int().min(0),
  /** Sectors that were written before, and read afterwards. */
  canaries: z.int().min(0),
  /** Those that were still there. */
  left: z.int().min(0),
  /** Those that read as zeros. */
  zeros: z.int().min(0),
  serial: z.string(),
  wwn: z.string(),
  model: z.string(),
});
type WipedDisk = z.output<typeof wipedDisk>;

/** The fewest canaries that prove anything: two of the 64 may fall on one sector. */
const FEWEST = 32;
const MAX_DISKS = 128;

/** A report; undefined when it is not whole. */
export function readReport(
  text: string,
): { readonly refused?: string; readonly disks: readonly WipedDisk[] } | undefined {
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.at(-1) !== 'end' || lines.length > MAX_DISKS + 2) return undefined;
  let refused: string | undefined;
  const disks: WipedDisk[] = [];
  for (const line of lines.slice(0, -1)) {
    const [kind, ...words] = line.split('\t');
    const [name, result, code, octets, canaries, left, zeros, serial, wwn, model] = words.map((word) =>
      printable(word, 128),
    );
    if (kind === 'refused' && name) refused = name;
    else if (kind === 'disk') {
      const numbers = {
        octets: count(octets),
        canaries: count(canaries),
        left: count(left),
        zeros: count(zeros),
      };
      const read = wipedDisk.safeParse({ name, result, code, ...numbers, serial, wwn, model });
      if (!read.success) return undefined;
      disks.push(read.data);
    } else return undefined;
  }
  return { ...(refused !== undefined && { refused }), disks };
}

const count = (text: string | undefined): number => (/^[0-9]{1,16}$/.test(text ?? '') ? Number(text) : -1);

/** Why a report does not prove the wipe; undefined when it does. */
export function whyNotWiped(
  { disks: named }: Pick<Wipe, 'disks'>,
  { refused, disks }: NonNullable<ReturnType<typeof readReport>>,
): string | undefined {
  if (refused !== undefined) return `the machine refused: ${refused}`;
  for (const { name, result, code, canaries, left, zeros } of disks) {
    if (result === 'failed') return `${name}: ${code}`;
    if (result === 'done' && left > 0) return `${name}: ${left} of ${canaries} sectors were still there`;
    if (result === 'done' && (canaries < FEWEST || zeros < canaries))
      return `${name}: only ${zeros} of ${canaries} sectors read as zeros`;
  }
  const wiped = disks.filter(({ result }) => result === 'done');
  const missing = named.find((one) => !wiped.some(({ serial, wwn }) => serial === one || wwn === one));
  if (missing !== undefined) return `the disk ${missing} is not in the machine`;
  return wiped.length === 0 ? 'no disk was wiped' : undefined;
}

/** The certificate of a wipe, as it is stored. */
const certificate = z.strictObject({
  v: z.literal(1),
  id: z.string(),
  machine: z.string(),
  serial: z.string().optional(),
  product: z.string().optional(),
  level: z.enum(WIPE_LEVELS),
  reason: z.string(),
  by: z.string(),
  orderedAt: z.number(),
  at: z.number(),
  /** Why it does not count; absent: it does. */
  failed: z.string().optional(),
  disks: z.array(wipedDisk),
});
export type WipeCertificate = z.output<typeof certificate>;

/** Reads a stored certificate; undefined for a form that is not known here. */
export const readCertificate = (text: string): WipeCertificate | undefined =>
  certificate.safeParse(parsed(text)).data;
