import path from 'node:path';
import { defineConfig } from 'vitest/config';
import { LONG, TORTURE } from './test/stages.ts';

// As in bin/muster: tests start hundreds of store threads and child processes, and without this
// cache each would compile the whole product.
process.env.NODE_COMPILE_CACHE ??= path.join(import.meta.dirname, '.cache/compile');

const peer = (names: readonly string[]) => names.map((name) => `test/peers/${name}.test.ts`);

/** What machines speak with the boot host, in a part of its own: these tests wait most. */
const NET = peer(['dhcp', 'tftp', 'http']);
/** The agent's own scripts, with the tools of a machine: these tests compute most. */
const AGENT = ['test/peers/agent*.test.ts'];
/** The racks of etcd that `make test` runs. */
const ETCD = peer(['etcd-founding', 'etcd-rotation', 'etcd-upgrade']);
const TORTURE_FILES = peer(Object.keys(TORTURE));
/** The parts of `make peers-long`, with their files. */
const PARTS = Object.entries(LONG).map(([part, files]) => ({ part, files: peer(Object.keys(files)) }));
const ELSEWHERE = [...TORTURE_FILES, ...PARTS.flatMap(({ files }) => files)];
/** Parts whose tests may pass at a second try; those of etcd lose or keep data. */
const AGAIN: readonly string[] = ['long-agent', 'long-peers'];

/** Tests with hundreds of thousands of inputs: a separate stage, so that unit tests stay fast. */
const FUZZ = 'test/unit/**/fuzz.test.ts';

/** Vitest's own limit of a second is exceeded on a busy host where nothing is wrong. */
const PATIENT = { expect: { poll: { timeout: 20_000 } } };

const withoutRoot = {
  ...PATIENT,
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
    ...PATIENT,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    runner: './test/budget.runner.ts',
    // These tests wait for other programs most of the time; two cores carry three etcd racks.
    maxConcurrency: 3,
  },
});

/**
 * CI gives a test with a real peer a second try, and names it in its summary (decision 0122). Tests
 * that attack, or that lose or keep data, have one try.
 */
const RETRY = process.env.CI ? { retry: 1 } : {};

const lab = (name: string, rack: 'quick' | 'long' | 'all') => ({
  test: {
    name,
    include: rack === 'quick' ? ['test/lab/scenarios.test.ts'] : ['test/lab/**/*.test.ts'],
    env: { MUSTER_RACK: rack },
    // All scenarios are started and wait until there is room for their machines.
    maxConcurrency: 50,
    testTimeout: 1_500_000,
    hookTimeout: 1_500_000,
    fileParallelism: false,
  },
});

/**
 * A project for each part of a stage: `unit` and `fuzz` (no root), `lab` (QEMU), those of `peers`
 * and `peers-long` (root, namespaces; real peers, attackers, and a browser), of which several run
 * concurrently, and `torture`, which runs only on request. test/stages.ts says which file is where.
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
      { test: { name: 'fuzz-short', include: [FUZZ], env: { MUSTER_FUZZ_SHARE: '4' }, ...withoutRoot } },
      peers('peers-others', {
        include: ['test/peers/**/*.test.ts'],
        exclude: [...NET, ...ETCD, ...AGENT, ...ELSEWHERE],
        ...RETRY,
      }),
      peers('peers-agent', { include: AGENT, exclude: ELSEWHERE, ...RETRY }),
      peers('peers-net', { include: NET, ...RETRY }),
      peers('peers-etcd', { include: ETCD }),
      peers('peers-page', { include: ['test/page/**/*.test.ts'], ...RETRY }),
      peers('attacks', { include: ['test/attacks/**/*.test.ts'] }),
      ...PARTS.map(({ part, files }) =>
        peers(part, { include: files, ...(AGAIN.includes(part) ? RETRY : {}) }),
      ),
      {
        test: {
          name: 'torture',
          include: ['torture/**/*.test.ts', ...TORTURE_FILES],
          hookTimeout: 120_000,
          fileParallelism: false,
          maxConcurrency: 3,
        },
      },
      lab('lab', 'quick'),
      lab('lab-long', 'long'),
      lab('lab-all', 'all'),
    ],
  },
});
