/** The YAML reader with hostile and broken texts: it quickly returns a fault with a position. */
import fc from 'fast-check';
import { dump } from 'js-yaml';
import { expect, test } from 'vitest';
import { decodeText, readYaml, YAML_LIMITS } from '../../../src/resources/yaml.ts';

/**
 * The processor time that a text takes, and its fault. The limits are generous, because the machine
 * that runs the test may be busy.
 */
function faultOf(text: string, withinMs = 2000): string {
  const started = process.cpuUsage();
  const result = readYaml(text, 'bomb.yaml');
  expect(process.cpuUsage(started).user / 1000).toBeLessThan(withinMs);
  return result.ok ? 'none' : `${result.fault.code} ${result.fault.at?.line}:${result.fault.at?.column}`;
}

const bomb = (levels: number) =>
  Array.from(
    { length: levels },
    (_, n) => `a${n}: &a${n} [${n === 0 ? '1' : `*a${n - 1}`}${(n === 0 ? ',1' : `,*a${n - 1}`).repeat(8)}]`,
  ).join('\n');

test.each([
  ['aliases that multiply', bomb(9), 'E_YAML 5:10'],
  ['many aliases of one value', `a: &a [1]\nb: [${'*a,'.repeat(100_000)}]`, /^E_YAML 2:/],
  ['an alias inside itself', 'a: &a {b: *a}', 'E_YAML 1:11'],
  ['aliases of a long list', `a: &a [${'1,'.repeat(200_000)}]\nb: *a`, 'E_YAML 2:4'],
  ['100,000 open brackets', '['.repeat(100_000), 'E_YAML 1:32'],
  ['100,000 open braces', '{a: '.repeat(100_000), /^E_YAML 1:/],
  ['deep blocks', Array.from({ length: 1000 }, (_, n) => `${' '.repeat(n)}a:`).join('\n'), /^E_YAML 3\d:/],
  ['100,000 dashes on a line', '- '.repeat(100_000), /^E_YAML 1:/],
  ['an unclosed quote of 1 MB', `a: "${'x'.repeat(1_000_000)}`, /^E_YAML/],
  ['a million anchors', '&a '.repeat(1_000_000), /^E_YAML/],
  ['a NUL', 'a: b\nc: \0', 'E_YAML 2:4'],
  ['a tag of code', 'a: !!js/function "x"', 'E_YAML 1:4'],
  ['binary', 'a: !!binary aGVsbG8=', /^E_YAML 1:/],
  ['control characters', 'a: \x07', /^E_YAML 1:/],
  ['a key twice, in different spellings', '"a": 1\na: 2', 'E_YAML 2:1'],
  ['a mapping as key', '? {a: 1}\n: 2', /^E_YAML/],
  ['a directive of another version', '%YAML 9.9\n---\na: 1', /none|E_YAML/],
])('%s end quickly', (_, text, fault) => {
  expect(faultOf(text)).toMatch(fault);
});

test('a text longer than the limit is refused without being read', () => {
  expect(faultOf(' '.repeat(YAML_LIMITS.bytes + 1), 500)).toBe('E_YAML 1:1');
});

test('100,000 empty documents and 1 MB of comments are read as no document', () => {
  expect(faultOf('---\n'.repeat(100_000))).toBe('none');
  expect(faultOf('# comment\n'.repeat(100_000))).toBe('none');
});

test('octets that are not UTF-8 are refused with their line', () => {
  const bytes = Buffer.concat([Buffer.from('a: b\nc: '), Buffer.from([0xc3, 0x28])]);
  const result = decodeText(bytes, 'latin.yaml');
  expect(result).toEqual({
    ok: false,
    fault: {
      code: 'E_YAML',
      message: 'not UTF-8; save the file as UTF-8',
      at: { file: 'latin.yaml', line: 2, column: 4 },
    },
  });
});

test('a byte order mark and CRLF line ends are accepted', () => {
  const decoded = decodeText(Buffer.from('\ufeffa: 1\r\nb:\r\n  c: x\r\n'), 'dos.yaml');
  const result = readYaml(decoded.ok ? decoded.text : '', 'dos.yaml');
  expect(result.ok && result.documents[0]?.value).toEqual({ a: 1, b: { c: 'x' } });
  expect(result.ok && result.documents[0]?.spot(['b', 'c'])).toEqual({
    file: 'dos.yaml',
    line: 3,
    column: 6,
  });
});

test('no, yes, on, 12:34:56:12:34:56 and 2024-01-01 are text; 1e3 and 0x10 are numbers', () => {
  const result = readYaml('[no, yes, on, 12:34:56:12:34:56, 2024-01-01, 1e3, 0x10, 0o17]', 'a.yaml');
  expect(result.ok && result.documents[0]?.value).toEqual([
    'no',
    'yes',
    'on',
    '12:34:56:12:34:56',
    '2024-01-01',
    1000,
    16,
    15,
  ]);
});

test('numbers and booleans whose text is not the written one are listed with their place', () => {
  const text = `a: [1.10, 0755, {b: 1_0, c: 08}]
1.10: yes
d: {e: &x 0x1F, f: *x, g: "1.10", h: !!str 1.10}
i: [True, true, -0, 12, 0.5, 1.5e3, 12345678901234567890, 2024-01-01, 12:30:00, .5]
--- # the second
- 1.0
`;
  const result = readYaml(text, 'a.yaml');
  const shown =
    result.ok && result.documents.map(({ written }) => written.map((one) => `${one.path} ${one.text}`));
  expect(shown).toEqual([
    [
      ...['a,0 1.10', 'a,1 0755', 'a,2,c 08', 'd,e 0x1F', 'd,h 1.10'],
      ...['i,0 True', 'i,2 -0', 'i,5 1.5e3', 'i,6 12345678901234567890', 'i,9 .5'],
    ],
    ['0 1.0'],
  ]);
});

test('aliases within the limits work, and positions are those of the alias', () => {
  const result = readYaml('a: &x {k: 1}\nb: *x\n', 'a.yaml');
  expect(result.ok && result.documents[0]?.value).toEqual({ a: { k: 1 }, b: { k: 1 } });
  expect(result.ok && result.documents[0]?.spot(['b', 'k'])).toMatchObject({ line: 2, column: 4 });
});

const plain = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(
      fc.string({ minLength: 1 }).filter((key) => key !== '__proto__'),
      tie('value'),
      { maxKeys: 4 },
    ),
  ),
})).value;

test('any value written as YAML is read back, in one text or several', () => {
  fc.assert(
    fc.property(
      fc.array(
        plain.filter((value) => value !== null),
        { minLength: 1, maxLength: 4 },
      ),
      (values) => {
        const text = values.map((value) => `---\n${dump(value)}`).join('');
        const result = readYaml(text, 'a.yaml');
        expect(result.ok && result.documents.map((one) => one.value)).toEqual(values);
      },
    ),
    { numRuns: 300 },
  );
});

test('every position lies inside the text and before the value', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), fc.array(fc.integer(), { minLength: 1 })),
      (value) => {
        const text = dump(value);
        const result = readYaml(text, 'a.yaml');
        if (!result.ok) throw new Error(result.fault.message);
        const lines = text.split('\n');
        for (const [key, list] of Object.entries(value))
          for (const [n, item] of list.entries()) {
            const spot = result.documents[0]!.spot([key, n]);
            expect(lines[spot.line - 1]!.slice(spot.column - 1)).toBe(String(item));
          }
      },
    ),
    { numRuns: 200 },
  );
});
