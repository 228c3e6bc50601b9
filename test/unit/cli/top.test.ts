/** `muster top` draws a screen that fits its terminal. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Shown } from '../../../src/api/shown.ts';
import { type Fleet, screen } from '../../../src/cli/serve/top.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const machine = (name: string, word: string): Shown =>
  ({ metadata: { name }, spec: { macs: [] }, status: { condition: { word } } }) as unknown as Shown;
const FLEET = {
  status: { version: '1', concerns: [], checked: { machines: 0, clusters: [] } },
  changes: [],
  machines: [
    ...Array.from({ length: 30 }, (_, n) => machine(`m${n}`, 'ready')),
    machine('z', 'silent'),
    machine('y', 'held'),
  ],
  at: '2026-11-28T12:00:00Z',
} as unknown as Fleet;
const plain = { columns: 60, color: false };

test('the worst machines come first, and what does not fit is counted', () => {
  const lines = screen(FLEET, plain, 10);
  expect(lines).toHaveLength(10);
  expect(lines[0]).toMatch(/muster 1: all is well$/);
  expect(lines[1]).toBe('32 machines: 1 silent, 1 held, 30 ready');
  expect(lines.slice(4, 7).map((line) => line.split(' ')[0])).toEqual(['z', 'y', 'm0']);
  expect(lines.at(-1)).toBe('… and 27 more');
});

test('what needs an operator fits the width, and steers no terminal', () => {
  const concerns = Array.from({ length: 7 }, (_, n) => ({
    level: 'urgent',
    subject: `m${n}`,
    text: `\x1b[2J${'a'.repeat(99)}`,
  }));
  const lines = screen({ ...FLEET, status: { ...FLEET.status, concerns } } as unknown as Fleet, plain, 24);
  expect(lines.every((line) => line.length <= 60 && !line.includes('\x1b'))).toBe(true);
  expect(lines).toContain('… and 2 more');
  expect(lines).toHaveLength(24);
});

test('a change says where it is, and what it waits for', () => {
  const changes = [
    {
      cluster: 'blue',
      kind: 'upgrade',
      step: 'machines',
      back: false,
      steps: [{ state: 'done' }, { state: 'now' }, { state: 'next' }],
      waiting: { m1: 'it restarts', m2: 'it waits' },
    },
  ];
  expect(screen({ ...FLEET, changes } as unknown as Fleet, { ...plain, columns: 100 }, 24)).toContain(
    'blue: upgrade, at machines (1 of 3 steps); waits for m1 and 1 more: it restarts',
  );
});

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS);
});
afterEach(() => world.close());

test('without a terminal it is printed once', async () => {
  const { code, out } = await run(['top'], { socket: world.socket });
  expect(code).toBe(0);
  expect(out).toMatch(/ muster .*\n\d+ machines?[:\n]/);
  expect(out).toContain('NAME');
  expect(out).not.toContain('\x1b');
});

test('on a terminal it is drawn until a signal, and the terminal is left as it was', async () => {
  const stop = new AbortController();
  let looks = 0;
  const { code, out } = await run(['top', '--interval', '1s'], {
    socket: world.socket,
    columns: 80,
    rows: 20,
    signal: stop.signal,
    onPause: (wait) => {
      expect(wait).toBeGreaterThanOrEqual(1000);
      if (++looks === 2) stop.abort();
    },
  });
  expect(code).toBe(0);
  expect(out.split('\x1b[H')).toHaveLength(3);
  expect(out.startsWith('\x1b[?1049h')).toBe(true);
  expect(out.endsWith('\x1b[?1049l')).toBe(true);
});

test('an interval that is none, and a malformed selector, are refused', async () => {
  expect((await run(['top', '--interval', 'soon'], { socket: world.socket })).err).toContain('E_USAGE');
  expect((await run(['top', '-l', '=,'], { socket: world.socket })).err).toContain('E_USAGE');
});
