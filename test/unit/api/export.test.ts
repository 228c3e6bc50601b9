/** `muster pki export` through the command line and the socket, and the warnings before it. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ageDecrypt } from '../../../src/pki/age.ts';
import { newGeneration } from '../../../src/pki/issue.ts';
import { addTrusted } from '../../../src/pki/keyset.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const PASSPHRASE = 'correct horse battery';

let world: World;
afterEach(() => world?.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });
const at = (name: string) => path.join(world.directory, name);

/** Runs the export with a passphrase from a file. */
const exported = (...args: string[]) => {
  fs.writeFileSync(at('passphrase'), `${PASSPHRASE}\n`);
  return muster('pki', 'export', '--passphrase-file', at('passphrase'), ...args);
};

/** Name → text of the files in a copy. */
async function opened(file: string): Promise<ReadonlyMap<string, string>> {
  const archive = await ageDecrypt(fs.readFileSync(at(file)), { passphrase: PASSPHRASE });
  const names = execFileSync('tar', ['-t'], { input: archive, encoding: 'utf8' }).trim().split('\n');
  return new Map(
    names.map((name) => [name, execFileSync('tar', ['-xO', name], { input: archive, encoding: 'utf8' })]),
  );
}

const warnings = async (): Promise<string> => (await muster('status')).out;

test('an export has every key of the clusters and of Muster, whose certificates and public keys fit, and nobody else can read the file', async () => {
  world = await openWorld(DOCUMENTS);
  await world.pki.found('one');
  await world.pki.found(MUSTER_SCOPE);
  const { code, out, err } = await exported('--all', '-o', at('keys.age'));
  expect([code, err]).toEqual([0, '']);
  expect(out).toBe(`${at('keys.age')} has the keys of _muster, one\n`);
  expect(fs.statSync(at('keys.age')).mode & 0o777).toBe(0o600);
  expect(fs.readFileSync(at('keys.age'), 'latin1')).not.toContain('PRIVATE KEY');
  const files = await opened('keys.age');
  for (const scope of ['one', MUSTER_SCOPE])
    for (const [name, { primary, trusted }] of await world.pki.keysets(scope)) {
      const key = await world.pki.exported(scope, name, trusted[0]!);
      expect(files.get(`${scope}/${name}/${primary}.key`)).toBe(key.reveal());
      expect(files.get(`${scope}/${name}/${primary}.crt`)).toBe(trusted[0]!.certificate);
    }
  const { primary, trusted } = (await world.pki.encryption('one'))!;
  expect(files.get(`one/encryption/${primary}.key`)).toBe(trusted[0]!.key.reveal());
  const index = JSON.parse(files.get('one/keysets.json')!);
  expect(index.keysets.map(({ name }: { name: string }) => name).sort()).toEqual(
    ['ca', 'encryption', 'etcd-ca', 'front-proxy-ca', 'sa'].sort(),
  );
  expect(fs.readdirSync(world.directory).filter((name) => name.startsWith('.keys'))).toEqual([]);
});

test('the status warns of every cluster with a key that was never copied, also of a generation that came later', async () => {
  world = await openWorld(DOCUMENTS);
  expect(await warnings()).not.toContain('E_NOT_EXPORTED');
  await world.pki.found('one');
  await world.pki.found(MUSTER_SCOPE);
  expect(await warnings()).toMatch(/warning only this host has all keys of cluster one; .*pki export --all/);
  expect(await warnings()).toContain('only this host has the keys of Muster itself');
  const one = await exported('--cluster', 'one', '-o', at('one.age'));
  expect(one.err).toMatch(/^warning: only this host has the keys of Muster itself/);
  expect(await warnings()).not.toContain('cluster one');
  await exported('--all', '-o', at('all.age'));
  expect(await warnings()).not.toContain('E_NOT_EXPORTED');
  const made = await newGeneration('ca', { now: world.clock.now() });
  const next = await world.pki.take('one', 'ca', made);
  await world.pki.change('one', 'ca', (keyset) => addTrusted(keyset, next));
  expect(await warnings()).toContain('only this host has all keys of cluster one');
});

test('an export is in the security log with who asked for it, and its passphrase is nowhere', async () => {
  world = await openWorld(DOCUMENTS);
  await world.pki.found('one');
  await exported('--cluster', 'one', '-o', at('one.age'));
  const { out } = await muster('events', '--security', '-o', 'json');
  const events = JSON.parse(out) as { kind: string; fields?: Record<string, string> }[];
  const actions = events.filter(({ kind }) => kind === 'operator.action').map(({ fields }) => fields);
  expect(actions.map((fields) => [fields?.action, fields?.query]).sort()).toEqual([
    ['POST /v1/pki/export', 'cluster=one'],
    ['POST /v1/pki/exported', undefined],
  ]);
  expect(out).not.toContain(PASSPHRASE);
});

test('an export is refused without a passphrase that is long enough, over another file, and for a cluster without keys', async () => {
  world = await openWorld(DOCUMENTS);
  await world.pki.found('one');
  const refused = async (...args: string[]) => {
    const { code, err } = await exported(...args);
    expect(code).not.toBe(0);
    return err;
  };
  expect(await refused('-o', at('x'))).toContain('say which keys: --cluster NAME, or --all');
  expect(await refused('--all', '--cluster', 'one', '-o', at('x'))).toContain('say which keys');
  fs.writeFileSync(at('there'), 'mine');
  expect(await refused('--all', '-o', at('there'))).toContain('exists; name another file');
  expect(fs.readFileSync(at('there'), 'utf8')).toBe('mine');
  expect(await refused('--cluster', 'two', '-o', at('x'))).toContain('E_NOT_FOUND');
  expect(await refused('--cluster', MUSTER_SCOPE, '-o', at('x'))).toContain('E_NOT_FOUND');
  fs.writeFileSync(at('short'), 'short\n');
  const short = await muster('pki', 'export', '--all', '-o', at('x'), '--passphrase-file', at('short'));
  expect(short.err).toContain('a passphrase has at least 12 characters');
  expect(fs.existsSync(at('x'))).toBe(false);
  expect(await warnings()).toContain('E_NOT_EXPORTED');
});
