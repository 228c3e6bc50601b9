/** Words: what a machine can check of comments, pages and docstrings. */
import { expect, test } from 'vitest';
import { proseFaults } from './prose.ts';
import { read, sources, trackedFiles } from './tree.ts';

/** Written by a program, by somebody else, or compared octet by octet. */
const NOT_OURS = /^(test\/golden\/|package-lock\.json$|LICENSE$|bench\/RESULTS\.md$)|\.generated\.ts$/;

const tracked = trackedFiles();
const checked = tracked.filter((file) => !NOT_OURS.test(file));

test('the checks of prose see their faults', () => {
  const text = [
    '/** Of a cluster, and of nobody. */',
    "const kept = '// Of a text'; // Whoever reads this, see src/nowhere.ts",
    '// **A bold word.** Whoever reads on.',
    `// ${'wide '.repeat(20)}`,
    '// some-note §B.4 and decision 9999',
  ].join('\n');
  expect(proseFaults('src/x.ts', text, ['src/x.ts']).map(({ line, rule }) => `${line} ${rule}`)).toEqual([
    '1 opening',
    '2 opening',
    '2 reference',
    '3 opening',
    '4 width',
    '5 reference',
    '5 reference',
  ]);
});

test('comments and pages keep to their width, begin sentences with their subject, and name what exists', () => {
  const faults = checked.flatMap((file) => proseFaults(file, read(file), tracked));
  expect(faults.map(({ file, line, rule, text }) => `${file}:${line}: ${rule}: ${text}`)).toEqual([]);
});

/** Exported functions of a file with their doc comment and body. */
function exportedFunctions(code: string): { name: string; doc: string; body: string }[] {
  const found = code.matchAll(
    /(\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?export (?:async )?function\*? (\w+)[\s\S]*?\n}\n/g,
  );
  return [...found].map(([body, doc = '', name]) => ({ name: name!, doc, body }));
}

test('an exported function that throws an error of the catalogue says so with @throws', () => {
  const silent = sources('src').flatMap((file) =>
    exportedFunctions(read(file))
      .filter(({ doc, body }) => /throw new MusterError\(/.test(body) && !doc.includes('@throws'))
      .map(({ name }) => `${file}: ${name}`),
  );
  expect(silent).toEqual([]);
});

test('the seams that newcomers meet first have an example', () => {
  const examples = sources('src').filter((file) => /^ \* @example|^\s+\* @example/m.test(read(file)));
  expect(examples.length).toBeGreaterThanOrEqual(10);
});
