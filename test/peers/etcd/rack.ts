/**
 * A rack of network namespaces: machines with the real agent, a data disk and real etcd, a segment,
 * and the shipped `bin/muster serve`. Runs inside scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { systemClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import type { Mac } from '../../../src/base/mac.ts';
import type { FoundingStatus } from '../../../src/cluster/etcd/status.ts';
import { createVaultKey } from '../../../src/pki/vault-key.files.ts';
import { BROADCAST_FLAG } from '../../../src/pxe/dhcp/packet.ts';
import { message } from '../../unit/pxe/dhcp/kit.ts';
import { attachLoop } from '../agent-disks.ts';
import { attach, bridge, ip, remove, run } from '../dhcp-segment.ts';
import { unpacked } from '../unpacked.ts';
import { callApi } from './api.ts';
import { type Lives, shortLives } from './short-lives.ts';
import { Writer } from './writer.ts';

/** A wait that takes longer fails: on a machine that is not stuck nothing does. */
export const PATIENCE_S = 480;

/** The members of etcd by default. */
export const NAMES = ['m1', 'm2', 'm3'] as const;
/** All machines that a rack can have. */
const EVERYONE = [...NAMES, 'm4', 'm5'] as const;
export type Name = (typeof EVERYONE)[number];
const mac = (name: Name): string => `52:54:00:09:00:0${name.slice(1)}`;

/** Each rack has its own network, so that several can run in parallel. */
interface Segment {
  readonly number: number;
  readonly server: string;
  readonly host: string;
  /** The namespace and address of another host on the segment. */
  readonly second: { readonly namespace: string; readonly address: string };
  address(name: Name): string;
  namespace(name: Name): string;
  /** Other test files count their segments from one too. */
  remove(): void;
}

let segments = 0;

function makeSegment(): Segment {
  // A test that ran out of time leaves its segment behind.
  do segments++;
  while (fs.existsSync(`/proc/sys/net/ipv4/conf/br-e${segments}`));
  const number = segments;
  const subnet = `10.9.${number}`;
  bridge(`br-e${number}`, `${subnet}.254/24`);
  const join = (namespace: string, address: string, hardware?: string): string => {
    attach(namespace, `br-e${number}`, hardware);
    ip('-n', namespace, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    return namespace;
  };
  const address = (name: Name): string => `${subnet}.1${name.slice(1)}`;
  const namespace = (name: Name): string => `e${number}${name}`;
  const host = join(`e${number}host`, `${subnet}.1`);
  const second = { namespace: join(`e${number}next`, `${subnet}.2`), address: `${subnet}.2` };
  for (const name of EVERYONE) join(namespace(name), address(name), mac(name));
  return {
    number,
    server: `${subnet}.1`,
    host,
    second,
    address,
    namespace,
    remove() {
      const namespaces = [host, second.namespace, ...EVERYONE.map(namespace)];
      // The kernel deletes the links of a deleted namespace later, and a new link may need the name
      // before.
      remove(namespaces, [...namespaces.map((name) => `p-${name}`), `br-e${number}`]);
    },
  };
}

/** Waits between two looks at something that changes. */
export const pause = (): Promise<void> => new Promise((done) => systemClock.after(millis(100), done));

/** Repeats a check until it holds; the error has the last failure or `why`. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  why: () => string | Promise<string> = () => '',
  seconds = PATIENCE_S,
): Promise<T> {
  const end = systemClock.monotonic() + seconds * 1000;
  let last = '';
  for (;;) {
    try {
      const found = await look();
      if (found) return found;
      last = '';
    } catch (error) {
      last = String(error);
    }
    if (systemClock.monotonic() > end)
      throw new Error(`not within ${seconds} s: ${what}\n${last}\n${await why()}`);
    await pause();
  }
}

/** A disk in a file, on a loop device while it is in a machine. */
export class Disk {
  readonly file: string;
  #loop: string | undefined;

  constructor(home: string, mebibytes: number) {
    this.file = `${fs.mkdtempSync(join(home, 'disk-'))}/disk`;
    fs.closeSync(fs.openSync(this.file, 'w'));
    fs.truncateSync(this.file, mebibytes * 1024 * 1024);
  }

  get loop(): string {
    this.#loop ??= attachLoop(this.file);
    return this.#loop;
  }

  get sectors(): number {
    return fs.statSync(this.file).size / 512;
  }

  get device(): string {
    const { rdev } = fs.statSync(this.loop);
    return `${rdev >> 8}:${rdev & 0xff}`;
  }

  /** Makes it a data disk with that marker. */
  mark(marker: string): void {
    const at = fs.mkdtempSync('/run/marking-');
    execFileSync('mkfs.ext4', ['-q', '-F', '-L', 'MUSTER-DATA', this.loop, `${this.sectors / 2 - 1024}k`]);
    execFileSync('mount', ['-t', 'ext4', this.loop, at]);
    fs.writeFileSync(join(at, 'marker'), `${marker}\n`);
    execFileSync('umount', [at]);
    fs.rmdirSync(at);
  }

  /** Overwrites the first 128 KiB of a file on the data disk of a machine that is off. */
  damage(file: string): void {
    const at = fs.mkdtempSync('/run/damaging-');
    execFileSync('mount', ['-t', 'ext4', this.loop, at]);
    const open = fs.openSync(join(at, file), 'r+');
    fs.writeSync(open, Buffer.alloc(131_072, 'Z'), 0, 131_072, 0);
    fs.closeSync(open);
    execFileSync('umount', [at]);
    fs.rmdirSync(at);
  }

  /** Removes the disk for good. */
  discard(): void {
    this.release();
    fs.rmSync(dirname(this.file), { recursive: true });
  }

  release(): void {
    if (this.#loop === undefined) return;
    execFileSync('losetup', ['-d', this.#loop]);
    this.#loop = undefined;
  }
}

export class Machine {
  readonly name: Name;
  readonly address: string;
  readonly #home: string;
  readonly #segment: Segment;
  readonly #kernels: boolean;
  disk: Disk;
  /** The address of its card, which belongs to its hardware. */
  #mac: string;
  /** Whether its link is down while it is off; otherwise its kernel answers at its address. */
  readonly #links: boolean;
  /** The files of the last network boot. */
  #first: string | undefined;
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #boots = 0;
  #pid = 0;

  /** `kernels`: each boot has a boot id and a command line of its own. `links`: see there. */
  constructor(name: Name, home: string, segment: Segment, disk: Disk, kernels = false, links = false) {
    this.#kernels = kernels;
    this.#mac = mac(name);
    this.#links = links;
    this.name = name;
    this.address = segment.address(name);
    this.#home = home;
    this.#segment = segment;
    this.disk = disk;
    if (links) this.#link('down');
  }

  get on(): boolean {
    return this.#process !== undefined;
  }

  /** Whether it has shut down by itself, as after an order to its service manager to reboot. */
  get isShutDown(): boolean {
    return this.#process !== undefined && this.#process.exitCode !== null;
  }

  #link(state: 'up' | 'down'): void {
    ip('-n', this.#segment.namespace(this.name), 'link', 'set', 'eth0', state);
  }

  /** Its hardware, as its card names it. */
  get hardware(): string {
    return this.#mac;
  }

  /** Exchanges the hardware of two machines that are off, with what is on their disks. */
  exchange(other: Machine): void {
    [this.#mac, other.#mac] = [other.#mac, this.#mac];
    [this.disk, other.disk] = [other.disk, this.disk];
    [this.#first, other.#first] = [other.#first, this.#first];
    for (const one of [this, other])
      ip('-n', one.#segment.namespace(one.name), 'link', 'set', 'eth0', 'address', one.#mac);
  }

  /** Asks for a boot and does not boot: the boot host has seen it then. */
  async show(): Promise<string> {
    if (this.#links) this.#link('up');
    const url = `http://${this.#segment.server}:8080/script.ipxe?${this.#identity()}`;
    const { output } = await run(this.#segment.namespace(this.name), ['curl', '-sS', '-m', '30', url]);
    if (this.#links) this.#link('down');
    return output;
  }

  #identity = (): string => `mac=${this.#mac}&macs=${this.#mac}&arch=x86_64&platform=efi`;

  /** Starts the system that is on its disk, with what it was given at its last network boot. */
  async startFromDisk(): Promise<void> {
    if (this.#first === undefined) throw new Error(`${this.name} never booted`);
    await this.#run(this.#first);
  }

  /**
   * Boots from the network: the boot script opens a session, the configuration brings the agent.
   * Waits for a server that is off, or that still counts the machine as alive.
   */
  async powerOn(): Promise<void> {
    const first = join(this.#home, `${this.name}-first-${++this.#boots}`);
    if (this.#links) this.#link('up');
    await until(`${this.name} boots`, async () => this.#fetch(first), undefined, 2 * PATIENCE_S);
    this.#first = first;
    await this.#run(first);
  }

  async #run(first: string): Promise<void> {
    if (this.#links) this.#link('up');
    const root = join(this.#home, `${this.name}-root-${this.#boots}`);
    fs.mkdirSync(root, { recursive: true });
    const log = fs.openSync(join(this.#home, `${this.name}.log`), 'a');
    const child = spawn(
      'ip',
      [
        ...[
          'netns',
          'exec',
          this.#segment.namespace(this.name),
          'unshare',
          '--mount',
          '--uts',
          '--pid',
          '--fork',
          '--kill-child',
        ],
        ...[
          'sh',
          resolve('test/peers/etcd/machine.sh'),
          root,
          first,
          this.disk.device,
          String(this.disk.sectors),
        ],
        join(this.#home, 'tools'),
      ],
      { stdio: ['ignore', log, log] },
    );
    this.#process = child;
    this.#ended = new Promise((done) => child.on('close', () => done()));
    this.#pid = await until(`${this.name} runs`, () => childOf(child.pid!));
  }

  /** Takes its address as its initrd does: without a lease it gets no certificate. */
  async #lease(): Promise<void> {
    const address = this.#segment.address(this.name);
    const fields = { mac: this.#mac as Mac, address, flags: BROADCAST_FLAG };
    const words = ['5000', '1', '68', `${address.replace(/[0-9]+$/, '255')}:67`];
    const request = message('REQUEST', fields).toString('hex');
    const command = [process.execPath, resolve('test/peers/dhcp-client.ts'), ...words, request];
    const { output } = await run(this.#segment.namespace(this.name), command);
    if (!output.includes('"hex"')) throw new Error(`${this.name} gets no lease: ${output}`);
  }

  async #fetch(first: string): Promise<boolean> {
    const ask = async (url: string, ...more: string[]) => {
      const { code, output } = await run(this.#segment.namespace(this.name), [
        'curl',
        '-sSf',
        '-m',
        '10',
        ...more,
        url,
      ]);
      if (code !== 0) throw new Error(`${url}: ${output}`);
      return output;
    };
    await this.#lease();
    const script = await ask(`http://${this.#segment.server}:8080/script.ipxe?${this.#identity()}`);
    const session =
      /\/boot\/([A-Za-z0-9_-]{22})\//.exec(script)?.[1] ??
      /muster\.url=\S*\/boot\/([A-Za-z0-9_-]+)/.exec(script)?.[1];
    if (session === undefined) throw new Error(script);
    const document = JSON.parse(
      await ask(`http://${this.#segment.server}:8080/boot/${session}/ignition`),
    ) as Ignition;
    fs.rmSync(first, { recursive: true, force: true });
    for (const { path, mode = 0o644, contents } of document.storage.files) {
      fs.mkdirSync(join(first, dirname(path)), { recursive: true });
      fs.writeFileSync(join(first, path), decoded(contents ?? {}), { mode });
    }
    // The system's ready report; without it, several boots would count as a boot loop.
    for (const step of ['kernel', 'configured', 'ready'])
      await ask(`http://${this.#segment.server}:8080/boot/${session}/report`, '-d', `step=${step}`);
    if (this.#kernels) {
      fs.mkdirSync(join(first, 'kernel'), { recursive: true });
      fs.writeFileSync(join(first, 'kernel/boot_id'), `${randomUUID()}\n`);
      const root = /muster\.root\.sha256=\S+/.exec(script)?.[0];
      fs.writeFileSync(join(first, 'kernel/cmdline'), `${root ?? ''}\n`);
    }
    fs.mkdirSync(join(first, 'etc'), { recursive: true });
    fs.writeFileSync(join(first, 'etc/machine-id'), `${this.name.slice(1).repeat(32)}\n`);
    return true;
  }

  /** Whether the machine has the file or directory. */
  has(path: string): boolean {
    return this.#pid !== 0 && fs.existsSync(`/proc/${this.#pid}/root${path}`);
  }

  /**
   * The content of a file on the machine; undefined when the machine is off or has no such file.
   */
  read(path: string): string | undefined {
    try {
      return fs.readFileSync(`/proc/${this.#pid}/root${path}`, 'utf8');
    } catch {
      return undefined;
    }
  }

  /** Removes a file or directory of the running machine, as a fault of its disk would. */
  lose(path: string): void {
    fs.rmSync(`/proc/${this.#pid}/root${path}`, { recursive: true, force: true });
  }

  /** Kills the agent and what it is doing; the machine starts it again after a second. */
  killAgent(): void {
    const namespace = this.#segment.namespace(this.name);
    for (const pid of execFileSync('ip', ['netns', 'pids', namespace], { encoding: 'utf8' }).split('\n')) {
      if (pid === '' || Number(pid) === this.#pid) continue;
      const words = commandOf(pid);
      if (words.includes('/etc/muster/muster-agent.sh')) process.kill(Number(pid), 'SIGKILL');
    }
  }

  /** Cuts the power without notice. */
  async powerOff(): Promise<void> {
    this.#process?.kill('SIGKILL');
    if (this.#pid !== 0)
      try {
        process.kill(this.#pid, 'SIGKILL');
      } catch {
        // The process ended together with its parent.
      }
    await this.#ended;
    this.#process = undefined;
    this.#pid = 0;
    if (this.#links) this.#link('down');
  }

  /**
   * Switches it off and on. With a certificate on its disk it starts from its disk, like an
   * installed system. `off`: what happens to it while it is off.
   */
  async cycle(off = () => {}): Promise<void> {
    const installed = this.has('/var/lib/muster/agent/agent.crt');
    await this.powerOff();
    off();
    if (installed && this.#first !== undefined) await this.#run(this.#first);
    else await this.powerOn();
  }

  /** Switches it off and boots it from the network, like a machine without its own system. */
  async reboot(): Promise<void> {
    await this.powerOff();
    await this.powerOn();
  }

  /** Switches it off and exchanges its disk; returns the former disk. */
  async change(disk: Disk): Promise<Disk> {
    await this.powerOff();
    const old = this.disk;
    this.disk = disk;
    return old;
  }

  log(): string {
    return ['/run/agent.log', '/run/systemctl.log', '/run/muster-etcd.service.log']
      .map((path) => `--- ${this.name} ${path}\n${(this.read(path) ?? '').slice(-3000)}`)
      .join('\n');
  }
}

interface Ignition {
  readonly storage: {
    readonly files: readonly {
      readonly path: string;
      readonly mode?: number;
      readonly contents?: { readonly source?: string; readonly compression?: string };
    }[];
  };
}

function decoded({
  source = 'data:,',
  compression,
}: {
  readonly source?: string;
  readonly compression?: string;
}) {
  const comma = source.indexOf(',');
  const body = source.slice(comma + 1);
  const octets = source.slice(0, comma).endsWith(';base64')
    ? Buffer.from(body, 'base64')
    : Buffer.from(decodeURIComponent(body));
  return compression === 'gzip' ? gunzipSync(octets) : octets;
}

function childOf(pid: number): number | undefined {
  for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
    const [child] = fs.readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' ');
    if (child) return Number(child);
  }
  return undefined;
}

/** The boot host: a state directory and a process that can be killed at any moment. */
export class BootHost {
  readonly home: string;
  readonly #namespace: string;
  readonly state: string;
  readonly socket: string;
  readonly #env: NodeJS.ProcessEnv;
  #process: ChildProcess | undefined;
  #signer: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();

  /** `more`: variables of its environment. */
  constructor(
    home: string,
    namespace: string,
    documents: string,
    more: Readonly<Record<string, string>> = {},
  ) {
    this.home = home;
    this.#env = { ...process.env, ...more };
    this.#namespace = namespace;
    this.state = join(home, 'state');
    this.socket = join(home, 'm.sock');
    fs.mkdirSync(join(home, 'config'));
    fs.writeFileSync(join(home, 'config/all.yaml'), documents);
  }

  /** Sets its clock, by days ahead of the machines'; needs `setsClock`. */
  setClock(days: number): void {
    fs.writeFileSync(join(this.home, 'clock'), `${days < 0 ? '-' : '+'}${Math.abs(days) * 86_400}s\n`);
  }

  /** Runs `muster …` for this boot host. */
  muster(...words: string[]): Promise<{ readonly code: number; readonly output: string }> {
    return musterAt(this.socket, words);
  }

  /**
   * Gives the vault's key to a signer, which every start asks from now on. It knows the machines of
   * the documents; of others it learns by {@link admit}.
   */
  async startSigner(): Promise<void> {
    const at = join(this.home, 'signer');
    fs.mkdirSync(join(at, 'run'), { recursive: true });
    createVaultKey(join(at, 'vault.key'));
    const log = fs.openSync(join(this.home, 'signer.log'), 'a');
    const words = ['--state', at, '--config', join(this.home, 'config'), '--directory', join(at, 'run')];
    this.#signer = spawn(resolve('bin/muster'), ['signer', 'run', ...words], {
      stdio: ['ignore', log, log],
    });
    await until(
      'the signer has its socket',
      async () => fs.existsSync(join(at, 'run/server.sock')),
      () => fs.readFileSync(join(this.home, 'signer.log'), 'utf8'),
    );
  }

  /** Tells the signer, if there is one, which machines a cluster of the API has. */
  async admit(names: readonly string[], cluster: string): Promise<void> {
    if (this.#signer === undefined) return;
    const socket = ['--socket', join(this.home, 'signer/run/operator.sock')];
    const roles = ['--role', 'control-plane', 'etcd', 'worker'];
    const words = ['signer', 'admit', ...names, '--cluster', cluster, ...roles, ...socket];
    const { code, output } = await this.muster(...words);
    if (code !== 0) throw new Error(output);
  }

  async start(...more: string[]): Promise<void> {
    const log = fs.openSync(join(this.home, 'muster.log'), 'a');
    if (this.#signer) more.push('--signer', join(this.home, 'signer/run/server.sock'));
    const child = spawn(
      'ip',
      [
        ...['netns', 'exec', this.#namespace, resolve('bin/muster'), 'serve', '--interface', 'eth0'],
        ...['--config', join(this.home, 'config'), '--state', this.state],
        ...['--socket', this.socket, '--loaders', '/usr/lib/ipxe', ...more],
      ],
      { stdio: ['ignore', log, log], env: this.#env },
    );
    this.#process = child;
    this.#ended = new Promise((done) => child.on('close', () => done()));
    await until(
      'the boot host answers',
      async () => {
        if (child.exitCode !== null) throw new Error('it ended');
        const { status, text } = await callApi(this.socket, 'GET', '/readyz');
        // A restored store waits for an operator.
        return status === 200 || text.includes('store life');
      },
      () => this.log(),
    );
  }

  /** Kills it like a power cut. */
  async kill(): Promise<void> {
    this.#process?.kill('SIGKILL');
    await this.#ended;
    this.#process = undefined;
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Ends it and its signer. */
  async close(): Promise<void> {
    await this.kill();
    this.#signer?.kill('SIGKILL');
  }

  log = (): string => {
    return `--- boot host\n${fs.readFileSync(join(this.home, 'muster.log'), 'utf8').slice(-6000)}`;
  };
}

/** The environment of a boot host whose clock follows a file. */
function fakeClock(home: string): Readonly<Record<string, string>> {
  const file = join(home, 'clock');
  fs.writeFileSync(file, '+0s\n');
  const library = String(execFileSync('sh', ['-c', 'echo /usr/lib/*/faketime/libfaketimeMT.so.1'])).trim();
  return {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    // Waits by monotonic time take as long as with the right clock.
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}

const musterAt = (
  socket: string,
  words: readonly string[],
): Promise<{ readonly code: number; readonly output: string }> =>
  new Promise((done) => {
    const child = spawn(resolve('bin/muster'), [...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, MUSTER_SOCKET: socket },
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    child.on('close', (code) => done({ code: code ?? -1, output }));
  });

const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.9.0.0/24, dhcp: {mode: server, pools: [{start: 10.9.0.100, end: 10.9.0.120}]}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: os}
spec:
  os: flatcar
  arch: x86_64
  kernel: {sha256: KERNEL, name: vmlinuz}
  configFormat: ignition
---
apiVersion: muster/v1
kind: Profile
metadata: {name: member}
spec: {image: os, dataDisk: {path: /dev/vda}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp}
spec: {macs: ['52:54:00:09:00:99'], profile: member, addresses: [10.9.0.8]}
`;

export const CLUSTER = `apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec:
  trust: segment
  kubernetes:
    version: '1.36'
    endpoint: 10.9.0.9
    controlPlanes: [cp]
    etcd: {topology: external, machines: [MEMBERS]}
    overrides: {versions: {etcd: ETCD}, checks: {fsyncMs: 10000}}
`;

/** The words of a process; none when it has ended meanwhile. */
function commandOf(pid: string): readonly string[] {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0');
  } catch {
    return [];
  }
}

export interface Rack {
  readonly host: BootHost;
  /** The address of the boot host. */
  readonly server: string;
  /** Where the BMC of a machine is expected. */
  bmcAt(name: Name): { readonly address: string; readonly port: number };
  /** Another host, whose state directory is empty and which does not run. */
  secondHost(): BootHost & { readonly address: string };
  /** Runs a command in the network of a machine. */
  fromMachine(name: Name, command: string[]): ReturnType<typeof run>;
  readonly machines: Readonly<Record<Name, Machine>>;
  /** The machines that are members at first. */
  readonly all: readonly Machine[];
  newDisk(): Disk;
  founding(): Promise<FoundingStatus>;
  /** Runs `muster …` on the boot host. */
  muster(...words: string[]): Promise<{ readonly code: number; readonly output: string }>;
  readonly writer: Writer;
  /**
   * Asserts that every acknowledged write is on every named member; without names, on the members
   * of the beginning.
   */
  nothingLost(names?: readonly Name[]): Promise<void>;
  /** Waits until the founding decides one of these about a member. */
  decision(name: Name, ...wanted: readonly string[]): Promise<void>;
  /** Waits until exactly the members of the beginning are voters that answer. */
  healthy(seconds?: number): Promise<void>;
  /** Waits until exactly these are voters that answer. */
  voters(names: readonly Name[], seconds?: number): Promise<void>;
  state(): Promise<string>;
  close(): Promise<void>;
}

export interface Etcd {
  /** The version of etcd in the Cluster's document. */
  readonly version: string;
  readonly program: string;
  /** The program that restores, by the name that the machine's agent uses. */
  readonly restore: { readonly name: string; readonly program: string };
}

export const DEBIAN_12: Etcd = {
  version: '3.4.23-0',
  program: unpacked('etcd-server', 'usr/bin/etcd').command,
  restore: { name: 'etcdctl', program: unpacked('etcd-client', 'usr/bin/etcdctl').command },
};
export const DEBIAN_13: Etcd = {
  version: '3.5.16-0',
  program: unpacked('etcd-server-trixie', 'usr/bin/etcd').command,
  restore: { name: 'etcdutl', program: unpacked('etcd-server-trixie', 'usr/bin/etcdutl').command },
};

export interface RackOptions {
  readonly etcd?: Etcd;
  readonly members?: readonly Name[];
  /** Whether the Cluster's document is in a file, or in the API, where orders can change it. */
  readonly document?: 'file' | 'api';
  /** The size of a data disk; a restore needs room for a copy. */
  readonly diskMiB?: number;
  /** The Cluster's document instead of one with external members: MEMBERS and ETCD are replaced. */
  readonly cluster?: string;
  /** More programs in the machines' search path: name → file. */
  readonly programs?: Readonly<Record<string, string>>;
  /** Whether each boot of a machine has a boot id and a command line of its own. */
  readonly kernels?: boolean;
  /** How long CAs live that are made in this rack; all others, and without it all, ten years. */
  readonly lives?: Lives;
  /** Whether the boot host's clock can be set, with {@link BootHost.setClock}. */
  readonly setsClock?: boolean;
  /**
   * The machines that have a BMC. With this, documents of machines are in the API, those that are
   * no members have the label `role: spare`, and nothing answers at a machine that is off.
   */
  readonly bmcs?: readonly Name[];
  /** Whether a signer has the vault's key; without it as the variable MUSTER_RACK_SIGNER says. */
  readonly signer?: boolean;
}

/** The port of the BMC of a machine, less its number. */
const BMC_PORT = 6230;

/** What machines have in the place of systemd's and containerd's programs. */
const TOOLS = 'test/peers/etcd/tools';

/** A new rack: machines that are off, with blank disks, and an empty store. */
export async function openRack(options: RackOptions = {}): Promise<Rack> {
  const { etcd = DEBIAN_12, members = NAMES, document = 'file', diskMiB = 192, programs = {} } = options;
  const { kernels, lives, bmcs, signer = process.env.MUSTER_RACK_SIGNER !== undefined } = options;
  // In memory, since the disks of a busy host would delay etcd, and no test needs real disks.
  const home = fs.mkdtempSync('/run/etcd-ha-');
  const segment = makeSegment();
  const own = fs.readdirSync(TOOLS).map((name): [string, string] => [name, join(TOOLS, name)]);
  const tools = {
    ...Object.fromEntries(own),
    ...{ etcd: etcd.program, [etcd.restore.name]: etcd.restore.program, ...programs },
  };
  for (const [name, program] of Object.entries(tools)) {
    fs.mkdirSync(dirname(join(home, 'tools', name)), { recursive: true });
    fs.copyFileSync(program, join(home, 'tools', name));
    fs.chmodSync(join(home, 'tools', name), 0o755);
  }
  const kernel = 'a kernel\n';
  const hash = String(execFileSync('sha256sum', { input: kernel })).slice(0, 64);
  const login = 'credentials: {user: ada, password: {valueFrom: {secret: bmc, key: password}}}';
  const bmcOf = (name: Name): string =>
    bmcs?.includes(name)
      ? `, bmc: {protocol: ipmi, address: 10.9.${segment.number}.254, port: ${BMC_PORT + Number(name.slice(1))}, ${login}}`
      : '';
  const documents = EVERYONE.map(
    (name) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}${bmcs && !members.includes(name) ? ', labels: {role: spare}' : ''}}
spec: {macs: ['${mac(name)}'], profile: member, addresses: [${segment.address(name)}]${bmcOf(name)}}
`,
  );
  const here = (text: string): string => text.replaceAll('10.9.0.', `10.9.${segment.number}.`);
  const cluster = here(options.cluster ?? CLUSTER)
    .replace('MEMBERS', members.join(', '))
    .replace('ETCD', etcd.version);
  const texts = [here(DOCUMENTS).replace('KERNEL', hash), ...(bmcs ? [] : documents)];
  if (document === 'file') texts.push(`---\n${cluster}`);
  const host = new BootHost(home, segment.host, texts.join(''), {
    ...(lives && shortLives(lives)),
    ...(options.setsClock && fakeClock(home)),
  });
  if (signer) await host.startSigner();
  await host.start();
  const applies = async (text: string): Promise<void> => {
    const applied = await callApi(host.socket, 'POST', '/v1/apply', text);
    if (applied.status >= 300) throw new Error(`${text}: ${applied.status} ${applied.text}`);
  };
  if (bmcs) {
    const put = await callApi(host.socket, 'PUT', '/v1/secrets/bmc/password', 'secret-of-ada');
    if (put.status >= 300) throw new Error(`the Secret: ${put.status} ${put.text}`);
    await applies(documents.join(''));
  }
  if (document === 'api') {
    await host.admit(members, 'one');
    await applies(cluster);
  }
  const put = await callApi(host.socket, 'PUT', `/v1/assets/${hash}`, kernel);
  if (put.status >= 300) throw new Error(`the image: ${put.status} ${put.text}`);
  const machines = Object.fromEntries(
    EVERYONE.map((name) => [
      name,
      new Machine(name, home, segment, new Disk(home, diskMiB), kernels, bmcs !== undefined),
    ]),
  ) as Record<Name, Machine>;
  const everyone = Object.values(machines);
  const all = members.map((name) => machines[name]);
  let second: (BootHost & { readonly address: string }) | undefined;
  const disks: Disk[] = everyone.map(({ disk }) => disk);
  const writer = new Writer(everyone);
  const founding = async () =>
    JSON.parse((await callApi(host.socket, 'GET', '/v1/clusters/one/founding')).text) as FoundingStatus;
  const state = async () =>
    [
      await founding().then((value) => JSON.stringify(value, undefined, 1), String),
      host.log(),
      ...everyone.filter(({ on }) => on).map((machine) => machine.log()),
    ].join('\n');
  const voters = async (names: readonly Name[], seconds?: number): Promise<void> => {
    await until(
      `${names.join(', ')} are voters that answer`,
      async () => {
        const { view, record } = await founding();
        const good = view?.members.filter(({ healthy, learner }) => healthy && !learner) ?? [];
        return (
          good.length === view?.members.length &&
          good
            .map(({ name }) => name)
            .sort()
            .join() === [...names].sort().join() &&
          record?.founded &&
          !record.replacing
        );
      },
      state,
      seconds,
    );
  };
  return {
    host,
    machines,
    all,
    founding,
    state,
    writer,
    muster: (...words) => musterAt(host.socket, words),
    server: segment.server,
    bmcAt: (name) => ({ address: `10.9.${segment.number}.254`, port: BMC_PORT + Number(name.slice(1)) }),
    fromMachine: (name, command) => run(segment.namespace(name), command),
    secondHost() {
      const at = fs.mkdtempSync(join(home, 'second-'));
      const { namespace, address } = segment.second;
      second = Object.assign(new BootHost(at, namespace, ''), { address });
      return second;
    },
    async nothingLost(names = members) {
      await writer.stop();
      if (writer.acknowledged.size === 0) throw new Error('nothing was written at all');
      for (const machine of names.map((name) => machines[name])) {
        const missing = await until(`${machine.name} answers`, () => writer.missing(machine), state);
        if (missing.length > 0)
          throw new Error(
            `${machine.name} lacks ${missing.length} of ${writer.acknowledged.size}, e.g. ${missing.slice(0, 5)}`,
          );
      }
    },
    newDisk() {
      const disk = new Disk(home, diskMiB);
      disks.push(disk);
      return disk;
    },
    async decision(name, ...wanted) {
      await until(
        `${name}: ${wanted.join(' or ')}`,
        async () => {
          const decision = (await founding()).members.find((one) => one.name === name)?.decision;
          return decision && wanted.includes(decision.do === 'hold' ? `hold ${decision.code}` : decision.do);
        },
        state,
      );
    },
    healthy: (seconds) => voters(members, seconds),
    voters,
    async close() {
      await writer.stop();
      await Promise.all(everyone.map((machine) => machine.powerOff()));
      await host.close();
      await second?.close();
      for (const disk of disks) disk.release();
      segment.remove();
      fs.rmSync(home, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** A test with its own rack; such tests run in parallel. */
export const withRack = (play: (rack: Rack) => Promise<void>, options?: RackOptions) => async () => {
  const rack = await openRack(options);
  try {
    await play(rack);
  } finally {
    await rack.close();
  }
};
