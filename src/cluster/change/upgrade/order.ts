/** What an upgrade was ordered to do, as its record keeps it, and what is observed meanwhile. */
import { z } from 'zod';
import { parseDuration } from '../../../base/duration.ts';
import type { Release } from '../../resolve/release.ts';
import { workerGroup } from '../groups.ts';
import type { NodeSeen } from '../nodes.ts';
import { maxUnavailable, now, requestFor } from '../request.ts';

export const upgradeRequest = requestFor('upgrade', {
  to: z.string().min(1).optional().meta({
    description: 'The version to go to; absent: what the document of the Cluster asks for.',
  }),
  maxUnavailable,
  now,
  soak: z
    .string()
    .refine((text) => parseDuration(text) !== undefined, 'not a duration; write it like "24h"')
    .optional()
    .meta({
      description:
        'In two phases: the control plane emulates the old minor version for so long, and until then the upgrade can be taken back.',
    }),
});
export type UpgradeRequest = z.output<typeof upgradeRequest>;

const texts = z.record(z.string(), z.string());
const release = z.strictObject({ version: z.string(), versions: texts, images: texts });

export const upgradeOrder = z.strictObject({
  from: release,
  to: release,
  /** How many workers are changed at the same time. */
  maxUnavailable: z.int().min(1),
  /** How many of each group of workers change at the same time; absent: there are no groups. */
  groups: z.array(workerGroup).optional(),
  /** The worker that is changed before all others; absent without workers. */
  canary: z.string().optional(),
  /** Machines are changed also outside of the maintenance windows. */
  now: z.literal(true).optional(),
  /**
   * How long the new control plane emulates the old minor version, ms; absent: it never does.
   */
  soak: z.int().min(0).optional(),
  /** When every control plane emulated the old version, ms since 1970; absent until then. */
  soakFrom: z.int().optional(),
  /** The snapshot of etcd that was ordered for it; absent until then. */
  snapshot: z.string().optional(),
});

/** The snapshot of etcd that an upgrade takes before it changes anything. */
export interface SnapshotSeen {
  readonly state: 'taken' | 'waiting' | 'failed';
  readonly text: string;
}

export type UpgradeOrder = Omit<z.output<typeof upgradeOrder>, 'from' | 'to'> & {
  readonly from: Release;
  readonly to: Release;
};

export interface UpgradeSeen {
  /** Machine → the node, for machines that have their turn in a step that drains. */
  readonly nodes: Readonly<Record<string, NodeSeen>>;
  /** Machine → the digest of the list of images that it needs; empty: it runs no containers. */
  readonly lists: Readonly<Record<string, string>>;
  /** Absent in other steps. */
  readonly snapshot?: SnapshotSeen;
  /** Member of etcd → the minor version of its data, of those that say it. */
  readonly storage?: Readonly<Record<string, string>>;
  /** Machine → the minor version that its API server says it emulates, e.g. 1.35. */
  readonly emulated?: Readonly<Record<string, string>>;
  /** Absent in other steps. */
  readonly soak?: SoakSeen;
}

/** The new control plane while it emulates the old version. */
export interface SoakSeen {
  /** How long it still has to. */
  readonly leftMs: number;
  /** What is not well in the cluster; absent: nothing. */
  readonly unwell?: string;
}

export const NOTHING_SEEN: UpgradeSeen = { nodes: {}, lists: {} };
