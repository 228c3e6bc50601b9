/** What a roll was ordered to do, as its record keeps it, and what is observed meanwhile. */
import { z } from 'zod';
import { names, truth } from '../../../base/body.ts';
import { workerGroup } from '../groups.ts';
import type { NodeSeen } from '../nodes.ts';
import { maxUnavailable, now, requestFor } from '../request.ts';

export const rollRequest = requestFor('roll', {
  machines: names('Machines; none: all of the cluster.'),
  outdated: truth('Only machines that run another image than they would boot.'),
  maxUnavailable,
  now,
});
export type RollRequest = z.output<typeof rollRequest>;

export const rollOrder = z.strictObject({
  /** Machine → how it was when the roll was ordered. */
  machines: z.record(
    z.string(),
    z.strictObject({
      /** The kernel's boot id. Another one means that the machine has booted since. */
      bootId: z.string(),
      /** The name of the Image that it is to boot, a key of `images`; absent: not looked at. */
      image: z.string().optional(),
    }),
  ),
  /** Image → SHA-256 of its root image. */
  images: z.record(z.string(), z.string()),
  /** Control planes and members of etcd, one after the other. */
  servers: z.array(z.string()),
  workers: z.array(z.string()),
  /** The worker that boots before all other machines; absent without workers. */
  canary: z.string().optional(),
  /** How many workers are down at the same time. */
  maxUnavailable: z.int().min(1),
  /** How many of each group of workers are down at the same time; absent: there are no groups. */
  groups: z.array(workerGroup).optional(),
  /** Machines reboot also outside of the maintenance windows. */
  now: z.literal(true).optional(),
});
export type RollOrder = z.output<typeof rollOrder>;

/** The image that a machine boots next. */
export interface WantedImage {
  /** The name of the Image document. */
  readonly name: string;
  /** SHA-256 of its root image; absent: it has none. */
  readonly root?: string;
}

export interface RollSeen {
  /** Machine → the node, for machines that have their turn. */
  readonly nodes: Readonly<Record<string, NodeSeen>>;
  /** Machine that has its turn → SHA-256 of the root image that it would boot now. */
  readonly wants: Readonly<Record<string, string | undefined>>;
}

export const NOTHING_SEEN: RollSeen = { nodes: {}, wants: {} };
