/**
 * Takes the place of kubelet on a machine of a rack, where no container runtime is: runs the static
 * pods' programs as their manifests say, restarts them as kubelet does, and serves kubelet's two
 * ports with kubelet's certificate. As kubelet's, its pods outlive its own restart, and it reads
 * its client certificate only when it starts.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { load } from 'js-yaml';
import { fieldsOf, textOf } from '../../../src/base/foreign-json.ts';
import { keepNode } from './node.ts';

/**
 * The version that kubelet.c says; agents ask the process that is called kubelet for it. Absent
 * where a rack has one version of everything.
 */
const VERSION = process.env.KUBELET_VERSION ?? 'v0.0.0';
process.title = process.env.KUBELET_VERSION === undefined ? 'kubelet' : 'pods';

const MANIFESTS = '/etc/kubernetes/manifests';
/** What runs, for a kubelet that starts later. */
const PODS = '/run/pods';
/** kubelet's default terminationGracePeriodSeconds. */
const GRACE = 30_000;
/** How long a program that ended is waited with, as kubelet does from the second time on. */
const BACK_OFF = 10_000;

const config = fieldsOf(load(fs.readFileSync('/var/lib/kubelet/config.yaml', 'utf8')));

interface Pod {
  readonly pid: number;
  readonly manifest: string;
  readonly startedAt: number;
  /** When it was told to end. */
  readonly endingAt?: number;
}

interface Manifest {
  readonly spec: {
    readonly containers: readonly [
      {
        readonly command: readonly string[];
        readonly image: string;
        readonly env?: readonly { name: string; value: string }[];
      },
    ];
    readonly volumes: readonly { readonly hostPath: { readonly path: string; readonly type: string } }[];
  };
}

const note = (text: string): void =>
  fs.appendFileSync('/run/kubelet.pods.log', `${new Date().toISOString()} ${text}\n`);
const fileOf = (name: string): string => path.join(PODS, name);

function known(name: string): Pod | undefined {
  try {
    return JSON.parse(fs.readFileSync(fileOf(name), 'utf8')) as Pod;
  } catch {
    return undefined;
  }
}

const keep = (name: string, pod: Pod): void => {
  fs.writeFileSync(`${fileOf(name)}.new`, JSON.stringify(pod));
  fs.renameSync(`${fileOf(name)}.new`, fileOf(name));
};

/** Whether the process runs; the first process of the machine may not have reaped it yet. */
function runs(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

function start(name: string, text: string): void {
  const { spec } = load(text) as Manifest;
  const [{ command, image, env = [] }] = spec.containers;
  for (const { hostPath } of spec.volumes)
    if (hostPath.type === 'DirectoryOrCreate') fs.mkdirSync(hostPath.path, { recursive: true });
  const log = fs.openSync(`/run/${name}.log`, 'a');
  const program = programOf(image, command[0]!);
  const child = spawn(program, command.slice(1), {
    detached: true,
    stdio: ['ignore', log, log],
    env: { PATH: process.env.PATH, ...Object.fromEntries(env.map((one) => [one.name, one.value])) },
  });
  fs.closeSync(log);
  child.unref();
  note(`start ${name} ${tagOf(image)}`);
  keep(name, { pid: child.pid!, manifest: digest(text), startedAt: Date.now() });
}

const tagOf = (image: string): string => /:(v?[0-9.]+(-[0-9]+)?)(@|$)/.exec(image)?.[1] ?? '-';

/** The program of an image: that of its tag where the machine has several versions. */
function programOf(image: string, command: string): string {
  // The agent knows programs by the names of their files.
  const own = `/tools/${tagOf(image)}/${command}`;
  return fs.existsSync(own) ? own : command;
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Does for one pod what is due now. */
function look(name: string, text: string | undefined): void {
  const pod = known(name);
  if (pod === undefined) {
    if (text !== undefined) start(name, text);
    return;
  }
  if (!runs(pod.pid)) {
    if (pod.endingAt === undefined) {
      // It ended by itself.
      if (Date.now() - pod.startedAt < BACK_OFF) return;
      note(`ended ${name}`);
    } else note(`gone ${name}`);
    fs.rmSync(fileOf(name));
    return;
  }
  if (pod.endingAt !== undefined) {
    if (Date.now() - pod.endingAt > GRACE) process.kill(pod.pid, 'SIGKILL');
    return;
  }
  if (text !== undefined && pod.manifest === digest(text)) return;
  note(`stop ${name}`);
  process.kill(pod.pid, 'SIGTERM');
  keep(name, { ...pod, endingAt: Date.now() });
}

function lookAtPods(): void {
  const wanted = new Map(
    fs
      .readdirSync(MANIFESTS)
      .filter((file) => /^[^.].*\.yaml$/.test(file))
      .map((file) => [file.slice(0, -5), fs.readFileSync(path.join(MANIFESTS, file), 'utf8')] as const),
  );
  const there = fs.readdirSync(PODS).filter((name) => !name.endsWith('.new'));
  for (const name of new Set([...wanted.keys(), ...there])) look(name, wanted.get(name));
}

/** The certificate, key and CA of kubelet's port, which it reads again when they change. */
function serving(): https.ServerOptions {
  const { clientCAFile } = fieldsOf(fieldsOf(config.authentication).x509);
  return {
    cert: fs.readFileSync(textOf(config.tlsCertFile)),
    key: fs.readFileSync(textOf(config.tlsPrivateKeyFile)),
    ca: fs.readFileSync(textOf(clientCAFile)),
    requestCert: true,
    rejectUnauthorized: false,
  };
}

function serve(): void {
  http.createServer((_, answer) => answer.end('ok')).listen(10248, '127.0.0.1');
  const server = https.createServer(serving(), ({ socket }, answer) => {
    answer.statusCode = (socket as TLSSocket).authorized ? 403 : 401;
    answer.end();
  });
  server.listen(10250);
  setInterval(() => {
    try {
      server.setSecureContext(serving());
    } catch (error) {
      note(`kubelet's certificate: ${error}`);
    }
  }, 1000);
}

// Without a handler the signal could come between the start of a program and the note of it.
process.on('SIGTERM', () => process.exit());
fs.mkdirSync(PODS, { recursive: true });
note(`start kubelet ${VERSION}`);
serve();
const [address] = Object.values(os.networkInterfaces())
  .flatMap((all) => all ?? [])
  .filter(({ internal, family }) => !internal && family === 'IPv4');
keepNode({ version: VERSION, address: address?.address, note });
setInterval(lookAtPods, 250);
