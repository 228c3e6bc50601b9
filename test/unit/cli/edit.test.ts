/** `muster edit` with editors that are one command of the shell. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
  const file = path.join(world.directory, 'y.txt');
  fs.writeFileSync(
    file,
    'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: y, labels: {rack: a}}\nspec: {macs: ["52:54:00:cc:00:02"], profile: worker}\n',
  );
  await run(['apply', '-f', file], { socket: world.socket });
});
afterEach(() => world.close());

/** Runs `muster edit` with a script as the editor; `$1` is the file. */
function edit(script: string, ...words: string[]): Promise<Ran> {
  const editor = path.join(world.directory, 'editor.sh');
  fs.writeFileSync(editor, `#!/bin/sh\nset -eu\n${script}\n`, { mode: 0o755 });
  return run(['edit', ...words], { socket: world.socket, env: { EDITOR: editor } });
}
const rack = async (): Promise<unknown> =>
  (await world.client.call<{ metadata: { labels: object } }>('GET', '/v1/machines/y')).metadata.labels;

test('what is saved is applied, and the file is gone', async () => {
  const seen = path.join(world.directory, 'seen');
  const { code, out } = await edit(`echo "$1" >${seen}; sed -i 's/rack: a/rack: b/' "$1"`, 'machine', 'y');
  expect({ code, out }).toEqual({ code: 0, out: 'machine/y edited\n' });
  expect(await rack()).toEqual({ rack: 'b' });
  expect(fs.existsSync(fs.readFileSync(seen, 'utf8').trim())).toBe(false);
});

test('a text that was not changed, or is empty, applies nothing', async () => {
  expect(await edit('true', 'machine/y')).toMatchObject({
    code: 0,
    err: 'Nothing was changed; nothing was applied.\n',
  });
  expect((await edit(': >"$1"', 'machine/y')).err).toContain('The file is empty');
});

test('a fault is shown above the text at its line, and can be mended', async () => {
  const seen = path.join(world.directory, 'seen');
  // The first round breaks the document, the second one mends it.
  const { code, out } = await edit(
    `if grep -q '^#!' "$1"; then cp "$1" ${seen}; sed -i 's/profil:/profile:/; s/rack: a/rack: c/' "$1"
     else sed -i 's/profile:/profil:/' "$1"; fi`,
    'machine/y',
  );
  expect({ code, out }).toEqual({ code: 0, out: 'machine/y edited\n' });
  expect(await rack()).toEqual({ rack: 'c' });
  const lines = fs.readFileSync(seen, 'utf8').split('\n');
  const at = Number(/^#! y\.yaml:(\d+):\d+: spec\.profil: unknown key/m.exec(lines.join('\n'))?.[1]);
  expect(lines[at - 1]).toContain('profil:');
});

test('a text with faults that is saved again is given up, and kept', async () => {
  const { code, err } = await edit(`sed -i 's/profile:/profil:/' "$1"`, 'machine/y');
  expect(code).toBe(1);
  const kept = /Your text is in (\S+)\n$/.exec(err)?.[1];
  expect(fs.readFileSync(kept!, 'utf8')).toContain('profil: worker');
  fs.rmSync(path.dirname(kept!), { recursive: true });
  expect(await rack()).toEqual({ rack: 'a' });
});

test('what somebody else changed meanwhile is not overwritten', async () => {
  const other = path.join(world.directory, 'other.txt');
  fs.writeFileSync(
    other,
    'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: y, labels: {rack: z}}\nspec: {macs: ["52:54:00:cc:00:02"]}\n',
  );
  const waits = path.join(world.directory, 'go');
  const editing = edit(
    `for i in $(seq 500); do [ -e ${waits} ] && break; sleep 0.02; done; sed -i 's/rack: a/rack: b/' "$1"`,
    'machine',
    'y',
  );
  await run(['apply', '-f', other], { socket: world.socket });
  await expect.poll(rack).toEqual({ rack: 'z' });
  fs.writeFileSync(waits, '');
  const { code, err } = await editing;
  expect(code).toBe(1);
  expect(err).toContain('E_CONFLICT');
  fs.rmSync(path.dirname(/Your text is in (\S+)\n$/.exec(err)![1]!), { recursive: true });
  expect(await rack()).toEqual({ rack: 'z' });
});

test('a document of a file, a machine without one and an editor that fails are refused with the way', async () => {
  expect((await edit('true', 'machine', 'node-1')).err).toMatch(/belongs to .*:\d+; edit it there/);
  expect(await edit('true', 'machine', 'nope')).toMatchObject({ code: 1 });
  expect(await edit('true', 'machine')).toMatchObject({ code: 2 });
  const { code, err } = await edit('exit 3', 'machine', 'y');
  expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('ended with 3') });
  fs.rmSync(path.dirname(/Your text is in ([^;\s]+)/.exec(err)![1]!), { recursive: true });
});
