/** What kubectl's users type: lists that go back in, several kinds, all of a kind. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

const muster = (...args: string[]): Promise<Ran> => run(args, { socket: world.socket });

function file(name: string, text: string): string {
  const full = path.join(world.directory, name);
  fs.writeFileSync(full, text);
  return full;
}

const machine = (name: string, mac: string, label = 'left'): string =>
  `---\napiVersion: muster/v1\nkind: Machine\nmetadata: {name: ${name}, labels: {rack: ${label}}}\nspec: {macs: ["52:54:00:cc:00:${mac}"], profile: worker}\n`;
const three = () =>
  muster(
    'apply',
    '-R',
    '-f',
    file('three.yml.txt', machine('x', '01') + machine('y', '02') + machine('z', '03', 'right')),
  );

test('a list that get prints is applied, compared and deleted as the documents in it', async () => {
  await three();
  const list = file('list.txt', (await muster('get', 'machines', 'x', 'y', '-o', 'yaml')).out);
  expect(await muster('diff', '-f', list)).toMatchObject({ code: 0, out: '' });
  expect((await muster('apply', '-f', list)).out).toBe('machine/x unchanged\nmachine/y unchanged\n');
  const json = file('list.json', (await muster('get', 'machines', 'x', 'y', '-o', 'json')).out);
  expect((await muster('delete', '-f', json)).out).toBe('machine "x" deleted\nmachine "y" deleted\n');
});

test('a fault in an item of a list has its line', async () => {
  const list = file(
    'v1.txt',
    'apiVersion: v1\nkind: List\nitems:\n- apiVersion: muster/v1\n  kind: Machine\n  metadata: {name: x}\n  spec:\n    mac: x\n',
  );
  expect((await muster('apply', '-f', list)).err).toContain(`${list}:8:5: spec.mac: unknown key "mac"`);
  const none = file('none.txt', 'apiVersion: v1\nkind: List\nitems: nothing\n');
  expect((await muster('apply', '-f', none)).err).toContain(`${none}:3:8: items: must be a list`);
});

test('what was asked for beside one that is not there is printed; the exit code tells', async () => {
  const { code, out, err } = await muster('get', 'machines', 'node-1', 'nope', '-o', 'name');
  expect({ code, out }).toEqual({ code: 1, out: 'machine/node-1\n' });
  expect(err).toContain('there is no Machine "nope"');
});

test('several kinds are listed one after the other, or as one list', async () => {
  const both = ['machine/node-1\nprofile/worker\n', 'profile/worker\nmachine/node-1\n'];
  expect((await muster('get', 'machines,profiles', '-o', 'name')).out).toBe(both[0]);
  expect((await muster('get', 'profile/worker', 'machine/node-1', '-o', 'name')).out).toBe(both[1]);
  expect((await muster('get', 'all', '-o', 'name')).out).toContain(both[1]);
  const { items } = JSON.parse((await muster('get', 'm,prof', '-o', 'json')).out);
  expect(items.map(({ kind }: { kind: string }) => kind)).toEqual(['Machine', 'Profile']);
  expect((await muster('get', 'm,prof')).out).toMatch(/^NAME .*\nnode-1 .*\n\nNAME .*\nworker /);
  expect(await muster('get', 'm,prof', '-w')).toMatchObject({ code: 2 });
  expect((await muster('get', 'm,nonsense')).err).toMatch(/"nonsense" is not a kind; .*, leases, events/);
  expect((await muster('get', 'machins')).err).toContain('"machins" is not a kind; did you mean "machine"?');
  expect((await muster('explain', 'Machin')).err).toContain(
    '"Machin" is not a kind; did you mean "machine"?',
  );
  expect((await muster('apply', '-f', 'https://host/x.yaml')).err).toContain(
    'files come from this host; fetch it first',
  );
});

test('all of a kind, or those with a label, are deleted', async () => {
  await three();
  expect((await muster('delete', 'machines', '-l', 'rack=right')).out).toBe('machine "z" deleted\n');
  expect((await muster('delete', 'machines', '-l', 'rack=left', '--dry-run')).out).toBe(
    'machine "x" deleted (dry run)\nmachine "y" deleted (dry run)\n',
  );
  // node-1 belongs to a file: then none is deleted.
  expect((await muster('delete', 'machines', '--all')).err).toContain('E_FILE_OWNED');
  expect((await muster('delete', 'machines', '-l', 'rack=none')).err).toBe('No machines found.\n');
  expect((await muster('delete', 'machines', 'x', '--all')).code).toBe(2);
  expect((await muster('delete', 'machines')).code).toBe(2);
});
