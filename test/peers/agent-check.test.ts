/** The agent's checks of a machine, each with a machine that passes and one that fails. */
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { selfSigned } from '../self-signed.ts';
import { Machine, Planner, SHELLS, SOURCE } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(() => {
  machine.close();
  planner.close();
});

/** A check's message, empty when the machine passes. Both shells run it and must agree. */
function check(...words: readonly string[]): string {
  const said = SHELLS.map(([shell, ...args]) => {
    const file = path.join(SOURCE, 'muster-check.sh');
    const done = spawnSync(shell, [...args, file, ...words], { env: machine.env(), encoding: 'utf8' });
    expect(done.stderr).toBe('');
    expect(done.stdout === '').toBe(done.status === 0);
    return done.stdout.trim();
  });
  expect(said[1]?.replace(/[0-9]+ ms;/, 'N ms;')).toBe(said[0]?.replace(/[0-9]+ ms;/, 'N ms;'));
  return said[0]!;
}

test('memory and processors are counted', () => {
  machine.write('/proc/meminfo', 'MemTotal:        2097152 kB\nMemFree:          1000 kB\n');
  machine.write('/proc/cpuinfo', 'processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\nmodel name\t: x\n');
  expect(check('memory', '2048')).toBe('');
  expect(check('memory', '2049')).toBe('2048 MiB of memory; 2049 are needed');
  expect(check('cpus', '2')).toBe('');
  expect(check('cpus', '3')).toBe('2 processors; 3 are needed');
});

test('control groups, swap and modules are read from where the kernel lists them', () => {
  expect(check('cgroup2')).toContain('control groups');
  machine.write('/sys/fs/cgroup/cgroup.controllers', 'cpu\n');
  expect(check('cgroup2')).toBe('');
  machine.write('/proc/swaps', 'Filename Type Size Used Priority\n');
  expect(check('swapless')).toBe('');
  machine.write('/proc/swaps', 'Filename Type Size Used Priority\n/dev/vda2 partition 1 0 -2\n');
  expect(check('swapless')).toBe('swap is in use');
  fs.mkdirSync(machine.path('/sys/module/br_netfilter'), { recursive: true });
  expect(check('module', 'br-netfilter')).toBe('');
});

test('a missing module is loaded, or reported when that fails', () => {
  const load = (script: string) => {
    machine.command('modprobe', script);
    const file = path.join(SOURCE, 'muster-check.sh');
    return spawnSync('dash', [file, 'module', 'overlay'], { env: machine.env(), encoding: 'utf8' }).stdout;
  };
  expect(load('#!/bin/sh\nexit 0\n')).toBe('');
  expect(load('#!/bin/sh\necho "modprobe: FATAL: not found"\nexit 1\n')).toBe(
    'modprobe: FATAL: not found\nthe kernel has no module overlay\n',
  );
});

test('the machine-id must be valid and must not be that of an image', () => {
  const own = '0123456789abcdef'.repeat(2);
  expect(check('machine-id')).toBe('');
  expect(check('machine-id', 'f'.repeat(32))).toBe('');
  expect(check('machine-id', 'f'.repeat(32), own)).toContain('of the image');
  for (const id of ['', 'uninitialized\n', `${'0'.repeat(32)}\n`, 'abc\n']) {
    machine.write('/etc/machine-id', id);
    expect(check('machine-id')).toContain('no machine-id');
  }
});

test('a port must be free or held by an allowed process', async () => {
  fs.rmSync(machine.path('/proc'), { recursive: true });
  fs.symlinkSync('/proc', machine.path('/proc'));
  const program =
    'const s = require("net").createServer().listen(0, process.argv[1], () => console.log(s.address().port))';
  for (const host of ['127.0.0.1', '::1']) {
    const child = spawn(process.execPath, ['-e', program, host], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const number = await new Promise<string>((resolve) =>
        child.stdout.once('data', (data) => resolve(String(data).trim())),
      );
      const name = fs.readFileSync(`/proc/${child.pid}/comm`, 'utf8').trim();
      expect(check('port', number)).toBe(`something else listens at TCP port ${number}`);
      expect(check('port', number, 'etcd')).toBe(`something else listens at TCP port ${number}`);
      expect(check('port', number, 'etcd', name)).toBe('');
    } finally {
      child.kill('SIGKILL');
    }
  }
  const free = net.createServer();
  await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve));
  const { port } = free.address() as net.AddressInfo;
  await new Promise((resolve) => free.close(resolve));
  expect(check('port', String(port))).toBe('');
});

test('synchronous writes are timed, and their file is deleted afterwards', () => {
  fs.mkdirSync(machine.path('/data'));
  expect(check('fsync', '/data', '60000')).toBe('');
  expect(check('fsync', '/data', '-1')).toMatch(/^of 100 small writes .* took [0-9]+ ms; -1 are allowed$/);
  expect(fs.readdirSync(machine.path('/data'))).toEqual([]);
  machine.write('/file', '');
  expect(check('fsync', '/file', '10')).toContain('cannot write to');
});

test('a disk with slow writes is reported, one with fast writes passes', () => {
  // A fake dd with reports of 97 fast writes, 3 slow ones, and all of them together.
  machine.command(
    'dd',
    `#!/bin/sh
case "$*" in *count=100*conv=fsync*) exit 0 ;; esac
n=\${*##*seek=}
n=\${n%% *}
took=0.00012
[ "$n" -lt 97 ] || took=0.0451
case "$*" in *count=100*) took=0.147 ;; esac
echo >>writes
printf '1+0 records in\\n1+0 records out\\n2300 bytes (2.3 kB, 2.2 KiB) copied, %s s, 1 MB/s\\n' "$took" >&2
`,
  );
  fs.mkdirSync(machine.path('/data'));
  const file = path.join(SOURCE, 'muster-check.sh');
  const writes = machine.path('/writes');
  const said = (limit: string) => {
    fs.rmSync(writes, { force: true });
    const words = [file, 'fsync', '/data', limit];
    const options = { cwd: machine.path('/'), env: machine.env(), encoding: 'utf8' } as const;
    return [spawnSync('dash', words, options).stdout, fs.statSync(writes).size];
  };
  expect(said('46')).toEqual(['', 101]);
  expect(said('44')).toEqual([expect.stringContaining('took 45 ms'), 101]);
  // No single write can have taken longer than all together.
  expect(said('147')).toEqual(['', 1]);
  expect(said('146')).toEqual(['', 101]);
});

/**
 * Runs the check of versions for a machine that would start an API server of version `own`; the
 * other one, at 127.0.0.1, says that it is `other`.
 */
async function skewCheck(own: string, other: string, address = '127.0.0.1'): Promise<string> {
  const { certificate: cert, key } = selfSigned('apiserver', ['IP:127.0.0.1']);
  for (const [name, text] of [
    ['ca-bundle.crt', cert],
    ['apiserver-kubelet-client.crt', cert],
    ['apiserver-kubelet-client.key', key],
  ] as const)
    machine.write(`/etc/kubernetes/pki/${name}`, text);
  // As an API server formats it.
  const body = JSON.stringify({ major: '1', minor: '36', gitVersion: other, gitCommit: '' }, undefined, 2);
  const options = { cert, key, ca: cert, requestCert: true, rejectUnauthorized: false };
  const server = https.createServer(options, ({ url, socket }, answer) => {
    const { authorized } = socket as TLSSocket;
    answer.writeHead(url === '/version' && authorized ? 200 : 401).end(authorized ? body : '');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  try {
    const words = [path.join(SOURCE, 'muster-check.sh'), 'skew', own, String(port), address];
    const said: string[] = [];
    for (const [shell, ...args] of SHELLS)
      said.push(
        await new Promise<string>((resolve) =>
          execFile(shell, [...args, ...words], { env: machine.env() }, (_, stdout) => resolve(stdout.trim())),
        ),
      );
    expect(said[1]).toBe(said[0]);
    return said[0]!;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('a machine that slept through two minor versions does not start its API server next to newer ones', async () => {
  expect(await skewCheck('1.34.9', 'v1.36.3')).toBe(
    'the API server at 127.0.0.1 is 1.36.3, and 1.34.9, which this machine would start, must not run next to it; the boot server has a newer plan for this machine',
  );
  expect(await skewCheck('1.36.3', 'v1.34.9')).toContain('must not run next to it');
  for (const other of ['v1.34.2', 'v1.35.6', 'v1.35.6+build', 'v1.36.0-rc.1', 'not a version'])
    expect(await skewCheck('1.35.1', other)).toBe('');
  // An API server that does not answer, or is of another cluster, proves nothing.
  expect(await skewCheck('1.34.9', 'v1.36.3', '127.0.0.2')).toBe('');
});

test('a failed check is a hold with the check’s name, and checks that passed are not repeated', async () => {
  machine.write('/proc/swaps', 'Filename\n/dev/vda2\n');
  machine.write('/proc/meminfo', 'MemTotal: 2097152 kB\n');
  const lines: readonly PlanLine[] = [
    { do: 'check', check: 'memory', of: ['2048'] },
    { do: 'check', check: 'swapless', of: [] },
    { do: 'step', step: 'checked' },
  ];
  planner.plan(lines);
  await machine.poll();
  machine.write('/proc/meminfo', 'MemTotal: 1 kB\n');
  await machine.poll();
  expect(planner.facts().hold).toEqual({ code: 'swapless', text: 'swap is in use' });
  expect(planner.facts().step).toBeUndefined();
  machine.write('/proc/swaps', 'Filename\n');
  planner.plan(lines);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
});

test('systemd-analyze accepts the agent’s unit without a message', () => {
  const unit = path.join(SOURCE, 'muster-agent.service');
  const done = spawnSync('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', unit], {
    encoding: 'utf8',
  });
  expect({ status: done.status, said: done.stdout + done.stderr }).toEqual({ status: 0, said: '' });
});

const ip = (...words: readonly string[]) => execFileSync('ip', words);

/**
 * Runs the check in a namespace with a link to 10.9.0.2: its MTU is `own` at this end and `others`
 * at the other end, which has a route back.
 */
function mtuCheck(own: number, others: number): string {
  for (const side of ['mtu-a', 'mtu-b']) ip('netns', 'add', side);
  try {
    ip('-n', 'mtu-a', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'mtu-b');
    for (const [side, address, mtu] of [
      ['mtu-a', '10.9.0.1/24', own],
      ['mtu-b', '10.9.0.2/24', others],
    ] as const) {
      ip('-n', side, 'address', 'add', address, 'dev', 'eth0');
      ip('-n', side, 'link', 'set', 'eth0', 'mtu', String(mtu), 'up');
    }
    const file = path.join(SOURCE, 'muster-check.sh');
    const said = (shell: readonly string[]) =>
      spawnSync('ip', ['netns', 'exec', 'mtu-a', ...shell, file, 'mtu', '10.9.0.2', '1500'], {
        encoding: 'utf8',
      }).stdout.trim();
    expect(said(['busybox', 'sh'])).toBe('');
    return said(['dash']);
  } finally {
    for (const side of ['mtu-a', 'mtu-b']) ip('netns', 'del', side);
  }
}

test('a segment may have a smaller MTU than usual when the machine’s own device has it too', () => {
  expect(mtuCheck(1500, 1500)).toBe('');
  expect(mtuCheck(1400, 1400)).toBe('');
  expect(mtuCheck(9000, 9000)).toBe('');
});

test('an MTU that is larger than another member’s is reported', () => {
  expect(mtuCheck(9000, 1500)).toBe(
    '10.9.0.2 answers, but packets of 9000 octets do not reach it in one piece',
  );
});

test.for(SHELLS)(
  'under %s the agent reports kubelet’s client certificate, also when it is a link, but not when the link is broken',
  async (shell) => {
    const current = '/var/lib/kubelet/pki/kubelet-client-current.pem';
    const joined = async () => {
      expect((await machine.poll(shell)).status).toBe(0);
      return planner.facts().joined;
    };
    expect(await joined()).toBeUndefined();
    machine.write('/var/lib/kubelet/pki/kubelet-client-now.pem', '-----BEGIN CERTIFICATE-----\n');
    fs.symlinkSync(machine.path('/var/lib/kubelet/pki/kubelet-client-now.pem'), machine.path(current));
    expect(await joined()).toBe(true);
    fs.rmSync(machine.path('/var/lib/kubelet/pki/kubelet-client-now.pem'));
    expect(await joined()).toBeUndefined();
  },
);

test('the agent reports kubectl’s message about objects that are not applied, until they are', async () => {
  machine.write('/run/muster/objects', 'Error from server (Forbidden): no\n');
  await machine.poll();
  expect(planner.facts().objects).toBe('Error from server (Forbidden): no');
  fs.rmSync(machine.path('/run/muster/objects'));
  await machine.poll();
  expect(planner.facts().objects).toBeUndefined();
});
