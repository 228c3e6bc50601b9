/** Reading documents: what is accepted, and the positions of faults. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Fault } from '../../../src/base/errors.ts';
import { parseDocuments, parsePath, pathText, validate } from '../../../src/resources/document.ts';
import { resourcePages } from '../../../src/resources/reference.ts';

const GOLDEN = path.join(import.meta.dirname, '../../golden/documents');

/** One line for each fault. */
const shown = (faults: readonly Fault[]): string =>
  faults
    .map((one) => `${one.at?.line}:${one.at?.column} ${one.code} ${one.path ?? '-'}: ${one.message}\n`)
    .join('');

test.for(fs.readdirSync(GOLDEN).filter((name) => name.endsWith('.yaml')))(
  'faults of %s have line, column, path and what to write instead',
  async (name) => {
    const { faults } = parseDocuments(fs.readFileSync(path.join(GOLDEN, name), 'utf8'), name);
    expect(faults.every((one) => one.at?.file === name)).toBe(true);
    await expect(shown(faults)).toMatchFileSnapshot(path.join(GOLDEN, name.replace('.yaml', '.faults')));
  },
);

const machine = (spec: string, name = 'a') =>
  `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: ${name}}\nspec: ${spec}\n`;

test.each(['1.10', '0755', '08', '1e3', '0x10', 'True', '12345678901234567890', '.5'])(
  'a variable %s keeps its text without quotes, also in a List',
  (text) => {
    const one = machine(`{macs: ["52:54:00:00:00:01"], config: {variables: {x: ${text}, y: 5}}}`);
    const list = `apiVersion: v1\nkind: List\nitems:\n- {}\n- ${one.trim().replaceAll('\n', '\n  ')}\n`;
    for (const whole of [one, list]) {
      const [found] = parseDocuments(whole, 'a.yaml').documents;
      expect(found?.document.spec).toMatchObject({ config: { variables: { x: text, y: 5 } } });
    }
  },
);

test('a number that would change where text may be meant is refused with what to write', () => {
  const read = (value: string) =>
    parseDocuments(machine(`{macs: ["52:54:00:00:00:01"], config: {sysctls: {vm.a: ${value}}}}`), 'a.yaml')
      .faults;
  expect(read('10')).toEqual([]);
  expect(shown(read('010'))).toContain('YAML reads 010 as 10; put it in quotes, or write 10');
  expect(shown(read('0x10'))).toContain('or write 16');
});

test('several documents in one text are read in order, without empty ones', () => {
  const text = `# nothing\n---\n${machine('{macs: ["52:54:00:00:00:01"]}', 'one')}---\n---\n${machine('{macs: ["52:54:00:00:00:02"]}', 'two')}...\n`;
  const { documents, faults } = parseDocuments(text, 'm.yaml');
  expect(faults).toEqual([]);
  expect(documents.map((one) => [one.document.metadata.name, one.at.line])).toEqual([
    ['one', 3],
    ['two', 9],
  ]);
});

test('a file mode without quotes is refused with the reason and the fix, at its own position', () => {
  const text = machine(`
  macs: ["52:54:00:00:00:01"]
  config:
    files:
      - path: /etc/a
        content: a
        mode: 0644`);
  const { faults } = parseDocuments(text, 'm.yaml');
  expect(shown(faults)).toBe(
    '10:15 E_SCHEMA spec.config.files[0].mode: a file mode must be a quoted string: "0644" (unquoted, YAML 1.2 reads 0644 as the decimal number 644)\n',
  );
});

test('a kernel argument that iPXE cannot pass on is refused with its document, not when a machine boots', () => {
  const text = `apiVersion: muster/v1
kind: Profile
metadata: {name: a}
spec:
  image: debian-13
  kernelArguments:
    - quiet
    - a  b
    - x && y
    - url=\${net0/mac}
`;
  const { faults } = parseDocuments(text, 'p.yaml');
  expect(shown(faults)).toBe(
    '8:7 E_SCHEMA spec.kernelArguments[1]: iPXE joins words with one blank: no blanks at the ends, none repeated\n' +
      '9:7 E_SCHEMA spec.kernelArguments[2]: iPXE takes the word "&&" for the end of the command\n' +
      '10:7 E_SCHEMA spec.kernelArguments[3]: iPXE expands `${`: it cannot be passed on\n',
  );
});

test('a loader that no loader directory can have is refused at its line', () => {
  const said = (loader: string) =>
    shown(
      parseDocuments(machine(`{macs: ["52:54:00:00:00:01"], pxe: {loader: "${loader}"}}`), 'm.yaml').faults,
    );
  for (const fits of ['snponly.efi', 'own+1_x.kpxe', 'pi.img']) expect(said(fits)).toBe('');
  for (const none of [
    '../../etc/passwd',
    'sub/own.efi',
    '.efi',
    '',
    'a b',
    'http://x/y.efi',
    'a'.repeat(128),
  ])
    expect(said(none)).toMatch(
      /^4:\d+ E_SCHEMA spec\.pxe\.loader: not the name of a file in a loader directory/,
    );
});

test('a valid document is read although another one in the text has a fault', () => {
  const text = `${machine('{macs: ["52:54:00:00:00:01"]}')}---\n${machine('{macs: []}', 'b')}`;
  const { documents, faults } = parseDocuments(text, 'm.yaml');
  expect(documents.map((one) => one.document.metadata.name)).toEqual(['a']);
  expect(shown(faults)).toBe('9:14 E_SCHEMA spec.macs: needs at least 1\n');
});

test('any usual notation of a MAC or UUID is stored in canonical form', () => {
  const text = machine(
    '{macs: ["52-54-00-AA-00-01", "5254.00aa.0002", 525400aa0003], uuid: 4C4C4544-0042-3510-8051-B7C04F4D3532}',
  );
  const { documents, faults } = parseDocuments(text, 'm.yaml');
  expect(faults).toEqual([]);
  expect(documents[0]!.document.spec).toEqual({
    macs: ['52:54:00:aa:00:01', '52:54:00:aa:00:02', '52:54:00:aa:00:03'],
    uuid: '4c4c4544-0042-3510-8051-b7c04f4d3532',
  });
});

test('a MAC that YAML reads as a number is refused with the hint to quote it', () => {
  const { faults } = parseDocuments(machine('{macs: [525400000001]}'), 'm.yaml');
  expect(faults[0]?.message).toBe('must be text, found the number 525400000001; put it in quotes');
});

test('an API body is validated like a text, without positions', () => {
  const result = validate({
    apiVersion: 'muster/v1',
    kind: 'Machine',
    metadata: { name: 'a' },
    spec: { mac: [] },
  });
  expect(result.ok).toBe(false);
  expect(!result.ok && result.faults.map((one) => [one.path, one.message, one.at])).toEqual([
    ['spec.macs', 'is missing: list of text', undefined],
    ['spec.mac', 'unknown key "mac"; did you mean "macs"?', undefined],
  ]);
});

test('__proto__ and similar keys are refused as unknown and have no effect', () => {
  const text = `${machine('{macs: ["52:54:00:00:00:01"], config: {variables: {__proto__: 1, constructor: 2}}}')}__proto__: {polluted: true}\n`;
  const { documents, faults } = parseDocuments(text, 'm.yaml');
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  expect(documents).toEqual([]);
  expect(faults.map((one) => one.message)).toEqual(
    expect.arrayContaining([expect.stringContaining('"__proto__"')]),
  );
});

test('paths are written and read back', () => {
  for (const steps of [
    ['spec', 'files', 0, 'mode'],
    ['metadata', 'labels', 'a/b "c"'],
    [0, 1],
    ['x-y', 'z'],
  ])
    expect(parsePath(pathText(steps))).toEqual(steps);
});

test('every field of every kind has a description', () => {
  // The page of all settings says where each lands; the pages of the kinds describe them.
  const pages = resourcePages().filter(([name]) => !name.endsWith('/settings.md'));
  const rows = pages.flatMap(([, text]) => text.split('\n').filter((line) => line.startsWith('| `')));
  expect(rows.filter((row) => /\| +\|$/.test(row))).toEqual([]);
  expect(rows.length).toBeGreaterThan(150);
});
