/**
 * What the agent observes of the programs of its machine: real etcd asked with certificates of two
 * generations of its CA, processes by their environment, tokens by their keys.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ListenerName, type ProbeName, probeName } from '../../src/agent/wire/evidence.ts';
import { type PlanLine, probePath } from '../../src/agent/wire/plan.ts';
import type { Millis } from '../../src/base/duration.ts';
import { balancerConfig } from '../../src/cluster/plan/balancer.ts';
import { AUTHORITIES } from '../../src/pki/hierarchy.ts';
import { issueLeaf, newGeneration } from '../../src/pki/issue.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import type { OpenGeneration } from '../../src/pki/keyset.ts';
import { keyIdOf, signer } from '../../src/pki/x509.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';
import { DEBIAN_12, DEBIAN_13 } from './etcd/rack.ts';
import { unpacked } from './unpacked.ts';

let planner: Planner;
let machine: Machine;
const running: ChildProcess[] = [];
const servers: http.Server[] = [];

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(async () => {
  for (const child of running.splice(0)) await ended(child);
  for (const server of servers.splice(0)) server.close();
  machine.close();
  planner.close();
});

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

const now = () => Date.now() as Millis;
const generation = () => newGeneration('etcd-ca', { now: now() });
const NAMES = { name: 'one', dnsDomain: '', serviceAddresses: [], endpointNames: { dns: [], ips: [] } };

/** A certificate of this generation, and its key. */
async function pair({ certificate, key }: OpenGeneration, leaf: 'etcd-server' | 'etcd-person') {
  const own = await PrivateKey.generate();
  const order = { leaf, holder: { name: 'cp1', addresses: [] }, cluster: NAMES, now: now() } as const;
  const { pem } = await issueLeaf(signer(certificate!, key), { ...order, publicKey: own.publicKey() });
  return { certificate: pem, key: own.pem() };
}

const probeOf = ({ id }: OpenGeneration): ProbeName => probeName('etcd-ca', id);

async function probeLines(...generations: readonly OpenGeneration[]): Promise<readonly PlanLine[]> {
  const files = generations.map(async (one) => {
    const { certificate, key } = await pair(one, 'etcd-person');
    return put(probePath(probeOf(one)), certificate + key, 0o600);
  });
  const probes = generations.map(probeOf);
  const asked = (listener: ListenerName, port: number): PlanLine => ({
    do: 'probe',
    listener,
    address: '127.0.0.1',
    port,
    probes,
  });
  return [...(await Promise.all(files)), asked('etcd-client', 2379), asked('etcd-peer', 2380)];
}

/** Runs etcd with a certificate of `issuer`, trusting these; resolves when it answers. */
async function etcd(program: string, issuer: OpenGeneration, trusted: readonly OpenGeneration[]) {
  const { certificate, key } = await pair(issuer, 'etcd-server');
  machine.write('/pki/server.crt', certificate);
  machine.write('/pki/server.key', key);
  machine.write('/pki/ca.crt', trusted.map((one) => one.certificate).join(''));
  const files = (prefix: string) => [
    `--${prefix}cert-file=${machine.path('/pki/server.crt')}`,
    `--${prefix}key-file=${machine.path('/pki/server.key')}`,
    `--${prefix}trusted-ca-file=${machine.path('/pki/ca.crt')}`,
    `--${prefix}client-cert-auth=true`,
  ];
  const child = spawn(
    program,
    [
      ...['--name=cp1', `--data-dir=${machine.path('/data')}`, ...files(''), ...files('peer-')],
      ...['--listen-client-urls=https://127.0.0.1:2379', '--advertise-client-urls=https://127.0.0.1:2379'],
      ...['--listen-peer-urls=https://127.0.0.1:2380', '--initial-cluster=cp1=https://127.0.0.1:2380'],
      ...[
        '--initial-advertise-peer-urls=https://127.0.0.1:2380',
        '--listen-metrics-urls=http://127.0.0.1:2381',
      ],
    ],
    { stdio: 'ignore' },
  );
  running.push(child);
  await expect
    .poll(async () => (await fetch('http://127.0.0.1:2381/health').catch(() => undefined))?.status, {
      timeout: 60_000,
    })
    .toBe(200);
  return child;
}

const ASKS_AGAIN = { timeout: 60_000, interval: 500 };

const listeners = () => Object.fromEntries(planner.facts().evidence?.listeners ?? []);

describe.for(SHELLS)('by %s', (shell) => {
  test.for([DEBIAN_12, DEBIAN_13])(
    'etcd $version shows its issuer, and accepts and refuses by what it trusts',
    async ({ program }) => {
      const [old, next] = [await generation(), await generation()];
      planner.standing = await probeLines(old, next);
      const seen = async () => {
        expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
        return listeners();
      };
      await machine.poll(shell);
      const nobody = { answers: new Map([old, next].map((one) => [probeOf(one), 'unreachable'])) };
      expect(await seen()).toEqual({ 'etcd-client': nobody, 'etcd-peer': nobody });

      const first = await etcd(program, old, [old]);
      const one = {
        issuer: keyIdOf(old.publicKey),
        answers: new Map([
          [probeOf(old), 'accepted'],
          [probeOf(next), 'refused'],
        ]),
      };
      // etcd may end a connection so fast that its alert is lost; the next poll asks again.
      await expect.poll(seen, ASKS_AGAIN).toEqual({ 'etcd-client': one, 'etcd-peer': one });

      await ended(first);
      await etcd(program, next, [old, next]);
      const both = {
        issuer: keyIdOf(next.publicKey),
        answers: new Map([old, next].map((generation) => [probeOf(generation), 'accepted'])),
      };
      await expect.poll(seen, ASKS_AGAIN).toEqual({ 'etcd-client': both, 'etcd-peer': both });
    },
  );

  test('a plan that asks for no probe ends the probing', async () => {
    planner.plan(await probeLines(await generation()));
    await machine.poll(shell);
    await machine.poll(shell);
    expect(Object.keys(listeners())).toEqual(['etcd-client', 'etcd-peer']);
    planner.plan([]);
    await machine.poll(shell);
    await machine.poll(shell);
    expect(listeners()).toEqual({});
  });

  test('a program is alive with the revision of its process, and ready when it says so itself', async () => {
    for (const [name, revision] of [
      ['kube-controller', 'c0'],
      ['kube-scheduler', 'd0'],
      ['kubelet', 'e0'],
    ])
      start(name!, { MUSTER_REVISION: revision! });
    await machine.poll(shell);
    const alive = (revision: string) => ({ health: 'alive', revision });
    expect(planner.facts().evidence?.programs).toEqual(
      new Map([
        ['kube-controller-manager', alive('c0')],
        ['kube-scheduler', alive('d0')],
        ['kubelet', alive('e0')],
      ]),
    );
    const server = http.createServer((_, response) => response.end('ok'));
    servers.push(server);
    await once(server.listen(10_248, '127.0.0.1'), 'listening');
    await machine.poll(shell);
    expect(planner.facts().evidence?.programs.get('kubelet')).toEqual({ health: 'ready', revision: 'e0' });
  });

  test('a static pod that ends again and again is reported with the last complaint that it wrote', async () => {
    const log = (program: string, n: number, ...lines: string[]) =>
      machine.write(
        `/var/log/pods/kube-system_${program}-cp1_0a/${program}/${n}.log`,
        lines.map((line) => `2026-11-28T03:00:00.000000000Z stderr F ${line}\n`).join(''),
      );
    for (const program of ['etcd', 'kube-scheduler', 'kube-apiserver'])
      machine.write(`/etc/kubernetes/manifests/${program}.yaml`, '');
    log('etcd', 3, 'starting', 'failed to open database: invalid database', 'Done \u001b[1m\u00fc');
    log('kube-scheduler', 0, 'Error: unknown flag: --x');
    // It restarts at this moment, so its newest log is that of the present container.
    log('kube-apiserver', 1, 'Error: cannot read the former key');
    execFileSync('touch', [
      '-d',
      '-1 min',
      machine.path('/var/log/pods/kube-system_kube-apiserver-cp1_0a/kube-apiserver/1.log'),
    ]);
    log('kube-apiserver', 2, 'an error of the one that runs');
    start('kube-apiserver', { MUSTER_REVISION: 'a0' });
    await machine.poll(shell);
    expect(planner.facts().ended).toEqual({
      etcd: 'failed to open database: invalid database',
      'kube-apiserver': 'Error: cannot read the former key',
      'kube-scheduler': 'Error: unknown flag: --x',
    });
    // A program that the machine need not run has not ended.
    for (const program of ['etcd', 'kube-scheduler', 'kube-apiserver'])
      fs.rmSync(machine.path(`/etc/kubernetes/manifests/${program}.yaml`));
    await machine.poll(shell);
    expect(planner.facts().ended).toBeUndefined();
  });

  test('last words are found where the configuration of kubelet has the logs of pods', async () => {
    machine.write('/var/lib/kubelet/config.yaml', 'kind: KubeletConfiguration\npodLogsDir: "/data/logs"\n');
    machine.write('/etc/kubernetes/manifests/kube-scheduler.yaml', '');
    const log = '/data/logs/kube-system_kube-scheduler-cp1_0a/kube-scheduler/0.log';
    machine.write(log, '2026-11-28T03:00:00.000000000Z stderr F Error: unknown flag: --x\n');
    await machine.poll();
    expect(planner.facts().ended).toEqual({ 'kube-scheduler': 'Error: unknown flag: --x' });
  });

  // The lines are those of Debian's etcd with a damaged database, and of Debian's haproxy.
  test.each([
    [
      'etcd',
      'panic: failed to open database',
      '{"level":"panic","msg":"failed to open database","error":"invalid database","stacktrace":"go.etcd.io/etcd"}',
      'panic: failed to open database',
      '',
      'goroutine 118 [running]:',
      'go.uber.org/zap.(*Logger).Panic(0xc000045c00?, {0x124d6ca?, 0x180?}, {0xc000250680, 0x2, 0x2})',
      '\tgo.uber.org/zap/logger.go:284 +0x4b',
      'go.etcd.io/etcd/server/mvcc/backend.New(...)',
      '\tgo.etcd.io/etcd/server/mvcc/backend/backend.go:165',
      'created by go.etcd.io/etcd/server/etcdserver.openBackend in goroutine 1',
      '\tgo.etcd.io/etcd/server/etcdserver/backend.go:75 +0x15a',
    ],
    [
      'haproxy',
      '[ALERT] (18) : Binding [/etc/haproxy.cfg:7] for frontend x: cannot bind socket (Address already in use)',
      '[NOTICE] (18) : path to executable is /usr/sbin/haproxy',
      '[ALERT] (18) : Binding [/etc/haproxy.cfg:7] for frontend x: cannot bind socket (Address already in use)',
      '[ALERT] (18) : [/usr/sbin/haproxy.main()] Some protocols failed to start their listeners! Exiting.',
    ],
    [
      'haproxy',
      "[ALERT] (27) : config : parsing [/etc/haproxy.cfg:7] : unknown keyword 'bimd' in 'frontend' section",
      "[ALERT] (27) : config : parsing [/etc/haproxy.cfg:7] : unknown keyword 'bimd' in 'frontend' section",
      '[ALERT] (27) : config : Error(s) found in configuration file : /etc/haproxy.cfg',
      '[ALERT] (27) : config : Fatal errors found in configuration.',
    ],
  ])(
    'of a unit of %s that ends, the complaint is reported and not what follows it',
    async (program, words, ...lines) => {
      const unit = `muster-${program === 'etcd' ? 'etcd' : 'balancer'}.service`;
      machine.write(`/etc/systemd/system/${unit}`, '');
      machine.write(`/units/${unit}.enabled`, '');
      machine.write('/journal', lines.map((line) => `${line}\n`).join(''));
      machine.command(
        'journalctl',
        `#!/bin/sh\ncase "$*" in *_SYSTEMD_UNIT=${unit}) cat "$MUSTER_ROOT/journal" ;; esac\n`,
      );
      await machine.poll();
      expect(planner.facts().ended).toEqual({ [program]: words });
    },
  );

  test('tokens of pods are counted by their key, and so is the issuer of kubelet’s certificate seen', async () => {
    const token = (kid: string) =>
      `${Buffer.from(JSON.stringify({ alg: 'RS256', kid })).toString('base64url')}.e30.c2ln`;
    const volume = '/volumes/kubernetes.io~projected/kube-api-access-1/..data';
    const uid = (pod: number) => `0b5c7f3e-0000-4000-8000-${String(pod).padStart(12, '0')}`;
    for (let pod = 0; pod < 5; pod++) {
      machine.write(`/var/lib/kubelet/pods/${uid(pod)}${volume}/token`, token(pod < 3 ? 'Old_key-1' : 'N'));
      machine.write(`/var/lib/kubelet/pods/${uid(pod)}${volume}/ca.crt`, (await generation()).certificate!);
      machine.write(`/var/lib/kubelet/pods/${uid(pod)}${volume}/namespace`, 'kube-system');
    }
    machine.write(`/var/lib/kubelet/pods/${uid(5)}${volume}/token`, 'eyJ4IjoxfQ.e30.c2ln');
    const old = await generation();
    machine.write(
      '/var/lib/kubelet/pki/kubelet-client-current.pem',
      (await pair(old, 'etcd-person')).certificate,
    );
    await machine.poll(shell);
    expect(planner.facts().evidence?.tokens).toEqual(
      new Map([
        ['N', 2],
        ['Old_key-1', 3],
        ['-', 1],
      ]),
    );
    expect(planner.facts().evidence?.tokenPods).toEqual(
      new Map([
        ['-', [uid(5)]],
        ['N', [uid(3), uid(4)]],
        ['Old_key-1', [uid(0), uid(1), uid(2)]],
      ]),
    );
    expect(planner.facts().evidence?.kubeletIssuer).toBe(keyIdOf(old.publicKey));

    for (let pod = 10; pod < 40; pod++)
      machine.write(`/var/lib/kubelet/pods/${uid(pod)}${volume}/token`, token(`k${pod}`));
    await machine.poll(shell);
    const counted = planner.facts().evidence!.tokens;
    expect(counted.size).toBe(17);
    expect([...counted.values()].reduce((sum, count) => sum + count)).toBe(36);
  });
});

describe('haproxy as a worker runs it', () => {
  const { command, env } = unpacked('haproxy', 'usr/sbin/haproxy');
  /** What haproxy wrote to standard error. */
  let wrote = '';
  /** The API server of the only control plane. */
  const API = '198.51.100.2';
  const cluster = resolved({ endpoint: API, sans: [], controlPlanes: ['cp1'], workers: ['w1'] }, [
    { name: 'cp1', addresses: [API] },
    { name: 'w1', addresses: ['198.51.100.3'] },
  ]);

  beforeAll(() => void execFileSync('ip', ['address', 'replace', `${API}/32`, 'dev', 'lo']));

  function configure(revision: string, more = ''): string {
    const text = balancerConfig(cluster, ['127.0.0.1:6443'], revision);
    machine.write(
      '/balancer.cfg',
      text.replaceAll(AUTHORITIES.ca.bundle.path, machine.path('/ca.crt')) + more,
    );
    return machine.path('/balancer.cfg');
  }

  /** An API server that answers /readyz, with a certificate of this CA. */
  async function api(issuer: OpenGeneration) {
    const own = async ({ certificate, key }: OpenGeneration) => {
      const pairKey = await PrivateKey.generate();
      const holder = { name: 'cp1', addresses: [API] };
      const order = { leaf: 'etcd-server', holder, cluster: NAMES, now: now() } as const;
      const { pem } = await issueLeaf(signer(certificate!, key), {
        ...order,
        publicKey: pairKey.publicKey(),
      });
      return { cert: pem, key: pairKey.pem() };
    };
    const server = https.createServer(await own(issuer), (_, response) => response.end('ok'));
    servers.push(server);
    await once(server.listen(6443, API), 'listening');
    return { becomes: async (next: OpenGeneration) => server.setSecureContext(await own(next)) };
  }

  function balance(): ChildProcess {
    wrote = '';
    const child = spawn(command, ['-W', '-db', '-f', machine.path('/balancer.cfg')], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr!.on('data', (text) => {
      wrote += String(text);
    });
    running.push(child);
    fs.mkdirSync(machine.path('/proc'), { recursive: true });
    fs.symlinkSync(`/proc/${child.pid}`, machine.path(`/proc/${child.pid}`));
    return child;
  }

  const seen = async () => {
    await machine.poll();
    return planner.facts().evidence?.programs.get('haproxy');
  };
  const soon = { timeout: 30_000, interval: 200 };

  test('it says which configuration it has loaded, also after it refused one', async () => {
    machine.write('/ca.crt', (await generation()).certificate!);
    configure('a1');
    const child = balance();
    await expect.poll(seen, soon).toEqual({ health: 'ready', revision: 'a1' });
    configure('b2');
    child.kill('SIGUSR2');
    await expect.poll(seen, soon).toEqual({ health: 'ready', revision: 'b2' });
    configure('c3', '\nnonsense\n');
    child.kill('SIGUSR2');
    await expect.poll(() => wrote, soon).toContain('nonsense');
    expect(await seen()).toEqual({ health: 'ready', revision: 'b2' });
  });

  test('its checks see an API server whose CA it does not trust, although they had a session with it', async () => {
    const [old, next] = [await generation(), await generation()];
    machine.write('/ca.crt', old.certificate!);
    configure('a1');
    const server = await api(old);
    balance();
    const reached = async () => {
      const asked = spawn('curl', ['-sk', '--max-time', '2', 'https://127.0.0.1:6443/'], { stdio: 'ignore' });
      const [code] = await once(asked, 'exit');
      return code === 0;
    };
    await expect.poll(reached, soon).toBe(true);
    await server.becomes(next);
    await expect.poll(reached, soon).toBe(false);
  });
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
