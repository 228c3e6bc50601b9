/**
 * A machine in a directory with the real agent, and a server of node:https that answers as Muster
 * does.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import type { AgentBundle } from '../../src/agent/scripts/bundle.ts';
import { decodeFacts } from '../../src/agent/wire/decode-facts.ts';
import { encodePlan } from '../../src/agent/wire/encode-plan.ts';
import type { AgentFacts } from '../../src/agent/wire/facts.ts';
import type { Plan, PlanLine } from '../../src/agent/wire/plan.ts';
import { tar } from '../../src/artifacts/tar.ts';

import { ManualClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';
import { readCsr } from '../../src/pki/csr.ts';
import type { ClusterNames } from '../../src/pki/hierarchy.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import { trustBundle } from '../../src/pki/keyset.ts';
import { openPki, type Pki } from '../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../src/pki/vault.ts';
import { MUSTER_SCOPE } from '../../src/store/keys.ts';
import { openMemoryStore } from '../../src/store/memory.ts';

export const SOURCE = path.join(import.meta.dirname, '../../src/agent/scripts');
/** The two shells that machines have. */
export const SHELLS = [['dash'], ['busybox', 'sh']] as const;
export type Shell = readonly string[];

const NAMES: ClusterNames = {
  name: 'lab',
  dnsDomain: 'cluster.local',
  serviceAddresses: ['10.96.0.1'],
  endpointNames: { dns: [], ips: [] },
};

export const put = (at: string, text: string, mode = 0o644): PlanLine => ({
  do: 'put',
  mode,
  path: at,
  content: { text },
});

/** A request that the server got. */
export interface Asked {
  readonly path: string;
  readonly form: URLSearchParams;
  /** Common name of the client's certificate. */
  readonly by?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | string;
  /** Closes the connection after this many octets of the body. */
  readonly cutAt?: number;
}

export class Planner {
  readonly asked: Asked[] = [];
  readonly ticket: string = 'tick/et+1 =&';
  /** The answers to the next polls; when none is left, 204. */
  readonly answers: Answer[] = [];
  /** A plan that, instead of 204, every machine gets that has not applied it. */
  standing?: readonly PlanLine[];
  /** The first configuration, for a machine with a boot disk. */
  configuration: Readonly<Record<string, string>> = { 'user-data': 'the user-data', 'meta-data': '{}' };
  /** The keys of data filesystems, by UUID; null: the boot host does not give them. */
  dataKeys: Map<string, string> | null = new Map();
  /** The agent that machines are asked to become. */
  bundle?: AgentBundle;
  /** Answers to the next lines of the console, instead of that they are kept. */
  readonly consoleAnswers: Answer[] = [];
  /** Instead of the real answer to `redeem`. */
  readonly redeemAnswers: Answer[] = [];
  authority = '';
  url = '';
  #server!: https.Server;
  /** Opens the PKI; each opening counts certificates from zero. */
  #pki!: () => Pki;

  static async open(): Promise<Planner> {
    const planner = new Planner();
    const clock = new ManualClock(Date.now() as Millis);
    const parts = { store: openMemoryStore(), clock, vault: vaultFrom(newVaultKey(), 'test') };
    planner.#pki = () => openPki(parts);
    const keysets = await planner.#pki().found(MUSTER_SCOPE);
    planner.authority = trustBundle(keysets.get('transport-ca')!);
    const key = await PrivateKey.generate();
    const holder = { name: 'boot', addresses: ['127.0.0.1'] };
    const order = { leaf: 'muster-server', holder, cluster: NAMES, publicKey: key.publicKey() } as const;
    const { certificate } = await planner.#pki().issue(MUSTER_SCOPE, order);
    planner.#server = https.createServer(
      {
        cert: certificate,
        key: key.pem(),
        ca: planner.authority,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (request, response) => {
        const parts: Buffer[] = [];
        request.on('data', (part: Buffer) => parts.push(part));
        request.on('end', () => {
          const socket = request.socket as TLSSocket;
          const asked: Asked = {
            path: request.url!,
            form: new URLSearchParams(Buffer.concat(parts).toString()),
            ...(socket.authorized && { by: String(socket.getPeerCertificate().subject.CN) }),
          };
          planner.asked.push(asked);
          void planner.#answer(asked).then(({ status, headers, body = '', cutAt }) => {
            const whole = Buffer.from(body as string);
            response.writeHead(status, { 'Content-Length': whole.length, ...headers });
            if (cutAt === undefined) response.end(whole);
            else response.write(whole.subarray(0, cutAt), () => socket.destroy());
          });
        });
      },
    );
    await new Promise<void>((resolve) => planner.#server.listen(0, '127.0.0.1', resolve));
    planner.url = `https://127.0.0.1:${(planner.#server.address() as AddressInfo).port}`;
    return planner;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Issues the certificate of `leaf` for the key that signed a request. */
  async certify(csr: string, machine = 'cp1'): Promise<string> {
    const read = readCsr(csr);
    if (!read.ok) throw new Error(read.text);
    const order = {
      leaf: 'agent',
      holder: { name: machine, addresses: [] },
      cluster: NAMES,
      publicKey: read.publicKey,
    } as const;
    // One machine gets far more certificates here than a server would give it.
    return (await this.#pki().issue(MUSTER_SCOPE, order)).certificate;
  }

  async #answer({ path: asked, form, by }: Asked): Promise<Answer> {
    if (asked === '/agent/redeem') {
      const given = this.redeemAnswers.shift();
      if (given) return given;
      if (form.get('ticket') !== this.ticket || form.get('session') !== 'S-1') return { status: 403 };
      return { status: 200, body: await this.certify(form.get('csr')!) };
    }
    if (by === undefined) return { status: 401 };
    if (asked === '/agent/configuration') {
      const files = Object.entries(this.configuration);
      return { status: 200, body: tar(files.map(([name, text]) => ({ name, content: Buffer.from(text) }))) };
    }
    if (asked === '/agent/console') return this.consoleAnswers.shift() ?? { status: 204 };
    if (asked === '/agent/bundle') return { status: 200, body: this.bundle!.tar };
    if (asked === '/agent/data-key') {
      const filesystem = form.get('filesystem')!;
      if (form.get('make') === 'yes' && this.dataKeys?.has(filesystem) === false)
        this.dataKeys.set(filesystem, randomBytes(32).toString('base64'));
      const key = this.dataKeys?.get(filesystem);
      return key === undefined ? { status: 403, body: 'E_DATA_KEY: no' } : { status: 200, body: key };
    }
    const given = this.answers.shift();
    if (given) return given;
    const headers = { 'Retry-After': '1', ...(this.bundle && { 'Muster-Agent': `${this.bundle.digest}.1` }) };
    if (this.standing) {
      const plan = encodePlan({ lines: this.standing, pollSeconds: 0 });
      if (form.get('applied') !== plan.digest) return { status: 200, body: plan.tar, headers };
    }
    return { status: 204, headers };
  }

  /** Answers the next poll with this plan. Returns its digest. */
  plan(lines: readonly PlanLine[], more: Partial<Plan> & Omit<Answer, 'status'> = {}): string {
    const { digest, tar } = encodePlan({ lines, pollSeconds: 0 });
    this.answers.push({ status: 200, body: tar, ...more, headers: { 'Retry-After': '0', ...more.headers } });
    return digest;
  }

  /** The facts of the last poll. */
  facts(): AgentFacts {
    const last = this.asked.findLast(({ path: asked }) => asked === '/agent/poll');
    const decoded = decodeFacts(last?.form.toString() ?? '');
    if (!decoded.ok) throw new Error(decoded.text);
    return decoded.facts;
  }
}

/**
 * A service manager that keeps the state of units in $MUSTER_ROOT/units and writes its commands to
 * a log there.
 */
const SYSTEMCTL = `#!/bin/sh
units=$MUSTER_ROOT/units
mkdir -p "$units"
verb=$1
shift
reload=yes
until=
while case "\${1:-}" in --*) ;; *) false ;; esac; do
  [ "$1" != --no-reload ] || reload=
  [ "$1" != --runtime ] || until=' until the next boot'
  shift
done
case $verb in
  is-active) [ -e "$units/$1.active" ] ; exit ;;
  is-enabled) [ -e "$units/$1.enabled" ] ; exit ;;
esac
echo "$verb \${1:-}$until" >>"$units/log"
[ "$verb" = enable ] || [ ! -e "$units/\${1:-none}.broken" ] || { echo "Job for $1 failed."; exit 1; }
case $verb in
  enable) : >"$units/$1.enabled" ;;
  disable) rm -f "$units/$1.enabled" ;;
  *) reload= ;;
esac
# As the real one does by default.
[ -z "$reload" ] || echo 'daemon-reload unasked' >>"$units/log"
case $verb in
  start | restart) : >"$units/$1.active" ;;
  stop) rm -f "$units/$1.active" ;;
esac
exit 0
`;

const DATE = `#!/bin/sh
case $1 in -s) echo "$2" >"$MUSTER_ROOT/clock-set" ;; *) exec /bin/date "$@" ;; esac
`;

export class Machine {
  readonly root: string;
  readonly #children: ChildProcess[] = [];

  /** `planner`: the server's settings in the machine's first configuration. */
  constructor(planner: Pick<Planner, 'authority' | 'url' | 'ticket'>, settings: Record<string, string> = {}) {
    this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-agent-'));
    this.write('/etc/muster/ca.crt', planner.authority);
    const conf = { server: planner.url, machine: 'cp1', session: 'S-1', ticket: planner.ticket, ...settings };
    this.write(
      '/etc/muster/agent.conf',
      Object.entries(conf)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );
    fs.chmodSync(this.path('/etc/muster/agent.conf'), 0o600);
    this.write('/etc/machine-id', `${'0123456789abcdef'.repeat(2)}\n`);
    this.write('/proc/sys/kernel/random/boot_id', 'b0070000-0000-4000-8000-000000000001\n');
    this.write('/proc/uptime', '100.00 50.00\n');
    this.command('systemctl', SYSTEMCTL);
    // The clock is the host's, also in a namespace, so setting it is only written down.
    this.command('date', DATE);
  }

  path(at: string): string {
    return path.join(this.root, at);
  }

  write(at: string, text: string | Uint8Array): void {
    fs.mkdirSync(path.dirname(this.path(at)), { recursive: true });
    fs.writeFileSync(this.path(at), text);
  }

  read(at: string): string {
    return fs.readFileSync(this.path(at), 'utf8');
  }

  exists(at: string): boolean {
    return fs.lstatSync(this.path(at), { throwIfNoEntry: false }) !== undefined;
  }

  mode(at: string): string {
    return (fs.statSync(this.path(at)).mode & 0o7777).toString(8);
  }

  /** Installs a command that replaces the host's. */
  command(name: string, script: string): void {
    this.write(`/bin/${name}`, script);
    fs.chmodSync(this.path(`/bin/${name}`), 0o755);
  }

  /** The commands that the service manager got since the last call. */
  told(): string[] {
    const log = this.path('/units/log');
    if (!fs.existsSync(log)) return [];
    const lines = fs.readFileSync(log, 'utf8').trim().split('\n');
    fs.rmSync(log);
    return lines;
  }

  /**
   * Loses everything that a reboot loses: /run, and what runs, also in the background. Looks
   * whether /run is gone: rmSync of Node 26 returns without an error and leaves files behind when
   * another process removes one of them at the same moment.
   */
  reboot(): void {
    this.end();
    for (let tries = 0; this.exists('/run'); tries += 1) {
      if (tries === 100) throw new Error('something still writes to /run of a machine that is off');
      fs.rmSync(this.path('/run'), { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
    }
    if (!this.exists('/units')) return;
    for (const name of fs.readdirSync(this.path('/units')))
      if (name.endsWith('.active')) fs.rmSync(this.path(`/units/${name}`));
  }

  /** The environment of the agent. */
  env(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    return {
      PATH: `${this.path('/bin')}:${process.env.PATH}:/usr/sbin:/sbin`,
      MUSTER_ROOT: this.root,
      ...more,
    };
  }

  /** Polls once. Resolves to the exit status (or the signal that ended it) and the output. */
  async poll(
    shell: Shell = SHELLS[0],
    env: Record<string, string> = {},
  ): Promise<{ status: number | string; said: string }> {
    const child = this.start(shell, ['once'], env);
    let said = '';
    child.stdout!.on('data', (part) => (said += part));
    child.stderr!.on('data', (part) => (said += part));
    return new Promise((resolve) =>
      child.on('close', (code, signal) => resolve({ status: code ?? signal!, said })),
    );
  }

  /**
   * Starts the agent in its own process group, so that it can be killed with everything that it
   * runs. `AGENT` in `env` names another script.
   */
  start(
    shell: Shell = SHELLS[0],
    args: readonly string[] = [],
    env: Record<string, string> = {},
  ): ChildProcess {
    const child = spawn(
      shell[0]!,
      [...shell.slice(1), env.AGENT ?? path.join(SOURCE, 'muster-agent.sh'), ...args],
      {
        env: this.env(env),
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      },
    );
    this.#children.push(child);
    return child;
  }

  /**
   * Returns mode and content of every file that survives a reboot: the SHA-256 of large files, and
   * only the mode of files that match `without`.
   */
  tree(without?: RegExp): Record<string, string> {
    const found: Record<string, string> = {};
    const visit = (at: string): void => {
      const full = this.path(at);
      const stat = fs.lstatSync(full);
      const mode = (stat.mode & 0o7777).toString(8);
      if (stat.isSymbolicLink()) found[at] = `-> ${fs.readlinkSync(full)}`;
      else if (stat.isDirectory()) {
        found[at] = mode;
        for (const name of fs.readdirSync(full)) visit(path.join(at, name));
      } else if (without?.test(at)) found[at] = mode;
      else {
        const octets = fs.readFileSync(full);
        const large = stat.size > 1024 * 1024;
        found[at] =
          `${mode} ${large ? createHash('sha256').update(octets).digest('hex') : octets.toString('latin1')}`;
      }
    };
    for (const at of ['/etc', '/var', '/opt']) if (this.exists(at)) visit(at);
    return found;
  }

  /**
   * Ends every agent and everything that it started; resolves when the agents are gone, while their
   * children may take a moment more.
   */
  async stop(): Promise<void> {
    for (const child of this.#children.splice(0)) {
      const gone = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
      kill(child.pid!);
      await gone;
    }
  }

  /** Ends the agent with everything that it runs, as a power cut does. */
  end(): void {
    for (const { pid } of this.#children) kill(pid!);
  }

  close(): void {
    this.end();
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

/** Kills a process group if it exists, because children of an agent may outlive it. */
function kill(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {}
}

export const openssl = (args: readonly string[], input?: string): string =>
  execFileSync('openssl', args, { encoding: 'utf8', input: input ?? '', stdio: ['pipe', 'pipe', 'ignore'] });
