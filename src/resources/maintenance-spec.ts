/** The setting `maintenance` of a Cluster: when its machines may be interrupted. */
import { z } from 'zod';
import { duration as span } from '../base/duration.ts';
import { duration } from './fields.ts';

/** In the order of the numbers that ISO 8601 gives them, from 1. */
export const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

/** Shorter windows would let nothing be finished, longer ones would overlap with themselves. */
const LEAST = span('15m');
const MOST = span('7d');

function isZone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

const window = z.strictObject({
  days: z
    .array(z.enum(DAYS))
    .min(1)
    .optional()
    .meta({ description: 'The days on which it opens. Absent: every day.' }),
  time: z
    .string()
    .regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/, 'not a time of day like "22:00"')
    .meta({ description: 'The time of day at which it opens, e.g. "22:00".' }),
  zone: z
    .string()
    .refine(isZone, 'not a time zone; write one like Europe/Berlin')
    .optional()
    .meta({ description: 'The time zone of `days` and `time`, e.g. Europe/Berlin. Default UTC.' }),
  duration: duration
    .refine((text) => span(text) >= LEAST && span(text) <= MOST, 'a window is open for 15m to 7d')
    .meta({ description: 'How long it is open: from 15m to 7d.' }),
});

export const maintenanceSpec = z.strictObject({
  windows: z
    .array(window)
    .min(1)
    .max(32)
    .meta({ description: 'When machines may get their turn. A machine that has its turn finishes it.' }),
  upgrades: z.boolean().optional().meta({
    description:
      'Whether workers wait for a window also in an upgrade of Kubernetes. Default: as `controlPlanes`.',
  }),
  controlPlanes: z.boolean().optional().meta({
    description:
      'Whether control planes and members of etcd wait for a window also in an upgrade of Kubernetes. Default false.',
  }),
});

export type MaintenanceSpec = z.output<typeof maintenanceSpec>;
export type MaintenanceWindow = MaintenanceSpec['windows'][number];
