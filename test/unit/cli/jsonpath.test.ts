/** `-o jsonpath=` reads templates as kubectl does. */
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { jsonPath } from '../../../src/cli/documents/jsonpath.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const LIST = {
  kind: 'List',
  items: [
    {
      metadata: { name: 'a', labels: { 'example.com/rack': 'r1' } },
      spec: { macs: ['m1', 'm2'], cpus: 4 },
      status: { ready: true },
    },
    { metadata: { name: 'b' }, spec: { macs: ['m3'], cpus: 8 } },
  ],
};

test.each([
  // The examples of kubectl's manual, with this list.
  ['{.kind}', 'List'],
  ['{$.kind} {@.kind}', 'List List'],
  ["{['kind']}", 'List'],
  ['{.items[*].metadata.name}', 'a b'],
  ['{.items[0]}', JSON.stringify(LIST.items[0])],
  ['{.items[-1].metadata.name}', 'b'],
  ['{.items[0:1].metadata.name}', 'a'],
  ['{.items[1:].metadata.name}', 'b'],
  ['{.items[*].spec.macs[*]}', 'm1 m2 m3'],
  ['{.items[?(@.metadata.name=="b")].spec.macs[0]}', 'm3'],
  ['{.items[?(@.metadata.name!="b")].spec.cpus}', '4'],
  ["{.items[?(@.spec.cpus==8)]['metadata']['name']}", 'b'],
  ['{.items[?(@.status)].metadata.name}', 'a'],
  ['{range .items[*]}[{.metadata.name}, {.spec.cpus}] {end}', '[a, 4] [b, 8] '],
  ['{range .items[*]}{.metadata.name}{"\\t"}{.spec.macs[0]}{"\\n"}{end}', 'a\tm1\nb\tm3\n'],
  ["{range .items[*]}{.metadata.name}{'\\n'}{end}", 'a\nb\n'],
  ['{range .items[*]}{range .spec.macs[*]}{@};{end}{end}', 'm1;m2;m3;'],
  ['{.items[0].metadata.labels.example\\.com/rack}', 'r1'],
  ['{.items[*].status.ready}{"}"}', 'true}'],
  ['{.nothing.there}', ''],
  ['.kind', 'List'],
  ['kind', 'List'],
  ['{.constructor}{.items.length}', ''],
])('%s', (template, text) => {
  expect(jsonPath(template)(LIST)).toBe(text);
});

test.each([
  ['{.items', 'has no closing brace'],
  ['{range .items[*]}{.metadata.name}', '{range} without {end}'],
  ['{end}', '{end} without {range}'],
  ['{..name}', '`..`'],
  ['{.items[0,1]}', 'several indices'],
  ['{.items[x]}', 'no step of a path'],
  ['{"open}', 'has no closing brace'],
])('%s is refused: %s', (template, why) => {
  expect(() => jsonPath(template)).toThrow(why);
});

test('any template is filled or refused with E_USAGE', () => {
  const piece = fc.constantFrom(
    ...[
      '{',
      '}',
      '.',
      '[',
      ']',
      '*',
      '"',
      "'",
      '\\',
      'items',
      'range ',
      'end',
      '?(@',
      '==',
      '0',
      '-1',
      ':',
      '$',
    ],
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      try {
        expect(typeof jsonPath(pieces.join(''))(LIST)).toBe('string');
      } catch (error) {
        expect(error).toBeInstanceOf(MusterError);
        expect((error as MusterError).code).toBe('E_USAGE');
      }
    }),
    { numRuns: 20_000 },
  );
});

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS);
});
afterEach(() => world.close());

test('it prints what `get -o json` would print, and refuses what is no template before it asks', async () => {
  const get = (...words: string[]) => run(['get', ...words], { socket: world.socket });
  const { items } = JSON.parse((await get('machines', '-o', 'json')).out) as {
    items: { metadata: { name: string } }[];
  };
  const names = await get('machines', '-o', 'jsonpath={range .items[*]}{.metadata.name}{"\\n"}{end}');
  expect(names).toMatchObject({ code: 0, out: items.map(({ metadata }) => `${metadata.name}\n`).join('') });
  const { name } = items[0]!.metadata;
  expect((await get('machine', name, '-o', 'jsonpath={.metadata.name}')).out).toBe(name);
  expect(await get('machines', '-o', 'jsonpath={.x')).toMatchObject({ code: 2, out: '' });
  expect((await get('machines', '-w', '-o', 'jsonpath={.x}')).err).toContain('E_USAGE');
  expect((await get('machines', '-o', 'jsonpth={.x}')).err).toContain('Allowed choices');
});
