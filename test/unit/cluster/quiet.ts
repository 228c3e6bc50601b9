/** What the parts of clusters ask of others, where a test is about something else. */
import { createMetrics } from '../../../src/base/metrics.ts';
import type { openChanges } from '../../../src/cluster/change/changes.ts';
import type { openRollouts } from '../../../src/cluster/change/rollouts.ts';
import type { HealthDeps } from '../../../src/cluster/health/health.ts';

/** No change is under way, and no member of etcd goes. */
export const QUIET_ROLLOUTS = {
  waits: () => undefined,
  trustEnded: () => false,
  leftOut: () => [],
  leaving: () => [],
  losing: () => [],
} satisfies Partial<Parameters<typeof openRollouts>[0]>;

/** This boot host serves, and nothing holds its changes. */
export const QUIET_CHANGES = {
  metrics: createMetrics(),
  serves: () => true,
  holds: () => undefined,
  ownMachines: () => [],
} satisfies Partial<Parameters<typeof openChanges>[0]>;

/** All machines run what their documents say, with the newest agent. */
export const QUIET_HEALTH = {
  running: { of: () => undefined },
  restored: () => undefined,
  agents: () => ({ wanted: '1', machines: [] }),
  stopped: () => undefined,
  change: () => undefined,
  turns: () => [],
  programs: () => undefined,
  allowed: (resolved) => ({ resolved }),
} satisfies Partial<HealthDeps>;
