/**
 * Runs the shipped command on its own segment, with the clients in another namespace. Needs
 * scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { unpacked } from '../test/peers/unpacked.ts';

export const SERVER = '10.91.0.1';
const LINK = 'bench-s';
const CLIENT = 'bench-c';

const ip = (...words: string[]) => execFileSync('ip', words, { encoding: 'utf8' });

/** Makes a pair of interfaces: the server's here, the clients' in the namespace `bench-c`. */
export function openSegment(): { readonly link: string; close(): void } {
  ip('netns', 'add', CLIENT);
  ip('link', 'add', LINK, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', CLIENT);
  ip('addr', 'add', `${SERVER}/16`, 'dev', LINK);
  ip('link', 'set', LINK, 'up');
  ip('-n', CLIENT, 'addr', 'add', '10.91.0.2/16', 'dev', 'eth0');
  for (const link of ['eth0', 'lo']) ip('-n', CLIENT, 'link', 'set', link, 'up');
  return {
    link: LINK,
    close() {
      ip('netns', 'del', CLIENT);
    },
  };
}

/** Runs a command in the clients' namespace; resolves to its output. Rejects when it fails. */
export function asClient(command: readonly string[], input = ''): Promise<string> {
  const child = spawn('ip', ['netns', 'exec', CLIENT, ...command], { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  child.stdin.end(input);
  return new Promise((done, fail) =>
    child.on('close', (code) =>
      code === 0 ? done(output) : fail(new Error(`${command.join(' ')} ended with ${code}:\n${output}`)),
    ),
  );
}

const FIRST_USER = 61_000;

/**
 * Gives the clients' namespace `count` further addresses. Programs that cannot choose their own
 * address, as wrk, get one by the user that they run as: see `fromOwnAddress`.
 */
export function addAddresses(count: number): void {
  for (let n = 0; n < count; n++) {
    const address = `10.91.1.${n + 1}`;
    const table = String(100 + n);
    const user = `${FIRST_USER + n}-${FIRST_USER + n}`;
    ip('-n', CLIENT, 'addr', 'add', `${address}/16`, 'dev', 'eth0');
    ip('-n', CLIENT, 'route', 'add', '10.91.0.0/16', 'dev', 'eth0', 'src', address, 'table', table);
    ip('-n', CLIENT, 'rule', 'add', 'uidrange', user, 'lookup', table);
  }
}

/** The words in front of a command that let it ask from address `n` of `addAddresses`. */
export function fromOwnAddress(n: number): readonly string[] {
  const user = String(FIRST_USER + n);
  return ['setpriv', '--reuid', user, '--regid', user, '--clear-groups'];
}

/**
 * Where the scheduler may put the two sides: `any` leaves it to the kernel, `one` puts both on the
 * first processor, `two` the server on the first and the clients on the second.
 */
export type Placement = 'any' | 'one' | 'two';

/** Restricts all threads of a process, and those that they make later, to processors. */
function pin(pid: number, processors: string): void {
  execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', processors, String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/**
 * Runs `measure` with the server pinned; it gets the words to put in front of the clients' command.
 */
export async function placed<T>(
  pid: number,
  placement: Placement,
  measure: (prefix: readonly string[]) => Promise<T>,
): Promise<T> {
  if (placement === 'any') return measure([]);
  pin(pid, '0');
  try {
    return await measure(['taskset', '--cpu-list', placement === 'one' ? '0' : '1']);
  } finally {
    pin(pid, `0-${availableParallelism() - 1}`);
  }
}

/** Processor time of a process, its threads and its children that ended, microseconds. */
export function processorMicros(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  // utime, stime, cutime and cstime, in hundredths of a second.
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * 10_000;
}

export interface Daemon {
  readonly pid: number;
  /** Milliseconds from the call until `ready` held. */
  readonly startedIn: number;
  stop(): Promise<void>;
}

/** Starts a program; resolves when `ready` is true. */
export async function startDaemon(
  command: readonly string[],
  ready: (output: string) => boolean | Promise<boolean>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Daemon> {
  const began = performance.now();
  const child: ChildProcess = spawn(command[0]!, command.slice(1), {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let ended = false;
  const over = new Promise<void>((done) =>
    child.on('close', () => {
      ended = true;
      done();
    }),
  );
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (text) => {
      output = (output + text).slice(-65_536);
    });
  while (!(await ready(output))) {
    if (ended || performance.now() - began > 60_000)
      throw new Error(`${command.join(' ')} did not start:\n${output}`);
    await pause(5);
  }
  return {
    pid: child.pid!,
    startedIn: performance.now() - began,
    async stop() {
      child.kill('SIGTERM');
      await over;
    },
  };
}

/** nginx, as a server for files: `server` is what its `server { … }` contains. */
export function startNginx(home: string, port: number, connections: number, server: string): Promise<Daemon> {
  const config = join(home, 'nginx.conf');
  writeFileSync(
    config,
    `daemon off; worker_processes auto; pid ${home}/nginx.pid; error_log stderr;
user root;
events { worker_connections ${connections}; }
http {
  sendfile on; tcp_nopush on; access_log ${home}/access.log;
  client_body_temp_path ${home}; proxy_temp_path ${home}; fastcgi_temp_path ${home};
  uwsgi_temp_path ${home}; scgi_temp_path ${home};
  server { ${server} }
}
`,
  );
  const { command, env } = unpacked('nginx', 'usr/sbin/nginx');
  return startDaemon(
    [command, '-e', 'stderr', '-c', config],
    () => execFileSync('ss', ['-Hltn', `sport = :${port}`]).length > 0,
    env,
  );
}

/** The processes of nginx, whose time counts together. */
export const nginxProcesses = ({ pid }: Daemon): readonly number[] => [
  pid,
  ...execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map(Number),
];

/** Puts a file into the asset store before the server starts; returns its SHA-256. */
export function putAsset(state: string, octets: Buffer): string {
  const sha256 = createHash('sha256').update(octets).digest('hex');
  const directory = join(state, 'assets/sha256');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, sha256), octets);
  return sha256;
}

export function macOf(n: number): string {
  return (0x02_00_5f_00_00_00 + n).toString(16).padStart(12, '0').match(/../g)!.join(':');
}

/**
 * Writes documents for `machines` known machines, each with a profile, a complete image and a
 * configuration. The Network says that another server gives the addresses, because all requests
 * come from the load generator's address, which would otherwise belong to no machine.
 */
export function writeDocuments(home: string, machines: number): void {
  const directory = join(home, 'config');
  mkdirSync(directory, { recursive: true });
  const state = join(home, 'state');
  const [kernel, initrd, root] = ['kernel', 'initrd', 'root'].map((text) =>
    putAsset(state, Buffer.from(text)),
  );
  writeFileSync(
    join(directory, 'base.yaml'),
    `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec:
  subnet: 10.91.0.0/16
  gateway: 10.91.0.254
  dns: [${SERVER}]
  dhcp: {mode: proxy}
---
apiVersion: muster/v1
kind: Image
metadata: {name: linux}
spec:
  os: debian
  version: "13"
  arch: x86_64
  kernel: {sha256: ${kernel}}
  initrds: [{sha256: ${initrd}}]
  root: {sha256: ${root}}
  configFormat: cloud-init
  cloudInitVersion: "25.1"
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec:
  image: linux
  kernelArguments: [quiet]
  config:
    files:
      - {path: /etc/motd, content: "This is \${machine.name} in \${network.name}.\\n"}
    users:
      - {name: ops, groups: [sudo], sshKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBenchBenchBenchBenchBenchBenchBenchBenchBen ops"]}
    units:
      - {name: hello.service, enabled: true, contents: "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: waiting}
spec: {boot: hold}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: waiting}
spec: {macs: ["02:00:5e:00:00:01"], profile: waiting}
`,
  );
  const texts = Array.from(
    { length: machines },
    (_, n) =>
      `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: node-${n}}\nspec: {macs: ["${macOf(n)}"], profile: node}\n`,
  );
  writeFileSync(join(directory, 'machines.yaml'), texts.join('---\n'));
}

/** Makes one GET from here; resolves to status and body. */
export function get(port: number, path: string): Promise<{ status: number; body: string }> {
  return new Promise((done, fail) => {
    const request = http.get({ host: SERVER, port, path, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (part) => (body += part));
      response.on('end', () => done({ status: response.statusCode ?? 0, body }));
    });
    request.on('error', fail);
  });
}

/** Starts the shipped `bin/muster serve`; it is ready when it answers a first script. */
export function startMuster(
  home: string,
  link: string,
  port: number,
  more: readonly string[] = [],
): Promise<Daemon> {
  const command = [
    resolve('bin/muster'),
    ...['serve', '--interface', link, '--http-port', String(port)],
    ...['--config', join(home, 'config'), '--state', join(home, 'state'), '--socket', join(home, 'm.sock')],
    ...more,
  ];
  return startDaemon(command, async () => {
    const answer = await get(port, '/script.ipxe?mac=02-00-5e-00-00-01').catch(() => undefined);
    return answer?.status === 200;
  });
}
