/** The order to wipe disks, as it is stored and as the discovery system reads it. Pure. */
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';

/**
 * `tables`: what names data at the ends of disks and partitions (partition tables, md, LVM, ZFS,
 * Btrfs, LUKS headers). `crypto`: by the drive itself, or by destroying the headers of what Muster
 * encrypted. `overwrite`: every sector, with zeros.
 */
export const WIPE_LEVELS = ['tables', 'crypto', 'overwrite'] as const;

/** What is to be wiped. */
export const wipeForm = z.strictObject({
  id: z.string(),
  level: z.enum(WIPE_LEVELS),
  /** Serial numbers or world wide names; empty: all disks but shared ones and sticks. */
  disks: z.array(z.string()),
  /** The machine's serial number, without which nothing is wiped. */
  serial: z.string().optional(),
  /** Disks that were proved to be wiped, by earlier orders too: {@link diskId}. */
  proved: z.array(z.string()).optional(),
  /** A wipe before this one failed. */
  failed: z.literal(true).optional(),
  /** The machine got the order. */
  begun: z.literal(true).optional(),
});
export type Wipe = Parsed<z.output<typeof wipeForm>>;

/** Names of disks as the order has them: they are lines of text there. */
export const DISK_NAME = /^[!-~]([ -~]{0,126}[!-~])?$/;

/** Disks that an order has to name: other machines may use them, or they are sticks. */
export const LEFT_ALONE: ReadonlySet<string> = new Set(['shared', 'usb']);

/** By what a disk is known from one report to the next. */
export const diskId = (disk: {
  readonly serial: string;
  readonly wwn: string;
  readonly name: string;
}): string => disk.serial || disk.wwn || disk.name;

/** The order as images/discovery/wipe.sh reads it. */
export const orderText = ({ id, level, disks, serial }: Wipe): string =>
  [
    `wipe ${id} ${level}`,
    ...(serial === undefined ? [] : [`serial ${serial}`]),
    ...disks.map((disk) => `disk ${disk}`),
  ].join('\n');
