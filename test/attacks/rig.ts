/**
 * A boot host and everybody who may attack it: the shipped `bin/muster serve` in network
 * namespaces. Needs scripts/in-namespace.sh. README.md has the picture.
 */
import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Mac } from '../../src/base/mac.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { type DhcpPacket, decode } from '../../src/pxe/dhcp/packet.ts';
import {
  attach,
  bridge,
  type Finished,
  ip,
  type Muster,
  remove,
  run,
  startMuster,
} from '../peers/dhcp-segment.ts';

/** The boot host's addresses: on the segment, and at the interface that is not served. */
export const BOOT_HOST = '10.77.0.1';
export const UNSERVED = '192.0.2.1';

/**
 * Where an attacker or a machine is: `atk` on the segment (10.77.0.66); `vic` on the segment,
 * without an address; `rem` in another subnet, behind a router of the segment (198.51.100.2); `rel`
 * in a subnet behind the same router that {@link BEHIND} serves (203.0.113.2); `far` at an
 * interface of the boot host that is not served (192.0.2.2).
 */
export type Place = 'atk' | 'vic' | 'rem' | 'rel' | 'far';

export const ADDRESS = {
  atk: '10.77.0.66',
  rem: '198.51.100.2',
  rel: '203.0.113.2',
  far: '192.0.2.2',
} as const;
export const ATTACKER_MAC = '52:54:00:66:66:66' as Mac;
export const VICTIM_MAC = '52:54:00:aa:00:11' as Mac;
const SEGMENT = 'br-attacks';
/** The hardware address of the boot host on the segment. */
export const SERVER_MAC = '52:54:00:00:00:01' as Mac;

const KERNEL = Buffer.from('a kernel');

export const network = (dhcp: string, more = ''): string => `apiVersion: muster/v1
kind: Network
metadata: {name: rack1}
spec:
  subnet: 10.77.0.0/24
  dhcp: ${dhcp}
  gateway: 10.77.0.1
${more}---
`;
export const SERVER_MODE = network(
  '{mode: server, probe: off, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}',
);
/** A Network that is only reached through the router: that of `rel`. */
export const BEHIND = `apiVersion: muster/v1
kind: Network
metadata: {name: behind}
spec:
  subnet: 203.0.113.0/24
  address: ${BOOT_HOST}
  gateway: 203.0.113.1
  dhcp: {mode: server, pools: [{start: 203.0.113.100, end: 203.0.113.110}]}
---
`;
export const PROXY_MODE = network('{mode: proxy}');

/**
 * Two clusters with a control plane each. cp1 is the machine at `vic`; the others are powered off.
 */
export const MACHINES = `apiVersion: muster/v1
kind: Image
metadata: {name: small}
spec:
  os: debian
  arch: x86_64
  kernel: {sha256: ${createHash('sha256').update(KERNEL).digest('hex')}}
  configFormat: cloud-init
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {image: small}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["${VICTIM_MAC}"], profile: node, addresses: [10.77.0.11]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: w1}
spec: {macs: ["52:54:00:aa:00:21"], profile: node, addresses: [10.77.0.21]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp2}
spec: {macs: ["52:54:00:aa:00:31"], profile: node, addresses: [10.77.0.31]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: w2}
spec: {macs: ["52:54:00:aa:00:61"], profile: node, addresses: [10.77.0.61], delivery: inline}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec: {trust: segment, dataDisk: {serial: DATA}, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1], workers: [w1]}}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: two}
spec: {trust: segment, dataDisk: {serial: DATA}, kubernetes: {version: "1.36", endpoint: api.two.test, controlPlanes: [cp2], workers: [w2]}}
`;

/** An answer of HTTP or HTTPS; status 0 when there was none, with curl's words in `error`. */
export interface Answer {
  readonly status: number;
  readonly headers: string;
  readonly body: string;
  readonly error: string;
}

/** A datagram that came back. */
export interface Received {
  readonly from: string;
  readonly port: number;
  readonly bytes: Buffer;
}

interface Sending {
  /** Where to, as ADDRESS:PORT. */
  readonly to?: string;
  /** The port to send from; default: any. */
  readonly port?: number;
  /** Ends after so many answers. For tests that expect one: a busy boot host answers later. */
  readonly replies?: number;
  /** For how many milliseconds answers are waited for; default: {@link patience}. */
  readonly wait?: number;
}
const patience = (replies: number): number => (Number.isFinite(replies) ? 20_000 : 500);

export class Rig {
  readonly muster: Muster;

  private constructor(muster: Muster) {
    this.muster = muster;
  }

  /** Builds the namespaces and starts the boot host with these documents. */
  static async open(documents: string = SERVER_MODE + MACHINES, more: readonly string[] = []): Promise<Rig> {
    bridge(SEGMENT, `${BOOT_HOST}/24`);
    // Otherwise a bridge takes the lowest address of its ports, and changes it as they come.
    ip('link', 'set', SEGMENT, 'address', SERVER_MAC);
    attach('atk', SEGMENT, ATTACKER_MAC);
    attach('vic', SEGMENT, VICTIM_MAC);
    attach('rtr', SEGMENT);
    ip('-n', 'atk', 'addr', 'add', `${ADDRESS.atk}/24`, 'dev', 'eth0');
    ip('-n', 'atk', 'route', 'add', 'default', 'via', BOOT_HOST);
    // The machine sends its first broadcasts over this route.
    ip('-n', 'vic', 'route', 'add', 'default', 'dev', 'eth0');
    ip('-n', 'rtr', 'addr', 'add', '10.77.0.254/24', 'dev', 'eth0');
    execFileSync('ip', ['netns', 'exec', 'rtr', 'sysctl', '-qw', 'net.ipv4.ip_forward=1']);
    for (const [place, link] of [
      ['rem', 'eth1'],
      ['rel', 'eth2'],
    ] as const) {
      const gateway = ADDRESS[place].replace(/2$/, '1');
      ip('netns', 'add', place);
      ip('-n', 'rtr', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', place);
      pair('rtr', link, gateway);
      pair(place, 'eth0', ADDRESS[place]);
      ip('-n', place, 'route', 'add', 'default', 'via', gateway);
      ip('route', 'add', ADDRESS[place].replace(/2$/, '0/24'), 'via', '10.77.0.254');
    }
    ip('netns', 'add', 'far');
    ip('link', 'add', 'unserved', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'far');
    ip('addr', 'add', `${UNSERVED}/24`, 'dev', 'unserved');
    ip('link', 'set', 'unserved', 'up');
    pair('far', 'eth0', ADDRESS.far);
    ip('-n', 'far', 'route', 'add', 'default', 'via', UNSERVED);
    const rig = new Rig(await startMuster([SEGMENT], documents, more));
    const path = `/v1/assets/${createHash('sha256').update(KERNEL).digest('hex')}`;
    await connectApi(rig.muster.socket).call('PUT', path, { body: KERNEL });
    return rig;
  }

  async close(): Promise<void> {
    await this.muster.stop();
    for (const place of ['rem', 'rel'] as const) ip('route', 'del', ADDRESS[place].replace(/2$/, '0/24'));
    remove(['atk', 'vic', 'rtr', 'rem', 'rel', 'far'], [SEGMENT]);
  }

  /** Runs a program somewhere until it ends; its input is `input`. */
  in(place: Place, command: readonly string[], seconds = 60): Promise<Finished> {
    return run(place, command, seconds);
  }

  /** Requests a URL with curl. `more`: further arguments of curl. */
  async http(place: Place, url: string, ...more: readonly string[]): Promise<Answer> {
    const marks = ['-w', '%{stderr}%{http_code} %{errormsg}'];
    const words = ['-q', '-sS', '--max-time', '30', '-D', '-', ...marks, ...more, url];
    const { stdout, stderr } = await inside(place, ['curl', ...words]);
    const [status, ...error] = stderr.split('\n').at(-1)!.split(' ');
    const end = stdout.indexOf('\r\n\r\n');
    return {
      status: Number(status),
      headers: stdout.slice(0, Math.max(end, 0)).toLowerCase(),
      body: end < 0 ? '' : stdout.slice(end + 4),
      error: error.join(' '),
    };
  }

  /** Sends datagrams and returns what comes back. */
  async datagrams(
    place: Place,
    { to, port = 0, replies = Number.POSITIVE_INFINITY, wait = patience(replies) }: Sending & { to: string },
    payloads: readonly Buffer[],
  ): Promise<readonly Received[]> {
    const client = resolve('test/peers/dhcp-client.ts');
    const hex = payloads.map((payload) => payload.toString('hex'));
    const words = [process.execPath, client, ...[wait, replies, port].map(String), to, ...hex];
    const { stdout, stderr, code } = await inside(place, words);
    if (code !== 0) throw new Error(stderr);
    return lines(stdout).map((line) => {
      const got = JSON.parse(line) as { from: string; port: number; hex: string };
      return { from: got.from, port: got.port, bytes: Buffer.from(got.hex, 'hex') };
    });
  }

  /** {@link datagrams} to port 67 (default: by broadcast) or 4011, with the replies decoded. */
  async dhcp(
    place: Place,
    payloads: readonly Buffer[],
    { to = '255.255.255.255:67', port = 68, ...more }: Sending = {},
  ): Promise<readonly DhcpPacket[]> {
    return (await this.datagrams(place, { to, port, ...more }, payloads)).map(({ bytes }) => {
      const decoded = decode(bytes);
      if (!decoded.ok) throw new Error(decoded.fault);
      return decoded.packet;
    });
  }

  /**
   * Sends Ethernet frames, each `repeat` times, and returns the UDP packets that arrive at that
   * interface from then until `wait` ms after the last: also those to addresses and ports that
   * nobody has. `meanwhile` runs before, while the interface is listened at.
   */
  async frames(
    place: Place,
    frames: readonly Buffer[],
    { wait = 500, repeat = 1, meanwhile = async () => {} } = {},
  ): Promise<readonly CapturedUdp[]> {
    const program = resolve('test/attacks/frames.py');
    const child = spawn('ip', [
      ...['netns', 'exec', place, 'python3', program],
      ...[wait, repeat].map(String),
    ]);
    const ended = endOf(child);
    try {
      await Promise.race([once(child.stdout, 'data'), ended]);
      await meanwhile();
    } finally {
      child.stdin.end(frames.map((frame) => `${frame.toString('hex')}\n`).join(''));
    }
    const { stdout, stderr, code } = await ended;
    if (code !== 0) throw new Error(stderr);
    return lines(stdout).map((line) => {
      const got = JSON.parse(line) as Omit<CapturedUdp, 'payload'> & { hex: string };
      return { ...got, payload: Buffer.from(got.hex, 'hex') };
    });
  }

  /** Resident memory of the boot host's process in MiB. */
  memory(): number {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'utf8');
      try {
        if (read('cmdline').includes(this.muster.socket) && read('comm').startsWith('node'))
          return Number(/VmRSS:\s+(\d+)/.exec(read('status'))![1]) / 1024;
      } catch {
        // The process has ended.
      }
    }
    throw new Error('the boot host does not run');
  }

  /** Runs `muster` as an operator; rejects when it fails. */
  async operator(...words: readonly string[]): Promise<string> {
    const env = { ...process.env, MUSTER_SOCKET: this.muster.socket };
    const { code, stdout, stderr } = await finished([resolve('bin/muster'), ...words], env);
    if (code !== 0) throw new Error(`muster ${words.join(' ')}: ${stderr}`);
    return stdout;
  }
}

function pair(namespace: string, link: string, address: string): void {
  ip('-n', namespace, 'addr', 'add', `${address}/24`, 'dev', link);
  for (const name of ['lo', link]) ip('-n', namespace, 'link', 'set', name, 'up');
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line.startsWith('{'));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const inside = (place: Place, command: readonly string[]): Promise<Ended> =>
  finished(['ip', 'netns', 'exec', place, ...command], process.env);

function finished(command: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> {
  const child = spawn(command[0]!, command.slice(1), { env });
  child.stdin.end();
  return endOf(child);
}

/** What a program says until it ends. */
function endOf(child: ChildProcessWithoutNullStreams): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  child.stdin.on('error', () => {});
  return new Promise((done) => child.on('close', (code) => done({ code, stdout, stderr })));
}

/** A UDP packet as an interface saw it. */
export interface CapturedUdp {
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  readonly destinationMac: string;
  readonly payload: Buffer;
}

/** An Ethernet frame with a UDP packet; every field may be a lie. */
export function udpFrame(fields: {
  readonly fromMac?: Mac;
  readonly toMac?: Mac | 'ff:ff:ff:ff:ff:ff';
  readonly from: string;
  readonly fromPort: number;
  readonly to: string;
  readonly toPort: number;
  readonly payload: Buffer;
}): Buffer {
  const mac = (text: string) => Buffer.from(text.replaceAll(':', ''), 'hex');
  const udp = Buffer.alloc(8);
  udp.writeUInt16BE(fields.fromPort, 0);
  udp.writeUInt16BE(fields.toPort, 2);
  // A checksum of 0 says that there is none (RFC 768).
  udp.writeUInt16BE(8 + fields.payload.length, 4);
  const head = Buffer.alloc(20);
  head[0] = 0x45;
  head.writeUInt16BE(28 + fields.payload.length, 2);
  head[8] = 64;
  head[9] = 17;
  head.set(fields.from.split('.').map(Number), 12);
  head.set(fields.to.split('.').map(Number), 16);
  let sum = 0;
  for (let at = 0; at < 20; at += 2) sum += head.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  head.writeUInt16BE(~sum & 0xffff, 10);
  return Buffer.concat([
    mac(fields.toMac ?? SERVER_MAC),
    mac(fields.fromMac ?? ATTACKER_MAC),
    Buffer.of(8, 0),
    head,
    udp,
    fields.payload,
  ]);
}
