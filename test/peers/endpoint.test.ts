/**
 * The API's endpoint with the real keepalived and haproxy and the configuration of plans: three
 * control planes, a worker and a client on one segment. A program in place of each apiserver
 * answers /readyz over TLS and can be made not ready.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { balancerBinds, balancerConfig } from '../../src/cluster/plan/balancer.ts';
import { keepalivedConfig } from '../../src/cluster/plan/virtual-address.ts';
import { HEALTH_CLIENT } from '../../src/cluster/resolve/health-requests.ts';
import { AUTHORITIES } from '../../src/pki/hierarchy.ts';
import type { KubernetesSpec } from '../../src/resources/kinds.ts';
import { selfSigned } from '../self-signed.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { attach, bridge, daemon, ip, remove, run } from './dhcp-segment.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-endpoint-'));
const CONTROL_PLANES = ['cp1', 'cp2', 'cp3'] as const;
const OTHERS = ['w1', 'person'] as const;
const VIRTUAL = ['10.88.0.10', 'fd00:88::10'] as const;
const addressesOf = (n: number): readonly string[] => [`10.88.0.${11 + n}`, `fd00:88::${11 + n}`];

const clusterAt = (endpoint: string, overrides: KubernetesSpec['overrides'] = {}) =>
  resolved(
    {
      overrides,
      endpoint,
      sans: [],
      workers: ['w1'],
      virtualAddress: { addresses: [...VIRTUAL], interface: 'eth0' },
    },
    [...CONTROL_PLANES, 'w1'].map((name, n) => ({ name, addresses: addressesOf(n) })),
  );
const CLUSTER = clusterAt(VIRTUAL[0]);
/** The same cluster with a load balancer at the endpoint. */
const BALANCED = clusterAt(`${VIRTUAL[0]}:8443`);

/** A cluster whose API servers refuse anonymous requests. */
const STRICT = clusterAt(VIRTUAL[0], { flags: { 'kube-apiserver': { 'anonymous-auth': 'false' } } });

type Daemon = Awaited<ReturnType<typeof daemon>>;
const apis = new Map<string, Daemon>();
const holders = new Map<string, Daemon>();
const balancers = new Map<string, Daemon>();

/**
 * A server that answers with the machine's name, or with 503 while a file exists. While the file
 * `refuses-anonymous` exists it answers 401 to clients without a certificate.
 */
const API = `
import fs from 'node:fs';
import https from 'node:https';
const [name, home] = process.argv.slice(2);
https.createServer({ key: fs.readFileSync(home + '/key.pem'), cert: fs.readFileSync(home + '/cert.pem'), requestCert: true, rejectUnauthorized: false }, (request, response) => {
  if (fs.existsSync(home + '/refuses-anonymous') && !request.socket.getPeerCertificate()?.subject)
    return void response.writeHead(401).end();
  const ready = !fs.existsSync(home + '/not-ready-' + name);
  response.writeHead(ready ? 200 : 503).end(name);
}).listen(6443, '::', () => console.log('listening'));
`;

const file = (name: string, text: string): string => {
  writeFileSync(join(HOME, name), text);
  return join(HOME, name);
};
const placed = (text: string): string =>
  text
    .replaceAll(AUTHORITIES.ca.bundle.path, join(HOME, 'cert.pem'))
    .replaceAll(HEALTH_CLIENT.path, join(HOME, 'health.pem'));

function holds(machine: string, address: string): boolean {
  return ip('-n', machine, '-o', 'address', 'show', 'dev', 'eth0').includes(` ${address}/`);
}
const holdersOf = (address: string): readonly string[] =>
  CONTROL_PLANES.filter((machine) => holds(machine, address));

/** The name of the machine that answers the client at an address; empty when none does. */
async function answers(namespace: string, host: string, port = 6443): Promise<string> {
  const { output } = await run(namespace, ['curl', '-sfk', '--max-time', '1', `https://${host}:${port}/`]);
  return output;
}

async function startKeepalived(machine: (typeof CONTROL_PLANES)[number], cluster = CLUSTER): Promise<void> {
  const own = cluster.machines.find(({ name }) => name === machine)!;
  const config = file(`${machine}.conf`, placed(keepalivedConfig(cluster, own, cluster.virtualAddress!)));
  const { command, env } = unpacked('keepalived', 'usr/sbin/keepalived');
  // As in the unit, except that three machines share one /run here.
  const pids = [`--pid=${join(HOME, `${machine}.pid`)}`, `--vrrp_pid=${join(HOME, `${machine}.vrrp`)}`];
  const words = [command, '--dont-fork', '--log-console', '--use-file', config, ...pids];
  holders.set(machine, await daemon(machine, words, /Entering BACKUP STATE|VRRP_Script\(api\)/, env));
}

beforeAll(async () => {
  bridge('br-endpoint');
  for (const [n, name] of [...CONTROL_PLANES, ...OTHERS].entries()) {
    attach(name, 'br-endpoint');
    // Without duplicate address detection (nodad), so that it can be used immediately.
    for (const address of addressesOf(n))
      if (address.includes(':')) ip('-n', name, 'address', 'add', `${address}/64`, 'dev', 'eth0', 'nodad');
      else ip('-n', name, 'address', 'add', `${address}/24`, 'dev', 'eth0');
  }
  const names = ['127.0.0.1', ...CONTROL_PLANES.flatMap((_, n) => addressesOf(n))].map((one) => `IP:${one}`);
  const pair = selfSigned('api', names);
  file('key.pem', pair.key);
  file('cert.pem', pair.certificate);
  const script = file('api.mjs', API);
  for (const name of CONTROL_PLANES)
    apis.set(name, await daemon(name, [process.execPath, script, name, HOME], /listening/));
});
afterAll(async () => {
  for (const one of [...holders.values(), ...apis.values(), ...balancers.values()]) await one.stop();
  remove([...CONTROL_PLANES, ...OTHERS], ['br-endpoint']);
  rmSync(HOME, { recursive: true, force: true });
});

async function startBalancer(machine: string, cluster: typeof CLUSTER): Promise<Daemon> {
  const own = cluster.machines.find(({ name }) => name === machine)!;
  const { command, env } = unpacked('haproxy', 'usr/sbin/haproxy');
  const text = balancerConfig(cluster, balancerBinds(cluster, own));
  const config = file(`${machine}.cfg`, placed(text));
  expect(await run(machine, [command, '-c', '-f', config], 20, env)).toMatchObject({ code: 0 });
  const words = [command, '-W', '-db', '-f', config];
  const started = await daemon(machine, words, /New worker|Loading success|started/, env);
  balancers.set(machine, started);
  return started;
}

/**
 * Waits until every control plane has answered; asks again when one takes longer than a second.
 */
async function allAnswer(ask: () => Promise<string>): Promise<void> {
  const seen = new Set<string>();
  const names = async () => [...seen.add(await ask())].filter((name) => name !== '').sort();
  await expect.poll(names, { timeout: 20_000, interval: 20 }).toEqual(CONTROL_PLANES);
}

/** Waits until exactly one control plane holds both addresses and answers there. */
async function settled(): Promise<string> {
  await expect.poll(() => holdersOf(VIRTUAL[0]), { timeout: 40_000, interval: 200 }).toHaveLength(1);
  const [holder] = holdersOf(VIRTUAL[0]);
  await expect.poll(() => answers('person', VIRTUAL[0]), { timeout: 20_000, interval: 100 }).toBe(holder);
  return holder!;
}

test('one control plane has the addresses of both families, and a client reaches the API there', async () => {
  for (const machine of CONTROL_PLANES) await startKeepalived(machine);
  const holder = await settled();
  expect(holdersOf(VIRTUAL[1])).toEqual([holder]);
  await expect.poll(() => answers('person', `[${VIRTUAL[1]}]`), { timeout: 20_000 }).toBe(holder);
});

test('when the holder’s apiserver fails the addresses move to another control plane, and stay there when it is back', async () => {
  const before = await settled();
  const sign = file(`not-ready-${before}`, '');
  await expect
    .poll(() => answers('person', VIRTUAL[0]), { timeout: 40_000, interval: 100 })
    .not.toMatch(new RegExp(`^(${before})?$`));
  const after = await settled();
  expect(holdersOf(VIRTUAL[1])).toEqual([after]);
  rmSync(sign);
  // The check script sees it as ready again, so from here on it could take the addresses.
  await expect
    .poll(() => holders.get(before)!.output(), { timeout: 20_000 })
    .toMatch(/VRRP_Script\(api\) failed[\s\S]*succeeded[\s\S]*Entering BACKUP STATE/);
  await expect.poll(() => answers('person', VIRTUAL[0])).toBe(after);
  expect(holdersOf(VIRTUAL[0])).toEqual([after]);
});

test('when the holder is cut off another control plane has the addresses, and only one has them when it is back', async () => {
  const before = await settled();
  ip('link', 'set', `p-${before}`, 'down');
  await expect
    .poll(() => answers('person', VIRTUAL[0]), { timeout: 40_000, interval: 100 })
    .not.toMatch(new RegExp(`^(${before})?$`));
  ip('link', 'set', `p-${before}`, 'up');
  await settled();
});

test('a worker reaches the API at its own loopback, and is sent to another control plane when one is not ready', async () => {
  const balancer = await startBalancer('w1', CLUSTER);
  await allAnswer(() => answers('w1', '127.0.0.1'));
  const sign = file('not-ready-cp2', '');
  await expect.poll(() => balancer.output(), { timeout: 20_000 }).toMatch(/control-planes\/cp2 is DOWN/);
  const after = new Set<string>();
  for (let n = 0; n < 9; n++) after.add(await answers('w1', '127.0.0.1'));
  expect([...after].sort()).toEqual(['cp1', 'cp3']);
  rmSync(sign);
});

test('an endpoint with its own port reaches every apiserver, and the address stays where a balancer reaches one', async () => {
  for (const machine of CONTROL_PLANES) {
    await holders.get(machine)?.stop();
    await startBalancer(machine, BALANCED);
  }
  for (const machine of CONTROL_PLANES) await startKeepalived(machine, BALANCED);
  const ask = (host: string = VIRTUAL[0]) => answers('person', host, 8443);
  await expect.poll(() => holdersOf(VIRTUAL[0]), { timeout: 40_000, interval: 200 }).toHaveLength(1);
  const [holder = ''] = holdersOf(VIRTUAL[0]);
  for (const host of [VIRTUAL[0], `[${VIRTUAL[1]}]`]) await allAnswer(() => ask(host));
  // Its own apiserver fails, and the others answer at the same address.
  const sign = file(`not-ready-${holder}`, '');
  await expect
    .poll(() => balancers.get(holder)!.output(), { timeout: 20_000 })
    .toMatch(new RegExp(`control-planes/${holder} is DOWN`));
  const after = new Set<string>();
  for (let n = 0; n < 9; n++) after.add(await ask());
  expect([...after].sort()).toEqual(CONTROL_PLANES.filter((name) => name !== holder));
  expect(holdersOf(VIRTUAL[0])).toEqual([holder]);
  rmSync(sign);
  // Its balancer is gone, so the address moves to another control plane.
  await balancers.get(holder)!.stop();
  await expect
    .poll(() => holdersOf(VIRTUAL[0]), { timeout: 40_000, interval: 200 })
    .toEqual([expect.not.stringMatching(holder)]);
  await expect.poll(() => ask(), { timeout: 20_000, interval: 100 }).not.toBe('');
});

test('where API servers refuse anonymous requests, balancer and keepalived ask with their certificate', async () => {
  for (const one of [...holders.values(), ...balancers.values()]) await one.stop();
  file('refuses-anonymous', '');
  const client = selfSigned('muster-health', []);
  file('health.pem', client.certificate + client.key);
  const balancer = await startBalancer('w1', STRICT);
  // haproxy begins with servers that are up; the first check of one that refuses takes it down.
  const sign = file('not-ready-cp2', '');
  await expect.poll(() => balancer.output(), { timeout: 20_000 }).toMatch(/control-planes\/cp2 is DOWN/);
  rmSync(sign);
  await expect.poll(() => balancer.output(), { timeout: 20_000 }).toMatch(/control-planes\/cp2 is UP/);
  expect(balancer.output()).not.toMatch(/control-planes\/cp[13] is DOWN/);
  await startKeepalived('cp1', STRICT);
  await expect.poll(() => holdersOf(VIRTUAL[0]), { timeout: 40_000, interval: 200 }).toEqual(['cp1']);
});
