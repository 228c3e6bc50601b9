/**
 * Real members of etcd move to a new CA by bridges: new leaves are put down under the running
 * members, then each member restarts once with trust in the new CA alone, while a writer that knows
 * one CA at a time goes on.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { Millis } from '../../src/base/duration.ts';
import type { LeafName } from '../../src/pki/hierarchy.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import { trustBundle } from '../../src/pki/keyset.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { GOLDEN, type World, world } from '../unit/pki/kit.ts';
import { unpacked } from './unpacked.ts';

const run = promisify(execFile);
const MEMBERS = [1, 2, 3] as const;
const clientUrl = (n: number): string => `https://127.0.0.1:${2378 + n}`;
const peerUrl = (n: number): string => `https://127.0.0.1:${3378 + n}`;

interface Etcd {
  readonly etcd: string;
  readonly etcdctl: string;
}

/** Versions of etcd by name: Debian's, and the one of the artifacts. */
const VERSIONS: readonly (readonly [string, () => Etcd | undefined])[] = [
  ['3.4', () => ofDebian('etcd-server')],
  ['3.5', () => ofDebian('etcd-server-trixie')],
  ['of the artifacts', () => given()],
];

const ofDebian = (server: string): Etcd => ({
  etcd: unpacked(server, 'usr/bin/etcd').command,
  etcdctl: unpacked('etcd-client', 'usr/bin/etcdctl').command,
});

function given(): Etcd | undefined {
  const etcd = ARTIFACTS && path.join(ARTIFACTS, 'bin/etcd');
  return etcd && fs.existsSync(etcd) ? { ...ofDebian('etcd-server'), etcd } : undefined;
}

/** Three members below one directory, and their files. */
class Cluster {
  readonly root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-bridges-'));
  readonly #programs: Etcd;
  readonly #of: World;
  readonly #running = new Map<number, ChildProcess>();

  constructor(programs: Etcd, of: World) {
    this.#programs = programs;
    this.#of = of;
  }

  file(owner: string, name: string): string {
    return path.join(this.root, owner, name);
  }

  /** Puts a leaf and its key down, under what runs. */
  async leaf(owner: string, leaf: LeafName): Promise<void> {
    const key = await PrivateKey.generate();
    const holder = { name: owner, addresses: ['127.0.0.1'] };
    const order = { leaf, holder, cluster: GOLDEN, publicKey: key.publicKey() };
    const { certificate } = await this.#of.pki.issue('golden', order);
    // etcd reads both at each handshake; in between, the handshake fails and is repeated.
    this.put(owner, `${leaf}.key`, key.pem());
    this.put(owner, `${leaf}.crt`, certificate);
  }

  put(owner: string, name: string, text: string): void {
    fs.mkdirSync(path.join(this.root, owner), { recursive: true });
    const file = this.file(owner, name);
    fs.writeFileSync(`${file}.new`, text, { mode: 0o600 });
    fs.renameSync(`${file}.new`, file);
  }

  async leaves(): Promise<void> {
    for (const n of MEMBERS)
      for (const leaf of ['etcd-server', 'etcd-peer'] as const) await this.leaf(`m${n}`, leaf);
    await this.leaf('client', 'etcd-person');
  }

  start(n: number): void {
    const owner = `m${n}`;
    const tls = (leaf: LeafName, prefix = '') => [
      `--${prefix}cert-file=${this.file(owner, `${leaf}.crt`)}`,
      `--${prefix}key-file=${this.file(owner, `${leaf}.key`)}`,
      `--${prefix}trusted-ca-file=${this.file(owner, 'trust.crt')}`,
      `--${prefix}client-cert-auth`,
    ];
    const made = spawn(
      this.#programs.etcd,
      [
        `--name=${owner}`,
        `--data-dir=${this.file(owner, 'data')}`,
        `--listen-client-urls=${clientUrl(n)}`,
        `--advertise-client-urls=${clientUrl(n)}`,
        `--listen-peer-urls=${peerUrl(n)}`,
        `--initial-advertise-peer-urls=${peerUrl(n)}`,
        `--initial-cluster=${MEMBERS.map((one) => `m${one}=${peerUrl(one)}`).join()}`,
        ...tls('etcd-server'),
        ...tls('etcd-peer', 'peer-'),
      ],
      { stdio: ['ignore', 'ignore', fs.openSync(this.file(owner, 'log'), 'a')] },
    );
    this.#running.set(n, made);
  }

  async stop(n: number): Promise<void> {
    const running = this.#running.get(n);
    if (running === undefined || running.exitCode !== null) return;
    running.kill();
    await once(running, 'exit');
  }

  /** Calls etcdctl with the client's current files and this trust. */
  ctl(trust: string, ...words: readonly string[]): Promise<{ stdout: string }> {
    const files = [
      `--cacert=${this.file('client', trust)}`,
      `--cert=${this.file('client', 'etcd-person.crt')}`,
      `--key=${this.file('client', 'etcd-person.key')}`,
    ];
    const all = ['--dial-timeout=2s', '--command-timeout=5s', ...files, ...words];
    return run(this.#programs.etcdctl, all, { env: { ...process.env, ETCDCTL_API: '3' } });
  }

  /** Resolves when the member itself answers for the whole cluster. */
  async healthy(n: number, trust: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      const answer = await this.ctl(trust, `--endpoints=${clientUrl(n)}`, 'endpoint', 'health').catch(
        (error: Error) => error,
      );
      if (!(answer instanceof Error)) return;
      if (tries > 60) throw answer;
      await new Promise((done) => setTimeout(done, 500));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const n of MEMBERS) await this.stop(n);
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

/** Writes one key after the other; each may be tried twice. */
function writing(cluster: Cluster, trust: () => string) {
  let ended = false;
  const failed: string[] = [];
  const written: string[] = [];
  const endpoints = `--endpoints=${MEMBERS.map(clientUrl).join()}`;
  const put = (key: string) => cluster.ctl(trust(), endpoints, 'put', key, 'x');
  const all = (async () => {
    for (let n = 0; !ended; n++) {
      const key = `k${n}`;
      const error = await put(key).catch(() => put(key).catch((cause: Error) => cause));
      if (error instanceof Error) failed.push(error.message);
      else written.push(key);
    }
  })();
  return {
    failed,
    written,
    async end() {
      ended = true;
      await all;
    },
  };
}

for (const [name, programs] of VERSIONS)
  test.skipIf(programs() === undefined)(
    `three members of etcd ${name} move to a new CA with one restart each and no failed write`,
    { timeout: 240_000 },
    async () => {
      const of = await world();
      await using cluster = new Cluster(programs()!, of);
      const bundle = async () => trustBundle((await of.keysets()).get('etcd-ca')!);
      const old = await bundle();
      await cluster.leaves();
      for (const n of MEMBERS) cluster.put(`m${n}`, 'trust.crt', old);
      cluster.put('client', 'old.crt', old);
      for (const n of MEMBERS) cluster.start(n);
      for (const n of MEMBERS) await cluster.healthy(n, 'old.crt');
      let trust = 'old.crt';
      const writer = writing(cluster, () => trust);

      of.clock.advance(1000 as Millis);
      const { generation, state } = await of.pki.transition('golden', 'etcd-ca', { do: 'make' });
      await of.pki.transition('golden', 'etcd-ca', { do: 'promote', generation });
      fs.cpSync(path.join(cluster.root, 'client'), path.join(cluster.root, 'before'), { recursive: true });
      await cluster.leaves();
      await of.pki.transition('golden', 'etcd-ca', { do: 'distrust', generation: state.primary });
      cluster.put('client', 'new.crt', await bundle());
      for (const n of MEMBERS) {
        await cluster.stop(n);
        cluster.put(`m${n}`, 'trust.crt', await bundle());
        cluster.start(n);
        await cluster.healthy(n, trust);
        // The client moves while one member trusts the new CA alone and two the old one alone.
        trust = 'new.crt';
      }
      await writer.end();
      expect(writer.failed).toEqual([]);
      expect(writer.written.length).toBeGreaterThan(10);
      const endpoints = `--endpoints=${clientUrl(1)}`;
      const { stdout } = await cluster.ctl('new.crt', endpoints, 'get', '--prefix', 'k', '--keys-only');
      expect(stdout.split('\n').filter(Boolean).sort()).toEqual(writer.written.toSorted());
      // The client's old certificate is refused by all.
      for (const file of ['etcd-person.crt', 'etcd-person.key'])
        fs.copyFileSync(path.join(cluster.root, 'before', file), cluster.file('client', file));
      for (const n of MEMBERS)
        await expect(cluster.ctl('new.crt', `--endpoints=${clientUrl(n)}`, 'get', 'k0')).rejects.toThrow();
    },
  );
