/**
 * Writes to the store at argv[2] until it is killed, and prints the key of each commit once it is
 * acknowledged. Each commit puts two records, so that the parent can see whether one was torn.
 */
import { writeSync } from 'node:fs';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { openSqliteStore } from '../../src/store/sqlite.files.ts';

const [path, round] = process.argv.slice(2) as [string, string];
const store = await openSqliteStore({
  path,
  log: silentLog,
  metrics: createMetrics(),
  keptRevisions: 2000,
});
say('open\n');

/**
 * Writes synchronously, so that a kill cannot lose the line; waits while the parent does not read.
 */
function say(text: string): void {
  for (let rest = Buffer.from(text); rest.length > 0; ) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as { code?: string }).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

async function write(writer: number): Promise<never> {
  for (let i = 0; ; i++) {
    const key = `${round}/${writer}/${i}`;
    await store.commit([
      { key, put: 'x'.repeat(i % 700), expect: 'absent' },
      { key: `twin/${key}`, put: `${i}` },
      // One record that every commit overwrites, so that history is trimmed and pages are reused
      // all the time.
      { key: `hot/${writer % 5}`, put: key },
    ]);
    say(`${key}\n`);
  }
}
await Promise.all(Array.from({ length: 20 }, (_, writer) => write(writer)));
