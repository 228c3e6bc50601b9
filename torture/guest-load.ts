/**
 * The load inside the guest. It reads the store and prints its content; then writers put records
 * until the power is cut, and each acknowledged commit is printed on the console.
 *
 * Lines: `opening` · `revision R` · `have WRITER N` per writer · `fault TEXT` when the store
 * contradicts itself · `load` · then `a WRITER:N WRITER:N …` (acknowledged), repeatedly.
 *
 * A commit N of a writer puts its record N, deletes its record N - WINDOW, and notes N under
 * `last/WRITER`: all or nothing.
 */
import { writeSync } from 'node:fs';
import { silentLog } from '../src/base/log.ts';
import type { Metrics } from '../src/base/metrics.ts';
import { openSqliteStore } from '../src/store/sqlite.files.ts';
import type { Store, StoredRecord, Write } from '../src/store/store.ts';

const WRITERS = 24;
const WINDOW = 200;

const say = (line: string): void => void writeSync(1, `${line}\n`);
/** Metrics that count nothing: the guest has no npm packages. */
const noMetrics: Metrics = { add() {}, set() {}, observe() {}, text: async () => '' };

const key = (writer: number, n: number): string => `w/${writer}/${n}`;
/** The correct value of a record, from 10 octets to 3 KiB. */
const recordValue = (writer: number, n: number): string =>
  `${writer}:${n}:${'x'.repeat((n * 37 + writer * 101) % (n % 50 === 0 ? 3000 : 400))}`;

/** The last commit of each writer in the store; prints a fault for everything inconsistent. */
function check(records: readonly StoredRecord[]): Map<number, number> {
  const byKey = new Map(records.map((record) => [record.key, record]));
  const last = new Map<number, number>();
  for (let writer = 0; writer < WRITERS; writer++) {
    const noted = byKey.get(`last/${writer}`);
    if (!noted) continue;
    const n = Number(noted.value);
    last.set(writer, n);
    for (let i = Math.max(1, n - WINDOW + 1); i <= n; i++) {
      const record = byKey.get(key(writer, i));
      if (record?.value !== recordValue(writer, i))
        say(`fault ${key(writer, i)} is missing or wrong, last is ${n}`);
      if (i === n && record?.revision !== noted.revision)
        say(`fault commit ${n} of writer ${writer} is torn`);
    }
  }
  const expected = [...last.values()].reduce((sum, n) => sum + Math.min(n, WINDOW) + 1, 0);
  if (records.length !== expected) say(`fault ${records.length} records where ${expected} should be`);
  return last;
}

const acknowledged: string[] = [];
/** Prints the commits that were acknowledged within one turn of the event loop together. */
function acknowledge(writer: number, n: number): void {
  acknowledged.push(`${writer}:${n}`);
  if (acknowledged.length === 1) setImmediate(() => say(`a ${acknowledged.splice(0).join(' ')}`));
}

async function write(store: Store, writer: number, from: number): Promise<never> {
  for (let n = from; ; n++) {
    const writes: Write[] = [
      { key: key(writer, n), put: recordValue(writer, n), expect: 'absent' },
      { key: `last/${writer}`, put: `${n}` },
    ];
    if (n > WINDOW) writes.push({ key: key(writer, n - WINDOW), delete: true });
    const result = await store.commit(writes);
    if (!result.ok) say(`fault a conflict at ${key(writer, n)}`);
    acknowledge(writer, n);
  }
}

say('opening');
const store = await openSqliteStore({
  path: process.argv[2]!,
  log: { ...silentLog, error: (fields, message) => say(`fault ${message} ${JSON.stringify(fields)}`) },
  metrics: noMetrics,
  keptRevisions: 3000,
});
const { records, revision } = await store.list('');
say(`revision ${revision}`);
const last = check(records);
for (const [writer, n] of last) say(`have ${writer} ${n}`);
say('load');
await Promise.all(
  Array.from({ length: WRITERS }, (_, writer) => write(store, writer, (last.get(writer) ?? 0) + 1)),
);
