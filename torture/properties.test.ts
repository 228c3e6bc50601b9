/**
 * The properties of rolls, restarts, upgrades, rotations, agents' upgrades and of the clock with
 * 10,000 cases each, in which machines are left out and lose their power, changes pause, the boot
 * host is killed and its clock jumps. `make unit` runs the same properties with few cases.
 * MUSTER_PROPERTY_CASES sets another number.
 */
import { vi } from 'vitest';

process.env.MUSTER_PROPERTY_CASES ??= '10000';
vi.setConfig({ testTimeout: 24 * 3_600_000 });

await import('../test/unit/cluster/change/roll.test.ts');
await import('../test/unit/cluster/rollout.test.ts');
await import('../test/unit/cluster/change/upgrade.test.ts');
await import('../test/unit/cluster/change/agents.test.ts');
await import('../test/unit/cluster/change/rotation-model.test.ts');
await import('../test/unit/cluster/clock-rig.test.ts');
