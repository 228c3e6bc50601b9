/**
 * An agent that is killed at any point and run again ends in the same state. Needs root and
 * scripts/in-namespace.sh. MUSTER_EVERY_EFFECT=1 (`make torture`) kills it before each effect; else
 * it is killed before each nineteenth one, and while it restores etcd before each third one.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodePlan } from '../../src/agent/wire/encode-plan.ts';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { Disks } from './agent-disks.ts';
import { Machine, Planner, put } from './agent-kit.ts';
import { Containerd, CTR, contentsOf, EtcdAlone, IMAGE, packImage, write } from './etcd/pod.ts';

const UUID = '5eed0000-1111-4222-8333-444455556666';
const MARKER = { cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' } as const;
const KEYS = 20;
/** All commands with which the agent changes anything; the shell itself only writes below /run. */
const EFFECTS =
  'cp mv ln rm rmdir mkdir chmod touch sync truncate tar dd curl openssl systemctl sfdisk cryptsetup mkfs.ext4 mount umount ctr'.split(
    ' ',
  );
/** The commands that are not in a directory of programs. */
const STANDS_IN = ['systemctl', 'sfdisk', 'cryptsetup'] as const;
const ELSEWHERE: Readonly<Record<string, string>> = {
  ctr: CTR,
  ...Object.fromEntries(STANDS_IN.map((name) => [name, `$MUSTER_ROOT/${name}`])),
};
/**
 * Ends the agent's session: its own group, and that of a program which it runs by `timeout`. The
 * session's leader is the agent.
 */
const END = 'kill -KILL "-$(cut -d " " -f 6 /proc/$$/stat)"; kill -KILL 0';
const COUNTED = (points: number): string => `read -r n <"$MUSTER_ROOT/n"
echo $((n + ${points})) >"$MUSTER_ROOT/n"
[ "$n" != "$KILL" ] || { ${END}; }
`;

/** Wraps a command: it counts itself and, at its turn, is killed with everything the agent runs. */
function counting(name: string): string {
  const real =
    ELSEWHERE[name] ??
    ['/usr/bin', '/bin', '/usr/sbin', '/sbin'].map((at) => `${at}/${name}`).find((at) => fs.existsSync(at));
  // How often the agent asks etcd on the copy depends on the time, so these calls do not count.
  const uncounted = name === 'curl' ? `case "$*" in *--unix-socket*) exec ${real} "$@" ;; esac\n` : '';
  return `#!/bin/sh\n${uncounted}${COUNTED(1)}exec ${real} "$@"\n`;
}

/**
 * Wraps programs of the image in their places; they count themselves, and a second time when they
 * have run for a while. On a quick host the agent ends etcd before that while is over, and the
 * wrapper ignores that, because otherwise it would end alone and leave etcd behind.
 */
const IN_IMAGE = `#!/bin/sh
trap : TERM
${COUNTED(2)}[ $((n + 1)) != "$KILL" ] || { "$0.real" "$@" & sleep 0.7; ${END}; }
exec "$0.real" "$@"
`;

let planner: Planner;
let files: http.Server;
let lines: readonly PlanLine[];
let containerd: Containerd;
/** A data disk with etcd's data, as after a power cut. */
let written: string;
let home: string;

beforeAll(async () => {
  planner = await Planner.open();
  home = fs.mkdtempSync('/tmp/muster-kill-');
  written = await writtenDisk();
  const packed = fs.mkdtempSync('/tmp/muster-packed-');
  fs.writeFileSync(`${packed}/tool`, 'tool');
  const archive = execFileSync('tar', ['-czf', '-', '-C', packed, 'tool']);
  fs.rmSync(packed, { recursive: true });
  const sha256 = createHash('sha256').update(archive).digest('hex');
  files = http.createServer((_, response) => response.end(archive));
  await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(files.address() as AddressInfo).port}/${sha256}`;
  const content = { text: 'certificate\n' };
  lines = [
    { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
    { do: 'marker', cluster: 'lab', founding: 'f1', member: 'cp1', machine: 'cp1' },
    { do: 'guard-new', filesystem: UUID },
    { do: 'set-aside-etcd', member: 'm0' },
    { do: 'request', leaf: 'kubelet', algorithm: 'ECDSA-P256' },
    { do: 'bind', directory: 'containerd', path: '/var/lib/containerd' },
    { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
    put('/etc/kubernetes/pki/ca.crt', 'ca\n'),
    put('/etc/systemd/system/a.service', '[Service]\n', 0o600),
    { do: 'put-with-key', mode: 0o600, path: '/etc/kubelet.pem', leaf: 'kubelet', append: 'pem', content },
    // It replaces plain files.
    { do: 'put-pair', mode: 0o644, path: '/etc/pair.crt', content, key: { leaf: 'kubelet' } },
    { do: 'link', path: '/etc/kubelet-current.pem', to: 'kubelet.pem', onlyIfAbsent: true },
    { do: 'fetch', mode: 0o755, path: '/opt/archive', url, sha256 },
    { do: 'unpack', directory: '/opt/tools', url, sha256 },
    { do: 'remove', path: '/etc/old' },
    { do: 'run', unit: 'a.service', digest: 'd1' },
    { do: 'step', step: 'done' },
  ];
});

afterAll(async () => {
  planner.close();
  files.close();
  await containerd?.stop();
  fs.rmSync(home, { recursive: true });
});

async function writtenDisk(): Promise<string> {
  const machine = new Machine(planner, { data: 'serial=S2' });
  const disks = new Disks(machine);
  const file = disks.add('vdb', 640, 'S2');
  planner.plan([
    { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
    { do: 'marker', ...MARKER },
    { do: 'directory', mode: 0o700, path: '/var/lib/muster/etcd' },
  ]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  const etcd = await EtcdAlone.start(machine.path('/var/lib/muster/etcd'));
  await write(etcd.at, 0, KEYS);
  await etcd.stop('SIGKILL');
  disks.close();
  const kept = `${home}/written.img`;
  fs.renameSync(file, kept);
  machine.close();
  return kept;
}

/** A machine that is killed, with everything that it runs, before its `n`th effect. */
class Victim {
  readonly machine: Machine;
  readonly #disks: Disks;
  readonly #started: ((machine: Machine) => void) | undefined;

  constructor({ disk = 32, settings, prepare, powerOn }: Case) {
    const data = 'serial=S2';
    this.machine = new Machine(planner, { data, etcd: 'http://127.0.0.1:23811', ...settings });
    this.#disks = new Disks(this.machine);
    this.#disks.seePartitions();
    this.#disks.encrypt();
    this.#started = powerOn;
    if (typeof disk === 'number') this.#disks.add('vdb', disk, 'S2');
    else {
      execFileSync('cp', ['--sparse=always', disk, this.machine.path('/vdb.img')]);
      this.#disks.plug('vdb', this.machine.path('/vdb.img'), 'S2');
    }
    for (const name of STANDS_IN)
      fs.renameSync(this.machine.path(`/bin/${name}`), this.machine.path(`/${name}`));
    for (const name of EFFECTS) this.machine.command(name, counting(name));
    prepare?.(this.machine);
    powerOn?.(this.machine);
  }

  /** Polls once; is killed at effect `at` if it gets that far. */
  async run(at: number): Promise<{ status: number | string; said: string }> {
    this.machine.write('/n', '0\n');
    return this.machine.poll(undefined, { KILL: String(at) });
  }

  effects(): number {
    return Number(this.machine.read('/n'));
  }

  powerCut(): void {
    this.#disks.unmount();
    this.machine.reboot();
    this.#started?.(this.machine);
  }

  /**
   * Returns what outlives a boot (without keys and certificates) and what runs. Only the names
   * count in etcd's restored data, and not which of its two directories a pair is in.
   */
  state() {
    const tree = Object.entries(this.machine.tree(/^\/var\/lib\/muster\/etcd\//)).map(([at, text]) => [
      at.replace(/\/\.pair\/[12]/, '/.pair/N'),
      text
        .replace(/^-> [12]$/, '-> N')
        .replace(/-----BEGIN ([A-Z ]+)-----[^-]*-----END [A-Z ]+-----\n/g, '<$1>\n')
        .replace(/^time=.*$/m, ''),
    ]);
    const at = this.machine.path('/units');
    const units = fs.existsSync(at) ? fs.readdirSync(at).filter((name) => name !== 'log') : [];
    return { tree: Object.fromEntries(tree) as Record<string, string>, units: units.sort() };
  }

  close(): void {
    this.machine.end();
    this.#disks.close();
    this.machine.close();
  }
}

interface Case {
  readonly lines: readonly PlanLine[];
  /** An image of the data disk, or the size of a blank one in MiB; absent: a small blank one. */
  readonly disk?: string | number;
  /** More settings for the agent. */
  readonly settings?: Readonly<Record<string, string>>;
  /** One of so many effects has a kill before it; odd, so that each second kill is a power cut. */
  readonly every: 3 | 19;
  /** Runs before the machine is switched on for the first time. */
  readonly prepare?: (machine: Machine) => void;
  /** Runs after `prepare`, and again after every power cut. */
  readonly powerOn?: (machine: Machine) => void;
  /** Checks the end state of a run that nobody kills. */
  readonly whole: (end: ReturnType<Victim['state']>, effects: number) => void;
  /** Checks the machine after the agent was killed and ran again. */
  readonly resumed?: (machine: Machine) => Promise<void>;
}

/**
 * Kills a machine before its effects, every other time with a power cut, and checks that it ends in
 * the state of a run that nobody kills.
 */
async function killedAnywhere(of: Case): Promise<void> {
  planner.standing = of.lines;
  const whole = new Victim(of);
  expect(await whole.run(-1)).toEqual({ status: 0, said: '' });
  const effects = whole.effects();
  const end = whole.state();
  await of.resumed?.(whole.machine);
  whole.close();
  of.whole(end, effects);
  const { digest } = encodePlan({ lines: of.lines, pollSeconds: 0 });

  let next = 0;
  const every = process.env.MUSTER_EVERY_EFFECT ? 1 : of.every;
  const worker = async (): Promise<void> => {
    for (let at = next++ * every; at < effects; at = next++ * every) {
      let victim = new Victim(of);
      try {
        let killed = await victim.run(at);
        // On a busy host a first try may end early by a time-out of curl.
        for (let tries = 0; killed.status !== 'SIGKILL' && tries < 2; tries++) {
          victim.close();
          victim = new Victim(of);
          killed = await victim.run(at);
        }
        expect([at, killed]).toEqual([at, { status: 'SIGKILL', said: expect.anything() }]);
        if (at % 2 === 1) victim.powerCut();
        let resumed = await victim.run(-1);
        for (let tries = 0; resumed.status !== 0 && tries < 2; tries++) resumed = await victim.run(-1);
        expect([at, resumed]).toEqual([at, { status: 0, said: expect.anything() }]);
        expect([at, victim.state()]).toEqual([at, end]);
        expect(victim.machine.read('/run/muster/applied')).toBe(`${digest}\n`);
        await of.resumed?.(victim.machine);
      } finally {
        victim.close();
      }
    }
  };
  await Promise.all([worker(), worker(), worker()]);
}

const TIMEOUT = 1_500_000;

test(
  'an agent that is killed before any of its effects, every other time with a power cut, ends in the same state',
  {
    timeout: TIMEOUT,
  },
  () =>
    killedAnywhere({
      lines,
      every: 19,
      prepare(machine) {
        machine.write('/etc/old', 'old');
        for (const name of ['crt', 'key']) machine.write(`/etc/pair.${name}`, 'plain');
      },
      whole({ units, tree }, effects) {
        expect(tree['/etc/pair.crt']).toBe('-> .pair/current/pair.crt');
        expect(Object.keys(tree).filter((at) => at.endsWith('/pair.key'))).toHaveLength(1 + 1);
        expect(units).toEqual(['a.service.active', 'a.service.enabled']);
        expect(tree['/etc/kubelet.pem']).toBe('600 certificate\n<EC PRIVATE KEY>\n');
        expect(effects).toBeGreaterThan(100);
      },
    }),
);

test(
  'an agent that is killed while it makes two partitions on its only disk ends in the same state',
  { timeout: TIMEOUT },
  () =>
    killedAnywhere({
      lines: [
        { do: 'create-data', device: '/dev/vdb', filesystem: UUID },
        { do: 'marker', ...MARKER },
        { do: 'step', step: 'divided' },
      ],
      every: 19,
      disk: 1024,
      settings: { boot: 'serial=S2' },
      prepare: (machine) => machine.write('/proc/cmdline', 'boot=muster\n'),
      whole({ tree }, effects) {
        expect(tree['/var/lib/muster/marker']).toBe('600 lab f1 cp1 cp1\n');
        expect(effects).toBeGreaterThan(40);
      },
      async resumed(machine) {
        const file = machine.path('/vdb.img');
        const names = execFileSync('sfdisk', ['--dump', file], { encoding: 'utf8' }).match(/name="[^"]*"/g);
        expect(names).toEqual(['name="MUSTER-BOOT"', 'name="MUSTER-DATA"']);
      },
    }),
);

test(
  'an agent that is killed while it makes an encrypted filesystem ends in the same state',
  { timeout: TIMEOUT },
  () =>
    killedAnywhere({
      lines: [
        { do: 'create-data', device: '/dev/vdb', filesystem: UUID, encrypt: 'boot-host' },
        { do: 'marker', ...MARKER },
        { do: 'step', step: 'encrypted' },
      ],
      every: 19,
      disk: 64,
      settings: { encrypt: 'boot-host' },
      whole({ tree }, effects) {
        expect(tree['/var/lib/muster/marker']).toBe('600 lab f1 cp1 cp1\n');
        expect(effects).toBeGreaterThan(40);
      },
      async resumed(machine) {
        // The next poll has the identity in the header.
        expect((await machine.poll()).status).toBe(0);
        const words = ['token', 'export', '--token-id', '0', machine.path('/dev/vdb')];
        expect(execFileSync('cryptsetup', words, { encoding: 'utf8' })).toContain('"machine":"cp1"');
        expect(machine.exists('/run/muster/data/key')).toBe(false);
      },
    }),
);

test(
  'an agent that is killed while it clears a disk in use ends in the same state, and the departure stays recorded',
  { timeout: TIMEOUT },
  () =>
    killedAnywhere({
      lines: [
        { do: 'clear', ...MARKER },
        { do: 'step', step: 'cleared' },
      ],
      every: 19,
      disk: written,
      prepare(machine) {
        // Like a machine of a cluster: the disk is mounted, bound a second time, and has a
        // container's mount below it.
        machine.write('/etc/kubernetes/pki/ca.crt', 'ca');
        const state = machine.path('/var/lib/muster');
        fs.mkdirSync(state, { recursive: true });
        execFileSync('mount', [
          '-o',
          'noatime',
          `/dev/loop${machine.read('/sys/block/vdb/dev').trim().slice(2)}`,
          state,
        ]);
        fs.mkdirSync(`${state}/containerd/layer`, { recursive: true });
        fs.mkdirSync(machine.path('/var/lib/containerd'));
        execFileSync('mount', ['--bind', `${state}/containerd`, machine.path('/var/lib/containerd')]);
        execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', machine.path('/var/lib/containerd/layer')]);
        fs.mkdirSync(`${state}/agent/keys`, { recursive: true });
        fs.copyFileSync(`${state}/agent/agent.key`, `${state}/agent/keys/kubelet.key`);
      },
      whole({ tree }, effects) {
        const left = Object.keys(tree).filter((at) => at.startsWith('/var/lib/muster/'));
        expect(left.filter((at) => !at.startsWith('/var/lib/muster/agent/'))).toEqual([
          '/var/lib/muster/agent',
          '/var/lib/muster/lost+found',
        ]);
        expect(tree['/var/lib/muster/agent/left']).toBe('600 f1\n');
        expect(left.filter((at) => at.startsWith('/var/lib/muster/agent/keys/'))).toEqual([]);
        expect(tree['/etc/kubernetes']).toBeUndefined();
        expect(tree['/var/lib/containerd']).toBe('755');
        expect(effects).toBeGreaterThan(20);
      },
    }),
);

test('an agent that is killed while it restores etcd with an image, also while etcd replays its log, loses no key', {
  timeout: TIMEOUT,
}, async () => {
  const set = `${home}/set`;
  packImage(set, IN_IMAGE);
  containerd = await Containerd.start();
  containerd.import(set);
  await killedAnywhere({
    lines: [
      {
        ...{ do: 'restore-etcd', cluster: 'lab', from: 'f1', to: 'f2', member: 'cp1', machine: 'cp1' },
        ...{ address: '10.0.0.7', program: 'etcdutl', bump: 0, image: IMAGE },
      },
      { do: 'step', step: 'restored' },
    ],
    disk: written,
    every: 3,
    powerOn(machine) {
      fs.mkdirSync(machine.path('/run/containerd'), { recursive: true });
      fs.symlinkSync(containerd.socket, machine.path('/run/containerd/containerd.sock'));
    },
    whole({ tree }, effects) {
      expect(tree['/var/lib/muster/marker']).toBe('600 lab f2 cp1 cp1\n');
      expect(Object.keys(tree).filter((at) => /^\/var\/lib\/muster\/etcd[^/]*$/.test(at))).toEqual([
        '/var/lib/muster/etcd',
        '/var/lib/muster/etcd.before-f2',
      ]);
      expect(effects).toBeGreaterThan(30);
    },
    async resumed(machine) {
      const { keys, peers } = await contentsOf(machine.path('/var/lib/muster/etcd'));
      expect([keys, peers]).toEqual([KEYS, ['https://10.0.0.7:2380']]);
    },
  });
});
