/** The list of machines: rows, filters, orders, racks. */
import { expect, test } from 'vitest';
import type { Shown } from '../../../src/api/shown.ts';
import { filtered, filterOf, racksOf, rowOf, sorted, troubleOf } from '../../../src/page/fleet/row.ts';

const shown = (name: string, more: object = {}, labels: object = {}): Shown =>
  ({
    apiVersion: 'muster/v1',
    kind: 'Machine',
    metadata: { name, labels },
    spec: { macs: ['52:54:00:aa:00:01'], profile: 'node', addresses: ['10.0.0.1'] },
    status: {
      phase: 'ready',
      since: '2026-11-26T00:00:00.000Z',
      bootsWithoutReady: 0,
      seen: { macs: [] },
      ...more,
    },
  }) as unknown as Shown;

const rows = [
  shown(
    'node-10',
    {
      member: { cluster: 'blue', role: 'worker' },
      phase: 'held',
      condition: { word: 'held' },
      reason: { code: 'boot_loop', text: 'It booted too often.' },
    },
    { rack: 'a', unit: '2' },
  ),
  shown('node-9', { condition: { word: 'ready' } }, { rack: 'b', unit: '1' }),
  shown(
    'node-1',
    { member: { cluster: 'blue', role: 'control plane' }, condition: { word: 'booting' } },
    { rack: 'a', unit: '10' },
  ),
].map((one) => rowOf(one));
const names = (list: readonly { readonly name: string }[]): string[] => list.map(({ name }) => name);

test('machines are in the order of the numbers in their names', () => {
  expect(names(sorted([...rows], 'name', false))).toEqual(['node-1', 'node-9', 'node-10']);
  expect(names(sorted([...rows], 'condition', false))).toEqual(['node-10', 'node-1', 'node-9']);
});

test('a filter finds words, labels, conditions, clusters, and machines that need attention', () => {
  const find = (query: Record<string, string>) => names(filtered(rows, filterOf(query)));
  expect(find({ find: 'rack=a' })).toEqual(['node-10', 'node-1']);
  expect(find({ find: 'RACK=A boot_loop' })).toEqual(['node-10']);
  expect(find({ condition: 'ready' })).toEqual(['node-9']);
  expect(find({ cluster: 'blue' })).toEqual(['node-10', 'node-1']);
  expect(find({ cluster: '-' })).toEqual(['node-9']);
  expect(find({ trouble: 'yes' })).toEqual(['node-10']);
});

test('a machine that is silent is red and needs attention, whatever it reported at its boot', () => {
  const silent = rowOf(
    shown('node-2', { condition: { word: 'silent', silentSince: '2026-11-26T01:00:00.000Z' } }),
  );
  expect(silent).toMatchObject({
    condition: 'silent',
    tone: 'bad',
    trouble: { code: 'silent', tone: 'bad' },
  });
  expect(silent.trouble?.text).toContain('2026-11-26T01:00:00.000Z');
});

test('a rack shows its highest unit first', () => {
  expect(racksOf(rows).map(({ name, rows: inside }) => [name, names(inside)])).toEqual([
    ['a', ['node-1', 'node-10']],
    ['b', ['node-9']],
  ]);
});

test('an alarm comes before everything else that needs attention', () => {
  const status = {
    alarm: { code: 'two', text: 'Two systems.', at: '' },
    reason: { code: 'boot_loop', text: '' },
  } as unknown as Shown['status'];
  expect(troubleOf(status)).toMatchObject({ code: 'two', tone: 'bad' });
});
