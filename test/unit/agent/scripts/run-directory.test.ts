/**
 * /run/muster of a machine has two users: the initramfs puts the root image there, and the agent
 * works there.
 */
import fs from 'node:fs';
import { expect, test } from 'vitest';

const namesIn = (file: string, pattern: RegExp): readonly string[] => [
  ...new Set([...fs.readFileSync(file, 'utf8').matchAll(pattern)].map(([, name]) => name!)),
];

test('the agent’s paths in /run/muster never collide with those that the running system is mounted from', () => {
  const live = namesIn('images/debian/initramfs/scripts/muster', /\bmount\b.* \/run\/muster\/([\w.-]+)/g);
  expect(live).toEqual(expect.arrayContaining(['image', 'lower', 'rw']));
  for (const script of fs.readdirSync('src/agent').filter((name) => name.endsWith('.sh'))) {
    const own = namesIn(`src/agent/scripts/${script}`, /\$(?:\{)?run(?:\})?\/([\w.-]+)/g);
    expect(own.filter((name) => live.includes(name))).toEqual([]);
  }
});
