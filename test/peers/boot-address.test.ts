/**
 * The address that goes from one acting boot host to the next: two hosts in namespaces on one
 * segment, with a real member of etcd, and a machine with dhclient, arping and the neighbours of
 * its kernel. Needs scripts/in-namespace.sh.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Mac } from '../../src/base/mac.ts';
import { BROADCAST_FLAG } from '../../src/pxe/dhcp/packet.ts';
import { message } from '../unit/pxe/dhcp/kit.ts';
import { attach, bridge, daemon, ip, remove, run } from './dhcp-segment.ts';
import { callApi } from './etcd/api.ts';
import { type StoreMembers, startMembers } from './etcd-members.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-address-'));
const BOOT = '10.77.0.2';
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec:
  subnet: 10.77.0.0/24
  dhcp: {mode: server, probe: off, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}
`;
const SCRIPT = join(HOME, 'dhclient.sh');
let members: StoreMembers;
const children: ChildProcess[] = [];

beforeAll(async () => {
  bridge('br-ha', '10.77.0.250/24');
  for (const [n, name] of ['ha1', 'ha2', 'm1'].entries()) {
    attach(name, 'br-ha');
    if (name !== 'm1') ip('-n', name, 'addr', 'add', `10.77.0.1${n}/24`, 'dev', 'eth0');
  }
  // Hand-made packets are sent over the default route.
  ip('-n', 'm1', 'route', 'add', 'default', 'dev', 'eth0');
  mkdirSync(join(HOME, 'config'));
  writeFileSync(join(HOME, 'config/all.yaml'), DOCUMENTS);
  writeFileSync(
    SCRIPT,
    '#!/bin/sh\n[ -z "$new_ip_address" ] || ip addr replace "$new_ip_address/24" dev "$interface"\necho "GOT $reason $new_ip_address from $new_dhcp_server_identifier"\n',
    { mode: 0o755 },
  );
  members = await startMembers(1, { address: '10.77.0.250' });
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  for (const pid of serving) for (const one of [pid, ...programsOf(pid)]) signal(one, 'SIGKILL');
  await members?.end();
  remove(['ha1', 'ha2', 'm1'], ['br-ha']);
  rmSync(HOME, { recursive: true });
});

const serving: number[] = [];
const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
};

/** Starts a boot host; resolves when its log matches. */
async function host(name: 'ha1' | 'ha2', ready: RegExp) {
  const state = join(HOME, name);
  mkdirSync(state, { recursive: true });
  if (existsSync(join(HOME, 'vault.key'))) cpSync(join(HOME, 'vault.key'), join(state, 'vault.key'));
  const started = await daemon(
    name,
    [
      ...[resolve('bin/muster'), 'serve', '--interface', 'eth0', '--boot-address', `eth0=${BOOT}/24`],
      ...['--config', join(HOME, 'config'), '--state', state, '--socket', join(HOME, `${name}.sock`)],
      ...['--loaders', '/usr/lib/ipxe', '--host-name', name],
      ...['--store', members.url('address'), ...members.options],
    ],
    ready,
  );
  serving.push(started.pid);
  if (existsSync(join(state, 'vault.key'))) cpSync(join(state, 'vault.key'), join(HOME, 'vault.key'));
  return started;
}

/** The programs that hold addresses for a server. */
const programsOf = (pid: number): number[] => childrenOf(pid).flatMap((one) => [one, ...childrenOf(one)]);
function childrenOf(pid: number): number[] {
  const { status, stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
  return status === 0 ? stdout.trim().split('\n').map(Number) : [];
}

const macOf = (name: string): string =>
  (JSON.parse(ip('-n', name, '-j', 'link', 'show', 'eth0')) as { address: string }[])[0]!.address;
const has = (name: string): boolean => ip('-n', name, 'addr', 'show', 'dev', 'eth0').includes(`${BOOT}/24`);
/** The hardware at which the machine's kernel reaches the boot address. */
const neighbour = (): string | undefined =>
  (JSON.parse(ip('-n', 'm1', '-j', 'neigh', 'show', BOOT)) as { lladdr?: string }[])[0]?.lladdr;
/** The hardware that answers for it. */
async function answering(): Promise<string[]> {
  const { output } = await run('m1', ['busybox', 'arping', '-c', '2', '-w', '3', '-I', 'eth0', BOOT]);
  return [...new Set([...output.matchAll(/\[([0-9a-f:]{17})\]/g)].map(([, mac]) => mac!))];
}
/** What the machine's DHCP client gets. It asks for its former address first. */
async function lease(): Promise<string> {
  const files = ['-lf', join(HOME, 'leases'), '-pf', join(HOME, 'pid')];
  const { output } = await run('m1', ['dhclient', '-4', '-1', '-v', '-sf', SCRIPT, ...files, 'eth0']);
  await run('m1', ['dhclient', '-4', '-x', '-sf', SCRIPT, ...files, 'eth0']);
  return /GOT (?:BOUND|REBOOT) .*/.exec(output)?.[0] ?? output;
}
const script = async (): Promise<string> =>
  (await run('m1', ['curl', '-s', '-m', '5', `http://${BOOT}:8080/boot.ipxe`])).output;

test('the acting host has the boot address, and machines are told no other; a host that stands by has not', async () => {
  const first = await host('ha1', /ready: 1/);
  const second = await host('ha2', /this host stands by/);
  expect([has('ha1'), has('ha2')]).toEqual([true, false]);
  expect(await lease()).toBe(`GOT BOUND 10.77.0.100 from ${BOOT}`);
  expect(await script()).toContain(`http://${BOOT}:8080/`);
  expect(await answering()).toEqual([macOf('ha1')]);
  expect(neighbour()).toBe(macOf('ha1'));

  // A pause of the server and of its program: the kernel takes the address away.
  const paused = [...programsOf(first.pid), first.pid];
  expect(paused.length).toBeGreaterThan(1);
  for (const pid of paused) signal(pid, 'SIGSTOP');
  await expect.poll(() => second.output(), { timeout: 30_000, interval: 50 }).toMatch(/ready: 1/);
  await expect.poll(() => has('ha1'), { timeout: 5000, interval: 50 }).toBe(false);
  expect(has('ha2')).toBe(true);
  // The machine did not ask again: the announcement changed what its kernel knows.
  await expect.poll(neighbour, { timeout: 3000, interval: 50 }).toBe(macOf('ha2'));
  for (const pid of paused) signal(pid, 'SIGCONT');
  await expect.poll(() => first.output(), { timeout: 10_000 }).toMatch(/E_HOST_NOT_ACTING|ended/);
  expect(await answering()).toEqual([macOf('ha2')]);
  expect([has('ha1'), has('ha2')]).toEqual([false, true]);
  expect(await script()).toContain(`http://${BOOT}:8080/`);
  expect(await lease()).toBe(`GOT REBOOT 10.77.0.100 from ${BOOT}`);

  // A hand-over: no DISCOVER is lost, and the next host answers what came meanwhile.
  const last = await host('ha1', /this host stands by/);
  await expect.poll(async () => ask('GET', '/v1/hosts'), { timeout: 5000 }).toContain('"standby"');
  const asking = run('m1', [
    ...[process.execPath, resolve('test/peers/dhcp-every.ts'), '50', '6000'],
    message('DISCOVER', { mac: '52:54:00:00:77:09' as Mac, flags: BROADCAST_FLAG }).toString('hex'),
  ]);
  await wait(2000);
  await ask('POST', '/v1/hosts/hand-over');
  const { output } = await asking;
  expect(last.output()).toMatch(/ready: 1/);
  const { sent, answered, worst } = JSON.parse(output) as Record<string, number>;
  expect(answered).toBe(sent);
  console.log(`hand-over: the latest of ${sent} answers of DHCP came after ${worst} ms`);
  expect([has('ha1'), has('ha2')]).toEqual([true, false]);
  expect(last.output()).toContain('"event":"host.take-over","subject":"muster","reason":"handed_over"');

  // A kill: the program takes the address away.
  signal(last.pid, 'SIGKILL');
  await expect.poll(() => has('ha1'), { timeout: 3000, interval: 50 }).toBe(false);
}, 240_000);

const ask = async (method: string, path: string): Promise<string> =>
  (await callApi(join(HOME, 'ha2.sock'), method, path)).text;

/** The program alone, in a namespace. */
function hold(namespace: string, ...addresses: string[]) {
  const program = resolve('systemd/hold-address.pl');
  const child = spawn('ip', ['netns', 'exec', namespace, 'perl', program, ...addresses], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  return { lines, child, hold: (ms: number) => child.stdin.write(`hold ${Math.floor(uptime() + ms)}\n`) };
}
const uptime = (): number => performance.now() + STARTED;
const STARTED = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000 - performance.now();

test('an address that another host keeps is taken all the same, and who keeps it is named', async () => {
  attach('keeps', 'br-ha');
  attach('takes', 'br-ha');
  ip('-n', 'keeps', 'addr', 'add', '10.77.0.3/24', 'dev', 'eth0');
  ip('-n', 'm1', 'addr', 'replace', '10.77.0.90/24', 'dev', 'eth0');
  await run('m1', ['ping', '-c', '1', '10.77.0.3']);
  const at = (): string => ip('-n', 'm1', 'neigh', 'show', '10.77.0.3');
  expect(at()).toContain(macOf('keeps'));
  const { lines, child, hold: until } = hold('takes', 'eth0=10.77.0.3/24');
  until(20_000);
  await expect.poll(() => lines.at(-1), { timeout: 6000 }).toBe('held eth0 10.77.0.3');
  expect(lines).toContain(`other eth0 10.77.0.3 ${macOf('keeps')}`);
  await expect.poll(at, { timeout: 3000 }).toContain(macOf('takes'));
  // Its announcements win over those of the other one.
  await run('keeps', ['busybox', 'arping', '-U', '-c', '1', '-I', 'eth0', '10.77.0.3']);
  await wait(300);
  expect(at()).toContain(macOf('takes'));
  child.stdin.end();
  await expect.poll(() => ip('-n', 'takes', 'addr', 'show', 'dev', 'eth0')).not.toContain('10.77.0.3/24');
  remove(['keeps', 'takes'], []);
});

test('an address is taken away when its time is over, and one that the host itself configures is left alone', async () => {
  attach('alone', 'br-ha');
  const { lines, child, hold: until } = hold('alone', 'eth0=10.77.0.4/24', 'none0=10.77.1.4/24');
  until(1500);
  await expect.poll(() => lines.at(-1), { timeout: 3000 }).toBe('lost eth0 10.77.0.4');
  expect(lines).toContain('held eth0 10.77.0.4');
  expect(lines.find((line) => line.startsWith('failed none0 10.77.1.4'))).toContain('no such interface');
  expect(ip('-n', 'alone', 'addr', 'show', 'dev', 'eth0')).not.toContain('10.77.0.4');

  ip('-n', 'alone', 'addr', 'add', '10.77.0.4/24', 'dev', 'eth0');
  until(1500);
  await expect.poll(() => lines.at(-1), { timeout: 3000 }).toMatch(/^failed eth0 .* take it away/);
  child.stdin.end();
  await wait(300);
  expect(ip('-n', 'alone', 'addr', 'show', 'dev', 'eth0')).toContain('10.77.0.4/24');
  remove(['alone'], []);
});
