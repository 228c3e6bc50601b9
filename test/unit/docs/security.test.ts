/** What docs/security.md promises rests on a test: each promise names one, and it is there. */
import fs from 'node:fs';
import { expect, test } from 'vitest';

const page = fs.readFileSync('docs/security.md', 'utf8');

/** The bullets of a section, each as one line. */
function bulletsOf(heading: string): readonly string[] {
  const [, rest = ''] = page.split(`\n## ${heading}\n`);
  const [section = ''] = rest.split('\n## ');
  return section
    .split(/\n(?=- )/)
    .slice(1)
    .map((bullet) => bullet.split('\n\n')[0]!.replaceAll('\n', ' '));
}

test.each(['Whom Muster serves', 'What machines of a cluster get', 'What floods cost'])(
  'each promise of “%s” names a test or a decision',
  (heading) => {
    const bullets = bulletsOf(heading);
    expect(bullets.length).toBeGreaterThan(3);
    expect(bullets.filter((bullet) => !/`test\/|\(decisions\//.test(bullet))).toEqual([]);
  },
);

test('every test that the page names is there', () => {
  const named = [...page.matchAll(/`(test\/[\w./-]+\.test\.ts)`/g)].map(([, file]) => file!);
  expect(new Set(named).size).toBeGreaterThan(15);
  expect(named.filter((file) => !fs.existsSync(file))).toEqual([]);
});
