/**
 * Three machines, each a network namespace with the real agent, a data disk and real etcd; a segment; and `bin/muster serve` as it
 * is shipped. Inside scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { systemClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import type { FoundingStatus } from '../../../src/cluster/founding/founder.ts';
import { attach, bridge, ip, run } from '../dhcp-segment.ts';
import { unpacked } from '../unpacked.ts';
import { callApi } from './api.ts';

/** Nothing here takes as long on a machine that is not stuck. */
export const PATIENCE_S = 120;

export const NAMES = ['m1', 'm2', 'm3'] as const;
export type Name = (typeof NAMES)[number];
export const ADDRESS: Readonly<Record<Name, string>> = { m1: '10.9.0.11', m2: '10.9.0.12', m3: '10.9.0.13' };
const SERVER = '10.9.0.1';
const mac = (name: Name): string => `52:54:00:09:00:0${name.slice(1)}`;

const sleep = (ms: number): Promise<void> => new Promise((done) => systemClock.after(millis(ms), done));

/** Asks again until `what` is so; the last error or `why` says what was there instead. */
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
    await sleep(100);
  }
}

/** A disk in a file, on a loop device while it is in a machine. */
export class Disk {
  readonly file: string;
  #loop: string | undefined;

  constructor(home: string) {
    this.file = `${fs.mkdtempSync(join(home, 'disk-'))}/disk`;
    fs.closeSync(fs.openSync(this.file, 'w'));
    fs.truncateSync(this.file, 192 * 1024 * 1024);
  }

  get loop(): string {
    this.#loop ??= String(execFileSync('losetup', ['--find', '--show', this.file])).trim();
    return this.#loop;
  }

  get sectors(): number {
    return fs.statSync(this.file).size / 512;
  }

  get device(): string {
    const { rdev } = fs.statSync(this.loop);
    return `${rdev >> 8}:${rdev & 0xff}`;
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
  disk: Disk;
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #boots = 0;
  #pid = 0;

  constructor(name: Name, home: string) {
    this.name = name;
    this.address = ADDRESS[name];
    this.#home = home;
    this.disk = new Disk(home);
  }

  get on(): boolean {
    return this.#process !== undefined;
  }

  /** From the network: the boot script opens a session, the configuration brings the agent. Waits for a server that is away. */
  async powerOn(): Promise<void> {
    const first = join(this.#home, `${this.name}-first-${++this.#boots}`);
    await until(`${this.name} boots`, async () => this.#fetch(first), undefined, 240);
    const root = join(this.#home, `${this.name}-root-${this.#boots}`);
    fs.mkdirSync(root);
    const child = spawn(
      'ip',
      [
        ...['netns', 'exec', this.name, 'unshare', '--mount', '--uts', '--pid', '--fork', '--kill-child'],
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
      {
        stdio: [
          'ignore',
          fs.openSync(join(this.#home, `${this.name}.log`), 'a'),
          fs.openSync(join(this.#home, `${this.name}.log`), 'a'),
        ],
      },
    );
    this.#process = child;
    this.#ended = new Promise((done) => child.on('close', () => done()));
    this.#pid = await until(`${this.name} runs`, () => childOf(child.pid!));
  }

  async #fetch(first: string): Promise<boolean> {
    const ask = async (url: string) => {
      const { code, output } = await run(this.name, ['curl', '-sSf', '-m', '10', url]);
      if (code !== 0) throw new Error(`${url}: ${output}`);
      return output;
    };
    const id = `mac=${mac(this.name)}&macs=${mac(this.name)}&arch=x86_64&platform=efi`;
    const script = await ask(`http://${SERVER}:8080/script.ipxe?${id}`);
    const session =
      /\/boot\/([A-Za-z0-9_-]{22})\//.exec(script)?.[1] ??
      /muster\.url=\S*\/boot\/([A-Za-z0-9_-]+)/.exec(script)?.[1];
    if (session === undefined) throw new Error(script);
    const document = JSON.parse(await ask(`http://${SERVER}:8080/boot/${session}/ignition`)) as Ignition;
    fs.rmSync(first, { recursive: true, force: true });
    for (const { path, mode = 0o644, contents } of document.storage.files) {
      fs.mkdirSync(join(first, dirname(path)), { recursive: true });
      fs.writeFileSync(join(first, path), decoded(contents ?? {}), { mode });
    }
    fs.mkdirSync(join(first, 'etc'), { recursive: true });
    fs.writeFileSync(join(first, 'etc/machine-id'), `${this.name.slice(1).repeat(32)}\n`);
    return true;
  }

  /** A file as the machine sees it; undefined when it is off or has none. */
  read(path: string): string | undefined {
    try {
      return fs.readFileSync(`/proc/${this.#pid}/root${path}`, 'utf8');
    } catch {
      return undefined;
    }
  }

  /** Without warning. */
  async powerOff(): Promise<void> {
    this.#process?.kill('SIGKILL');
    if (this.#pid !== 0)
      try {
        process.kill(this.#pid, 'SIGKILL');
      } catch {
        // It ended with its parent.
      }
    await this.#ended;
    this.#process = undefined;
    this.#pid = 0;
  }

  async cycle(): Promise<void> {
    await this.powerOff();
    await this.powerOn();
  }

  /** Another disk instead of the present one, which is returned; off meanwhile. */
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

/** The boot host: a process that can be killed at any moment, and a state directory. */
export class BootHost {
  readonly home: string;
  readonly state: string;
  readonly socket: string;
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();

  constructor(home: string, documents: string) {
    this.home = home;
    this.state = join(home, 'state');
    this.socket = join(home, 'm.sock');
    fs.mkdirSync(join(home, 'config'));
    fs.writeFileSync(join(home, 'config/all.yaml'), documents);
  }

  async start(): Promise<void> {
    const log = fs.openSync(join(this.home, 'muster.log'), 'a');
    const child = spawn(
      resolve('bin/muster'),
      [
        ...['serve', '--interface', 'br-etcd', '--config', join(this.home, 'config'), '--state', this.state],
        ...['--socket', this.socket, '--loaders', '/usr/lib/ipxe'],
      ],
      { stdio: ['ignore', log, log] },
    );
    this.#process = child;
    this.#ended = new Promise((done) => child.on('close', () => done()));
    await until(
      'the boot host answers',
      async () => {
        if (child.exitCode !== null) throw new Error('it ended');
        return (await callApi(this.socket, 'GET', '/readyz')).status === 200;
      },
      () => this.log(),
    );
  }

  /** As a power cut. */
  async kill(): Promise<void> {
    this.#process?.kill('SIGKILL');
    await this.#ended;
    this.#process = undefined;
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  log(): string {
    return `--- boot host\n${fs.readFileSync(join(this.home, 'muster.log'), 'utf8').slice(-6000)}`;
  }
}

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
kind: Cluster
metadata: {name: one}
spec:
  kubernetes:
    version: '1.36'
    endpoint: 10.9.0.9
    controlPlanes: [cp]
    etcd: {topology: external, machines: [m1, m2, m3]}
    overrides: {versions: {etcd: ETCD}, checks: {fsyncMs: 10000}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp}
spec: {macs: ['52:54:00:09:00:99'], profile: member, addresses: [10.9.0.8]}
`;

export interface Rack {
  readonly host: BootHost;
  readonly machines: Readonly<Record<Name, Machine>>;
  readonly all: readonly Machine[];
  newDisk(): Disk;
  founding(): Promise<FoundingStatus>;
  /** Waits for the founding's word on a member. */
  decision(name: Name, wanted: string): Promise<void>;
  /** All three are voters that answer. */
  healthy(seconds?: number): Promise<void>;
  state(): Promise<string>;
  close(): Promise<void>;
}

let segments = 0;

/** Everything off and nothing known: machines with blank disks, an empty store. */
export async function openRack(
  version = '3.4.23-0',
  etcd = unpacked('etcd-server', 'usr/bin/etcd'),
): Promise<Rack> {
  const home = fs.mkdtempSync(join(tmpdir(), 'muster-etcd-ha-'));
  if (segments++ === 0) {
    bridge('br-etcd', `${SERVER}/24`);
    for (const name of NAMES) {
      attach(name, 'br-etcd', mac(name));
      ip('-n', name, 'addr', 'add', `${ADDRESS[name]}/24`, 'dev', 'eth0');
    }
  }
  fs.mkdirSync(join(home, 'tools'));
  fs.copyFileSync('test/peers/etcd/tools/systemctl', join(home, 'tools/systemctl'));
  fs.chmodSync(join(home, 'tools/systemctl'), 0o755);
  fs.copyFileSync(etcd.command, join(home, 'tools/etcd'));
  fs.chmodSync(join(home, 'tools/etcd'), 0o755);
  const kernel = 'a kernel\n';
  const hash = String(execFileSync('sha256sum', { input: kernel })).slice(0, 64);
  const documents = NAMES.map(
    (name) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec: {macs: ['${mac(name)}'], profile: member, addresses: [${ADDRESS[name]}]}
`,
  );
  const host = new BootHost(
    home,
    DOCUMENTS.replace('KERNEL', hash).replace('ETCD', version) + documents.join(''),
  );
  await host.start();
  const put = await callApi(host.socket, 'PUT', `/v1/assets/${hash}`, kernel);
  if (put.status >= 300) throw new Error(`the image: ${put.status} ${put.text}`);
  const machines = Object.fromEntries(NAMES.map((name) => [name, new Machine(name, home)])) as Record<
    Name,
    Machine
  >;
  const all = Object.values(machines);
  const disks: Disk[] = all.map(({ disk }) => disk);
  const founding = async () =>
    JSON.parse((await callApi(host.socket, 'GET', '/v1/clusters/one/founding')).text) as FoundingStatus;
  const state = async () =>
    [
      await founding().then((value) => JSON.stringify(value, undefined, 1), String),
      host.log(),
      ...all.map((machine) => machine.log()),
    ].join('\n');
  return {
    host,
    machines,
    all,
    founding,
    state,
    newDisk() {
      const disk = new Disk(home);
      disks.push(disk);
      return disk;
    },
    async decision(name, wanted) {
      await until(
        `${name}: ${wanted}`,
        async () => {
          const decision = (await founding()).members.find((one) => one.name === name)?.decision;
          return decision && (decision.do === 'hold' ? `hold ${decision.code}` : decision.do) === wanted;
        },
        state,
      );
    },
    async healthy(seconds) {
      await until(
        'three voters that answer',
        async () => {
          const { view, record } = await founding();
          const good = view?.members.filter(({ healthy, learner }) => healthy && !learner) ?? [];
          return good.length === 3 && view?.members.length === 3 && record?.founded && !record.replacing;
        },
        state,
        seconds,
      );
    },
    async close() {
      await Promise.all(all.map((machine) => machine.powerOff()));
      await host.kill();
      for (const disk of disks) disk.release();
      fs.rmSync(home, { recursive: true, force: true });
    },
  };
}
