/**
 * Muster's registry with containerd and CRI-O's library: they pull images that `muster artifacts`
 * packed and imported, over TLS and through a mirror's hosts.toml.
 */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { crioLines } from '../../src/cluster/plan/cri-o.ts';
import { selfSigned } from '../self-signed.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { bridge, daemon, type Muster, remove, startMuster } from './dhcp-segment.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-registry-'));
const HOST = '10.82.0.1';
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.82.0.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:82:00:01"], addresses: [10.82.0.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec: {trust: segment, kubernetes: {version: 1.36.2, endpoint: 10.82.0.11, controlPlanes: [cp1]}}
`;

interface Done {
  readonly code: number;
  readonly out: string;
}

/** Runs a program to its end; resolves to both of its outputs. */
function run(command: string, args: readonly string[], env = process.env): Promise<Done> {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (out += text));
  return new Promise((done) => child.on('close', (code) => done({ code: code ?? -1, out })));
}

let muster: Muster;
let containerd: Awaited<ReturnType<typeof daemon>>;
const artifacts = (...args: string[]) =>
  run(resolve('bin/muster'), ['artifacts', ...args, '--socket', muster.socket]);
const ctr = (...args: string[]) => {
  const { command, env } = unpacked('containerd', 'usr/bin/ctr');
  return run(command, ['--address', join(HOME, 'containerd.sock'), ...args], env);
};
const pull = (reference: string, hosts: string) =>
  ctr('images', 'pull', '--hosts-dir', hosts, '--snapshotter', 'native', reference);

/** One directory for every registry, as on machines: see src/cluster/plan/containerd.ts. */
function hostsDirectory(authority: string): string {
  const directory = mkdtempSync(join(HOME, 'certs-'));
  mkdirSync(join(directory, '_default'));
  writeFileSync(join(directory, 'ca.crt'), authority);
  writeFileSync(
    join(directory, '_default/hosts.toml'),
    `[host."https://${HOST}:8443"]\ncapabilities = ["pull", "resolve"]\nca = "${join(directory, 'ca.crt')}"\n`,
  );
  return directory;
}

/**
 * Reads the transport CA's certificate from a copy of the store, since the server has the store
 * open.
 */
function transportAuthority(): string {
  const copy = mkdtempSync(join(HOME, 'store-'));
  for (const name of readdirSync(muster.state).filter((file) => file.startsWith('muster.db')))
    copyFileSync(join(muster.state, name), join(copy, name));
  const store = new DatabaseSync(join(copy, 'muster.db'));
  try {
    const tables = store.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    for (const { name } of tables) {
      const rows = store.prepare(`SELECT * FROM "${String(name)}"`).all();
      for (const row of rows)
        if (row.key === 'pki/_muster/keyset/transport-ca')
          return (JSON.parse(String(row.value)) as { trusted: { certificate: string }[] }).trusted[0]!
            .certificate;
    }
    throw new Error('the store has no transport CA');
  } finally {
    store.close();
  }
}

beforeAll(async () => {
  bridge('br-registry', `${HOST}/24`);
  muster = await startMuster(['br-registry'], DOCUMENTS);
  const config = join(HOME, 'config.toml');
  writeFileSync(
    config,
    `version = 2
root = "${join(HOME, 'root')}"
state = "${join(HOME, 'state')}"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "${join(HOME, 'containerd.sock')}"
`,
  );
  const { command, env } = unpacked('containerd', 'usr/bin/containerd');
  containerd = await daemon(undefined, [command, '--config', config], /containerd successfully booted/, env);
  const program = join(HOME, 'app');
  writeFileSync(program, '#!/bin/sh\n'.repeat(200_000));
  chmodSync(program, 0o755);
  const set = join(HOME, 'set');
  const packed = await run(resolve('bin/muster'), [
    ...['artifacts', 'pack', set, '--image', `registry.k8s.io/app:v1=${program}:/app`],
    ...['--image', `example.org/deep/er/app:v2=${program}:/bin/app`],
  ]);
  expect(packed.code, packed.out).toBe(0);
  expect(await artifacts('import', set)).toMatchObject({ code: 0 });
});
afterAll(async () => {
  await containerd?.stop();
  await muster?.stop();
  remove([], ['br-registry']);
  rmSync(HOME, { recursive: true, force: true });
});

it('containerd pulls by tag and by digest, for every registry, from the mirror', async () => {
  const hosts = hostsDirectory(transportAuthority());
  expect(await pull('registry.k8s.io/app:v1', hosts)).toMatchObject({ code: 0 });
  expect(await pull('example.org/deep/er/app:v2', hosts)).toMatchObject({ code: 0 });
  const listed = (await ctr('images', 'ls')).out;
  const digest = /registry\.k8s\.io\/app:v1 +\S+ +(sha256:[0-9a-f]{64})/.exec(listed)![1]!;
  expect(await pull(`registry.k8s.io/app@${digest}`, hosts)).toMatchObject({ code: 0 });
  // The name that manifests of static pods use.
  expect(await pull(`registry.k8s.io/app:v1@${digest}`, hosts)).toMatchObject({ code: 0 });
  expect(await pull(`registry.k8s.io/app:v1@sha256:${'0'.repeat(64)}`, hosts)).not.toMatchObject({ code: 0 });
  expect((await ctr('images', 'check')).out).toMatch(/registry\.k8s\.io\/app:v1 .*complete/);
});

it('containerd unpacks the program octet by octet, and it runs', async () => {
  const hosts = hostsDirectory(transportAuthority());
  await pull('registry.k8s.io/app:v1', hosts);
  const target = join(HOME, 'mounted');
  mkdirSync(target);
  expect(
    await ctr('images', 'mount', '--snapshotter', 'native', 'registry.k8s.io/app:v1', target),
  ).toMatchObject({
    code: 0,
  });
  expect(execFileSync('cmp', [join(HOME, 'app'), join(target, 'app')], { encoding: 'utf8' })).toBe('');
  execFileSync('test', ['-x', join(target, 'app')]);
  await ctr('images', 'unmount', target);
});

it('CRI-O’s library with the plan’s settings pulls from Muster’s registry by tag and digest, and trusts only Muster’s CA', async () => {
  const cluster = { ...resolved({ runtime: 'cri-o' }), mirrors: [`https://${HOST}:8443`] };
  const lines = new Map(
    crioLines(cluster).files.flatMap((line) =>
      line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text] as const] : [],
    ),
  );
  const { command, env } = unpacked('skopeo', 'usr/bin/skopeo');
  const pulled = (reference: string, authority: string) => {
    const home = mkdtempSync(join(HOME, 'skopeo-'));
    const file = (at: string, text: string): string => {
      mkdirSync(dirname(join(home, at)), { recursive: true });
      writeFileSync(join(home, at), text);
      return join(home, at);
    };
    // Below a home directory, because /etc/containers is the host's.
    file(`.config/containers/certs.d/${HOST}:8443/ca.crt`, authority);
    const registries = file(
      'registries.conf',
      lines.get('/etc/containers/registries.conf.d/90-muster.conf')!,
    );
    const policy = file('policy.json', lines.get('/etc/crio/policy.json')!);
    return run(
      command,
      [
        '--registries-conf',
        registries,
        '--policy',
        policy,
        'copy',
        `docker://${reference}`,
        `dir:${home}/image`,
      ],
      { ...env, HOME: home },
    );
  };
  const authority = transportAuthority();
  const byTag = await pulled('registry.k8s.io/app:v1', authority);
  expect(byTag.code, byTag.out).toBe(0);
  const listed = (await artifacts('ls', '-o', 'json')).out;
  const digest = /registry\.k8s\.io\/app:v1[^}]*?(sha256:[0-9a-f]{64})/s.exec(listed)![1]!;
  const byDigest = await pulled(`registry.k8s.io/app@${digest}`, authority);
  expect(byDigest.code, byDigest.out).toBe(0);
  const other = await pulled('registry.k8s.io/app:v1', selfSigned('x').certificate);
  expect(other.code).not.toBe(0);
  expect(other.out).toMatch(/x509|certificate/);
});

it('containerd does not trust a registry of another CA', async () => {
  const { certificate: other } = selfSigned('x');
  const { code, out } = await pull('registry.k8s.io/app:v1', hostsDirectory(other));
  expect(code).not.toBe(0);
  expect(out).toMatch(/certificate|x509/);
});

it('containerd reports an image that the registry does not have as not found', async () => {
  const { code, out } = await pull('registry.k8s.io/other:v1', hostsDirectory(transportAuthority()));
  expect(code).not.toBe(0);
  expect(out).toMatch(/not found|no such host|dial|lookup/);
});
