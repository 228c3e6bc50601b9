import path from 'node:path';
import { defineConfig } from 'vitest/config';

// As in bin/muster: tests start hundreds of store threads and child processes, and without this
// cache each would compile the whole product.
process.env.NODE_COMPILE_CACHE ??= path.join(import.meta.dirname, '.cache/compile');

/**
 * Tests whose programs wait most of the time, mainly etcd members for leases, elections and each
 * other. They run concurrently with all other peers.
 */
const ETCD = 'test/peers/{etcd-{ha,members,turns,generations},agent-restore,endpoint}.test.ts';
/** The same, for changes of a running cluster: backups, restores, rolls, rotations, upgrades. */
const CHANGES = 'test/peers/etcd-{backup,boot-host,roll,rotation,upgrade}.test.ts';

/** Tests with hundreds of thousands of inputs: a separate stage, so that unit tests stay fast. */
const FUZZ = 'test/unit/**/fuzz.test.ts';

const withoutRoot = {
  // Far more than any test needs, so that no test fails on a busy host.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  // Loading the product again for every file would cost a third of the stage. No test here changes
  // state that files share.
  isolate: false,
};

const peers = (name: string, files: { include: string[]; exclude?: string[]; retry?: number }) => ({
  test: {
    name,
    ...files,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    // These tests wait for other programs most of the time; two cores carry three etcd racks.
    maxConcurrency: 3,
  },
});

/**
 * CI gives a test with a real peer a second try, and names it in its summary (decision 0122). Tests
 * that attack, or that lose or keep data, have one try.
 */
const RETRY = process.env.CI ? { retry: 1 } : {};

/**
 * A project for each stage: `unit` and `fuzz` (no root), `lab` (QEMU), five for `peers` (root,
 * namespaces; real peers, attackers, and a browser), of which three run concurrently, and
 * `torture`, which runs only on request.
 */
export default defineConfig({
  test: {
    // By default Vitest leaves one core free, which doubles the time of the unit stage on two
    // cores.
    maxWorkers: '100%',
    reporters: ['default', './test/counts.reporter.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts', 'test/audit/**/*.test.ts'],
          exclude: [FUZZ],
          ...withoutRoot,
        },
      },
      { test: { name: 'fuzz', include: [FUZZ], ...withoutRoot } },
      peers('peers-others', { include: ['test/peers/**/*.test.ts'], exclude: [ETCD, CHANGES], ...RETRY }),
      peers('peers-etcd', { include: [ETCD] }),
      peers('peers-changes', { include: [CHANGES] }),
      peers('peers-page', { include: ['test/page/**/*.test.ts'], ...RETRY }),
      peers('attacks', { include: ['test/attacks/**/*.test.ts'] }),
      {
        test: {
          name: 'torture',
          include: ['torture/**/*.test.ts'],
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'lab',
          include: ['test/lab/**/*.test.ts'],
          // All scenarios are started and wait until there is room for their machines.
          maxConcurrency: 50,
          testTimeout: 1_500_000,
          hookTimeout: 1_500_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
