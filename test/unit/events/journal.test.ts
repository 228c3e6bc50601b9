import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { EVENT_KINDS, type MusterEvent } from '../../../src/events/event.ts';
import {
  attachEventJournal,
  type EventJournalOptions,
  readEvent,
} from '../../../src/events/journal.files.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { jsonMutants, xorshift } from '../pxe/tftp/mutate.ts';
import { withoutTraces } from '../traces.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-events-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** A server's event log with its journal; `record(n)` records n events about the machine `m`. */
async function start(more: Partial<EventJournalOptions> = {}) {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const lines: string[] = [];
  const log = {
    ...silentLog,
    info: (_: object, message: string) => void lines.push(message),
    error: (_: object, message: string) => void lines.push(message),
  };
  const events = createEventLog({ clock, log, metrics, perSubject: 100_000, subjects: 10, recent: 100_000 });
  const journal = await attachEventJournal({ events, directory, log, clock, metrics, ...more });
  const record = (count: number) => {
    for (let i = 0; i < count; i++)
      events.record({ kind: 'dhcp.ack', subject: 'm', fields: { note: 'x'.repeat(50) } });
  };
  const sequences = () => events.list({}).map((event) => event.sequence);
  const lost = async () => Number(/journal_lost_total (\d+)/.exec(await metrics.text())![1]);
  return { clock, events, journal, lines, record, sequences, lost };
}
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
const segment = (number: number) => join(directory, `events-${String(number).padStart(8, '0')}.jsonl`);

describe('the journal of events', () => {
  test('restores the events of the last process in the next one; sequence numbers continue', async () => {
    const first = await start();
    first.record(3);
    await first.journal.close();
    const second = await start();
    expect(second.events.list({})).toEqual(first.events.list({}));
    second.record(1);
    await second.journal.close();
    const third = await start();
    expect(third.sequences()).toEqual([1, 2, 3, 4]);
    expect(third.events.list({ subject: 'm', limit: 1 })[0]!.sequence).toBe(4);
    await third.journal.close();
  });

  test('writes events together, a moment after they were recorded', async () => {
    const { clock, journal, record } = await start();
    record(5);
    expect(await readdir(directory)).toEqual([]);
    clock.advance(millis(100));
    await journal.flush();
    expect((await readFile(segment(1), 'utf8')).split('\n')).toHaveLength(6);
    expect((await stat(segment(1))).mode & 0o777).toBe(0o600);
    await journal.close();
  });

  test('begins new segments and removes the oldest, so that its size is bounded', async () => {
    const { journal, record } = await start({ segmentBytes: 10_000, segments: 3 });
    for (let i = 0; i < 40; i++) {
      record(50);
      await journal.flush();
    }
    await journal.close();
    const names = await readdir(directory);
    expect(names).toHaveLength(3);
    for (const name of names) expect((await stat(join(directory, name))).size).toBeLessThan(20_000);
    const next = await start({ segmentBytes: 10_000, segments: 3 });
    const restored = next.sequences();
    expect(restored.at(-1)).toBe(2000);
    expect(restored).toEqual(upTo(2000).slice(-restored.length));
    await next.journal.close();
  });

  test('reads back only the configured number of events', async () => {
    const first = await start({ segmentBytes: 5000 });
    for (let i = 0; i < 10; i++) {
      first.record(30);
      await first.journal.flush();
    }
    await first.journal.close();
    const second = await start({ segmentBytes: 5000, restored: 100 });
    expect(second.sequences()).toEqual(upTo(300).slice(-100));
    await second.journal.close();
  });

  test('skips a line that a crash cut off, and continues after it', async () => {
    const first = await start();
    first.record(3);
    await first.journal.close();
    const text = await readFile(segment(1), 'utf8');
    await writeFile(segment(1), text.slice(0, -20));
    const second = await start();
    expect(second.sequences()).toEqual([1, 2]);
    second.record(2);
    await second.journal.close();
    const third = await start();
    expect(third.sequences()).toEqual([1, 2, 3, 4]);
    await third.journal.close();
  });

  test('skips lines that are not events', async () => {
    const event = { sequence: 7, at: 1, kind: 'dhcp.ack', subject: 'm' };
    const bad = [
      '',
      'null',
      '[]',
      '"x"',
      '{',
      '\u0000\u0000',
      JSON.stringify({ ...event, kind: 'from.a.newer.version' }),
      JSON.stringify({ ...event, kind: 'constructor' }),
      JSON.stringify({ ...event, sequence: 'x' }),
      JSON.stringify({ ...event, subject: 1 }),
    ];
    await writeFile(segment(1), [...bad, JSON.stringify(event), ...bad].join('\n'));
    await writeFile(join(directory, 'notes.txt'), 'not ours');
    const { sequences, journal } = await start();
    expect(sequences()).toEqual([7]);
    await journal.close();
    expect(await readdir(directory)).toContain('notes.txt');
  });

  test('counts lost events and logs once when the disk is full, does not disturb callers of record, and continues when there is room', async () => {
    const { journal, record, lines, lost, sequences } = await start();
    await symlink('/dev/full', segment(1));
    for (let i = 0; i < 5; i++) {
      record(10);
      await journal.flush();
    }
    expect(lines).toEqual(['events are not written to the journal']);
    expect(await lost()).toBe(50);
    expect(sequences()).toHaveLength(50);
    await journal.close();
    await unlink(segment(1));
    const next = await start();
    expect(next.lines).toEqual([]);
    await next.journal.close();
  });

  test('recovers from a failure, and logs that', async () => {
    const missing = join(directory, 'file');
    await writeFile(missing, 'in the way');
    const { journal, record, lines, lost } = await start({ directory: missing });
    record(3);
    await journal.flush();
    expect(await lost()).toBe(3);
    await unlink(missing);
    await mkdir(missing);
    record(2);
    await journal.flush();
    expect(lines).toEqual([
      'events are not written to the journal',
      'events are written to the journal again',
    ]);
    expect((await readFile(join(missing, 'events-00000001.jsonl'), 'utf8')).split('\n')).toHaveLength(3);
    await journal.close();
  });

  test('limits the events that wait to be written; further events of a flood are counted as lost', async () => {
    const { journal, record, lost } = await start();
    record(50_000);
    await journal.flush();
    expect(await lost()).toBe(30_000);
    record(10);
    await journal.close();
    expect(await lost()).toBe(30_000);
    const next = await start();
    expect(next.events.list({ limit: 1 })[0]!.sequence).toBe(50_010);
    await next.journal.close();
  });
});

test('200,000 broken lines are read as events or skipped', () =>
  withoutTraces(() => {
    const seed = 0x0e7e0001;
    console.log(`event journal fuzz seed ${seed}`);
    const plain: MusterEvent = { sequence: 7, at: millis(1), kind: 'dhcp.ack', subject: 'm' };
    const full: MusterEvent = {
      ...plain,
      session: 's',
      network: 'rack',
      reason: { code: 'c', text: 't' },
      fields: { a: 'x', b: 1, c: true },
    };
    for (const event of [plain, full]) expect(readEvent(JSON.stringify(event))).toEqual([event]);
    const line = jsonMutants([plain, full], xorshift(seed));
    let read = 0;
    for (let n = 0; n < 200_000; n++) {
      for (const { at, kind, subject, session, network, reason, fields } of readEvent(line())) {
        read++;
        // Formats the event like the code that prints it.
        EVENT_KINDS[kind].trim();
        new Date(at).getTime();
        for (const text of [subject, session ?? '', network ?? '', reason?.code ?? '', reason?.text ?? ''])
          text.trim();
        for (const value of Object.values(fields ?? {})) if (typeof value === 'object') throw new Error(kind);
      }
    }
    expect(read).toBeGreaterThan(1000);
  }));
