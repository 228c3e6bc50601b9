/** The store alone: durable commits a second, and how long a commit takes at half of that load. */
import { execFile } from 'node:child_process';
import { mkdir, open, rm } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { silentLog } from '../src/base/log.ts';
import { createMetrics } from '../src/base/metrics.ts';
import { openSqliteStore } from '../src/store/sqlite.files.ts';
import type { Store } from '../src/store/store.ts';
import { type BenchSuite, percentile } from './compare.ts';

/** On the disk of the checkout, because on a tmpfs every fsync would be free. */
const DIRECTORY = new URL('../.cache/bench-store/', import.meta.url).pathname;
const PEER = new URL('store-peer.py', import.meta.url).pathname;
const COMMITS = 100_000;
const SPAN_MS = 3000;
/** Half of the rate that is the store's aim. */
const HALF_LOAD_PER_MS = 25;
const VALUE = 'x'.repeat(300);

const write = (i: number) => [{ key: `lease/rack/${i % 20_000}`, put: VALUE }];

async function withStore<T>(run: (store: Store) => Promise<T>): Promise<T> {
  await rm(DIRECTORY, { recursive: true, force: true });
  await mkdir(DIRECTORY, { recursive: true });
  const store = await openSqliteStore({
    path: `${DIRECTORY}store.sqlite`,
    log: silentLog,
    metrics: createMetrics(),
  });
  try {
    return await run(store);
  } finally {
    await store.close();
    await rm(DIRECTORY, { recursive: true, force: true });
  }
}

/** Commits a second of `clients` concurrent clients; each waits for its commit before the next. */
async function saturate(clients: number): Promise<number> {
  return withStore(async (store) => {
    let next = 0;
    const client = async () => {
      while (next < COMMITS) await store.commit(write(next++));
    };
    const started = performance.now();
    await Promise.all(Array.from({ length: clients }, client));
    return (COMMITS / (performance.now() - started)) * 1000;
  });
}

/**
 * Commits at a fixed rate, whether or not earlier commits are done; resolves to the 99th percentile
 * of their durations in milliseconds.
 */
async function halfLoad(): Promise<number> {
  return withStore(async (store) => {
    const spans: number[] = [];
    const waiting: Promise<void>[] = [];
    const started = performance.now();
    let sent = 0;
    for (let now = started; now - started < SPAN_MS; now = performance.now()) {
      for (const due = (now - started) * HALF_LOAD_PER_MS; sent < due; sent++) {
        const asked = performance.now();
        waiting.push(store.commit(write(sent)).then(() => void spans.push(performance.now() - asked)));
      }
      await turn();
    }
    await Promise.all(waiting);
    return percentile(spans, 0.99);
  });
}

/**
 * Appends one group's octets and makes them durable, with nothing else at work: the time that the
 * disk alone takes. Resolves to the 99th percentile in milliseconds.
 */
async function bareDisk(): Promise<number> {
  await rm(DIRECTORY, { recursive: true, force: true });
  await mkdir(DIRECTORY, { recursive: true });
  const group = Buffer.alloc(32 * 1024, 'x');
  const spans: number[] = [];
  const file = await open(`${DIRECTORY}bare`, 'w');
  try {
    const started = performance.now();
    for (let now = started; now - started < SPAN_MS; ) {
      await file.write(group);
      await file.datasync();
      const done = performance.now();
      spans.push(done - now);
      now = done;
    }
  } finally {
    await file.close();
    await rm(DIRECTORY, { recursive: true, force: true });
  }
  return percentile(spans, 0.99);
}

/** Python's sqlite3 with one transaction for each write; resolves to commits a second. */
async function oneByOne(): Promise<number> {
  await rm(DIRECTORY, { recursive: true, force: true });
  await mkdir(DIRECTORY, { recursive: true });
  const { stdout } = await promisify(execFile)('python3', [PEER, `${DIRECTORY}peer.sqlite`, '3000']);
  await rm(DIRECTORY, { recursive: true, force: true });
  return Number(stdout);
}

export const suite: BenchSuite = {
  about:
    'Each durable commit writes one record of 300 octets to one of 20,000 keys; expectations are checked and history is kept.',
  async open() {
    return {
      cases: [
        {
          figures: {
            rate: {
              name: 'Store commits, 1,000 clients',
              unit: '1/s',
              better: 'more',
              aim: 50_000,
            },
          },
          ours: async () => ({ rate: await saturate(1000) }),
          peers: { 'sqlite3, a transaction a write': async () => ({ rate: await oneByOne() }) },
        },
        {
          figures: {
            rate: { name: 'Store commits, 100 clients', unit: '1/s', better: 'more' },
          },
          ours: async () => ({ rate: await saturate(100) }),
        },
        {
          figures: {
            p99: {
              name: 'Store commit at 25,000/s, p99',
              unit: 'ms',
              better: 'less',
              aim: 5,
              ifMissed:
                'A commit that just misses a group waits until that group is durable, and then for its own group. In a run with 5.3 ms, the slowest syncs of the log took 2.4 to 4.8 ms (a bare append and sync at the same time took 0.6), writing the rows of a group 0.1 to 0.4 ms, and copying the log into the file 0.8 to 1.3 ms each time, while all commits wait. Runs on one day differ by more than that (4.3 to 36 ms, the last while a compiler wrote much), because the disk is shared.',
            },
          },
          ours: async () => ({ p99: await halfLoad() }),
          peers: { '32 KiB appended and fdatasync, alone': async () => ({ p99: await bareDisk() }) },
        },
      ],
      close: async () => {},
    };
  },
};
