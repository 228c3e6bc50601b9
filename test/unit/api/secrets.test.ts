/** Secrets through the command line and the socket: they come in, and no way leads out. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const USING = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: s1}
spec:
  macs: ["52:54:00:aa:00:51"]
  profile: worker
  config:
    users: [{name: root, passwordHash: {valueFrom: {secret: admin, key: hash}}}]
    files: [{path: /etc/app/token, mode: "0600", content: {valueFrom: {secret: app, key: token}}}]
`;
const VALUE = 'a-value-that-nobody-else-uses-3f1c';

let world: World;
afterEach(() => world.close());
const muster = (...args: string[]) => run(args, { socket: world.socket });
const put = (name: string, key: string, value: string) => {
  const file = path.join(world.directory, 'value');
  fs.writeFileSync(file, value);
  return muster('secret', 'put', name, key, '--from-file', file);
};

test('a value that was put is listed with its size and its users, and nothing prints it again', async () => {
  world = await openWorld(USING);
  const before = await muster('secret', 'ls');
  expect(before.out).toMatch(/app +token +missing +<none> +Machine\/s1/);
  const said = await put('app', 'token', VALUE);
  expect(said).toMatchObject({ code: 0, out: '' });
  expect(said.err).toBe('secret/app token written\nuntil their agents poll, without it: s1\n');
  const listed = await muster('secret', 'ls', 'app');
  expect(listed.out).toMatch(/app +token +34 B +\S+ \S+ +Machine\/s1 +<none> +s1/);
  const everything = [
    listed,
    said,
    await muster('secret', 'ls', '-o', 'json'),
    await muster('get', 'all', '-o', 'yaml'),
    await muster('get', 'machine', 's1', '-o', 'json'),
    await muster('render', 's1'),
    await muster('render', 's1', '-o', 'yaml'),
    await muster('explain', 's1'),
    await muster('events', '--limit', '500'),
    await muster('events', '--security'),
    await muster('status', '-o', 'json'),
    await muster('pki', 'status'),
  ].map(({ out, err }) => out + err);
  for (const text of everything) {
    expect(text).not.toContain(VALUE);
    expect(text).not.toContain(Buffer.from(VALUE).toString('base64'));
  }
  expect(everything[3]).not.toMatch(/kind: Secret/);
  expect((await muster('render', 's1')).out).not.toContain('/etc/app/token');
});

test('the lists of documents have no Secrets, and say what lists them', async () => {
  world = await openWorld(USING);
  await put('app', 'token', VALUE);
  for (const words of [['secrets'], ['secret', 'app'], ['secret/app']]) {
    const refused = await muster('get', ...words);
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain('`muster secret ls` lists them (E_USAGE)');
  }
});

test('no method of any route of Secrets answers with a value', async () => {
  world = await openWorld(USING);
  await put('app', 'token', VALUE);
  for (const route of ['/v1/secrets', '/v1/secrets/app', '/v1/secrets/app/token', '/v1/secret/app'])
    for (const method of ['GET', 'POST', 'HEAD']) {
      const answer = await world.client.call<unknown>(method, route).catch((error: unknown) => String(error));
      expect(JSON.stringify(answer)).not.toContain(VALUE);
    }
});

test('a document is warned about a Secret that does not exist, until it is put', async () => {
  world = await openWorld(USING);
  const warned = async () =>
    (await world.client.call<{ warnings: { message: string }[] }>('GET', '/v1/status')).warnings
      .map(({ message }) => message)
      .filter((message) => message.includes('Secret'));
  expect(await warned()).toEqual([
    'Machine/s1: Secret "admin" has no key "hash" yet; `muster secret put admin hash` writes it',
    'Machine/s1: Secret "app" has no key "token" yet; `muster secret put app token` writes it',
  ]);
  await put('app', 'token', VALUE);
  expect(await warned()).toHaveLength(1);
});

test('a password that is no hash is refused where a document takes it as one, and is not repeated', async () => {
  world = await openWorld(USING);
  const refused = await put('admin', 'hash', VALUE);
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(/Machine\/s1 \(spec\.config\.users\[0\]\.passwordHash\) takes admin\/hash/);
  expect(refused.err).not.toContain(VALUE);
  const made = await muster('secret', 'put', 'admin', 'hash', '--generate', 'password-hash');
  expect(made.out).toMatch(/^([a-z2-9]{6}-){3}[a-z2-9]{6}\n$/);
  const hash = world.deps.secrets.given.value('admin', 'hash')!.toString();
  expect(hash).toMatch(/^\$6\$/);
  const token = await muster('secret', 'put', 'other', 'token', '--generate', 'token');
  expect(token.out).toBe('');
  expect(world.deps.secrets.given.value('other', 'token')!.toString()).toMatch(/^[\w-]{43}$/);
});

test('a Secret that a document refers to is not removed; without references it is', async () => {
  world = await openWorld(USING);
  await put('app', 'token', VALUE);
  await put('app', 'spare', VALUE);
  const refused = await muster('secret', 'rm', 'app');
  expect(refused.err).toMatch(
    /app is used by Machine\/s1 \(spec\.config\.files\[0\]\.content\); change that first \(E_SECRET\)/,
  );
  expect((await muster('secret', 'rm', 'app', 'token')).code).toBe(1);
  expect((await muster('secret', 'rm', 'app', 'spare')).code).toBe(0);
  expect((await muster('secret', 'rm', 'nothing')).err).toMatch(/E_NOT_FOUND/);
  expect(world.deps.secrets.given.get('app')!.keys.map(({ key }) => key)).toEqual(['token']);
});

test('a machine that reports the tag of the present value has it; after a new value it has the old one', async () => {
  world = await openWorld(USING);
  await put('app', 'token', VALUE);
  const { given } = world.deps.secrets;
  const report = (tag: string) => {
    const member = world.roster.get('s1')!;
    const agent = { since: world.clock.now(), version: '1', bootId: 'b', secrets: { 'app:token': tag } };
    world.roster.change(member, { agent });
  };
  report(given.tag('s1', 'app', 'token')!);
  expect((await muster('secret', 'ls', 'app', '-o', 'wide')).out).toMatch(/<none> +<none> +s1\n$/);
  const said = await put('app', 'token', 'another value');
  expect(said.err).toContain('without it: s1 (old value)');
  expect((await muster('secret', 'ls', 'app')).out).toMatch(/s1 +<none>\n$/);
});

test.for([
  [
    'kind: Secret',
    '{apiVersion: muster/v1, kind: Secret, metadata: {name: a}, data: {a: b}}',
    /a Secret is no document.*secret put NAME KEY/,
  ],
  [
    'a disk',
    '{apiVersion: muster/v1, kind: Profile, metadata: {name: p}, spec: {config: {disks: [{device: {valueFrom: {secret: a, key: b}}}]}}}',
    /spec\.config\.disks\[0\]\.device: a Secret cannot be used here/,
  ],
  [
    'a unit',
    '{apiVersion: muster/v1, kind: Profile, metadata: {name: p}, spec: {config: {units: [{name: a.service, contents: {valueFrom: {secret: a, key: b}}}]}}}',
    /units\[0\]\.contents: a Secret cannot be used here/,
  ],
  [
    'kernel arguments',
    '{apiVersion: muster/v1, kind: Profile, metadata: {name: p}, spec: {kernelArguments: [{valueFrom: {secret: a, key: b}}]}}',
    /kernelArguments\[0\]: a Secret cannot be used here/,
  ],
  [
    'the wrong place',
    '{apiVersion: muster/v1, kind: Profile, metadata: {name: p}, spec: {config: {files: [{path: /a, valueFrom: {secret: a, key: b}}]}}}',
    /valueFrom stands in the place of a value/,
  ],
  [
    'a wrong name',
    '{apiVersion: muster/v1, kind: Profile, metadata: {name: p}, spec: {config: {files: [{path: /a, content: {valueFrom: {secret: A_B, key: b}}}]}}}',
    /content\.valueFrom\.secret: use lower-case letters/,
  ],
] as const)('%s as a place of a Secret is refused with what to do', async ([, text, message]) => {
  world = await openWorld(DOCUMENTS);
  const file = path.join(world.directory, 'new.yaml');
  fs.writeFileSync(file, text);
  const refused = await muster('apply', '-f', file);
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(message);
});
