import path from 'node:path';
import { defineConfig } from 'vitest/config';

// As in bin/muster. Threads of stores and child processes start by the hundred, and each would
// compile the product anew.
process.env.NODE_COMPILE_CACHE ??= path.join(import.meta.dirname, '.cache/compile');

/**
 * Members of etcd wait for leases, elections and each other most of the time: they run beside all
 * other peers. With them others of which the same is true, so that both halves end at about the
 * same time.
 */
const ETCD = 'test/peers/{etcd-*,agent-restore,endpoint}.test.ts';

/** By the hundred thousand: a stage of their own, so that unit tests are soon done. */
const FUZZ = 'test/unit/**/fuzz.test.ts';

const withoutRoot = {
  // Far above what any test needs: a busy host must not fail one.
  testTimeout: 600_000,
  // Loading the product anew for every file costs a third of the stage. Nothing here changes what
  // others share.
  isolate: false,
};

const peers = (name: string, files: { include: string[]; exclude?: string[] }) => ({
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
 * A project for each stage: `unit` and `fuzz` (no root), `lab` (QEMU), and two for `peers` (root,
 * namespaces, real peers), which run side by side. And `torture`, which runs when asked for.
 */
export default defineConfig({
  test: {
    // Vitest leaves one core free by itself, which on a machine of two doubles the time of the unit
    // stage.
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
      peers('peers-others', { include: ['test/peers/**/*.test.ts'], exclude: [ETCD] }),
      peers('peers-etcd', { include: [ETCD] }),
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
          // All scenarios wait for their turn, and whichever fits takes it.
          maxConcurrency: 50,
          testTimeout: 1_500_000,
          hookTimeout: 1_500_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
