/**
 * The agent's facts about the apiserver and etcd on its machine, with real processes and a server
 * that answers as they do.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { selfSigned } from '../self-signed.ts';
import { Machine, Planner, SHELLS } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;
const running: ChildProcess[] = [];

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(async () => {
  for (const child of running.splice(0)) {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }
  machine.close();
  planner.close();
});

/** Starts a process of that name, which the machine's /proc shows. */
function start(
  name: string,
  env: Record<string, string>,
  executable = '/bin/sleep',
  args: readonly string[] = ['1000'],
): void {
  const program = machine.path(`/${name}`);
  fs.copyFileSync(executable, program);
  fs.chmodSync(program, 0o755);
  const child = spawn(program, args, { env, stdio: 'ignore' });
  running.push(child);
  fs.mkdirSync(machine.path('/proc'), { recursive: true });
  fs.symlinkSync(`/proc/${child.pid}`, machine.path(`/proc/${child.pid}`));
}

/**
 * Shows a process of that name in the machine's /proc that this host's kernel does not run: with a
 * cgroup, and in the network namespace that the text names.
 */
function pretend(
  name: string,
  pid: number,
  { cgroup, network, uids = '0 0 0 0' }: { cgroup: string; network: string; uids?: string },
): void {
  machine.write(`/proc/${pid}/comm`, `${name}\n`);
  machine.write(`/proc/${pid}/environ`, 'MUSTER_REVISION=bad\0');
  machine.write(`/proc/${pid}/cgroup`, cgroup);
  machine.write(`/proc/${pid}/status`, `Name:\t${name}\nUid:\t${uids.replaceAll(' ', '\t')}\n`);
  fs.mkdirSync(machine.path(`/proc/${pid}/ns`), { recursive: true });
  fs.symlinkSync(network, machine.path(`/proc/${pid}/ns/net`));
}

/** A server that answers /readyz, with a certificate that the machine trusts. */
async function answering(status: (hasCertificate: boolean) => number): Promise<https.Server> {
  const { key, certificate } = selfSigned('api', ['IP:127.0.0.1']);
  machine.write('/etc/kubernetes/pki/ca-bundle.crt', certificate);
  const options = { key, cert: certificate, requestCert: true, rejectUnauthorized: false };
  const server = https.createServer(options, ({ url, socket }, response) => {
    const { subject } = (socket as TLSSocket).getPeerCertificate();
    response.statusCode = url === '/readyz' ? status(subject !== undefined) : 404;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  fs.appendFileSync(machine.path('/etc/muster/agent.conf'), `api=https://127.0.0.1:${port}\n`);
  return server;
}

test('the agent reports neither apiserver nor etcd when they do not run', async () => {
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(planner.facts().apiserver).toBeUndefined();
  expect(planner.facts().etcd.revision).toBeUndefined();
});

test.for(SHELLS)(
  'by %o, the agent reports the revision that each process was started with, whatever else its environment has',
  async (shell) => {
    start('etcd', { A: 'x\nMUSTER_REVISION=f', MUSTER_REVISION: 'e1', Z: '' });
    start('kube-apiserver', { MUSTER_REVISION: '0123456789abcdef' });
    start('etcdctl', { MUSTER_REVISION: 'bad' });
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    expect(planner.facts().etcd.revision).toBe('e1');
    expect(planner.facts().apiserver).toEqual({ health: 'alive', revision: '0123456789abcdef' });
  },
);

test.for(SHELLS)(
  'by %o, the agent reports the version that a running executable prints, not that of a file with its name',
  async (shell) => {
    // bash prints `GNU bash, version 5.2.15(1)-release …`, sleep no version of three numbers.
    start('kubelet', {}, '/bin/bash', ['-c', 'while sleep 1000; do :; done']);
    start('kube-scheduler', {});
    fs.rmSync(machine.path('/kubelet'));
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
    const printed = execFileSync('/bin/bash', ['--version'], { encoding: 'utf8' });
    expect(planner.facts().runs).toEqual({ kubelet: /\d+\.\d+\.\d+/.exec(printed)![0] });
    // A process in a pod of the API is asked nothing.
    const own = fs.readlinkSync('/proc/self/ns/net');
    pretend('containerd', 4_000_300, { cgroup: `0::/kubepods/${POD_OF_THE_API}/4ba1\n`, network: own });
    machine.write('/proc/cmdline', `quiet muster.root.sha256=${'d'.repeat(64)} x=*\n`);
    await machine.poll(shell);
    expect(Object.keys(planner.facts().runs ?? {})).toEqual(['kubelet']);
    expect(planner.facts().image).toBe('d'.repeat(64));
  },
);

const POD_OF_THE_API = 'pod0f3c6a52-9c1e-4b57-8a43-6d1c2f0b7e11';
test.for(SHELLS)(
  'by %o, a process in a pod of the API or in another network is neither apiserver nor etcd, whatever its name',
  async (shell) => {
    const own = fs.readlinkSync('/proc/self/ns/net');
    const slice = POD_OF_THE_API.replaceAll('-', '_');
    const other = 'net:[1]';
    const pretenders = [
      { cgroup: `0::/kubepods/besteffort/${POD_OF_THE_API}/4ba1\n`, network: own },
      { cgroup: `0::/kubepods.slice/kubepods-${slice}.slice/cri-containerd-4ba1.scope\n`, network: own },
      { cgroup: '0::/\n', network: other },
    ];
    for (const [n, pretender] of pretenders.entries()) {
      pretend('kube-apiserver', 4_000_000 + n, pretender);
      pretend('etcd', 4_000_100 + n, pretender);
    }
    await machine.poll(shell);
    expect(planner.facts().apiserver).toBeUndefined();
    expect(planner.facts().etcd.revision).toBeUndefined();

    // A static pod's UID is the hash of its manifest.
    const ours = { cgroup: '0::/kubepods/burstable/pod8d1c0a4f2b6e4c3f9a7d5e1b0c2f4a68/7f\n', network: own };
    pretend('kube-apiserver', 4_000_200, ours);
    machine.write('/proc/4000200/environ', 'MUSTER_REVISION=a1\0');
    await machine.poll(shell);
    expect(planner.facts().apiserver?.revision).toBe('a1');
  },
);

test.for(SHELLS)(
  'by %o, no process of an ordinary user is taken for a program of the cluster, whatever its name and environment',
  async (shell) => {
    const directory = fs.mkdtempSync('/tmp/muster-ordinary-');
    fs.chmodSync(directory, 0o755);
    fs.mkdirSync(machine.path('/proc'), { recursive: true });
    for (const name of ['etcd', 'kube-apiserver', 'kubelet', 'kube-scheduler', 'haproxy', 'containerd']) {
      fs.copyFileSync('/bin/sleep', `${directory}/${name}`);
      fs.chmodSync(`${directory}/${name}`, 0o755);
      const own = { uid: 1000, gid: 1000, env: { MUSTER_REVISION: 'bad' }, stdio: 'ignore' } as const;
      const child = spawn(`${directory}/${name}`, ['1000'], own);
      running.push(child);
      fs.symlinkSync(`/proc/${child.pid}`, machine.path(`/proc/${child.pid}`));
    }
    // A program with the set-user-ID bit keeps the environment and the real user id of its caller.
    const network = fs.readlinkSync('/proc/self/ns/net');
    const cgroup = '0::/user.slice/user-1000.slice/session-4.scope\n';
    pretend('kube-controller', 4_000_400, { cgroup, network, uids: '1000 0 0 0' });
    pretend('kube-apiserver', 4_000_401, {
      cgroup: '0::/system.slice/cron.service\n',
      network,
      uids: '1 1 1 1',
    });
    await machine.poll(shell);
    const { apiserver, etcd, evidence, runs } = planner.facts();
    expect([apiserver, etcd.revision, [...(evidence?.programs ?? [])], runs ?? {}]).toEqual([
      undefined,
      undefined,
      [],
      {},
    ]);

    // The balancer is a unit of Muster's with a user of its own.
    const unit = {
      cgroup: '0::/system.slice/muster-balancer.service\n',
      network,
      uids: '61999 61999 61999 61999',
    };
    pretend('haproxy', 4_000_402, unit);
    await machine.poll(shell);
    expect([...planner.facts().evidence!.programs.keys()]).toEqual(['haproxy']);
    fs.rmSync(directory, { recursive: true });
  },
);

test.for(SHELLS)(
  'by %o, what an ordinary user answers at the port of etcd is not etcd’s word',
  async (shell) => {
    fs.mkdirSync(machine.path('/proc'), { recursive: true });
    fs.symlinkSync('/proc/self/net', machine.path('/proc/net'));
    const answers = `import http.server as h
class A(h.BaseHTTPRequestHandler):
    def do_GET(s): s.send_response(200); s.end_headers()
    def log_message(s, *a): pass
s = h.HTTPServer(("127.0.0.1", 0), A); print(s.server_address[1], flush=True); s.serve_forever()`;
    for (const [uid, health] of [
      [1000, 'down'],
      [0, 'serving'],
    ] as const) {
      const child = spawn('/usr/bin/python3', ['-c', answers], {
        uid,
        gid: uid,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      running.push(child);
      const port = String((await once(child.stdout!, 'data'))[0]).trim();
      fs.appendFileSync(machine.path('/etc/muster/agent.conf'), `etcd=http://127.0.0.1:${port}\n`);
      await machine.poll(shell);
      expect(planner.facts().etcd.health).toBe(health);
    }
  },
);

test('an apiserver or etcd that Muster did not start has no revision', async () => {
  start('kube-apiserver', { MUSTER_REVISION: 'not one' });
  start('etcd', {});
  await machine.poll();
  expect(planner.facts().apiserver?.revision).toBe('-');
  expect(planner.facts().etcd.revision).toBe('-');
});

test.for([
  [200, 'ready'],
  [500, 'alive'],
  [401, 'ready'],
  [403, 'alive'],
] as const)('an apiserver that answers %i at /readyz is %s', async ([status, health]) => {
  const server = await answering(() => status);
  try {
    start('kube-apiserver', { MUSTER_REVISION: 'a1' });
    await machine.poll();
    expect(planner.facts().apiserver).toEqual({ health, revision: 'a1' });
  } finally {
    server.close();
  }
});

test.for([
  ['ready', (has: boolean) => (has ? 200 : 401)],
  ['alive', (has: boolean) => (has ? 500 : 401)],
  // With a certificate that is not taken, nothing is known about the API server.
  ['alive', () => 401],
] as const)(
  'with the certificate of its plan the agent sees that an apiserver is %s',
  async ([health, status]) => {
    const { key, certificate } = selfSigned('muster-health');
    machine.write('/etc/muster/health.pem', certificate + key);
    const server = await answering(status);
    try {
      start('kube-apiserver', { MUSTER_REVISION: 'a1' });
      await machine.poll();
      expect(planner.facts().apiserver).toEqual({ health, revision: 'a1' });
    } finally {
      server.close();
    }
  },
);

test('an answer of a server outside the cluster’s CA does not count', async () => {
  const server = await answering(() => 200);
  try {
    machine.write('/etc/kubernetes/pki/ca-bundle.crt', planner.authority);
    start('kube-apiserver', { MUSTER_REVISION: 'a1' });
    await machine.poll();
    expect(planner.facts().apiserver?.health).toBe('alive');
  } finally {
    server.close();
  }
});
