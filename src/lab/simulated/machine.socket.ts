/**
 * One machine in memory, from power-on to heartbeats, against a real `muster serve`. Everything
 * that it sends is real: DHCP, HTTP, TLS, keys, requests. Its actions are not: nothing is written
 * to a disk, no kernel is started, and etcd and kubectl are simulated (see {@link Members}).
 */
import { createHash, randomUUID } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import { load } from 'js-yaml';
import { AGENT_PATHS } from '../../agent/wire/plan.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import { askBootServer, type DhcpClient, type DhcpTalk } from './dhcp.socket.ts';
import { MachineKey } from './keys.ts';
import { PERSONALITIES, type Personality, type PersonalityName, saysOf } from './personalities.ts';
import { applyPlan, type Belongings, type Hold, nothingYet, takePlan } from './plan.ts';
import { fetchByTftp } from './tftp.socket.ts';

/** A machine that is to be powered on. */
export interface MachineOrder {
  readonly name: string;
  readonly mac: string;
  readonly address: string;
  /** Whether it has a blank disk for the data of its cluster. */
  readonly dataDisk?: boolean;
  /** Its firmware. Undefined: UEFI that fetches no loader. */
  readonly firmware?: PersonalityName;
  /** It is unknown, and waits in the discovery system until it is accepted. */
  readonly discovers?: boolean;
}

/** Kinds of requests that are measured separately. */
export const STEPS = [
  'dhcp',
  'boot-server',
  'loader',
  'script',
  'image',
  'configuration',
  'report',
  'redeem',
  'poll',
  'fetch',
  'heartbeat',
] as const;
export type Step = (typeof STEPS)[number];

/** What a machine reaches, in this order. */
export const STAGES = ['address', 'loader', 'script', 'system', 'configuration', 'ticket'] as const;
export type Stage = (typeof STAGES)[number];

/**
 * The etcd members of all simulated machines. A member runs once it has its manifest, and serves
 * when all members run. Real members serve with a majority; but then the founding could be over
 * before the last member polls again, and that one would need a real etcd to join.
 */
export class Members {
  readonly #running = new Set<string>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  start(name: string): void {
    this.#running.add(name);
  }

  health(name: string): 'serving' | 'alive' | 'down' {
    if (!this.#running.has(name)) return 'down';
    return this.#running.size >= this.#size ? 'serving' : 'alive';
  }
}

export interface Surroundings {
  readonly dhcp: DhcpTalk;
  readonly members: Members;
  /** Called with the milliseconds that each request waited for its answer. */
  readonly measured: (step: Step, ms: number) => void;
  /** Called for each packet of TFTP or to port 4011 that is sent again. */
  readonly again: (step: Step) => void;
  /** The boot host's address. */
  readonly server: string;
  /** Returns a number between 0 and 1. */
  readonly random: () => number;
  /** How long a machine works before each of its reports, ms. */
  readonly worksMs: number;
  readonly signal: AbortSignal;
}

interface Asked {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

const ETCD_MANIFEST = '/etc/kubernetes/manifests/etcd.yaml';
const OBJECTS_UNIT = 'muster-objects.service';
/** Where plans put another certificate of the agent, with and without a data disk. */
const OWN_CERTIFICATES = [AGENT_PATHS.certificate, `${AGENT_PATHS.run}/agent/agent.crt`];

/** What a machine in the discovery system says it is made of. */
const PARTS = `cpu threads 32
cpu model Simulated Processor
memory 131907072
dmi bios_vendor Simulated
dmi bios_version 1.0
disk NAME="nvme0n1" SIZE="960197124096" ROTA="0" TRAN="nvme" SERIAL="S64FNE0R" MODEL="Simulated Disk"
disk NAME="sda" SIZE="4000787030016" ROTA="1" TRAN="sata" SERIAL="WD-1" MODEL="Simulated Platters"
nic eno1 02:00:5c:00:00:0c 1 25000 simulated
nic eno2 02:00:5c:00:00:ff 0 0 simulated
`;

/** After this many requests without an answer, which takes minutes, there is no server. */
const MOST_FAILURES = 8;
/** A machine that does not settle within this many plans makes no progress. */
const MOST_POLLS = 400;
/** A machine whose firmware gave up starts over after this time. */
const OVER_AGAIN_SECONDS = 5;
/** How often a machine starts over at most. */
const MOST_STARTS = 10;

export class SimulatedMachine {
  readonly order: MachineOrder;
  readonly has: Belongings;
  readonly #of: Surroundings;
  readonly #uuid = randomUUID();
  readonly #bootId = randomUUID();
  readonly #key = new MachineKey();
  readonly #settings = new Map<string, string>();
  #authority = '';
  #applied = '';
  #hold: Hold | undefined;
  #holds: string[] = [];
  #revision = 0;
  /** The agent's certificate, PEM. */
  certificate = '';
  /** Its leased addresses, in order. */
  readonly leased: string[] = [];
  hostname = '';
  /** Sum of its waits for answers, without the pauses that the server asked for. */
  waitedMs = 0;
  /** Number of connections that were cut before there was an answer. */
  cut = 0;
  /** When it first reached each stage, in milliseconds of this process. */
  readonly reached = new Map<Stage, number>();
  /** How often it started over, because its firmware gave up. */
  startedOver = 0;
  /** Digests of all plans, each change once. */
  readonly plans: string[] = [];

  constructor(order: MachineOrder, of: Surroundings) {
    this.order = order;
    this.#of = of;
    this.has = nothingYet(order.dataDisk ?? false);
  }

  /** Codes of the holds that it met, each once. */
  get holds(): readonly string[] {
    return [...new Set(this.#holds)];
  }

  get pin(): string {
    return this.#key.pin;
  }

  /** The agent's private key, PEM. */
  get key(): string {
    return this.#key.pem;
  }

  /**
   * Runs from power-on until it has a certificate, or until its plan is applied completely and the
   * server has no other one.
   */
  async powerOn(until: 'ready' | 'ticket' | 'rest'): Promise<void> {
    const session = await this.#started();
    await this.#configure(session, until !== 'ready');
    if (until === 'ready') return;
    await this.#redeem();
    this.#at('ticket');
    if (until === 'ticket') return;
    for (let polls = 0; polls < MOST_POLLS; polls++) {
      const { rest, seconds } = await this.#poll('poll');
      if (rest) return;
      await this.#pause(seconds);
    }
    throw new Error(
      `${this.order.name} does not come to rest: ${JSON.stringify(this.#hold ?? this.has.step)}`,
    );
  }

  /** Keeps polling at the server's intervals until the run ends. */
  async beat(): Promise<void> {
    while (!this.#of.signal.aborted) {
      const { seconds } = await this.#poll('heartbeat');
      await this.#pause(seconds);
    }
  }

  /** Pauses as the agent does: up to a quarter longer than the server asks. */
  async #pause(seconds: number): Promise<void> {
    await pause(seconds * 1000 * (1 + this.#of.random() / 4), undefined, { signal: this.#of.signal }).catch(
      () => {},
    );
  }

  #at(stage: Stage): void {
    if (!this.reached.has(stage)) this.reached.set(stage, performance.now());
  }

  /** Boots; starts over when its firmware gives up, as machines do whose only boot option it is. */
  async #started(): Promise<string> {
    for (;;)
      try {
        return await this.#boot();
      } catch (error) {
        if (this.order.firmware === undefined || this.startedOver === MOST_STARTS) throw error;
        this.startedOver++;
        await this.#pause(OVER_AGAIN_SECONDS);
      }
  }

  async #lease(asker: 'firmware' | 'ipxe' | 'initrd' | DhcpClient): Promise<string> {
    const began = performance.now();
    const { address, file } = await this.#of.dhcp.exchange(this.order.mac as Mac, this.#uuid, asker);
    this.#count('dhcp', began);
    this.leased.push(formatIpv4(address));
    this.#at('address');
    return file;
  }

  /** Does what the firmware does; returns the file that iPXE was named, if that is the firmware. */
  async #firmware(firmware: Personality): Promise<string | undefined> {
    const client = { says: saysOf(firmware), againMs: firmware.dhcpMs };
    let file = await this.#lease(client);
    if (firmware.asks === 'iPXE') return file;
    const server = this.#of.server;
    const { mac, address } = this.order;
    if (firmware.bootServer) {
      const began = performance.now();
      const who = { mac: mac as Mac, uuid: this.#uuid, address, server };
      file = await askBootServer(who, client, () => this.#of.again('boot-server'));
      this.#count('boot-server', began);
    }
    if (firmware.tftp) {
      const began = performance.now();
      const again = () => this.#of.again('loader');
      await fetchByTftp({ from: address, server, file, client: firmware.tftp, again });
      this.#count('loader', began);
    } else await this.#good('loader', file);
    this.#at('loader');
    return undefined;
  }

  /** Boots the discovery system, reports, and waits there until the machine is accepted. */
  async #discovered(): Promise<void> {
    const url = await this.#loaded();
    for (;;) {
      const answer = String((await this.#good('report', `${url}/wait`)).body);
      if (answer.startsWith('reboot ')) return;
      if (answer.startsWith('report ')) await this.#good('report', `${url}/inventory`, PARTS);
      await this.#pause(1);
    }
  }

  /** Boots as firmware, iPXE and kernel do; returns the URL of the boot session. */
  async #boot(): Promise<string> {
    if (this.order.discovers) await this.#discovered();
    const url = await this.#loaded();
    await this.#lease('initrd');
    await this.#report(url, 'kernel');
    this.#at('system');
    return url;
  }

  /** Fetches script, kernel and initrd; returns the URL of the boot session. */
  async #loaded(): Promise<string> {
    const { mac, firmware } = this.order;
    const lease = (asker: 'firmware' | 'ipxe') => this.#lease(asker);
    const named = firmware ? await this.#firmware(PERSONALITIES[firmware]) : void (await lease('firmware'));
    const start = String((await this.#good('script', named ?? (await lease('ipxe')))).body);
    const chain = /^chain --autofree --replace (\S+?)\?/m.exec(start)?.[1];
    const dashed = mac.replaceAll(':', '-');
    const asked = `mac=${dashed}&macs=${dashed},,,,,,,&uuid=${this.#uuid}&arch=x86_64&platform=efi&serial=&manufacturer=Simulated&product=Machine&asset=`;
    if (chain === undefined) throw new Error(`${this.order.name}: no chain in\n${start}`);
    const script = String((await this.#good('script', `${chain}?${asked}`)).body);
    const url = /muster\.url=(\S+)/.exec(script)?.[1];
    if (url === undefined) throw new Error(`${this.order.name} boots nothing:\n${script}`);
    this.#at('script');
    const image = [...script.matchAll(/(http:\S+\/assets\/([0-9a-f]{64})\/\S+)/g)];
    for (const [, file, hash] of new Map(image.map((found) => [found[1], found])).values()) {
      const { body } = await this.#good('image', file!);
      if (createHash('sha256').update(body).digest('hex') !== hash) throw new Error(`not its hash: ${file}`);
    }
    return url;
  }

  async #report(session: string, step: string): Promise<void> {
    if (this.#of.worksMs > 0) await pause(this.#of.worksMs);
    await this.#good('report', `${session}/report`, `step=${step}`);
  }

  /** Fetches cloud-init's four documents, reads the agent's files if it has one, and reports. */
  async #configure(session: string, agent: boolean): Promise<void> {
    const documents: Record<string, string> = {};
    for (const name of ['meta-data', 'user-data', 'vendor-data', 'network-config'])
      documents[name] = String((await this.#good('configuration', `${session}/${name}`)).body);
    this.#at('configuration');
    const userData = load(documents['user-data']!) as {
      readonly hostname: string;
      readonly write_files: readonly { readonly path: string; readonly content: string }[];
    };
    this.hostname = userData.hostname;
    if (agent) this.#settle(userData.write_files);
    for (const step of ['configured', 'ready']) await this.#report(session, step);
  }

  /** Reads the agent's settings from the files of the configuration. */
  #settle(files: readonly { readonly path: string; readonly content: string }[]): void {
    const file = (path: string): string => {
      const found = files.find((one) => one.path === path);
      if (found === undefined) throw new Error(`${this.order.name}: its configuration lacks ${path}`);
      return found.content;
    };
    for (const line of file('/etc/muster/agent.conf').trim().split('\n')) {
      const equals = line.indexOf('=');
      this.#settings.set(line.slice(0, equals), line.slice(equals + 1));
    }
    this.#authority = file('/etc/muster/ca.crt');
    if (this.#settings.has('data')) this.has.disk = 'blank';
  }

  async #redeem(): Promise<void> {
    const form = {
      session: this.#settings.get('session')!,
      ticket: this.#settings.get('ticket')!,
      csr: this.#key.request(this.order.name),
    };
    for (;;) {
      const { status, headers, body } = await this.#tls('redeem', '/agent/redeem', form);
      // 202: its key waits for an operator.
      if (status === 503 || status === 202) {
        await this.#pause(Number(headers['retry-after'] ?? 1));
        continue;
      }
      this.#certified(status, body);
      return;
    }
  }

  #certified(status: number, body: Buffer): void {
    if (status !== 200) throw new Error(`${this.order.name}: no certificate: ${status} ${body}`);
    this.certificate = String(body);
  }

  /** Polls once. Returns whether there was nothing new, and when to poll again. */
  async #poll(step: 'poll' | 'heartbeat'): Promise<{ readonly rest: boolean; readonly seconds: number }> {
    const { status, headers, body } = await this.#tls(step, '/agent/poll', this.#facts());
    const seconds = Number(headers['retry-after'] ?? 10);
    if (status === 503) return { rest: false, seconds };
    if (status !== 200 && status !== 204) throw new Error(`${this.order.name}: ${status} ${body}`);
    this.#revision = Math.max(this.#revision, Number(headers['muster-revision'] ?? 0));
    if (status === 204) return { rest: this.#hold === undefined, seconds };
    await this.#take(body);
    return { rest: false, seconds };
  }

  async #take(body: Buffer): Promise<void> {
    const plan = takePlan(body);
    if (this.plans.at(-1) !== plan.digest) this.plans.push(plan.digest);
    this.#hold = await applyPlan(plan, this.has, {
      fetch: async (url) => (await this.#good('fetch', url)).body,
      wal: () => this.#wal(),
    });
    this.#applied = this.#hold === undefined ? plan.digest : '';
    this.#authority = this.has.files.get(AGENT_PATHS.authority) ?? this.#authority;
    this.certificate =
      OWN_CERTIFICATES.map((path) => this.has.files.get(path)).find(Boolean) ?? this.certificate;
    if (this.#hold) this.#holds.push(this.#hold.code);
    if (this.has.files.has(ETCD_MANIFEST)) this.#of.members.start(this.order.name);
    // The unit that applies the objects deletes its credential when all are there.
    if (this.has.units.has(OBJECTS_UNIT)) this.has.keys.delete('applier');
  }

  #wal(): 'present' | 'absent' {
    return this.#of.members.health(this.order.name) === 'down' ? 'absent' : 'present';
  }

  #facts(): Readonly<Record<string, string>> {
    const { has } = this;
    const leaves = [...has.keys].flatMap(([leaf, key]) => [
      [`pin.${leaf}`, key.pin],
      ...(has.requested.has(leaf) ? [[`csr.${leaf}`, key.request(this.order.name)]] : []),
    ]);
    return {
      agent: '1',
      bootid: this.#bootId,
      machineid: this.#uuid.replaceAll('-', ''),
      trust: createHash('sha256').update(this.#authority).digest('hex'),
      clock: String(Math.floor(Date.now() / 1000)),
      disk: has.disk,
      ...(has.disk === 'unused' ? {} : { device: '/dev/vdb' }),
      ...(has.disk === 'ours' ? { filesystem: has.filesystem, mounted: 'yes' } : {}),
      ...(has.marker === '' ? {} : { marker: has.marker }),
      wal: this.#wal(),
      etcd: this.#of.members.health(this.order.name),
      revision: String(this.#revision),
      ...(this.#hold ? { hold: this.#hold.code, holdtext: this.#hold.text } : {}),
      ...(this.#applied === '' ? {} : { applied: this.#applied }),
      ...(has.step === '' ? {} : { step: has.step }),
      ...Object.fromEntries(leaves),
    };
  }

  #count(step: Step, began: number): void {
    const ms = performance.now() - began;
    this.waitedMs += ms;
    this.#of.measured(step, ms);
  }

  /**
   * Sends a request on a new connection, as iPXE and curl do. Repeats it while the server is not
   * ready.
   */
  async #good(step: Step, url: string, form?: string): Promise<Asked> {
    for (;;) {
      const asked = await this.#answered(step, form, () => http.request(url, this.#options(form)));
      if (asked.status === 200 || asked.status === 204) return asked;
      if (asked.status !== 503) throw new Error(`${url}: ${asked.status} ${asked.body}`);
      await this.#pause(Number(asked.headers['retry-after'] ?? 1));
    }
  }

  #options(form: string | undefined): http.RequestOptions {
    return {
      localAddress: this.order.address,
      agent: false,
      ...(form === undefined
        ? {}
        : {
            method: 'POST',
            headers: {
              'content-type': 'application/x-www-form-urlencoded',
              'content-length': Buffer.byteLength(form),
            },
          }),
    };
  }

  async #tls(step: Step, path: string, fields: Readonly<Record<string, string>>): Promise<Asked> {
    const form = Object.entries(fields)
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join('&');
    return this.#answered(step, form, () =>
      https.request(`${this.#settings.get('server')}${path}`, {
        ...this.#options(form),
        ca: this.#authority,
        ...(this.certificate === '' ? {} : { cert: this.certificate, key: this.#key.pem }),
      }),
    );
  }

  /** Repeats a request whose connection a busy server cut, with growing pauses, as agents do. */
  async #answered(step: Step, form: string | undefined, request: () => http.ClientRequest): Promise<Asked> {
    for (let failures = 1; ; failures++) {
      const began = performance.now();
      const asked = await this.#ask(request(), form).catch((error: Error) => error);
      this.#count(step, began);
      if (!(asked instanceof Error)) return asked;
      if (failures === MOST_FAILURES) throw asked;
      this.cut++;
      await this.#pause(2 ** failures - 1);
    }
  }

  #ask(request: http.ClientRequest, form: string | undefined): Promise<Asked> {
    return new Promise((done, fail) => {
      request.setTimeout(60_000, () =>
        request.destroy(new Error(`${this.order.name}: no answer within a minute`)),
      );
      request.on('error', fail);
      request.on('response', (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', fail);
        response.on('end', () =>
          done({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }),
        );
      });
      request.end(form);
    });
  }
}
