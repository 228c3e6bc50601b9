/**
 * Wipes as values: the report of the discovery system, what counts as proved, and the certificate
 * that is kept. Fails closed: what is not shown was not wiped. Pure.
 */
import { z } from 'zod';
import { parsed } from '../../base/foreign-json.ts';
import { printable } from '../identity.ts';
import { diskId, LEFT_ALONE, WIPE_LEVELS, type Wipe } from './wipe-order.ts';

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
  /** How it was erased, and what it said of that afterwards; at the level `crypto`. */
  method: z.string().optional(),
  evidence: z.string().optional(),
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
    const [name, result, code, octets, canaries, left, zeros, serial, wwn, model, method, evidence] =
      words.map((word) => printable(word, 128));
    if (kind === 'refused' && name) refused = name;
    else if (kind === 'disk') {
      const numbers = {
        octets: count(octets),
        canaries: count(canaries),
        left: count(left),
        zeros: count(zeros),
      };
      const erased = { ...(method && { method }), ...(evidence && { evidence }) };
      const read = wipedDisk.safeParse({ name, result, code, ...numbers, serial, wwn, model, ...erased });
      if (!read.success) return undefined;
      disks.push(read.data);
    } else return undefined;
  }
  return { ...(refused !== undefined && { refused }), disks };
}

const count = (text: string | undefined): number => (/^[0-9]{1,16}$/.test(text ?? '') ? Number(text) : -1);

/**
 * How disks are erased at the level `crypto` (images/discovery/erase.sh): what the disk said
 * afterwards, and for which values that means that it ended well. `zeros`: what was there reads as
 * zeros; a drive that changed its key shows noise.
 */
const ERASES: Readonly<
  Record<string, { readonly says: string; readonly well: (value: number) => boolean; readonly zeros?: true }>
> = {
  // SSTAT of the sanitize status page: it ended well, with or without deallocation.
  'nvme-sanitize-crypto': { says: 'sstat', well: (value) => [1, 4].includes(value & 7) },
  'nvme-sanitize-block': { says: 'sstat', well: (value) => [1, 4].includes(value & 7) },
  // FPI of the namespace: nothing remains to be formatted.
  'nvme-format-crypto': { says: 'fpi', well: (value) => (value & 127) === 0 },
  'nvme-format-erase': { says: 'fpi', well: (value) => (value & 127) === 0 },
  // Word 128 of IDENTIFY DEVICE: it knows passwords, and has forgotten the one of the erase.
  'ata-erase-enhanced': { says: 'security', well: (value) => (value & 7) === 1 },
  'ata-erase': { says: 'security', well: (value) => (value & 7) === 1 },
  'luks-header': { says: 'luks', well: () => true, zeros: true },
};

/** Why what a disk said after it was erased is no proof; undefined when it is. */
function whyNotErased({ method = '', evidence = '' }: WipedDisk): string | undefined {
  const way = Object.hasOwn(ERASES, method) ? ERASES[method] : undefined;
  if (way === undefined) return `it was not erased in a way that is known`;
  const [says, value] = evidence.split('=');
  const well = says === way.says && value !== undefined && way.well(Number(value));
  return well ? undefined : `after ${method} it said "${evidence}"`;
}

/** Why a disk that the machine reports as wiped is not; undefined when it is. */
function whyNotDone(level: Wipe['level'], disk: WipedDisk): string | undefined {
  const { canaries, left, zeros, method = '' } = disk;
  if (left > 0) return `${left} of ${canaries} sectors were still there`;
  if (canaries < FEWEST) return `only ${canaries} sectors were read`;
  const asZeros = level !== 'crypto' || ERASES[method]?.zeros;
  if (asZeros && zeros < canaries) return `only ${zeros} of ${canaries} sectors read as zeros`;
  return level === 'crypto' ? whyNotErased(disk) : undefined;
}

/** Why a report does not prove the wipe; undefined when it does. */
export function whyNotWiped(
  { level, disks: named }: Pick<Wipe, 'level' | 'disks'>,
  { refused, disks }: NonNullable<ReturnType<typeof readReport>>,
): string | undefined {
  if (refused !== undefined) return `the machine refused: ${refused}`;
  for (const disk of disks) {
    if (disk.result === 'failed') return `${disk.name}: ${disk.code}`;
    const why = disk.result === 'done' ? whyNotDone(level, disk) : undefined;
    if (why !== undefined) return `${disk.name}: ${why}`;
  }
  const wiped = disks.filter(({ result }) => result === 'done');
  const missing = named.find((one) => !wiped.some(({ serial, wwn }) => serial === one || wwn === one));
  if (missing !== undefined) return `the disk ${missing} is not in the machine`;
  return wiped.length === 0 ? 'no disk was wiped' : undefined;
}

/** What became of a machine by the report of a wipe. */
export interface Wiped {
  readonly state: 'wiped' | 'wipe-failed' | 'taken-out';
  /** Why the report does not prove the wipe. */
  readonly failed?: string;
  /** Disks that no order has wiped yet. */
  readonly open: readonly string[];
  /** The order, with what it proved. */
  readonly wipe: Wipe;
}

/**
 * What becomes of a machine. It is `wiped` only when each of its disks was: an order that names
 * disks proves nothing of the others, and takes back no failure.
 */
export function wipedBy(wipe: Wipe, report: NonNullable<ReturnType<typeof readReport>>): Wiped {
  const failed = whyNotWiped(wipe, report);
  const done = report.disks.filter(
    (disk) => disk.result === 'done' && whyNotDone(wipe.level, disk) === undefined,
  );
  const proved = [...new Set([...(wipe.proved ?? []), ...done.map(diskId)])];
  const open = report.disks
    .filter((disk) => !LEFT_ALONE.has(disk.code) && !proved.includes(diskId(disk)))
    .map(diskId);
  const isBad = failed !== undefined || (wipe.failed && open.length > 0);
  const state = isBad ? 'wipe-failed' : open.length > 0 ? 'taken-out' : 'wiped';
  return {
    ...{ state, open },
    ...(failed !== undefined && { failed }),
    wipe: { ...wipe, proved, ...(isBad && { failed: true }) },
  };
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
