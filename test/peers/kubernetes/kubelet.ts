/**
 * Takes the place of kubelet on a machine of a rack, where no container runtime is: runs the static
 * pods' programs as their manifests say, restarts them as kubelet does, and serves kubelet's two
 * ports with kubelet's certificate. Its pods outlive its own restart, and it reads its client
 * certificate only when it starts, as kubelet does.
 */
import { spawn } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { load } from 'js-yaml';
import { fieldsOf, textOf } from '../../../src/base/foreign-json.ts';

process.title = 'kubelet';

const MANIFESTS = '/etc/kubernetes/manifests';
/** What runs, for a kubelet that starts later. */
const PODS = '/run/pods';
/** kubelet's default terminationGracePeriodSeconds. */
const GRACE = 30_000;
/** A program that ended by itself starts again when this time has passed since its last start. */
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
      { readonly command: readonly string[]; readonly env?: readonly { name: string; value: string }[] },
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
  const [{ command, env = [] }] = spec.containers;
  for (const { hostPath } of spec.volumes)
    if (hostPath.type === 'DirectoryOrCreate') fs.mkdirSync(hostPath.path, { recursive: true });
  const log = fs.openSync(`/run/${name}.log`, 'a');
  const child = spawn(command[0]!, command.slice(1), {
    detached: true,
    stdio: ['ignore', log, log],
    env: { PATH: process.env.PATH, ...Object.fromEntries(env.map((one) => [one.name, one.value])) },
  });
  fs.closeSync(log);
  child.unref();
  note(`start ${name}`);
  keep(name, { pid: child.pid!, manifest: digest(text), startedAt: Date.now() });
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
    }
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

/** Registers the node, and then reads it again and again with the credentials of the start. */
function useApi(): void {
  const pair = fs.readFileSync('/var/lib/kubelet/pki/kubelet-client-current.pem', 'utf8');
  const agent = new https.Agent({
    keepAlive: true,
    ca: fs.readFileSync('/etc/kubernetes/pki/ca-bundle.crt'),
    cert: pair,
    key: pair,
  });
  const name = /CN=system:node:(\S+)/.exec(new X509Certificate(pair).subject)![1]!;
  const body = JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { 'kubernetes.io/hostname': name } } },
  });
  let registered = false;
  const ask = (): void => {
    const options = { method: registered ? 'GET' : 'POST', agent, timeout: 5000 };
    const url = `https://127.0.0.1:6443/api/v1/nodes${registered ? `/${name}` : ''}`;
    const headers = { 'content-type': 'application/json' };
    const asking = https.request(url, { ...options, headers }, (answer) => {
      const { statusCode = 0 } = answer;
      answer.resume();
      if (options.method === 'GET' && statusCode !== 200) note(`node: ${statusCode}`);
      registered ||= statusCode === 201 || statusCode === 409;
    });
    asking.on('error', (error) => registered && note(`node: ${error.message}`));
    asking.on('timeout', () => asking.destroy(new Error('no answer')));
    asking.end(registered ? undefined : body);
  };
  setInterval(ask, 1000);
}

// Without a handler the signal could come between the start of a program and the note of it.
process.on('SIGTERM', () => process.exit());
fs.mkdirSync(PODS, { recursive: true });
note('start kubelet');
serve();
useApi();
setInterval(lookAtPods, 250);
