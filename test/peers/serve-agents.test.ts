/**
 * The daemon as a process with a cluster: from a machine's first script to its plan, with HTTP,
 * curl and openssl. Boot host and machine have an address each on an interface of this namespace.
 */
import { execFileSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { load } from 'js-yaml';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectApi } from '../../src/cli/client.socket.ts';
import { freePort, type ServerProcess, startServer } from './server-process.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-agents-'));
const socket = path.join(dir, 'run', 'muster.sock');
const client = connectApi(socket);
const KERNEL = Buffer.from('a kernel');
const MAC = '52:54:00:aa:00:11';

const BOOT_HOST = '10.79.3.1';
const MACHINE = '10.79.3.11';
const LINK = 'serve-agents';

const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.79.3.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec:
  os: debian
  arch: x86_64
  kernel: {sha256: ${createHash('sha256').update(KERNEL).digest('hex')}}
  configFormat: cloud-init
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {image: small}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["${MAC}"], profile: node, addresses: [${MACHINE}]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {dataDisk: {serial: D}, trust: approved, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1]}}
`;

let server: ServerProcess;

async function start(http: number, agents: number): Promise<void> {
  server = await startServer(
    [
      ...['--interface', LINK, '--config', path.join(dir, 'config')],
      ...['--state', path.join(dir, 'state'), '--socket', socket],
      ...['--http-port', String(http), '--agent-port', String(agents)],
    ],
    [path.join(ROOT, 'bin/muster')],
  );
}

beforeAll(() => {
  const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'ignore' });
  // An interface without a carrier has no addresses for Node.
  ip('link', 'add', LINK, 'type', 'veth', 'peer', 'name', `${LINK}-p`);
  ip('link', 'set', `${LINK}-p`, 'up');
  for (const address of [BOOT_HOST, MACHINE]) ip('addr', 'add', `${address}/24`, 'dev', LINK);
  ip('link', 'set', LINK, 'up');
});
afterAll(async () => {
  await server.end('SIGKILL');
  execFileSync('ip', ['link', 'del', LINK]);
  fs.rmSync(dir, { recursive: true, force: true });
});

interface WrittenFile {
  readonly path: string;
  readonly content: string;
  readonly encoding?: string;
  readonly permissions?: string;
}

const contentOf = ({ content, encoding = '' }: WrittenFile): string => {
  if (encoding === '') return content;
  const octets = Buffer.from(content, 'base64');
  return String(encoding.startsWith('gz') ? gunzipSync(octets) : octets);
};

it('the daemon takes a machine of a cluster from its first script to its plan, and continues after it was killed', async () => {
  const [http, agents] = [freePort(), freePort()];
  fs.mkdirSync(path.join(dir, 'config'));
  fs.writeFileSync(path.join(dir, 'config', 'all.yaml'), DOCUMENTS);
  await start(http, agents);
  await client.call('PUT', `/v1/assets/${createHash('sha256').update(KERNEL).digest('hex')}`, {
    body: KERNEL,
  });

  const base = `http://${BOOT_HOST}:${http}`;
  const asMachine = (url: string): string =>
    execFileSync('curl', ['-q', '-sS', '--interface', MACHINE, url], { encoding: 'utf8' });
  const script = asMachine(`${base}/script.ipxe?mac=${MAC}&arch=x86_64`);
  const session = /\/boot\/([A-Za-z0-9_-]+)/.exec(script)![1]!;
  const userData = asMachine(`${base}/boot/${session}/user-data`);
  const files = new Map(
    (load(userData) as { write_files: WrittenFile[] }).write_files.map((one) => [one.path, one]),
  );
  const settings = Object.fromEntries(
    contentOf(files.get('/etc/muster/agent.conf')!)
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );
  expect(settings).toMatchObject({ machine: 'cp1', session, server: `https://${BOOT_HOST}:${agents}` });
  expect(String(files.get('/etc/muster/agent.conf')!.permissions)).toBe('0600');
  expect(script).not.toContain(settings.ticket);

  const file = (name: string): string => path.join(dir, name);
  fs.writeFileSync(file('ca.crt'), contentOf(files.get('/etc/muster/ca.crt')!));
  execFileSync('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', file('key')]);
  execFileSync('openssl', ['req', '-new', '-key', file('key'), '-subj', '/CN=x', '-out', file('csr')]);
  const curl = (route: string, ...more: string[]): Buffer =>
    execFileSync('curl', [
      ...['-q', '-sS', '--fail', '--cacert', file('ca.crt'), '--capath', '/nonexistent', '--max-time', '30'],
      ...['--interface', MACHINE, ...more, `https://${BOOT_HOST}:${agents}${route}`],
    ]);
  const redeem = (): string => {
    const data = [
      '--data',
      `session=${session}&ticket=${settings.ticket}`,
      '--data-urlencode',
      `csr@${file('csr')}`,
    ];
    return String(curl('/agent/redeem', ...data));
  };
  // Without DHCP, nothing but an operator shows that this is the machine.
  expect(redeem()).not.toContain('CERTIFICATE');
  const waiting = await client.call<{ items: { code: string }[] }>('GET', '/v1/waiting?codes=true');
  await client.call('POST', '/v1/machines/cp1/approve', { body: { json: { code: waiting.items[0]!.code } } });
  const certificate = redeem();
  expect(new X509Certificate(certificate).subject).toBe('O=muster:agents\nCN=cp1');
  fs.writeFileSync(file('crt'), certificate);
  const facts = 'agent=1&bootid=b1&machineid=m1&clock=1700000000&disk=unused&wal=absent&etcd=down';
  const poll = (): string => {
    const tar = curl('/agent/poll', '--cert', file('crt'), '--key', file('key'), '--data', facts);
    return execFileSync('tar', ['-xOf', '-', 'plan'], { input: tar, encoding: 'utf8' });
  };
  expect(poll()).toMatch(/^muster-plan 1 [0-9a-f]{64}\n/);
  const shown = await client.call<{ status: { agent: { bootId: string } } }>('GET', '/v1/machines/cp1');
  expect(shown.status.agent.bootId).toBe('b1');

  await server.end('SIGKILL');
  await start(http, agents);
  expect(redeem()).toBe(certificate);
  expect(poll()).toMatch(/^muster-plan 1 /);
  const { items } = await client.call<{ items: { of: string; certificates: { leaf: string }[] }[] }>(
    'GET',
    '/v1/pki',
  );
  const own = items.find((one) => one.of === 'muster')!;
  expect(own.certificates.map(({ leaf }) => leaf).sort()).toEqual(['agent', 'muster-server']);
  expect(server.log()).not.toContain(settings.ticket);
}, 240_000);
