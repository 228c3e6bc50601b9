/** `muster pki import` and `muster pki reseal`, through the socket. */
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { newGeneration } from '../../../src/pki/issue.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { NO_CLUSTER } from '../../../src/pki/server-certificate.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const CLUSTER = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:11"], profile: worker, addresses: [10.77.0.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1]}}
`;

let world: World;
afterEach(() => world.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });

/** Writes a CA's files, and returns the options that name them. */
async function files(name: string): Promise<readonly string[]> {
  const { certificate, key } = await newGeneration('ca', { now: world.clock.now() });
  const [crt, pem] = [path.join(world.directory, `${name}.crt`), path.join(world.directory, `${name}.key`)];
  fs.writeFileSync(crt, certificate!);
  fs.writeFileSync(pem, key.pem());
  return ['--certificate', crt, '--key', pem];
}

test('a CA of an operator signs for a cluster that has no keys yet, and in a running one after a rotation', async () => {
  world = await openWorld(CLUSTER);
  const first = await muster('pki', 'import', 'one', 'ca', ...(await files('a')));
  expect([first.code, first.out]).toEqual([
    0,
    expect.stringMatching(/^ca of one: the CA is generation [0-9a-f]{16}, and signs from now on\n$/),
  ]);
  await world.pki.issue('one', {
    leaf: 'kubelet',
    holder: { name: 'cp1', addresses: [] },
    cluster: NO_CLUSTER,
    publicKey: (await PrivateKey.generate()).publicKey(),
  });
  const next = await files('b');
  const second = await muster('pki', 'import', 'one', 'ca', ...next);
  expect(second.out).toMatch(/it signs after a rotation: muster pki rotate ca --cluster one\n$/);
  expect((await muster('pki', 'import', 'one', 'ca', ...next)).err).toContain('E_KEYSET');
  const keyset = (await world.pki.keysets('one')).get('ca')!;
  expect([keyset.made.length, keyset.trusted.length]).toEqual([1, 1]);
  expect(JSON.stringify(world.deps.events.list({ subject: 'Cluster/one' }))).not.toContain('PRIVATE');
});

test('an import that cannot be is refused with its reason, and changes nothing', async () => {
  world = await openWorld(CLUSTER);
  const [, crt, , key] = (await files('a')) as [string, string, string, string];
  const swapped = await muster('pki', 'import', 'one', 'ca', '--certificate', key, '--key', crt);
  expect(swapped.err).toMatch(/E_CA_IMPORT/);
  expect(swapped.err).not.toContain('-----BEGIN');
  const options = ['--certificate', crt, '--key', key];
  expect((await muster('pki', 'import', 'one', 'sa', ...options)).err).toContain('E_USAGE');
  expect((await muster('pki', 'import', 'two', 'ca', ...options)).err).toContain('E_NOT_FOUND');
  expect((await muster('pki', 'import', 'one', 'ca', '--certificate', '/no', '--key', key)).code).toBe(2);
  expect(await world.pki.isFounded('one')).toBe(false);
});

test('the store is sealed again, and the command says which keys are needed', async () => {
  world = await openWorld(CLUSTER);
  await world.pki.found('one');
  const dry = await muster('pki', 'reseal', '--dry-run');
  expect([dry.code, dry.out]).toEqual([
    0,
    expect.stringMatching(/^vault key [0-9a-f]{16}: \d+ records, seals\n$/),
  ]);
  const { out, err } = await muster('pki', 'reseal');
  expect(out).toMatch(/0 were sealed again\n$/);
  expect(err).toContain('put a new line first in its file and restart the server');
});

test('the store is not sealed again by a dry run', async () => {
  world = await openWorld(CLUSTER);
  const rewrap = vi.spyOn(world.pki, 'rewrap');
  const asked = (search: string) =>
    new Promise<number | undefined>((done, fail) => {
      const to = { socketPath: world.socket, method: 'POST', path: `/v1/pki/reseal?${search}` };
      http
        .request(to, (answer) => answer.resume().on('end', () => done(answer.statusCode)))
        .on('error', fail)
        .end();
    });
  expect([await asked('dryRun=true'), rewrap.mock.calls.length]).toEqual([200, 0]);
  expect([await asked(''), rewrap.mock.calls.length]).toEqual([200, 1]);
});
