/**
 * Packets, and a whole DHCP server in memory: real store, lease book and step. Only the machines
 * are made up.
 */
import { readFileSync } from 'node:fs';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { cidr, formatIpv4, type Ipv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { type Log, silentLog } from '../../../../src/base/log.ts';
import { type Mac, macToBytes } from '../../../../src/base/mac.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import type { BootAnswer, BootService, BootStep } from '../../../../src/pxe/boot.ts';
import type { BootClient } from '../../../../src/pxe/client.ts';
import { concludeDecline } from '../../../../src/pxe/dhcp/conclude-decline.ts';
import { openLeaseBook } from '../../../../src/pxe/dhcp/leases.ts';
import type { Datagram } from '../../../../src/pxe/dhcp/networks.ts';
import { describeOption, MESSAGE, type MessageName, OPTION } from '../../../../src/pxe/dhcp/options.ts';
import { BROADCAST_FLAG, type DhcpPacket, decode, encode } from '../../../../src/pxe/dhcp/packet.ts';
import { PacketPipeline } from '../../../../src/pxe/dhcp/packet-pipeline.ts';
import type { Step } from '../../../../src/pxe/dhcp/step.ts';
import type { ServedNetwork } from '../../../../src/pxe/network.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';

const captured = JSON.parse(
  readFileSync(new URL('../../../golden/dhcp/captures.json', import.meta.url), 'utf8'),
) as Record<string, string>;

export const CAPTURES = Object.keys(captured);

/** A packet as firmware sent it. */
export function capture(name: string): Buffer {
  const text = captured[name];
  if (text === undefined) throw new Error(`no capture ${name}`);
  return Buffer.from(text, 'hex');
}

export const SERVER = ipv4('10.77.0.1');

export function network(over: Partial<ServedNetwork> = {}): ServedNetwork {
  return {
    name: 'rack',
    subnet: cidr('10.77.0.0/24'),
    mode: 'server',
    serverAddress: SERVER,
    httpPort: 8080,
    interface: 'eth1',
    leaseTime: millis(3_600_000),
    bootLeaseTime: millis(120_000),
    pools: [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.199') }],
    gateway: ipv4('10.77.0.254'),
    dns: [ipv4('10.77.0.1'), ipv4('9.9.9.9')],
    ntp: [],
    probe: false,
    authoritative: true,
    relays: [],
    pxe: {},
    vendorClasses: [],
    ...over,
  };
}

export interface Known {
  readonly name?: string;
  readonly address?: string;
  readonly style?: 'bypass' | 'binl';
  /** `null`: the decision gives no boot file. */
  readonly file?: string | null;
  readonly writes?: BootAnswer['writes'];
  readonly documented?: true;
  readonly options?: BootAnswer['options'];
}

/**
 * The machines by hardware address. Every machine boots: a loader or a script, as its stage
 * demands.
 */
export function bootTable(known: Readonly<Record<string, Known>> = {}) {
  const asked: { client: BootClient; step: BootStep }[] = [];
  const boot: Pick<BootService, 'answer' | 'isStranger' | 'reservedFor' | 'withoutReservation'> = {
    isStranger: ({ mac }) => known[mac] === undefined,
    answer(client, served, step) {
      asked.push({ client, step });
      const machine = known[client.mac] ?? {};
      const base = `http://${formatIpv4(served.serverAddress)}:${served.httpPort}`;
      const files = {
        none: undefined,
        pxe: client.firmware === 'bios' ? 'undionly.kpxe' : 'ipxe.efi',
        http: `${base}/loaders/ipxe.efi`,
        ipxe: `${base}/boot/AAAAAAAAAAAAAAAAAAAAAA/start.ipxe`,
        'ipxe-tftp': 'ipxe.efi',
      };
      const file = machine.file === null ? undefined : (machine.file ?? files[client.stage]);
      const reason = { code: file ? 'chainload' : 'not_a_boot_client', text: '' } as const;
      return {
        decision: file ? { kind: 'loader', loader: file, reason } : { kind: 'ignore', reason },
        subject: machine.name ?? client.mac,
        pxe: machine.style ? { style: machine.style } : {},
        writes: step === 'offer' ? [] : (machine.writes ?? []),
        ...(file ? { bootFile: file, session: 'AAAAAAAAAAAAAAAAAAAAAA' } : {}),
        ...(machine.address ? { reservedAddress: ipv4(machine.address) } : {}),
        ...(machine.name ? { hostname: machine.name } : {}),
        ...(machine.documented ? { documented: true } : {}),
        ...(machine.options ? { options: machine.options } : {}),
      };
    },
    withoutReservation: () => Object.values(known).filter((m) => m.documented && !m.address).length,
    reservedFor(address) {
      return Object.entries(known).find(
        ([, m]) => m.address !== undefined && ipv4(m.address) === address,
      )?.[0];
    },
  };
  return { boot, asked };
}

export interface World {
  readonly store: Store;
  readonly clock: ManualClock;
  readonly pipeline: PacketPipeline;
  readonly leases: Awaited<ReturnType<typeof openLeaseBook>>;
  readonly events: NewEvent[];
  /** The ordinary clients that were seen: vendor class and Network. */
  readonly saw: readonly string[];
  readonly asked: { client: BootClient; step: BootStep }[];
  networks: readonly ServedNetwork[];
  /** Ends the probe of an address that was declined. `answered`: the machine that uses it. */
  probed(address: string, answered?: Mac): Promise<void>;
  /** Sends a packet and waits for its step. */
  send(bytes: Uint8Array, over?: Partial<Datagram>): Promise<Step>;
}

export async function world(
  parts: {
    networks?: readonly ServedNetwork[];
    known?: Record<string, Known>;
    store?: Store;
    clock?: ManualClock;
    log?: Log;
  } = {},
): Promise<World> {
  const store = parts.store ?? openMemoryStore();
  const clock = parts.clock ?? new ManualClock();
  const metrics = createMetrics();
  const recorded: NewEvent[] = [];
  const saw: string[] = [];
  const events = { record: (event: NewEvent) => void recorded.push(event) };
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const { boot, asked } = bootTable(parts.known);
  const made: World = {
    store,
    clock,
    saw,
    leases,
    asked,
    events: recorded,
    networks: parts.networks ?? [network()],
    pipeline: new PacketPipeline({
      networks: () => made.networks,
      saw: ({ vendorClass }, on) => void saw.push(`${vendorClass} ${on}`),
      boot,
      leases,
      store,
      events,
      metrics,
      log: parts.log ?? silentLog,
      clock,
    }),
    probed: (address, answered) =>
      concludeDecline(
        {
          leases,
          events,
          now: clock.now(),
          reserved: boot.reservedFor?.(ipv4(address), made.networks[0]!) !== undefined,
        },
        'rack',
        ipv4(address),
        answered,
      ),
    send: async (bytes, over = {}) =>
      made.pipeline.receive({
        bytes,
        interface: 'eth1',
        port: 67,
        source: sender(bytes),
        ...over,
      }),
  };
  return made;
}

/** A machine without an address, or the relay agent that a packet names. */
function sender(bytes: Uint8Array): Datagram['source'] {
  const giaddr = bytes.length < 28 ? 0 : Buffer.from(bytes).readUInt32BE(24);
  return { address: giaddr as Ipv4, port: giaddr === 0 ? 68 : 67 };
}

export const mac = (n: number): Mac => `52:54:00:00:${hex2(n >> 8)}:${hex2(n & 255)}` as Mac;
const hex2 = (n: number) => n.toString(16).padStart(2, '0');

interface Fields {
  readonly mac?: Mac;
  readonly xid?: number;
  readonly ciaddr?: string;
  readonly giaddr?: string;
  readonly secs?: number;
  readonly flags?: number;
  readonly options?: readonly (readonly [number, Buffer | string | number[]])[];
  /** Option 50. */
  readonly address?: string;
  /** Option 54. */
  readonly server?: string;
}

export const ip = (text: string): Buffer => {
  const b = Buffer.alloc(4);
  b.writeUInt32BE(ipv4(text), 0);
  return b;
};

/** A client's message. */
export function message(type: MessageName, fields: Fields = {}): Buffer {
  const chaddr = Buffer.alloc(16);
  chaddr.set(macToBytes(fields.mac ?? mac(1)));
  const options = new Map<number, Buffer>([[OPTION.messageType, Buffer.from([MESSAGE[type]])]]);
  if (fields.address !== undefined) options.set(OPTION.requestedAddress, ip(fields.address));
  if (fields.server !== undefined) options.set(OPTION.serverId, ip(fields.server));
  for (const [code, value] of fields.options ?? [])
    options.set(code, typeof value === 'string' ? Buffer.from(value, 'latin1') : Buffer.from(value));
  return encode({
    op: 1,
    htype: 1,
    hlen: 6,
    hops: 0,
    xid: fields.xid ?? 0x12345678,
    secs: fields.secs ?? 0,
    flags: fields.flags ?? 0,
    ciaddr: fields.ciaddr ? ipv4(fields.ciaddr) : (0 as Ipv4),
    yiaddr: 0 as Ipv4,
    siaddr: 0 as Ipv4,
    giaddr: fields.giaddr ? ipv4(fields.giaddr) : (0 as Ipv4),
    chaddr,
    sname: '',
    file: '',
    options,
  }).bytes;
}

/** Options that make a message one of UEFI PXE firmware. */
export const UEFI: Fields['options'] = [
  [60, 'PXEClient:Arch:00007:UNDI:003016'],
  [93, [0, 7]],
  [94, [1, 3, 16]],
  [97, Buffer.concat([Buffer.from([0]), Buffer.from('4c4c4544004235108051b7c04f4d3532', 'hex')])],
];
export const BIOS: Fields['options'] = [
  [60, 'PXEClient:Arch:00000:UNDI:002001'],
  [93, [0, 0]],
];
export const IPXE: Fields['options'] = [...UEFI, [77, 'iPXE'], [175, [0x13, 1, 1, 0x15, 1, 1]]];

/**
 * Exchanges the four messages of a lease. Returns the address, or the outcome that prevented it.
 */
export async function lease(w: World, fields: Fields = {}, over: Partial<Datagram> = {}): Promise<string> {
  const offer = await w.send(message('DISCOVER', fields), over);
  if (offer.reply === undefined) return offer.outcome;
  const address = formatIpv4(offer.reply.packet.yiaddr);
  const server = formatIpv4(offer.reply.packet.options.get(54)!.readUInt32BE(0) as Ipv4);
  const ack = await w.send(message('REQUEST', { ...fields, address, server }), over);
  return ack.outcome === 'acked' ? formatIpv4(ack.reply!.packet.yiaddr) : ack.outcome;
}

/** A reply as its client reads it: encoded and decoded. */
export function onWire(step: Step): DhcpPacket {
  if (step.reply === undefined) throw new Error(`no reply: ${step.outcome} ${step.detail ?? ''}`);
  const decoded = decode(encode(step.reply.packet, step.reply.maximum).bytes);
  if (!decoded.ok) throw new Error(decoded.fault);
  return decoded.packet;
}

/**
 * A reply as text, for golden files: destination, header, options in the order of the wire, and all
 * octets.
 */
export function dump(step: Step): string {
  const packet = onWire(step);
  const { bytes } = encode(step.reply!.packet, step.reply!.maximum);
  const { to } = step.reply!;
  return [
    `outcome ${step.outcome}`,
    `to      ${formatIpv4(to.address)}:${to.port}`,
    `size    ${bytes.length}`,
    `flags   ${packet.flags === BROADCAST_FLAG ? 'broadcast' : packet.flags}`,
    `ciaddr  ${formatIpv4(packet.ciaddr)}`,
    `yiaddr  ${formatIpv4(packet.yiaddr)}`,
    `siaddr  ${formatIpv4(packet.siaddr)}`,
    `giaddr  ${formatIpv4(packet.giaddr)}`,
    `sname   ${packet.sname}`,
    `file    ${packet.file}`,
    ...[...packet.options].map(([code, value]) => {
      const { name, text } = describeOption(code, value);
      return `${String(code).padEnd(7)} ${name}: ${text}`;
    }),
    ...(bytes.toString('hex').match(/.{1,64}/g) ?? []),
    '',
  ].join('\n');
}
