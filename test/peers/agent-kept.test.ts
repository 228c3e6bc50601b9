/**
 * The plan that a machine with a boot disk keeps and does by itself while the boot server does not
 * answer. Needs root and scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { bundleOf } from '../../src/agent/scripts/bundle.ts';
import { AGENT_SCRIPTS, START_SCRIPT } from '../../src/agent/scripts/scripts.files.ts';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { askDisk, Disks } from './agent-disks.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
const MARKER = { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
const CREATE: PlanLine = { do: 'create-data', device: '/dev/vdb', filesystem: UUID };

let planner: Planner;
let machine: Machine;
let disks: Disks;
let assets: http.Server;
let fetched: string[];
let content: Map<string, Buffer>;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner, { data: 'serial=S2', boot: 'serial=S1' });
  machine.write('/proc/cmdline', 'BOOTIF=01-52-54-00-aa-00-01 boot=muster\n');
  disks = new Disks(machine);
  disks.add('vda', 64, 'S1');
  disks.add('vdb', 64, 'S2');
  fetched = [];
  content = new Map();
  assets = http.createServer((request, response) => {
    fetched.push(request.url!);
    const found = content.get(request.url!);
    response.writeHead(found ? 200 : 404).end(found);
  });
  await new Promise<void>((resolve) => assets.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  await machine.stop();
  disks.close();
  machine.close();
  planner.close();
  assets.closeAllConnections();
  assets.close();
});

/** The address of the file server. */
const files = (): string => `http://127.0.0.1:${(assets.address() as AddressInfo).port}`;

function asset(octets: Buffer): { readonly url: string; readonly sha256: string } {
  const sha256 = createHash('sha256').update(octets).digest('hex');
  content.set(`/${sha256}`, octets);
  return { url: `${files()}/${sha256}`, sha256 };
}

function archive(): Buffer {
  machine.write('/pack/plugin', 'bridge');
  return execFileSync('tar', ['-cf', '-', '-C', machine.path('/pack'), 'plugin']);
}

/** Two files that are fetched, one that comes with the plan, and a unit. */
const lines = (): readonly PlanLine[] => [
  { do: 'mount-data', filesystem: UUID },
  MARKER,
  put('/etc/name', 'cp1\n'),
  { do: 'fetch', mode: 0o755, path: '/opt/bin/tool', ...asset(Buffer.alloc(100_000, 'tool')) },
  { do: 'unpack', directory: '/opt/cni', ...asset(archive()) },
  { do: 'run', unit: 'kubelet.service', digest: 'a'.repeat(64) },
];

/**
 * The machine loses its power and starts from its boot disk: a fresh root with its first
 * configuration, and its disks.
 */
function startsByItself(): void {
  disks.unmount();
  machine.reboot();
  for (const at of ['/etc/name', '/opt']) fs.rmSync(machine.path(at), { recursive: true, force: true });
  machine.write(
    '/proc/cmdline',
    'BOOTIF=01-52-54-00-aa-00-01 boot=muster ds=nocloud muster.kept=1795000000\n',
  );
}

/** Resolves when `is` says so. */
async function until(is: () => boolean): Promise<void> {
  for (let tries = 0; !is(); tries += 1) {
    if (tries > 400) throw new Error(`it did not happen: ${is}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Stops the server, so that no request is answered from now on. */
function silence(): void {
  planner.close();
  assets.closeAllConnections();
  assets.close();
}

test.for(SHELLS)(
  'by %s, a machine that starts from its boot disk does its last plan with the files that it fetched before',
  async (shell) => {
    planner.plan([CREATE, MARKER]);
    expect((await machine.poll(shell)).status).toBe(0);
    expect(machine.exists('/var/lib/muster/kept/plan.tar')).toBe(false);
    planner.plan(lines());
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(machine.mode('/var/lib/muster/kept/plan.tar')).toBe('600');
    expect(fetched).toHaveLength(2);
    machine.told();

    startsByItself();
    silence();
    const { said } = await machine.poll(shell);
    expect(said).toContain('the boot server does not answer; this machine does what it did last');
    expect(machine.read('/etc/name')).toBe('cp1\n');
    expect(machine.read('/opt/bin/tool')).toHaveLength(100_000);
    expect(machine.mode('/opt/bin/tool')).toBe('755');
    expect(machine.read('/opt/cni/plugin')).toBe('bridge');
    expect(machine.told()).toContain('start kubelet.service');
    // The second time it has nothing to do.
    await machine.poll(shell);
    expect(machine.told()).toEqual([]);
  },
);

test('a machine whose boot disk has a CA that was replaced since gets the present one from its kept plan, and reports again', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  planner.plan([...lines(), put('/etc/muster/ca.crt', planner.authority)]);
  expect((await machine.poll()).status).toBe(0);
  startsByItself();
  const former = await Planner.open();
  former.close();
  machine.write('/etc/muster/ca.crt', former.authority);
  const polls = planner.asked.length;
  expect((await machine.poll()).said).toContain('this machine does what it did last');
  expect(planner.asked).toHaveLength(polls);
  expect(machine.read('/etc/muster/ca.crt')).toBe(planner.authority);
  expect((await machine.poll()).status).toBe(0);
  expect(planner.asked.at(-1)!.path).toBe('/agent/poll');
});

test('a machine whose boot disk has an older agent does its kept plan with the agent that made it, and without the server', async () => {
  const install = (): void => {
    for (const [name, text] of Object.entries({ ...AGENT_SCRIPTS, 'muster-start.sh': START_SCRIPT }))
      machine.write(`/etc/muster/${name}`, text);
  };
  const conf = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', `${conf}agent=${'a'.repeat(64)}\n`);
  install();
  const AGENT = machine.path('/etc/muster/muster-start.sh');
  planner.plan([CREATE, MARKER]);
  expect((await machine.poll(SHELLS[0], { AGENT: machine.path('/etc/muster/muster-agent.sh') })).status).toBe(
    0,
  );
  // The agent of the first configuration is replaced by one that calls itself by another version.
  const newer = bundleOf({
    ...AGENT_SCRIPTS,
    'muster-agent.sh': AGENT_SCRIPTS['muster-agent.sh']!.replace(/^version=.*$/m, 'version=77'),
  });
  planner.bundle = newer;
  planner.standing = lines();
  machine.start(SHELLS[0], [], { AGENT });
  // The file is absent for a moment while another agent is kept.
  const kept = (): string => {
    try {
      return machine.read('/var/lib/muster/kept/agent');
    } catch {
      return '';
    }
  };
  await until(() => kept().startsWith(newer.digest));
  await machine.stop();

  startsByItself();
  fs.rmSync(machine.path('/etc/muster/agents'), { recursive: true });
  silence();
  const child = machine.start(SHELLS[0], [], { AGENT });
  let said = '';
  child.stderr!.on('data', (part) => (said += part));
  await until(() => machine.exists('/run/muster/applied'));
  expect(said).toContain(`the agent ${newer.digest} made the kept plan, and does it`);
  expect(machine.read('/etc/muster/agents/current')).toBe(`${newer.digest}\n`);
  expect(machine.read('/etc/name')).toBe('cp1\n');
});

test('a machine that booted from the network waits for its server, and reports later that it went on without it', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  planner.standing = lines();
  expect((await machine.poll()).status).toBe(0);
  startsByItself();
  machine.write('/proc/cmdline', 'boot=muster\n');
  // No process listens on this port.
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^server=.*$/m, 'server=https://127.0.0.1:1'));
  await machine.poll();
  expect(machine.exists('/etc/name')).toBe(false);
  machine.write('/proc/cmdline', 'muster.kept=1795000000\n');
  await machine.poll();
  expect(machine.exists('/etc/name')).toBe(true);
  machine.write('/etc/muster/agent.conf', settings);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.facts().bootDisk).toEqual({
    state: 'started',
    text: 'this boot is from it, by what it kept',
  });
  expect(planner.facts().applied).toBeDefined();
});

test('a root image that was damaged on the boot disk is reported once, until the disk is brought up to date', async () => {
  machine.write(
    '/run/muster/root-damaged',
    'the root image on the boot disk is damaged: SHA-256 1f instead of 2e',
  );
  planner.plan([CREATE, MARKER]);
  expect((await machine.poll()).status).toBe(0);
  expect(planner.facts().bootDisk).toEqual({
    state: 'damaged',
    text: 'the root image on the boot disk is damaged: SHA-256 1f instead of 2e',
  });
  machine.write('/run/muster/bootdisk', 'kept /dev/vda holds what this boot used');
  await machine.poll();
  expect(planner.facts().bootDisk?.state).toBe('kept');
});

test('orders that count only once (start etcd empty, set its data aside, leave) are not kept', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  for (const line of [
    { do: 'guard-new', filesystem: UUID },
    { do: 'guard-left', founding: 'f0' },
    { do: 'set-aside-etcd', member: '1f' },
  ] as const) {
    planner.plan([{ do: 'mount-data', filesystem: UUID }, MARKER, line]);
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    expect(machine.exists('/var/lib/muster/kept/plan.tar')).toBe(false);
    expect(machine.exists('/run/muster/bootdisk')).toBe(false);
  }
  planner.plan(lines());
  await machine.poll();
  expect(machine.exists('/var/lib/muster/kept/plan.tar')).toBe(true);
  // Only now the boot disk is written; here that fails, since no image was booted.
  await expect
    .poll(() => machine.exists('/run/muster/bootdisk') && machine.read('/run/muster/bootdisk'))
    .toMatch(/^failed /);
  const { do: _, ...left } = MARKER;
  planner.plan([{ do: 'clear', ...left }]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.exists('/var/lib/muster/kept')).toBe(false);
});

test.for(SHELLS)(
  'by %s, a file that a plan removes goes from the kept plan at once, also when the new plan itself is held and not kept',
  async (shell) => {
    const key = { path: '/etc/kubernetes/pki/etcd/ca.key', text: 'the key of a CA\n' };
    planner.plan([CREATE, MARKER]);
    await machine.poll(shell);
    planner.plan([...lines(), put(key.path, key.text, 0o600)]);
    await machine.poll(shell);
    const kept = () =>
      execFileSync('tar', ['-xOf', machine.path('/var/lib/muster/kept/plan.tar')], { encoding: 'utf8' });
    expect(kept()).toContain(key.text);

    planner.plan([
      { do: 'mount-data', filesystem: UUID },
      { do: 'remove', path: key.path },
      { do: 'hold', code: 'waiting-for-turn', text: 'another machine restarts' },
    ]);
    await machine.poll(shell);
    expect(machine.exists(key.path)).toBe(false);
    expect(kept()).not.toContain(key.text);
    expect(kept()).not.toContain(key.path);
    expect(machine.mode('/var/lib/muster/kept/plan.tar')).toBe('600');
    expect(machine.exists('/run/muster/kept')).toBe(false);

    // What is left is a plan that the machine does by itself.
    startsByItself();
    silence();
    await machine.poll(shell);
    expect(machine.read('/etc/name')).toBe('cp1\n');
    expect(machine.exists(key.path)).toBe(false);
    expect(machine.told()).toContain('start kubelet.service');
  },
);

test('a kept plan that is two minor versions older than an API server that answers starts nothing', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  const skew: PlanLine = { do: 'check', check: 'skew', of: ['1.34.9', '6443', '10.0.0.12'] };
  planner.plan([...lines().slice(0, 2), skew, ...lines().slice(2)]);
  expect((await machine.poll()).status).toBe(0);
  machine.told();
  startsByItself();
  silence();
  // The other API server was upgraded meanwhile.
  const curl = execFileSync('sh', ['-c', 'command -v curl'], { encoding: 'utf8' }).trim();
  machine.command(
    'curl',
    `#!/bin/sh
case "$*" in *https://10.0.0.12:6443/version) echo '  "gitVersion": "v1.36.3",' ;; *) exec ${curl} "$@" ;; esac
`,
  );
  const { said } = await machine.poll();
  expect(said).toContain('skew: the API server at 10.0.0.12 is 1.36.3');
  expect(machine.exists('/etc/name')).toBe(false);
  expect(machine.told()).toEqual([]);
});

test('a member whose etcd data are gone does nothing without the boot server', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  machine.write('/var/lib/muster/etcd/member/wal/0-0.wal', 'x');
  planner.plan(lines());
  expect((await machine.poll()).status).toBe(0);
  fs.rmSync(machine.path('/var/lib/muster/etcd'), { recursive: true });
  startsByItself();
  silence();
  const { said } = await machine.poll();
  expect(said).toContain('the data of etcd are gone; nothing is done without the boot server');
  expect(machine.exists('/etc/name')).toBe(false);
});

test('a kept file that has changed is not used, and one that no plan names any more is deleted', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  const all = lines();
  planner.plan(all);
  await machine.poll();
  const tool = all.find((line) => line.do === 'fetch')!.sha256;
  const plugin = all.find((line) => line.do === 'unpack')!.sha256;
  machine.write(`/var/lib/muster/kept/${tool}`, 'rotten');
  startsByItself();
  machine.write('/proc/cmdline', 'boot=muster\n');
  fetched.length = 0;
  planner.plan(all);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(fetched).toEqual([`/${tool}`]);
  expect(machine.read(`/var/lib/muster/kept/${tool}`)).toHaveLength(100_000);

  planner.plan(all.filter((line) => line.do !== 'unpack'));
  await machine.poll();
  expect(machine.exists(`/var/lib/muster/kept/${tool}`)).toBe(true);
  expect(machine.exists(`/var/lib/muster/kept/${plugin}`)).toBe(false);
});

test('a full data filesystem is a hold that says so, and the last kept plan stays', async () => {
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  planner.plan(lines());
  await machine.poll();
  const before = fs.readFileSync(machine.path('/var/lib/muster/kept/plan.tar'));
  execFileSync('sh', [
    '-c',
    `head -c 70M /dev/zero >"$1/fill" 2>/dev/null; true`,
    'sh',
    machine.path('/var/lib/muster'),
  ]);
  planner.plan([
    ...lines(),
    { do: 'fetch', mode: 0o644, path: '/opt/more', ...asset(Buffer.alloc(300_000, 'more')) },
  ]);
  await machine.poll();
  await machine.poll();
  expect(planner.facts().hold?.code).toBe('keep-failed');
  expect(fs.readFileSync(machine.path('/var/lib/muster/kept/plan.tar')).equals(before)).toBe(true);
});

test('without a boot disk nothing is kept, and an earlier kept plan is deleted', async () => {
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^boot=.*\n/m, ''));
  planner.plan([CREATE, MARKER]);
  await machine.poll();
  machine.write('/var/lib/muster/kept/plan.tar', 'of a time when there was one');
  planner.plan(lines());
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.exists('/var/lib/muster/kept')).toBe(false);
  expect(machine.exists('/run/muster/bootdisk')).toBe(false);
});

test.each([
  ['cloud-init', 'ds=nocloud;s=URL/', ['user-data', 'meta-data', 'network-config']],
  ['Ignition', 'ignition.firstboot ignition.config.url=URL/ignition', ['ignition']],
])(
  'the first configuration for %s comes over TLS to the boot disk, and nothing that plain HTTP says',
  async (_, argument, names) => {
    for (const name of names) content.set(`/${name}`, Buffer.from(`the ${name} of an attacker`));
    machine.write('/proc/cmdline', `boot=muster ${argument.replace('URL', files())}\n`);
    planner.configuration = Object.fromEntries(names.map((name) => [name, `the ${name}`]));
    await machine.poll();
    const at = '/run/muster/boot/seed/kept/seed';
    expect(fs.readdirSync(machine.path(at)).sort()).toEqual([...names].sort());
    for (const name of names) expect(machine.read(`${at}/${name}`)).toBe(`the ${name}`);
    expect(fetched).toEqual([]);
    // It is asked for once in a boot.
    await machine.poll();
    expect(planner.asked.filter(({ path }) => path === '/agent/configuration')).toHaveLength(1);
  },
);

test.for(SHELLS)(
  'by %s, a file that is larger than its plan says is not taken further, whether the server names its size or not',
  async (shell) => {
    planner.plan([CREATE, MARKER]);
    await machine.poll(shell);
    const [size, lot] = [20_000, Buffer.alloc(4_000_000, 'a')];
    content.set('/named', lot);
    const endless = http.createServer((_request, response) => {
      response.writeHead(200);
      const more = (): void => void (response.destroyed || response.write(lot, () => setImmediate(more)));
      more();
    });
    await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve));
    const unnamed = `http://127.0.0.1:${(endless.address() as AddressInfo).port}/unnamed`;
    try {
      for (const url of [`${files()}/named`, unnamed]) {
        planner.plan([
          { do: 'mount-data', filesystem: UUID },
          MARKER,
          { do: 'fetch', mode: 0o644, path: '/opt/more', url, size, sha256: 'a'.repeat(64) },
        ]);
        await machine.poll(shell);
        await machine.poll(shell);
        expect(planner.facts().hold).toEqual({
          code: 'fetch-failed',
          text: expect.stringContaining('larger than 20000 octets'),
        });
        expect(machine.exists('/opt/more')).toBe(false);
        expect(fs.readdirSync(machine.path('/opt'))).toEqual([]);
      }
      // The file that has its size is taken.
      const good = Buffer.alloc(size, 'g');
      planner.plan([{ do: 'fetch', mode: 0o644, path: '/opt/more', ...asset(good), size }]);
      expect((await machine.poll(shell)).status).toBe(0);
      expect(machine.read('/opt/more')).toHaveLength(size);
    } finally {
      endless.closeAllConnections();
      endless.close();
    }
  },
);

const disk = (...args: readonly string[]): string => askDisk(machine, ...args);

test('a blank disk becomes a boot disk with one Muster partition, and no other disk is touched', async () => {
  expect(disk('boot-look', 'serial=S1')).toBe('disk=blank\ndevice=/dev/vda\npartition=\ndetail=\n');
  disk('boot-create', 'serial=S1', '/dev/vda');
  const file = machine.path('/vda.img');
  const table = JSON.parse(execFileSync('sfdisk', ['--json', file], { encoding: 'utf8' })).partitiontable;
  expect(table.label).toBe('gpt');
  expect(table.partitions).toEqual([
    expect.objectContaining({
      start: 2048,
      name: 'MUSTER-BOOT',
      type: 'C12A7328-F81F-11D2-BA4B-00A0C93EC93B',
      attrs: 'LegacyBIOSBootable',
    }),
  ]);

  // The partition as the kernel then shows it.
  machine.write('/sys/block/vda/vda1/partition', '1\n');
  machine.write('/sys/block/vda/vda1/uevent', 'DEVTYPE=partition\nPARTN=1\nPARTNAME=MUSTER-BOOT\n');
  expect(disk('boot-look', 'serial=S1')).toBe('disk=ours\ndevice=/dev/vda\npartition=/dev/vda1\ndetail=\n');
  const before = fs.readFileSync(file);
  disk('boot-create', 'serial=S1', '/dev/vda');
  expect(fs.readFileSync(file).equals(before)).toBe(true);
  // A boot disk is not a data disk, and a disk with another's partition is not a boot disk.
  expect(disk('look', 'serial=S1')).toContain('disk=foreign');
  machine.write('/sys/block/vda/vda1/uevent', 'DEVTYPE=partition\nPARTN=1\nPARTNAME=root\n');
  expect(disk('boot-look', 'serial=S1')).toContain('disk=foreign');
  expect(() => disk('boot-create', 'serial=S1', '/dev/vda')).toThrow();
  expect(fs.readFileSync(file).equals(before)).toBe(true);
  machine.write('/sys/block/vda/vda1/uevent', 'DEVTYPE=partition\nPARTN=1\nPARTNAME=MUSTER-BOOT\n');
  machine.write('/sys/block/vda/vda2/partition', '2\n');
  expect(disk('boot-look', 'serial=S1')).toContain('disk=foreign');
});
