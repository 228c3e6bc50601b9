import { describe, expect, it } from 'vitest';
import { spanText } from '../../../src/base/duration.ts';
import { type ErrorCode, MusterError } from '../../../src/base/errors.ts';
import { unifiedDiff } from '../../../src/cli/documents/diff.ts';
import { errorText, exitCodeOf } from '../../../src/cli/io.ts';
import { kindAndNames, kindNamed, otherListNamed } from '../../../src/cli/names.ts';
import { type Column, formatOf, orderOf, tableText, yamlText } from '../../../src/cli/output.ts';

describe('tables', () => {
  const columns: readonly Column<{ readonly name: string; readonly note?: string }>[] = [
    { heading: 'NAME', cell: (item) => item.name },
    { heading: 'NOTE', cell: (item) => item.note },
    { heading: 'LENGTH', wide: true, cell: (item) => item.name.length },
  ];

  it('pads columns by three spaces, shows <none> for nothing, and hides wide columns', () => {
    expect(tableText(columns, [{ name: 'node-1', note: 'x' }, { name: 'n' }])).toBe(
      'NAME     NOTE\nnode-1   x\nn        <none>\n',
    );
    expect(tableText(columns, [{ name: 'n' }], { wide: true, headings: true })).toBe(
      'NAME   NOTE     LENGTH\nn      <none>   1\n',
    );
  });

  it('keeps control characters that a machine sent away from the terminal', () => {
    expect(tableText(columns, [{ name: 'a\x1b[31mb\n' }])).toContain('a?[31mb?');
  });

  it.for([
    [0, '0s'],
    [119_999, '119s'],
    [120_000, '2m'],
    [185_000, '3m5s'],
    [600_000, '10m'],
    [10_800_000, '3h'],
    [5 * 3_600_000 + 60_000, '5h1m'],
    [47 * 3_600_000, '47h'],
    [49 * 3_600_000, '2d1h'],
    [30 * 86_400_000, '30d'],
    [-5, '0s'],
  ] as const)('shows %i ms as %s, as kubectl does', ([span, text]) => {
    expect(spanText(span)).toBe(text);
  });
});

describe('YAML and formats', () => {
  it('prints what YAML 1.2 would misread in quotes', () => {
    expect(yamlText({ mode: '0644', list: [], nothing: undefined })).toBe("mode: '0644'\nlist: []\n");
  });

  it('names the formats when another one is asked for', () => {
    expect(() => formatOf('xml', ['json', 'yaml'], 'json')).toThrow('-o xml: the formats are json, yaml');
    expect(formatOf(undefined, ['json', 'yaml'], 'json')).toBe('json');
  });
});

describe('names of kinds', () => {
  it.for([
    ['machines', 'Machine'],
    ['machine', 'Machine'],
    ['m', 'Machine'],
    ['Machine', 'Machine'],
    ['net', 'Network'],
    ['prof', 'Profile'],
    ['pods', undefined],
  ] as const)('reads %s as %s', ([text, kind]) => {
    expect(kindNamed(text)).toBe(kind);
  });

  it('knows lists that are no documents', () => {
    expect(otherListNamed('lease')).toBe('leases');
    expect(otherListNamed('ev')).toBe('events');
    expect(otherListNamed('machines')).toBeUndefined();
  });

  it('takes KIND NAME… and KIND/NAME…, one kind at a time', () => {
    expect(kindAndNames(['machine', 'a', 'b'])).toEqual({ kind: 'machine', names: ['a', 'b'] });
    expect(kindAndNames(['machine/a', 'm/b'])).toEqual({ kind: 'machine', names: ['a', 'b'] });
    expect(() => kindAndNames(['machine/a', 'net/b'])).toThrow('one kind');
    expect(() => kindAndNames(['machine/'])).toThrow('KIND/NAME');
    expect(() => kindAndNames(['machine/a', 'b'])).toThrow('KIND/NAME');
  });
});

describe('diff', () => {
  const lines = (text: string): string => text.replace(/./g, '$&\n');

  it('is empty for equal texts', () => {
    expect(unifiedDiff(lines('abc'), lines('abc'), 'a', 'b')).toBe('');
  });

  it('shows three lines around a change, with line numbers as diff -u has them', () => {
    expect(unifiedDiff(lines('abcdefgh'), lines('abcdXfgh'), 'old', 'new')).toBe(
      '--- old\n+++ new\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n',
    );
  });

  it('shows a new text as additions only', () => {
    expect(unifiedDiff('', lines('ab'), '/dev/null', 'new')).toBe(
      '--- /dev/null\n+++ new\n@@ -0,0 +1,2 @@\n+a\n+b\n',
    );
  });

  it('keeps changes that are far from each other in hunks of their own', () => {
    const old = Array.from({ length: 30 }, (_, n) => `line ${n}\n`).join('');
    const changed = old.replace(/line (?:3|25)$/gm, '$&!');
    expect(unifiedDiff(old, changed, 'a', 'b').match(/^@@/gm)).toHaveLength(2);
  });
});

describe('errors on the terminal', () => {
  it('begin with the place, as compilers print it', () => {
    const at = { file: 'a.yaml', line: 12, column: 5 };
    const fault = { code: 'E_SCHEMA', message: 'put it in quotes', path: 'spec.files[0].mode', at } as const;
    expect(errorText(new MusterError('E_SCHEMA', 'x', { faults: [fault] }))).toBe(
      'a.yaml:12:5: spec.files[0].mode: put it in quotes (E_SCHEMA)\n  E_SCHEMA: Correct the named field; `muster explain KIND` and docs/reference list the fields and their values.\n',
    );
  });

  it('end with what to do, once for each code, where the faults do not say it', () => {
    const fault = (code: ErrorCode, message: string) => ({ code, message, path: 'spec' });
    const faults = [
      fault('E_SCHEMA', 'unknown key "profil"; did you mean "profile"?'),
      fault('E_SCHEMA', 'must be a list'),
      fault('E_YAML', 'not UTF-8; save the file as UTF-8'),
      fault('E_REFERENCE', 'there is no Profile "x"'),
    ];
    const lines = errorText(new MusterError('E_SCHEMA', 'x', { faults })).split('\n');
    expect(lines.slice(4)).toEqual([
      expect.stringMatching(/^ {2}E_SCHEMA: Correct the named field/),
      expect.stringMatching(/^ {2}E_REFERENCE: Create the document/),
      '',
    ]);
  });

  it('say what to do where there is no place', () => {
    expect(errorText(new MusterError('E_NOT_FOUND', 'there is no Machine "x"'))).toBe(
      'muster: there is no Machine "x" (E_NOT_FOUND)\n  `muster get KIND` lists documents, `muster image ls` and `muster artifacts ls` files.\n',
    );
  });

  it('show the stack of what nobody foresaw', () => {
    expect(errorText(new TypeError('oops'))).toMatch(/E_INTERNAL[\s\S]*TypeError: oops[\s\S]*at /);
  });

  it('exit with 2 for usage and 1 otherwise', () => {
    expect(exitCodeOf(new MusterError('E_USAGE', ''))).toBe(2);
    expect(exitCodeOf(new MusterError('E_CONFLICT', ''))).toBe(1);
    expect(exitCodeOf(new TypeError())).toBe(1);
  });
});

it('an order that a command does not have is refused with those that it has, also a name that every object has', () => {
  const orders = { pause: 'POST /pause', resume: 'POST /resume' };
  expect(orderOf(orders, 'pause')).toBe('pause');
  for (const text of ['toString', 'constructor', 'Pause', ''])
    expect(() => orderOf(orders, text, { first: 'start' })).toThrow(
      `"${text}" is not an order; the orders are start, pause, resume`,
    );
});
