import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createActing } from '../../../src/events/actor.ts';
import { type ChainPlace, readEntry } from '../../../src/events/audit-chain.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { LIMIT_WINDOW } from '../../../src/events/security.ts';
import { openSecurityLog, type SecurityLogOptions } from '../../../src/events/security-log.files.ts';
import { testKey, verdictOf } from './audit-kit.ts';

let directory: string;
let stored: { head: ChainPlace | undefined };
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'muster-audit-')), 'audit');
  stored = { head: undefined };
});
afterEach(() => rm(join(directory, '..'), { recursive: true, force: true }));

const key = testKey();

/** A server's events with their security log. */
async function start(more: Partial<SecurityLogOptions> = {}) {
  const clock = new ManualClock();
  const metrics = createMetrics();
  const lines: string[] = [];
  const log = { ...silentLog, error: (_: object, message: string) => void lines.push(message) };
  const acting = createActing();
  const events = createEventLog({
    metrics: createMetrics(),
    clock,
    log,
    acting,
    perSubject: 10,
    subjects: 1_000,
  });
  const security = await openSecurityLog({
    directory,
    key,
    head: {
      get: async () => stored.head,
      put: async (place) => {
        stored.head = place;
      },
    },
    events,
    clock,
    log,
    metrics,
    ...more,
  });
  const applied = (count: number, subject = 'Machine/m') => {
    for (let n = 0; n < count; n++)
      events.record({ kind: 'document.applied', subject, fields: { note: 'x'.repeat(200) } });
  };
  return { clock, metrics, lines, acting, events, security, applied };
}

const segments = async () => (await readdir(directory)).sort();
const textOf = async () =>
  (await Promise.all((await segments()).map((name) => readFile(join(directory, name), 'utf8')))).join('');
const linesOf = async () => (await textOf()).split('\n').slice(0, -1);
const entries = async () =>
  (await linesOf()).map((line) => {
    const read = readEntry(line);
    if (!read.ok) throw new Error(read.text);
    return read.entry;
  });
const verdict = async () =>
  verdictOf(await linesOf(), key.keys, stored.head === undefined ? [] : [stored.head]);

describe('the security log on the disk', () => {
  test('takes security events with who caused them, and no others', async () => {
    const { events, security, acting, applied } = await start();
    events.record({ kind: 'dhcp.ack', subject: 'm' });
    applied(1);
    const actor = { uid: 1000, user: 'anna', pid: 77 };
    await acting.run(actor, async () => {
      await Promise.resolve();
      events.record({ kind: 'machine.accepted', subject: 'm' });
    });
    await security.durable();
    expect((await entries()).map((entry) => [entry.kind, entry.actor])).toEqual([
      ['audit.opened', undefined],
      ['audit.checkpoint', undefined],
      ['document.applied', undefined],
      ['machine.accepted', actor],
    ]);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, (await segments())[0]!))).mode & 0o777).toBe(0o600);
    await security.close();
    expect(await verdict()).toMatchObject({ ok: true, signedTo: 4, notes: [] });
  });

  test('what a request leaves behind runs in nobody’s name', async () => {
    const { events, security, acting, clock } = await start();
    await acting.run({ user: 'anna' }, async () => {
      setImmediate(() => events.record({ kind: 'cluster.rollout', subject: 'late' }));
    });
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    clock.advance(duration('1s'));
    await security.close();
    expect((await entries()).find(({ subject }) => subject === 'late')?.actor).toBeUndefined();
  });

  test('continues over restarts in one chain, and signs each time when it begins and ends', async () => {
    for (let n = 1; n <= 3; n++) {
      const { security, applied } = await start();
      applied(2);
      await security.close();
    }
    expect((await entries()).map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: 15 }, (_, n) => n + 1),
    );
    expect(await verdict()).toMatchObject({ ok: true, entries: 15, checkpoints: 6, notes: [] });
  });

  test('is signed every minute in which something happened', async () => {
    const { security, applied, clock } = await start();
    applied(1);
    clock.advance(duration('1m'));
    await security.durable();
    expect(security.status().checkpoint?.sequence).toBe(3);
    clock.advance(duration('5m'));
    await security.durable();
    expect(security.status().head?.sequence).toBe(4);
    await security.close();
  });

  test('an incomplete last line is removed at the next start, and an entry says so', async () => {
    const first = await start();
    first.applied(3);
    await first.security.close();
    const [name] = await segments();
    await appendFile(join(directory, name!), (await linesOf())[3]!.slice(0, 100));
    const second = await start();
    await second.security.close();
    expect((await entries()).map(({ kind }) => kind).slice(6)).toEqual([
      'audit.torn',
      'audit.opened',
      'audit.checkpoint',
    ]);
    expect(await verdict()).toMatchObject({ ok: true });
  });

  test('a log that was cut while the server was down raises an alarm, and stays a fault', async () => {
    const first = await start();
    first.applied(20);
    await first.security.close();
    const path = join(directory, (await segments())[0]!);
    await writeFile(path, `${(await linesOf()).slice(0, 10).join('\n')}\n`);
    const second = await start();
    await second.security.close();
    expect(second.lines).toEqual([expect.stringContaining('it ends with entry 10, and entry 22 existed')]);
    expect((await entries()).at(-2)).toMatchObject({ kind: 'audit.alarm', reason: { code: 'log_cut' } });
    expect((await verdict()).problems).toMatchObject([{ code: 'missing', sequence: 11 }]);
  });

  test('a log that was removed is noticed in the same way', async () => {
    const first = await start();
    first.applied(2);
    await first.security.close();
    await rm(directory, { recursive: true });
    const second = await start();
    await second.security.close();
    expect((await verdict()).problems).toMatchObject([{ code: 'missing', sequence: 1 }]);
  });

  test('lines that cannot be read raise an alarm, and the log continues in a new segment', async () => {
    const first = await start();
    first.applied(2);
    await first.security.close();
    await appendFile(join(directory, (await segments())[0]!), 'something else\n');
    const second = await start();
    await second.security.close();
    expect(await segments()).toHaveLength(2);
    expect(second.lines).toEqual([expect.stringContaining('cannot be read')]);
    expect((await verdict()).problems.map(({ code }) => code)).toContain('unreadable');
  });

  test('beyond its limit the oldest segments go, each after an entry that names it', async () => {
    const { security, applied } = await start({ limitBytes: 100_000, segmentBytes: 10_000 });
    for (let n = 0; n < 100; n++) {
      applied(10);
      await security.durable();
    }
    await security.close();
    const size = (await textOf()).length;
    expect(size).toBeLessThan(115_000);
    expect(size).toBeGreaterThan(80_000);
    const found = await verdict();
    expect(found).toMatchObject({ ok: true, notes: [expect.stringContaining('were removed by rotation')] });
    expect(found.first).toBeGreaterThan(500);
    await rm(join(directory, (await segments())[0]!));
    expect((await verdict()).problems).toMatchObject([{ code: 'missing', sequence: 1 }]);
  });

  test('a segment that was damaged and then removed by rotation stays a fault', async () => {
    const { security, applied } = await start({ limitBytes: 40_000, segmentBytes: 10_000 });
    const step = async () => {
      applied(10);
      await security.durable();
    };
    while ((await segments()).length < 2) await step();
    const oldest = (await segments())[0]!;
    await truncate(join(directory, oldest), 5_000);
    while ((await segments()).includes(oldest)) await step();
    await security.close();
    expect((await verdict()).problems).toMatchObject([{ code: 'missing', sequence: 1 }]);
  });

  test('refusals that anybody can cause are limited, and an entry says how many were left out', async () => {
    const { security, events, clock } = await start();
    for (let n = 0; n < 50_000; n++)
      events.record({
        kind: 'agent.refused',
        subject: `10.0.${n % 200}.1`,
        reason: { code: 'x', text: 'x' },
      });
    events.record({ kind: 'operator.action', subject: 'm' });
    clock.advance(LIMIT_WINDOW);
    await security.close();
    const found = await entries();
    expect(found.filter(({ kind }) => kind === 'agent.refused')).toHaveLength(300);
    expect(found.filter(({ kind }) => kind === 'operator.action')).toHaveLength(1);
    expect(found.find(({ kind }) => kind === 'audit.limited')).toMatchObject({
      subject: 'agent.refused',
      fields: { count: 49_700 },
    });
  });

  test('a flood of refusals that lasts for days takes few megabytes of the log, and no order of an operator is left out', async () => {
    const { security, events, clock } = await start();
    for (let n = 0; n < 3 * 24 * 6; n++) {
      for (let m = 0; m < 400; m++)
        events.record({
          kind: 'operator.refused',
          subject: `10.0.${m % 200}.1`,
          reason: { code: 'x', text: 'x' },
        });
      events.record({ kind: 'operator.action', subject: 'm' });
      clock.advance(LIMIT_WINDOW);
    }
    await security.close();
    const found = await entries();
    expect(found.filter(({ kind }) => kind === 'operator.action')).toHaveLength(3 * 24 * 6);
    const refused = found.filter(({ kind }) => kind === 'operator.refused').length;
    expect(refused).toBeGreaterThan(3 * 1_900);
    expect(refused).toBeLessThanOrEqual(4 * 2_000);
  });

  test('a disk that takes nothing stops nothing, and what waited is written later in one chain', async () => {
    await writeFile(directory, 'in the way');
    const { security, applied, lines, clock } = await start();
    applied(5);
    expect(await security.durable()).toBe(false);
    expect(security.status().failing).toBe(true);
    expect(lines[0]).toBe('the security log is not written');
    await rm(directory);
    await mkdir(directory);
    clock.advance(duration('2s'));
    expect(await security.durable()).toBe(true);
    await security.close();
    expect(await verdict()).toMatchObject({ ok: true, entries: 7 });
  });

  test('entries beyond what memory holds are counted, and an entry says how many', async () => {
    await writeFile(directory, 'in the way');
    const { security, applied, metrics } = await start();
    applied(20_007);
    expect(await metrics.text()).toContain('muster_audit_lost_total 7');
    await rm(directory);
    expect(await security.durable()).toBe(true);
    await security.close();
    expect((await entries()).find(({ kind }) => kind === 'audit.lost')).toMatchObject({
      fields: { count: 7 },
    });
    expect(await verdict()).toMatchObject({ ok: true });
  });

  test('lists and follows the newest entries', async () => {
    const { security, applied } = await start();
    const seen: number[] = [];
    const end = security.subscribe(({ sequence }) => void seen.push(sequence));
    applied(4);
    end();
    applied(1);
    expect(seen).toEqual([3, 4, 5, 6]);
    const numbers = (filter: object) => security.list(filter).map(({ sequence }) => sequence);
    expect(numbers({ limit: 2 })).toEqual([6, 7]);
    expect(numbers({ after: 2, limit: 2 })).toEqual([3, 4]);
    await security.close();
  });
});
