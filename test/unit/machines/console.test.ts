import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics, type Metrics } from '../../../src/base/metrics.ts';
import { type Consoles, KEPT_BOOTS, openConsoles } from '../../../src/machines/console.files.ts';
import { consolePart, MAX_LINE } from '../../../src/machines/console.ts';
import { Space } from '../../../src/machines/space.ts';

const boot = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const read = (lines: string, secrets?: readonly string[]) =>
  consolePart({ boot: boot(1), lines }, secrets).lines;

test('escape sequences, control characters and overlong lines do not reach an operator’s terminal', () => {
  expect(read('\u001b[2J\u001b]0;title\u0007a\u0008b\u202ec\r\n\n\tindented\n\ufffd')).toEqual([
    'abc',
    '\tindented',
    '\ufffd',
  ]);
  expect(read('x'.repeat(5000))).toEqual(['x'.repeat(MAX_LINE)]);
});

test('secrets are hidden: the boot session of the kernel’s command line, tokens, passwords', () => {
  const session = 'AbCdEfGhIjKlMnOpQrStUv';
  expect(
    read(
      [
        `Command line: BOOT_IMAGE=/boot/vmlinuz muster.url=http://10.77.0.1:8080/boot/${session} quiet`,
        `could not report 'kernel' to http://10.77.0.1:8080/boot/${session}`,
        `it is ${session}`,
        'join abcdef.0123456789abcdef, api_token=x Authorization: Bearer abc',
      ].join('\n'),
      [session],
    ),
  ).toEqual([
    'Command line: BOOT_IMAGE=/boot/vmlinuz muster.url=[hidden] quiet',
    "could not report 'kernel' to http://10.77.0.1:8080/boot/[hidden]",
    'it is [hidden]',
    'join [hidden], api_token=[hidden] Authorization: Bearer [hidden]',
  ]);
});

test('a form without the kernel’s boot id, or with too much, is refused', () => {
  expect(() => consolePart({ boot: '../x', lines: '' })).toThrow(/boot id/);
  expect(() => consolePart({ boot: boot(1), lines: 'x'.repeat(33 * 1024) })).toThrow(/at most/);
});

let state: string;
let directory: string;
let consoles: Consoles;
const clock = new ManualClock();
const roster = new Map(['node-1', 'node-2', 'node-3'].map((name) => [name, {}]));
const open = (more: { mostOctets?: number; metrics?: Metrics } = {}): Promise<Consoles> =>
  openConsoles({ state, clock, log: silentLog, metrics: createMetrics(), roster, ...more });
const take = (n: number, ...lines: string[]) => consoles.take('node-1', { boot: boot(n), lines });

beforeEach(async () => {
  state = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-console-'));
  directory = path.join(state, 'console');
  consoles = await open();
});
afterEach(() => fs.rmSync(state, { recursive: true }));

test('lines are numbered in each boot and are there after a restart', async () => {
  await Promise.all([take(1, 'one', 'two'), take(1, 'three')]);
  await take(2, 'another boot');
  fs.mkdirSync(path.join(directory, 'gone', boot(1)), { recursive: true });
  consoles = await open();
  await take(1, 'four');
  expect(await consoles.lines('node-1', boot(1), 1)).toEqual([
    { number: 2, text: 'two' },
    { number: 3, text: 'three' },
    { number: 4, text: 'four' },
  ]);
  expect(await consoles.lines('node-1', '../../x', 0)).toEqual([]);
  expect(fs.readdirSync(directory)).toEqual(['node-1']);
});

test('of a boot that prints much, the beginning and the end are kept', async () => {
  const line = 'x'.repeat(900);
  for (let n = 0; n < 24; n++) {
    await take(1, ...Array.from({ length: 33 }, (_, at) => `${n * 33 + at + 1} ${line}`));
    clock.advance(duration('5s'));
  }
  const lines = await consoles.lines('node-1', boot(1), 0);
  expect(lines).toHaveLength(8 * 2 * 33);
  expect(lines[0]!.number).toBe(1);
  expect(lines.at(-1)!.number).toBe(24 * 33);
  for (const { number, text } of lines) expect(text).toBe(`${number} ${line}`);
});

test('the last boots are kept, and a machine that sends too much has to wait', async () => {
  for (let n = 1; n <= KEPT_BOOTS + 2; n++) {
    await take(n, 'a line');
    // The order of boots is that of their files' times.
    fs.utimesSync(path.join(directory, 'node-1', boot(n), '00000001'), n, n);
  }
  expect((await consoles.boots('node-1')).map(({ id }) => id)).toEqual([boot(5), boot(4), boot(3)]);
  const answers = await Promise.all(Array.from({ length: 40 }, () => take(5, 'more')));
  expect(answers.filter(Boolean)).toHaveLength(27);
  expect(await consoles.take('unknown', { boot: boot(1), lines: ['x'] })).toBe(false);
});

test('all machines together have a limit: the boots that were silent the longest make room', async () => {
  const metrics = createMetrics();
  const mostOctets = 3000;
  consoles = await open({ mostOctets, metrics });
  const send = (machine: string, n: number) =>
    consoles.take(machine, { boot: boot(n), lines: ['x'.repeat(899)] });
  const kept = async () => {
    const all = await Promise.all([...roster.keys()].map((name) => consoles.boots(name)));
    return all.map((boots) => boots.map(({ id }) => Number(id.slice(-1))).sort());
  };
  for (const [machine, n] of [
    ['node-1', 1],
    ['node-2', 2],
    ['node-3', 3],
  ] as const) {
    await send(machine, n);
    // What was written before a restart has its order from the times of its files.
    fs.utimesSync(path.join(directory, machine, boot(n), '00000001'), n, n);
  }
  await send('node-1', 1);
  expect(await kept()).toEqual([[1], [], [3]]);
  expect(await metrics.text()).toMatch(/^muster_console_bytes\{of="system"\} 2700$/m);
  expect(await metrics.text()).toMatch(/^muster_console_boots_removed_total\{of="system"\} 1$/m);
  consoles = await open({ mostOctets: 2000, metrics });
  expect(await kept()).toEqual([[1], [], []]);
  await Promise.all([send('node-1', 4), send('node-2', 5), send('node-3', 6)]);
  expect((await kept()).flat()).toHaveLength(2);
});

test('however lines come, the limit holds, and what is counted is what the disk has', () => {
  const space = new Space(100);
  const disk = new Map<string, number>();
  const act = fc.record({
    machine: fc.constantFrom('a', 'b', 'c'),
    boot: fc.constantFrom('1', '2', '3'),
    octets: fc.integer({ min: 1, max: 60 }),
  });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
      for (const { machine, boot, octets } of acts) {
        const one = `${machine}/${boot}`;
        space.set(one, octets);
        disk.set(one, octets);
        for (const gone of space.takeTooMuch()) disk.delete(gone);
        const sum = [...disk.values()].reduce((all, size) => all + size, 0);
        expect(space.octets).toBe(sum);
        expect(sum).toBeLessThanOrEqual(100);
        expect(disk.has(one)).toBe(true);
      }
    }),
  );
});
