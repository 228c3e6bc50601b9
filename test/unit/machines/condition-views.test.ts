/** Every view says the same of a machine: a fleet with each condition is shown in all of them. */
import { expect, test } from 'vitest';
import { concernsOf } from '../../../src/api/concerns.ts';
import type { Shown } from '../../../src/api/shown.ts';
import { COLUMNS } from '../../../src/cli/documents/columns.ts';
import { CONDITIONS, type ConditionWord } from '../../../src/machines/condition.ts';
import { filtered, filterOf, rowOf } from '../../../src/page/fleet/row.ts';

const WORDS = Object.keys(CONDITIONS) as ConditionWord[];
const fleet = WORDS.map(
  (word) =>
    ({
      kind: 'Machine',
      metadata: { name: `m-${word}` },
      // Phases say something else, as they do of machines that are gone.
      status: { phase: 'ready', condition: { word } },
    }) as unknown as Shown,
);
const rows = fleet.map(rowOf);
const column = COLUMNS.Machine.find(({ heading }) => heading === 'CONDITION')!;

test.each(WORDS)('%s is the word of the list, the fleet, its filter and the concerns', (word) => {
  const machine = fleet.find(({ metadata }) => metadata.name === `m-${word}`)!;
  const { tone } = CONDITIONS[word];
  expect(column.cell(machine)).toBe(word);
  expect(rowOf(machine)).toMatchObject({ condition: word, tone });
  expect(filtered(rows, filterOf({ condition: word })).map(({ name }) => name)).toEqual([`m-${word}`]);
  const concerns = concernsOf({
    ...{ checks: [], faults: [], warnings: [], incompleteImages: [], clusters: [], waiting: 0, names: [] },
    lost: [],
    machines: [{ name: machine.metadata.name, condition: { word } }],
  });
  const isWrong = tone === 'bad' || tone === 'warn';
  expect(concerns.map(({ text }) => text.split(':')[0])).toEqual(isWrong ? [word] : []);
});

test('green is ready alone, in the list and in the fleet', () => {
  const green = fleet.filter((machine) => column.color?.(machine) === 'green');
  expect(green.map(({ metadata }) => metadata.name)).toEqual(['m-ready']);
  expect(rows.filter(({ tone }) => tone === 'good').map(({ name }) => name)).toEqual(['m-ready']);
});
