/** What a reader meets first: headings, file headers, the version, the list of decisions. */
import { expect, test } from 'vitest';
import { read, sources, trackedFiles } from './tree.ts';

/** A paragraph that was joined to a heading is wrapped at 120 columns, a heading is shorter. */
const HEADING = 100;
/** Comments are wrapped at 100 columns, so a line below this was torn. */
const SHORT = 40;

const pages = trackedFiles().filter((file) => file.endsWith('.md'));

test(`a heading has at most ${HEADING} columns`, () => {
  const long = pages.flatMap((page) =>
    [
      ...read(page)
        .replaceAll(/```[\s\S]*?```/g, '')
        .matchAll(/^#+ .*$/gm),
    ].flatMap(([heading]) => (heading.length > HEADING ? [`${page}: ${heading}`] : [])),
  );
  expect(long).toEqual([]);
});

test('no sentence of a comment is torn over short lines', () => {
  const torn = ['src', 'test', 'scripts'].flatMap(sources).flatMap((file) =>
    [...read(file).matchAll(/^[ ]*\/\*\*\n[\s\S]*?\*\//gm)].flatMap(([comment]) => {
      const lines = comment.split('\n').map((line) => line.replace(/^\s*\* ?/, ''));
      return lines
        .slice(1)
        .filter(
          (line, n) =>
            /^[a-zA-Z`].*[^;]$/.test(line) && line.length < SHORT && /^[a-z]/.test(lines[n + 2] ?? ''),
        )
        .map((line) => `${file}: ${line}`);
    }),
  );
  expect(torn).toEqual([]);
});

test('README, package.json and CHANGELOG agree that this version is not released', () => {
  const { version } = JSON.parse(read('package.json')) as { readonly version: string };
  const [first, ...older] = [...read('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map((found) => found[1]);
  expect(first).toBe(`${version} (not released)`);
  expect(older).toEqual([]);
  expect(read('README.md')).toContain(`\nStatus: ${version} (not released);`);
});

const FOLDER = 'docs/decisions/';

test('each decision has its number in its heading and a status, and answers one question of the list', () => {
  const records = trackedFiles().filter((file) => file.startsWith(FOLDER) && !file.endsWith('README.md'));
  const list = read(`${FOLDER}README.md`);
  const links = [...list.matchAll(/\]\((\d[^)]*)\)/g)].map((found) => `${FOLDER}${found[1]}`);
  expect(links.sort()).toEqual(records);
  for (const record of records) {
    const number = record.slice(FOLDER.length, FOLDER.length + 4);
    expect(read(record), record).toMatch(new RegExp(`^# ${number}: .*\\n\\nStatus: `));
    expect(list, record).toMatch(new RegExp(`\\? \\[${number}\\]\\(${number}-`));
  }
});
