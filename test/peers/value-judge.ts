/**
 * Starts the components of a control plane with Muster's own final flags and one value of a test
 * beside, with etcd, an API server and Muster's PKI, and says whether they serve and keep running.
 * Needs MUSTER_ARTIFACTS and a network of its own: scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { dump, load } from 'js-yaml';
import type { ResolvedCluster } from '../../src/cluster/model/resolved-cluster.ts';
import { MINORS } from '../../src/cluster/model/versions.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { askBinaries } from './ask-binaries.ts';
import { PlacedPlan } from './placed-plan.ts';
import { unpacked } from './unpacked.ts';

const ADDRESS = '10.0.0.11';
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESS }] } as const;
/** How long a component that serves has to live on. */
const LIVES_MS = 4000;
const SERVES_WITHIN_MS = 150_000;

export type Values = Readonly<Record<string, unknown>>;
export interface Judgement {
  readonly starts: boolean;
  /** The last words of one that ended. */
  readonly words: string;
}

type Flags = Map<string, string>;

const commandOf = (flags: Flags): string[] => [...flags].map(([name, value]) => `--${name}=${value}`);

/** The line in which a program says why it ends. */
function lastWords(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const said = lines.filter((line) =>
    /^Error: |"command failed"|"Failed|^F\d{4}|failed to start|invalid value|panic: |"fatal"|unknown flag|not defined/i.test(
      line,
    ),
  );
  return (said.at(-1) ?? lines.at(-1) ?? '').replace(/\s+/g, ' ').slice(0, 400);
}

export class ValueJudge {
  readonly #placed = new PlacedPlan();
  #count = 0;
  readonly #version: string;

  private constructor(version: string) {
    this.#version = version;
  }

  /** Starts etcd and an API server; the values are judged beside them. */
  static async open(): Promise<ValueJudge> {
    const placed = new PlacedPlan();
    const said = execFileSync(path.join(placed.bin, 'kube-apiserver'), ['--version'], { encoding: 'utf8' });
    const judge = new ValueJudge(/v(1\.[0-9]+\.[0-9]+)/.exec(said)![1]!);
    await judge.#start();
    return judge;
  }

  get minor(): string {
    const minor = this.#version.split('.').slice(0, 2).join('.');
    return MINORS.find((one) => one === minor) ?? minor;
  }

  async #start(): Promise<void> {
    execFileSync('ip', ['address', 'replace', `${ADDRESS}/24`, 'dev', 'lo']);
    const { planner } = await rig({
      spec: { version: this.#version, endpoint: ADDRESS, controlPlanes: ['cp1'], workers: [], sans: [] },
      etcd: async () => ({ lines: [], founding: FOUNDING }),
    });
    const machine = new TestMachine('cp1');
    this.#placed.put(await settle(planner, machine), machine);
    fs.mkdirSync(this.#placed.inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    fs.mkdirSync(this.#placed.inside('/var/log/kubernetes'), { recursive: true });
    this.#placed.start('etcd');
    this.#placed.start('kube-apiserver');
    for (let n = 0; n < 240 && (await this.#serves(6443, '/readyz')) !== 200; n++) await pause(500);
    if ((await this.#serves(6443, '/readyz')) !== 200) throw new Error('the API server does not get ready');
  }

  close(): Promise<void> {
    return this.#placed.close();
  }

  async judge(component: string, value: Values): Promise<Judgement> {
    if (component === 'kubelet' || component === 'kubelet-config') return this.#kubelet(component, value);
    if (component === 'kube-proxy') return this.#proxy(value);
    const n = ++this.#count;
    const own = this.#flagsOf(component);
    const given: Flags = new Map(
      Object.entries(value).map(([name, text]): [string, string] => [name, this.#text(String(text))]),
    );
    const { more, serves } = this.#apart(component, n, given);
    const flags = new Map([...own, ...more, ...given]);
    return this.#run(n, component, commandOf(flags), serves);
  }

  #text(text: string): string {
    return text.replace(/(?<![\w.])\/(etc|var|run)\/(?!ssl)/g, `${this.#placed.root}/$1/`);
  }

  #flagsOf(component: string): Flags {
    const file = this.#placed.inside(`/etc/kubernetes/manifests/${component}.yaml`);
    // biome-ignore lint/suspicious/noExplicitAny: a manifest as its reader sees it
    const [, ...flags] = (load(fs.readFileSync(file, 'utf8')) as any).spec.containers[0].command as string[];
    return new Map(
      flags.map((flag): [string, string] => {
        const [, name = '', value = ''] = /^--([^=]+)=(.*)$/s.exec(flag) ?? [];
        return [name, value];
      }),
    );
  }

  /** What keeps a component apart from others that run at the same time, and what it serves. */
  #apart(component: string, n: number, given: Flags): { more: Flags; serves: () => Promise<number> } {
    const port = 20_000 + 10 * n;
    const directory = this.#placed.inside(`/judged/${n}`);
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    if (component === 'etcd') {
      const [client, peer, metrics] = [port, port + 1, port + 2];
      const listens = given.get('listen-metrics-urls')?.replace(':2381', `:${metrics}`);
      if (listens !== undefined) given.set('listen-metrics-urls', listens);
      const urls: [string, string][] = [
        ['data-dir', directory],
        ['listen-client-urls', `https://127.0.0.1:${client}`],
        ['advertise-client-urls', `https://127.0.0.1:${client}`],
        ['listen-peer-urls', `https://127.0.0.1:${peer}`],
        ['initial-advertise-peer-urls', `https://127.0.0.1:${peer}`],
        ['initial-cluster', `cp1=https://127.0.0.1:${peer}`],
        ['listen-metrics-urls', `http://127.0.0.1:${metrics}`],
      ];
      return { more: new Map(urls), serves: () => answers(`http://127.0.0.1:${metrics}/health`) };
    }
    const more: Flags = new Map([['secure-port', String(port)]]);
    if (component === 'kube-apiserver') {
      more.set('etcd-prefix', `/judged-${n}`);
      const log = given.get('audit-log-path') ?? '';
      if (log.startsWith('/')) fs.mkdirSync(path.dirname(log), { recursive: true });
      if (!given.has('audit-log-path')) more.set('audit-log-path', `${directory}/audit.log`);
      return { more, serves: () => this.#serves(port, '/readyz') };
    }
    if (!given.has('leader-elect-resource-name')) more.set('leader-elect-resource-name', `judged-${n}`);
    return { more, serves: () => this.#serves(port, '/healthz') };
  }

  async #run(
    n: number,
    component: string,
    flags: readonly string[],
    serves: () => Promise<number>,
  ): Promise<Judgement> {
    const log = this.#placed.inside(`/judged/${n}.log`);
    const out = fs.openSync(log, 'w');
    const child: ChildProcess = spawn(path.join(this.#placed.bin, component), flags, {
      cwd: this.#placed.inside(`/judged/${n}`),
      env: this.#placed.env,
      stdio: ['ignore', out, out],
    });
    fs.closeSync(out);
    let ended = false;
    const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    void gone.then(() => (ended = true));
    const until = Date.now() + SERVES_WITHIN_MS;
    let up = false;
    // Without RBAC or with other authenticators the admin is refused by a server that works.
    let refusals = 0;
    while (!ended && !up && Date.now() < until) {
      const status = await serves();
      if (status === 401 || status === 403) refusals++;
      up = status === 200 || refusals > 40;
      if (!up) await Promise.race([gone, pause(250)]);
    }
    if (up) await Promise.race([gone, pause(LIVES_MS)]);
    const output = (): string => fs.readFileSync(log, 'utf8');
    if (!ended) {
      child.kill('SIGKILL');
      await gone;
      const result = { starts: up, words: up ? '' : `does not serve: ${lastWords(output())}` };
      this.#forget(n);
      return result;
    }
    const words = lastWords(output());
    this.#forget(n);
    return { starts: false, words };
  }

  #forget(n: number): void {
    fs.rmSync(this.#placed.inside(`/judged/${n}`), { recursive: true, force: true });
    fs.rmSync(this.#placed.inside(`/judged/${n}.log`), { force: true });
  }

  /** Whether a server answers the admin with 200, or has refused him for a while. */
  #serves(port: number, at: string): Promise<number> {
    // biome-ignore lint/suspicious/noExplicitAny: a kubeconfig as its reader sees it
    const conf = load(fs.readFileSync(this.#placed.inside('/etc/kubernetes/admin.conf'), 'utf8')) as any;
    const user = conf.users[0].user;
    const decoded = (text: string): Buffer => Buffer.from(text, 'base64');
    return answers(`https://127.0.0.1:${port}${at}`, {
      cert: decoded(user['client-certificate-data']),
      key: decoded(user['client-key-data']),
    });
  }

  /** kubelet beside containerd, without an API: with Muster's configuration apart from the API. */
  async #kubelet(component: string, value: Values): Promise<Judgement> {
    const config: Record<string, unknown> = {
      ...resolved({ version: this.#version }).kubelet.config,
      ...ALONE,
      ...(component === 'kubelet-config' && value),
    };
    const file = this.#placed.inside(`/kubelet-${++this.#count}.yaml`);
    const kind = { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' };
    fs.writeFileSync(file, dump({ ...kind, ...config }));
    const flags =
      component === 'kubelet' ? Object.entries(value).map(([name, text]) => `--${name}=${text}`) : [];
    const guest = [
      path.join(import.meta.dirname, 'kubelet-guest.sh'),
      path.join(this.#placed.bin, 'kubelet'),
    ];
    const output = await outputOf('unshare', [
      ...NAMESPACES,
      'sh',
      ...guest,
      file,
      KUBELET_LIVES_S,
      ...flags,
    ]);
    fs.rmSync(file);
    if (output.trim() === 'alive') return { starts: true, words: '' };
    const words = lastWords(output);
    if (OF_THIS_HOST.test(words)) return { starts: true, words: '' };
    return /no client provided/.test(words) ? this.#kubeletOfApi(component, value) : { starts: false, words };
  }

  /** kubelet as it would run with an API, without a runtime: only what it refuses early is seen. */
  async #kubeletOfApi(component: string, value: Values): Promise<Judgement> {
    const good = resolved({ version: this.#version });
    const { kubelet, flags } = good;
    const wrong = {
      ...good,
      ...(component === 'kubelet-config'
        ? {
            kubelet: {
              config: { ...kubelet.config, ...value },
              controlPlaneConfig: Object.fromEntries(
                Object.entries(kubelet.controlPlaneConfig).filter(([field]) => !Object.hasOwn(value, field)),
              ),
            },
          }
        : { flags: { ...flags, kubelet: { ...flags.kubelet, ...value } } }),
    } as ResolvedCluster;
    const verdicts = await askBinaries(wrong, this.#placed.bin, 'kubelet');
    const bad = verdicts.find(({ says }) => says === 'refused');
    return { starts: bad === undefined, words: bad?.text.replace(/\s+/g, ' ').slice(0, 400) ?? '' };
  }

  /** kube-proxy in a network of its own, without an API. */
  async #proxy(value: Values): Promise<Judgement> {
    const n = ++this.#count;
    const directory = this.#placed.inside(`/judged/${n}`);
    fs.mkdirSync(directory, { recursive: true });
    const { config } = resolved({ version: this.#version }).kubeProxy;
    const kubeconfig = path.join(directory, 'kubeconfig.conf');
    const cluster = { name: 'c', cluster: { server: 'https://127.0.0.1:1' } };
    fs.writeFileSync(
      kubeconfig,
      dump({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [cluster],
        users: [{ name: 'u', user: { token: 't' } }],
        contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
        'current-context': 'x',
      }),
    );
    const file = path.join(directory, 'config.conf');
    const given = value.clientConnection as object | undefined;
    const whole = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      ...config,
      ...value,
      clientConnection: { ...given, kubeconfig },
    };
    fs.writeFileSync(file, dump(whole));
    const log = this.#placed.inside(`/judged/${n}.log`);
    const out = fs.openSync(log, 'w');
    const child = spawn(
      'unshare',
      [
        '--net',
        '--',
        path.join(this.#placed.bin, 'kube-proxy'),
        `--config=${file}`,
        '--hostname-override=cp1',
      ],
      { env: this.#placed.env, stdio: ['ignore', out, out] },
    );
    fs.closeSync(out);
    const gone = new Promise<boolean>((resolve) => child.once('exit', () => resolve(true)));
    const ended = await Promise.race([gone, pause(5000, false)]);
    if (!ended) {
      child.kill('SIGKILL');
      await gone;
    }
    const words = lastWords(fs.readFileSync(log, 'utf8'));
    this.#forget(n);
    return { starts: !ended, words: ended ? words : '' };
  }
}

/**
 * What a kubelet that runs alone has in the place of Muster's settings. Hosts with cgroups of
 * version 1 can run the test too.
 */
const ALONE = {
  ...{ failCgroupV1: false, cgroupDriver: 'cgroupfs', failSwapOn: false },
  ...{ containerRuntimeEndpoint: 'unix:///run/containerd.sock', resolvConf: '/etc/resolv.conf' },
  ...{ tlsCertFile: '', tlsPrivateKeyFile: '' },
  ...{ staticPodPath: '/run/manifests', authorization: { mode: 'AlwaysAllow' } },
  authentication: { anonymous: { enabled: false }, webhook: { enabled: false } },
};
const KUBELET_LIVES_S = '4';
const NAMESPACES = '--mount --pid --net --uts --ipc --cgroup --fork --kill-child --mount-proc'.split(' ');
/** Ends of a kubelet that another host would not have: its cgroups, CPUs, files of operators. */
const OF_THIS_HOST = /only supported with cgroupv2|some missing paths|subset of online-cpus|did not exist/;

const CONTAINERD = unpacked('containerd', 'usr/bin/containerd');
const RUNC = unpacked('containerd', 'usr/sbin/runc');

function outputOf(program: string, words: readonly string[]): Promise<string> {
  const places = [CONTAINERD, RUNC].map(({ command }) => path.dirname(command));
  const env = { ...CONTAINERD.env, PATH: [...places, process.env.PATH].join(':') };
  return new Promise((done) => {
    const child = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const from of [child.stdout, child.stderr]) from.on('data', (part) => (text += String(part)));
    child.on('close', () => done(text));
  });
}

/** The status with which a GET is answered within two seconds; 0 without an answer. */
const answers = (url: string, tls?: { readonly cert: Buffer; readonly key: Buffer }): Promise<number> => {
  if (tls === undefined)
    return fetch(url, { signal: AbortSignal.timeout(2000) }).then(
      ({ status }) => status,
      () => 0,
    );
  return new Promise((resolve) => {
    const request = https.get(
      url,
      { ...tls, rejectUnauthorized: false, timeout: 2000, agent: false },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    request.once('timeout', () => request.destroy());
    request.once('error', () => resolve(0));
  });
};
