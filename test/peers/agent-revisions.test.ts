/**
 * The agent's facts about the apiserver and etcd on its machine, with real processes and a server
 * that answers as they do.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
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
function start(name: string, env: Record<string, string>): void {
  const program = machine.path(`/${name}`);
  fs.copyFileSync('/bin/sleep', program);
  fs.chmodSync(program, 0o755);
  const child = spawn(program, ['1000'], { env, stdio: 'ignore' });
  running.push(child);
  fs.mkdirSync(machine.path('/proc'), { recursive: true });
  fs.symlinkSync(`/proc/${child.pid}`, machine.path(`/proc/${child.pid}`));
}

/** A server that answers /readyz, with a certificate that the machine trusts. */
async function answering(status: () => number): Promise<https.Server> {
  const { key, certificate } = selfSigned('api', ['IP:127.0.0.1']);
  machine.write('/etc/kubernetes/pki/ca-bundle.crt', certificate);
  const server = https.createServer({ key, cert: certificate }, ({ url }, response) => {
    response.statusCode = url === '/readyz' ? status() : 404;
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
