/**
 * A machine's static pod of etcd as the agent sees it: Debian's containerd with an image of
 * Debian's etcd and etcdutl, and the container labelled as by kubelet; also etcd alone on a data
 * directory. Runs inside scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { join, resolve } from 'node:path';
import { daemon } from '../dhcp-segment.ts';
import { unpacked } from '../unpacked.ts';
import { DEBIAN_13, until } from './rack.ts';

export const IMAGE = 'registry.k8s.io/etcd:3.5.16-0';
const { env } = unpacked('containerd', 'usr/bin/containerd');
export const CTR = unpacked('containerd', 'usr/bin/ctr').command;
/** The PATH where containerd finds its shim and runc. */
const ENV = {
  ...env,
  PATH: `${join(CTR, '..')}:${join(unpacked('containerd', 'usr/sbin/runc').command, '..')}:${process.env.PATH}`,
};

/** Names of Debian's programs. */
export const PROGRAMS = { etcd: DEBIAN_13.program, etcdutl: DEBIAN_13.restore.program };
/** Libraries that Debian's programs need; the publisher's programs are static. */
const LIBRARIES = ['/lib64/ld-linux-x86-64.so.2', '/lib/x86_64-linux-gnu/libc.so.6'];

/**
 * Makes the image in `directory`, as a set for `muster artifacts import`. `script`, if given,
 * replaces each program, which is then NAME.real.
 */
export function packImage(directory: string, script?: string): void {
  fs.mkdirSync(directory, { recursive: true });
  const file = join(directory, 'script');
  if (script !== undefined) fs.writeFileSync(file, script, { mode: 0o755 });
  const files = [
    ...Object.entries(PROGRAMS).flatMap(([name, program]) =>
      script === undefined
        ? [`${program}:/usr/local/bin/${name}`]
        : [`${file}:/usr/local/bin/${name}`, `${program}:/usr/local/bin/${name}.real`],
    ),
    ...LIBRARIES.map((library) => `${fs.realpathSync(library)}:${library}`),
  ];
  const words = ['artifacts', 'pack', directory, '--image', `${IMAGE}=${files.join(',')}`];
  execFileSync(resolve('bin/muster'), words);
}

type Daemon = Awaited<ReturnType<typeof daemon>>;

export class Containerd {
  readonly socket: string;
  readonly #home: string;
  readonly #daemon: Daemon;

  private constructor(home: string, running: Daemon) {
    this.#home = home;
    this.#daemon = running;
    this.socket = join(home, 'containerd.sock');
  }

  static async start(): Promise<Containerd> {
    const home = fs.mkdtempSync('/run/containerd-');
    const config = [
      'version = 2',
      `root = "${home}/root"`,
      `state = "${home}/state"`,
      'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
      '[grpc]',
      `address = "${home}/containerd.sock"`,
    ];
    fs.writeFileSync(join(home, 'config.toml'), `${config.join('\n')}\n`);
    const { command } = unpacked('containerd', 'usr/bin/containerd');
    const words = [command, '--config', join(home, 'config.toml')];
    return new Containerd(home, await daemon(undefined, words, /containerd successfully booted/, ENV));
  }

  /** Runs ctr in kubelet's containerd namespace; returns its output. */
  ctr(...words: readonly string[]): string {
    const args = ['--address', this.socket, '--namespace', 'k8s.io', ...words];
    return execFileSync(CTR, args, { env: ENV, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Imports the image of a set. */
  import(set: string): void {
    const file = join(this.#home, 'image.tar');
    execFileSync('tar', ['-C', join(set, 'oci'), '-cf', file, '.']);
    this.ctr('images', 'import', file);
    fs.rmSync(file);
  }

  /** Starts the container of a pod, with that data directory as /var/lib/etcd. */
  run(id: string, pod: string, data: string, ...command: readonly string[]): void {
    const labels = Object.entries({
      'pod.namespace': 'kube-system',
      'pod.name': pod,
      'container.name': 'etcd',
    });
    this.ctr(
      ...['run', '--detach', '--net-host', '--cgroup', '', '--log-uri', `file://${this.#home}/${id}.log`],
      ...labels.flatMap(([name, value]) => ['--label', `io.kubernetes.${name}=${value}`]),
      ...['--mount', `type=bind,src=${data},dst=/var/lib/etcd,options=rbind:rw`, IMAGE, id, ...command],
    );
  }

  /** `RUNNING`, `STOPPED`. */
  state(id: string): string | undefined {
    return new RegExp(`^${id} +\\d+ +(\\S+)`, 'm').exec(this.ctr('tasks', 'ls'))?.[1];
  }

  async stop(): Promise<void> {
    for (const id of this.ctr('containers', 'ls', '-q').split('\n').filter(Boolean)) {
      this.ctr('tasks', 'rm', '--force', id);
      this.ctr('containers', 'rm', id);
    }
    await this.#daemon.stop();
    fs.rmSync(this.#home, { recursive: true, force: true });
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Sends a request to etcd's gateway on that socket or port. */
export function ask(to: http.RequestOptions, path: string, body: object): Promise<Record<string, unknown>> {
  return new Promise((done, fail) => {
    const asking = http.request({ ...to, path, method: 'POST' }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part) => (text += part));
      answer.on('end', () =>
        answer.statusCode === 200 ? done(JSON.parse(text)) : fail(new Error(`${path}: ${text}`)),
      );
    });
    asking.on('error', fail);
    asking.end(JSON.stringify(body));
  });
}

/** Writes keys from `from` up to, not including, `to`. */
export async function write(at: http.RequestOptions, from: number, to: number): Promise<void> {
  for (let n = from; n < to; n++)
    await ask(at, '/v3/kv/put', { key: base64(`key ${n}`), value: base64(`value ${n}`) });
}

/** The content of a data directory, read through etcd. */
export interface Contents {
  readonly keys: number;
  readonly cluster: string;
  readonly peers: readonly string[];
}

/**
 * Starts etcd as the only member of the data directory's cluster, on sockets in its own directory.
 */
export class EtcdAlone {
  readonly at: http.RequestOptions;
  readonly #home: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(data: string) {
    this.#home = fs.mkdtempSync('/run/etcd-alone-');
    const sockets = ['--listen-client-urls', 'unix://client:0', '--advertise-client-urls', 'unix://client:0'];
    this.#child = spawn(
      DEBIAN_13.program,
      ['--name', 'cp1', '--data-dir', data, ...sockets, '--listen-peer-urls', 'unix://peer:0'].concat(
        ['--initial-advertise-peer-urls', 'http://10.0.0.1:2380'],
        ['--initial-cluster', 'cp1=http://10.0.0.1:2380'],
      ),
      { cwd: this.#home, stdio: 'ignore' },
    );
    this.#ended = new Promise((done) => this.#child.on('close', done));
    this.at = { socketPath: join(this.#home, 'client:0') };
  }

  static async start(data: string): Promise<EtcdAlone> {
    const etcd = new EtcdAlone(data);
    await until('etcd answers', async () => (await etcd.#count()) >= 0);
    return etcd;
  }

  async #count(): Promise<number> {
    const all = { key: base64('\0'), range_end: base64('\0'), count_only: true };
    return Number((await ask(this.at, '/v3/kv/range', all)).count ?? 0);
  }

  async contents(): Promise<Contents> {
    const { header, members } = (await ask(this.at, '/v3/cluster/member/list', {})) as {
      header: { cluster_id: string };
      members: { peerURLs: string[] }[];
    };
    return {
      keys: await this.#count(),
      cluster: header.cluster_id,
      peers: members.flatMap(({ peerURLs }) => peerURLs),
    };
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    this.#child.kill(signal);
    await this.#ended;
    fs.rmSync(this.#home, { recursive: true, force: true });
  }
}

/** The content of a data directory that no process uses. */
export async function contentsOf(data: string): Promise<Contents> {
  const etcd = await EtcdAlone.start(data);
  try {
    return await etcd.contents();
  } finally {
    await etcd.stop();
  }
}
