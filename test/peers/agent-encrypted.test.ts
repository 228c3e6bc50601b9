/**
 * Encrypted data filesystems: real cryptsetup on loop devices, TPMs by swtpm. Where the kernel has
 * no dm-crypt, what is behind the LUKS2 header is not encrypted (agent-mapper.sh). Root, inside
 * scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import type { Millis } from '../../src/base/duration.ts';
import { ALIVE_WITHIN } from '../../src/machines/heartbeats.ts';
import { CP1_MAC, open as openBootHost } from './agent-boot-host.ts';
import { Disks } from './agent-disks.ts';
import { Machine, openssl, Planner, put, SHELLS, type Shell } from './agent-kit.ts';
import { type Tpm, TpmVendor } from './tpm-kit.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
const MARKER: PlanLine = { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' };
const MOUNT: PlanLine = { do: 'mount-data', filesystem: UUID };
const create = (encrypt: 'tpm' | 'boot-host'): PlanLine => ({
  do: 'create-data',
  device: '/dev/vdb',
  filesystem: UUID,
  encrypt,
});

let vendor: TpmVendor;
let own: Tpm;
let other: Tpm;
let planner: Planner;
let open: { machine: Machine; disks: Disks }[];

beforeAll(async () => {
  vendor = new TpmVendor();
  own = await vendor.make('own');
  other = await vendor.make('other');
});
afterAll(() => vendor.close());
beforeEach(async () => {
  planner = await Planner.open();
  open = [];
});
afterEach(async () => {
  for (const { machine, disks } of open) {
    await machine.stop();
    disks.close();
    machine.close();
  }
  planner.close();
});

function start(
  settings: Record<string, string>,
  mib = 64,
  server: ConstructorParameters<typeof Machine>[0] = planner,
) {
  const machine = new Machine(server, { data: 'serial=S2', ...settings });
  const disks = new Disks(machine);
  open.push({ machine, disks });
  disks.encrypt();
  disks.seePartitions();
  return { machine, disks, file: disks.add('vdb', mib, 'S2') };
}

/** Loses what a power cut loses, the opened filesystem too, and the ticket. */
function powerCut({ machine, disks }: { machine: Machine; disks: Disks }): void {
  disks.unmount();
  machine.reboot();
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^ticket=.*\n/m, ''));
}

const token = (node: string, id: number): Record<string, unknown> =>
  JSON.parse(
    execFileSync('cryptsetup', ['token', 'export', '--token-id', String(id), node], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  );

test.for(SHELLS)(
  'by %s, the boot host’s key opens the disk after a reboot, for which key and certificate are in its header',
  async (shell) => {
    const at = start({ encrypt: 'boot-host' });
    const { machine } = at;
    planner.plan([create('boot-host'), MARKER, put('/var/lib/muster/etcd.txt', 'data')]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toEqual({ state: 'blank', device: '/dev/vdb', encrypt: 'boot-host' });
    const key = planner.dataKeys!.get(UUID)!;
    // The next poll writes the identity to the header.
    planner.plan([MOUNT, MARKER]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(fs.existsSync(machine.path('/run/muster/data/key'))).toBe(false);
    expect(token(machine.path('/dev/vdb'), 0)).toMatchObject({ type: 'muster-agent', machine: 'cp1' });

    powerCut(at);
    const asked = planner.asked.length;
    planner.plan([MOUNT, MARKER]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/data-key', '/agent/poll']);
    expect(planner.asked[asked]!.form.get('make')).toBe('no');
    expect(planner.facts()).toMatchObject({
      disk: { state: 'ours', filesystem: UUID, mounted: true, encrypted: 'boot-host' },
      marker: { machine: 'cp1' },
    });
    expect(machine.read('/var/lib/muster/etcd.txt')).toBe('data');
    expect(machine.exists('/run/muster/agent')).toBe(false);
    // Only this key opens it.
    const opens = (text: string): boolean => {
      fs.writeFileSync(machine.path('/tried'), text);
      try {
        const words = ['open', '--test-passphrase', '--key-file', machine.path('/tried')];
        execFileSync('cryptsetup', [...words, machine.path('/dev/vdb')], { stdio: 'ignore' });
        return true;
      } catch {
        return false;
      }
    };
    expect([opens(key), opens(key.replace(/^./, (one) => (one === 'A' ? 'B' : 'A')))]).toEqual([true, false]);
  },
);

test('without the boot host’s key the disk stays locked, the machine says why, and nothing is written', async () => {
  const at = start({ encrypt: 'boot-host' });
  planner.plan([create('boot-host'), MARKER]);
  expect((await at.machine.poll()).status).toBe(0);
  await at.machine.poll();
  powerCut(at);
  const keys = planner.dataKeys;
  planner.dataKeys = null;
  const { said } = await at.machine.poll();
  expect(said).toContain('data-key: the data filesystem stays locked: the boot host does not give the key');
  expect(planner.facts()).toMatchObject({
    disk: { state: 'ours', mounted: false, encrypted: 'boot-host' },
    hold: { code: 'data-key' },
  });
  expect(at.machine.exists('/var/lib/muster/agent')).toBe(false);
  // Another key is no better.
  planner.dataKeys = new Map([[UUID, 'x'.repeat(44)]]);
  expect((await at.machine.poll()).status).toBe(1);
  expect(planner.facts().disk).toMatchObject({ mounted: false });
  planner.dataKeys = keys;
  await at.machine.poll();
  expect(planner.facts().disk).toMatchObject({ mounted: true });
});

test('a renewed certificate is in the header before it is used, and a copy of the disk for another machine has no identity', async () => {
  const at = start({ encrypt: 'boot-host' });
  const { machine } = at;
  planner.plan([create('boot-host'), MARKER]);
  expect((await machine.poll()).status).toBe(0);
  const csr = openssl([
    'req',
    '-new',
    '-key',
    machine.path('/var/lib/muster/agent/agent.key'),
    '-subj',
    '/CN=cp1',
  ]);
  const renewed = await planner.certify(csr);
  planner.plan([MOUNT, put('/var/lib/muster/agent/agent.crt', renewed, 0o600)]);
  expect((await machine.poll()).status).toBe(0);
  const polls = planner.asked.length;
  expect((await machine.poll()).status).toBe(0);
  expect(planner.asked.length).toBe(polls + 1);
  const said = token(machine.path('/dev/vdb'), 0).certificate as string;
  expect(Buffer.from(said, 'base64').toString()).toBe(renewed);
  powerCut(at);
  // The certificate in the header is none that came later than that on the filesystem.
  await machine.poll();
  expect(machine.read('/var/lib/muster/agent/agent.crt')).toBe(renewed);

  powerCut(at);
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace('machine=cp1', 'machine=cp2'));
  expect((await machine.poll()).status).toBe(1);
  expect(machine.exists('/run/muster/agent/agent.crt')).toBe(false);
});

test.for(SHELLS)(
  'by %s, the TPM opens the disk after a reboot without a boot host, and another TPM does not',
  async (shell: Shell) => {
    const at = start({ encrypt: 'tpm', tpm: own.tcti });
    const { machine } = at;
    planner.plan([create('tpm'), MARKER, put('/var/lib/muster/etcd.txt', 'data')]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    planner.plan([MOUNT, MARKER]);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().disk).toMatchObject({ mounted: true, encrypted: 'tpm' });
    expect(planner.asked.map(({ path }) => path)).not.toContain('/agent/data-key');
    expect(() => token(machine.path('/dev/vdb'), 0)).toThrow();
    expect(token(machine.path('/dev/vdb'), 1)).toMatchObject({ type: 'muster-tpm' });

    await own.restart();
    powerCut(at);
    const asked = planner.asked.length;
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/poll']);
    expect(machine.read('/var/lib/muster/etcd.txt')).toBe('data');

    powerCut(at);
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write('/etc/muster/agent.conf', settings.replace(/^tpm=.*$/m, `tpm=${other.tcti}`));
    const { status, said } = await machine.poll(shell);
    expect(status).toBe(1);
    expect(said).toContain('data-key: the data filesystem stays locked: tpm2_load');
    expect(machine.exists('/var/lib/muster/etcd.txt')).toBe(false);
  },
);

test('a machine without a TPM makes no filesystem that only a TPM opens', async () => {
  const { machine, disks, file } = start({ encrypt: 'tpm' });
  planner.plan([create('tpm')]);
  expect((await machine.poll()).said).toContain('the machine has no TPM 2.0');
  disks.close();
  expect(fs.statSync(file).blocks).toBe(0);
});

test('with a TPM the header holds no private key of the agent, but what the TPM sealed of it', async () => {
  const at = start({ encrypt: 'boot-host', tpm: own.tcti });
  planner.plan([create('boot-host'), MARKER]);
  expect((await at.machine.poll()).status).toBe(0);
  await at.machine.poll();
  const held = token(at.machine.path('/dev/vdb'), 0);
  expect(Object.keys(held).sort()).toEqual(['certificate', 'keyslots', 'machine', 'sealed', 'type']);
  await own.restart();
  powerCut(at);
  const asked = planner.asked.length;
  expect(await at.machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.asked.slice(asked).map(({ path }) => path)).toEqual(['/agent/data-key', '/agent/poll']);
  // With another TPM the disk gives no identity.
  powerCut(at);
  const settings = at.machine.read('/etc/muster/agent.conf');
  at.machine.write('/etc/muster/agent.conf', settings.replace(/^tpm=.*$/m, `tpm=${other.tcti}`));
  const before = planner.asked.length;
  await at.machine.poll();
  expect(planner.asked.slice(before).map(({ path }) => path)).not.toContain('/agent/data-key');
});

test('a machine’s only disk gets a boot partition and an encrypted data partition', async () => {
  const at = start({ encrypt: 'tpm', tpm: own.tcti, boot: 'serial=S2' }, 1024);
  at.machine.write('/proc/cmdline', 'boot=muster\n');
  planner.plan([create('tpm'), MARKER]);
  expect(await at.machine.poll()).toEqual({ status: 0, said: '' });
  await own.restart();
  at.disks.unmount();
  at.disks.unplug('vdb');
  at.machine.reboot();
  at.disks.plug('vdb', at.file, 'S2');
  expect(await at.machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.facts()).toMatchObject({
    disk: { state: 'ours', device: '/dev/vdb2', filesystem: UUID, mounted: true, encrypted: 'tpm' },
    marker: { machine: 'cp1' },
  });
});

test('an encrypted disk of somebody else is foreign and is not written to', async () => {
  const { machine, disks, file } = start({ encrypt: 'boot-host' });
  disks.unplug('vdb');
  fs.writeFileSync(machine.path('/key'), 'theirs');
  const words = ['luksFormat', '--batch-mode', '--type', 'luks2', '--pbkdf', 'pbkdf2'];
  execFileSync('cryptsetup', [
    ...words,
    '--pbkdf-force-iterations',
    '1000',
    '--key-file',
    machine.path('/key'),
    file,
  ]);
  const before = fs.readFileSync(file);
  disks.plug('vdb', file, 'S2');
  planner.plan([create('boot-host')]);
  expect((await machine.poll()).said).toContain('foreign');
  expect(planner.facts().disk).toMatchObject({ state: 'foreign', detail: 'holds crypto_LUKS' });
  disks.close();
  expect(fs.readFileSync(file).equals(before)).toBe(true);
});

test('a boot host of the tree gives the key to its machine alone, and the security log has each answer', async () => {
  const bootHost = await openBootHost();
  try {
    const { session, ticket } = await bootHost.configured(CP1_MAC);
    const { authority } = bootHost.settings.get('cp1')!;
    const url = `https://127.0.0.1:${bootHost.agents.port()}`;
    const at = start({ encrypt: 'boot-host', session }, 64, { authority, url, ticket });
    bootHost.plan = { lines: [create('boot-host'), MARKER], pollSeconds: 0 };
    expect(await at.machine.poll()).toEqual({ status: 0, said: '' });
    bootHost.plan = { lines: [MOUNT, MARKER], pollSeconds: 0 };
    await at.machine.poll();
    powerCut(at);
    await at.machine.poll();
    expect(at.machine.read('/var/lib/muster/marker')).toBe('lab f1 cp1 cp1\n');
    const events = () =>
      bootHost.events
        .list({ subject: 'cp1' })
        .flatMap(({ kind, reason }) => (/data-key|refused/.test(kind) ? [reason?.code ?? kind] : []));
    expect(events()).toEqual(['agent.data-key', 'agent.data-key']);
    // The same disk, certificate and key at an address that is not the machine's.
    bootHost.clock.advance((ALIVE_WITHIN + 1) as Millis);
    await bootHost.configured(CP1_MAC, '10.77.0.11');
    powerCut(at);
    expect((await at.machine.poll()).said).toContain('403 E_DATA_KEY: The request came from an address');
    expect(events().at(-1)).toBe('foreign_address');
    expect(at.machine.exists('/var/lib/muster/marker')).toBe(false);
  } finally {
    await bootHost.close();
  }
});
