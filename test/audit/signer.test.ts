/** What the signer's process loads: nothing that reads packets, HTTP or the store. */
import path from 'node:path';
import { expect, test } from 'vitest';
import { importsOf } from './tree.ts';

/** Every file that a file loads, at start or later. */
function loadedBy(first: string): ReadonlySet<string> {
  const seen = new Set([first]);
  for (const file of seen)
    if (file.startsWith('src/'))
      for (const { specifier, typeOnly } of importsOf(file)) {
        if (typeOnly) continue;
        seen.add(
          specifier.startsWith('.')
            ? path.posix.join(path.posix.dirname(file), specifier)
            : `package ${specifier}`,
        );
      }
  return seen;
}

const RUN = 'src/cli/signer/run.files.ts';
const ROOMS = ['base', 'cli', 'events', 'pki', 'resources', 'store'];

test('the signer loads only the rooms of keys, documents and events', () => {
  const files = [...loadedBy(RUN)].filter((file) => file.startsWith('src/'));
  expect(files.length).toBeGreaterThan(30);
  expect([...new Set(files.map((file) => file.split('/')[1]))].sort()).toEqual(ROOMS);
  expect(files.filter((file) => file.startsWith('src/store/'))).toEqual(['src/store/keys.ts']);
  expect(files.filter((file) => file.startsWith('src/cli/')).sort()).toEqual(
    ['src/cli/color.ts', 'src/cli/io.ts', RUN].sort(),
  );
});

test('the signer loads no datagrams, no system calls, no HTTP, no SQLite and no way to start programs', () => {
  const loaded = loadedBy(RUN);
  const network = [
    'dgram',
    'http',
    'http2',
    'https',
    'tls',
    'sqlite',
    'worker_threads',
    'child_process',
    'ffi',
    'vm',
  ];
  const found = network.filter((name) => loaded.has(`package node:${name}`) || loaded.has(`package ${name}`));
  expect(found).toEqual([]);
  expect([...loaded].filter((file) => /datagrams|system-calls|express/.test(file))).toEqual([]);
});
