/** The journal of events on a file system that fills in the middle of a line. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { attachEventJournal } from '../../src/events/journal.files.ts';
import { createEventLog } from '../../src/events/log.ts';

const MOUNT = '/run/muster-journal-test';
const FILLER = `${MOUNT}/filler`;

beforeAll(() => {
  mkdirSync(MOUNT);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', MOUNT]);
});
afterAll(() => {
  execFileSync('umount', [MOUNT]);
});

const start = async () => {
  const log = silentLog;
  const clock = systemClock;
  const events = createEventLog({ metrics: createMetrics(), clock, log, perSubject: 10_000, subjects: 10 });
  const journal = await attachEventJournal({
    metrics: createMetrics(),
    events,
    directory: `${MOUNT}/events`,
    log,
    clock,
  });
  return { events, journal };
};

test('events from before the disk was full and after it had room again are read back complete', async () => {
  writeFileSync(FILLER, Buffer.alloc(150 * 1024));
  const first = await start();
  const record = (count: number) => {
    for (let i = 0; i < count; i++) first.events.record({ kind: 'dhcp.ack', subject: 'm' });
  };
  for (let i = 0; i < 10; i++) {
    record(300);
    await first.journal.flush();
  }
  rmSync(FILLER);
  record(10);
  await first.journal.close();
  const second = await start();
  const sequences = second.events.list({}).map((event) => event.sequence);
  expect(sequences.slice(0, 300)).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
  expect(sequences.slice(-10)).toEqual(Array.from({ length: 10 }, (_, i) => 3001 + i));
  expect(sequences.length).toBeLessThan(3000);
  await second.journal.close();
});
