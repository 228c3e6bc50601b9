/**
 * What a machine does to get its identity and its plan, step by step, with curl and openssl. An
 * attacker takes the same steps from where it is.
 */
import { execFileSync } from 'node:child_process';
import { createHash, createPublicKey } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { load } from 'js-yaml';
import { formatIpv4 } from '../../src/base/ipv4.ts';
import type { Mac } from '../../src/base/mac.ts';
import { BROADCAST_FLAG, type DhcpPacket } from '../../src/pxe/dhcp/packet.ts';
import { ip } from '../peers/dhcp-segment.ts';
import { IPXE, message } from '../unit/pxe/dhcp/kit.ts';
import { type Answer, BOOT_HOST, type Place, type Rig } from './rig.ts';

export const HTTP = `http://${BOOT_HOST}:8080`;

/** The session that a text (a script, a URL in option 67) names. */
export const sessionIn = (text: string): string | undefined => /\/boot\/([A-Za-z0-9_-]+)/.exec(text)?.[1];

/** Option 67, else the header's file. */
export const bootFileOf = (packet: DhcpPacket): string =>
  (packet.options.get(67)?.toString('latin1') ?? packet.file).replace(/\0+$/, '');

/** Takes a lease as iPXE does, by broadcast, and gives its address to the interface at `place`. */
export async function takeLease(rig: Rig, place: Place, mac: Mac): Promise<string> {
  const fields = { mac, options: IPXE!, flags: BROADCAST_FLAG };
  const [offer] = await rig.dhcp(place, [message('DISCOVER', fields)], { replies: 1 });
  if (offer === undefined) throw new Error(`no offer for ${mac}: ${rig.muster.log().slice(-2000)}`);
  const address = formatIpv4(offer.yiaddr);
  const request = message('REQUEST', { ...fields, address, server: BOOT_HOST });
  const [ack] = await rig.dhcp(place, [request], { replies: 1 });
  if (ack?.options.get(53)?.[0] !== 5) throw new Error(`no lease for ${mac}`);
  ip('-n', place, 'addr', 'replace', `${address}/24`, 'dev', 'eth0');
  return address;
}

export const scriptOf = (rig: Rig, place: Place, mac: Mac, base = HTTP): Promise<Answer> =>
  rig.http(place, `${base}/script.ipxe?mac=${mac}&arch=x86_64&platform=pcbios`);

interface WrittenFile {
  readonly path: string;
  readonly content: string;
  readonly encoding?: string;
}

/** The files of a cloud-init document by path. */
export function filesIn(userData: string): ReadonlyMap<string, string> {
  const { write_files: files = [] } = load(userData) as { write_files?: readonly WrittenFile[] };
  return new Map(
    files.map(({ path: at, content, encoding = '' }) => {
      const octets = encoding === '' ? Buffer.from(content) : Buffer.from(content, 'base64');
      return [at, String(encoding.startsWith('gz') ? gunzipSync(octets) : octets)];
    }),
  );
}

/** Lines `name=value`, such as those of /etc/muster/agent.conf. */
export const settingsIn = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]),
  );

/** A key, the boot host's CA and, once it was given, a certificate, in files. */
export class Agent {
  readonly #rig: Rig;
  readonly #place: Place;
  readonly #directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-attack-'));
  readonly settings: Readonly<Record<string, string>>;

  /** `files`: those of the first configuration. */
  constructor(rig: Rig, place: Place, files: ReadonlyMap<string, string>) {
    this.#rig = rig;
    this.#place = place;
    this.settings = settingsIn(files.get('/etc/muster/agent.conf') ?? '');
    fs.writeFileSync(this.#file('ca'), files.get('/etc/muster/ca.crt') ?? '');
    this.newKey();
  }

  #file(name: string): string {
    return path.join(this.#directory, name);
  }

  /** The pin of its key, as the boot host lists it. */
  get pin(): string {
    const key = createPublicKey(fs.readFileSync(this.#file('key'))).export({ type: 'spki', format: 'der' });
    return createHash('sha256').update(key).digest('hex');
  }

  get csr(): string {
    return fs.readFileSync(this.#file('csr'), 'utf8');
  }

  /** Makes a new key and its request. */
  newKey(): void {
    const openssl = (...words: string[]) => execFileSync('openssl', words, { stdio: 'ignore' });
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', this.#file('key'));
    openssl('req', '-new', '-key', this.#file('key'), '-subj', '/CN=x', '-out', this.#file('csr'));
  }

  close(): void {
    fs.rmSync(this.#directory, { recursive: true });
  }

  #ask(place: Place, route: string, ...more: readonly string[]): Promise<Answer> {
    const server = this.settings.server ?? `https://${BOOT_HOST}:8443`;
    return this.#rig.http(
      place,
      server + route,
      ...['--cacert', this.#file('ca'), '--capath', '/nonexistent'],
      ...more,
    );
  }

  /**
   * Asks for a certificate, with the session's ticket if it has one; keeps the certificate. `more`:
   * further fields.
   */
  async redeem(place: Place = this.#place, more: Readonly<Record<string, string>> = {}): Promise<Answer> {
    const { session = '', ticket } = this.settings;
    const fields = Object.entries({ session, ...(ticket !== undefined && { ticket }), ...more });
    const form = [...fields.map(([name, value]) => `${name}=${value}`), `csr@${this.#file('csr')}`];
    const answer = await this.#ask(
      place,
      '/agent/redeem',
      ...form.flatMap((one) => ['--data-urlencode', one]),
    );
    if (answer.status === 200) fs.writeFileSync(this.#file('crt'), answer.body);
    return answer;
  }

  /** Arguments of curl that show the certificate. */
  certificateWords(): readonly string[] {
    return ['--cert', this.#file('crt'), '--key', this.#file('key')];
  }

  /** Polls for the plan: the answer's body is a tar with it and its files. */
  poll(facts: Facts = {}, place: Place = this.#place): Promise<Answer> {
    const form = Object.entries({ ...FACTS, clock: String(Math.floor(Date.now() / 1000)), ...facts });
    return this.#ask(
      place,
      '/agent/poll',
      ...this.certificateWords(),
      ...form.flatMap(([name, value]) => ['--data-urlencode', `${name}=${value}`]),
    );
  }
}

type Facts = Readonly<Record<string, string>>;

const FACTS = {
  agent: '1',
  bootid: 'b1',
  machineid: 'f'.repeat(32),
  disk: 'unused',
  wal: 'absent',
  etcd: 'down',
};

/** How far somebody came on a machine's way to its secrets. */
export interface Haul {
  readonly script?: string;
  /** The settings of the agent in the first configuration. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly ticket?: string;
  readonly certificate?: true;
  /** Private keys and encryption keys in the plan, by path. */
  readonly secrets?: readonly string[];
}

/**
 * Walks from a boot session's script to the plan, in a machine's place, until a step is refused.
 * `session`: as a DHCP reply or a script named it; default: asks for a script with the MAC.
 */
export async function takeOver(
  rig: Rig,
  place: Place,
  mac: Mac,
  { session, base = HTTP }: { readonly session?: string | undefined; readonly base?: string } = {},
): Promise<Haul> {
  const start = session === undefined ? base : `${base}/boot/${session}`;
  const script = await scriptOf(rig, place, mac, start);
  const named = sessionIn(script.body) ?? session;
  if (named === undefined) return {};
  const got: Haul = /^kernel /m.test(script.body) ? { script: script.body } : {};
  const userData = await rig.http(place, `${base}/boot/${named}/user-data`);
  if (userData.status !== 200) return got;
  const agent = new Agent(rig, place, filesIn(userData.body));
  try {
    const { settings } = agent;
    if (settings.session === undefined) return got;
    const refused = { ...got, settings, ...(settings.ticket && { ticket: settings.ticket }) };
    if ((await agent.redeem()).status !== 200) return refused;
    return { ...refused, certificate: true, secrets: await secretsFor(agent) };
  } finally {
    agent.close();
  }
}

/** How many polls it takes to a plan with keys, generously. */
const POLLS = 6;

/**
 * Polls with the facts that each plan waits for, which a machine reports about its disk and an
 * attacker makes up. Returns the paths of the keys that the plans contain.
 */
async function secretsFor(agent: Agent): Promise<readonly string[]> {
  let facts: Facts = { disk: 'blank', device: '/dev/vda' };
  const paths = new Set<string>();
  for (let poll = 0; poll < POLLS; poll++) {
    const { body } = await agent.poll(facts);
    for (const [, at] of body.matchAll(/^put \S+ \S+ (\S*(?:\.key|encryption\.yaml))$/gm)) paths.add(at!);
    const created = /^create-data (\S+) (\S+)/m.exec(body);
    const marker = /^marker (.+)/m.exec(body);
    if (created) facts = { ...facts, disk: 'ours', filesystem: created[2]!, mounted: 'yes' };
    if (marker) facts = { ...facts, marker: marker[1]! };
    // One key for all certificates will do.
    for (const [, leaf] of body.matchAll(/^request (\S+) /gm))
      facts = { ...facts, [`csr.${leaf}`]: agent.csr };
  }
  return [...paths].sort();
}
