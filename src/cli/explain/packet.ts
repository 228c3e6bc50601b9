/**
 * `muster explain --packet FILE --config DIR`: replays a capture through the functions that answer
 * real packets.
 */
import { millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { ANY, formatIpv4, type Ipv4 } from '../../base/ipv4.ts';
import { silentLog } from '../../base/log.ts';
import { describeOption, messageName, OPTION } from '../../pxe/dhcp/options.ts';
import { outcome } from '../../pxe/dhcp/outcomes.ts';
import { addressOption, type DhcpPacket, decode, messageType } from '../../pxe/dhcp/packet.ts';
import { PacketPipeline } from '../../pxe/dhcp/packet-pipeline.ts';
import type { Step } from '../../pxe/dhcp/step.ts';
import { painted } from '../color.ts';
import { type LocalWorld, openLocal } from '../documents/local.ts';
import { readOctets } from '../documents/sources.files.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { type Datagram, datagramOf, readCapture } from './pcap.ts';

export interface PacketOptions {
  readonly config?: string;
  readonly network?: string;
  readonly output?: string;
}

/** A client's packet and what became of it. */
export interface Replayed {
  readonly at: string;
  readonly type: string;
  readonly outcome: string;
  readonly text: string;
  readonly detail?: string;
  readonly network?: string;
  readonly client?: Step['client'];
  readonly subject?: string;
  readonly decision?: NonNullable<Step['answer']>['decision'];
  readonly address?: string;
  readonly reply?: {
    readonly type: string;
    readonly to: string;
    readonly yiaddr: string;
    readonly siaddr: string;
    readonly file: string;
    readonly options: Readonly<Record<string, string>>;
  };
}

interface Heard {
  readonly at: number;
  readonly datagram: Datagram;
  readonly port: 67 | 4011;
}

/**
 * `muster explain --packet`: prints what becomes of each client packet of a capture.
 *
 * @throws {MusterError} E_FILE_READ when the file is not a capture with packets of a client;
 *   E_USAGE for a missing `--config` or an unknown Network; and the documents' faults.
 */
export async function explainPacket(file: string, options: PacketOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  if (options.config === undefined)
    throw new MusterError('E_USAGE', '--packet needs the documents as well: --config DIR');
  const capture = readCapture(await readOctets(file, io.signal));
  if (!capture.ok) throw new MusterError('E_FILE_READ', `${file}: ${capture.why}`);
  const datagrams = capture.frames.flatMap((frame) => {
    const datagram = datagramOf(frame);
    return datagram ? [{ at: frame.at, datagram }] : [];
  });
  const heard = datagrams.flatMap(({ at, datagram }): Heard[] => {
    const port = datagram.destinationPort;
    return port === 67 || port === 4011 ? [{ at, datagram, port }] : [];
  });
  if (heard.length === 0) throw new MusterError('E_FILE_READ', `${file} holds no DHCP packet of a client`);
  const chosen = serverOf(datagrams.map(({ datagram }) => datagram));
  const world = await openLocal({
    directory: options.config,
    now: millis(heard[0]!.at),
    ...(chosen === undefined ? {} : { serverAddress: chosen }),
  });
  try {
    const replayed = await replay(world, heard, options.network);
    for (const supposed of world.suppositions) io.err(`note: ${supposed}\n`);
    if (capture.cut) io.err(`note: ${file} ends inside a frame\n`);
    if (format === 'json') io.out(jsonText(replayed));
    else if (format === 'yaml') io.out(yamlText(replayed));
    else io.out(replayed.map((one) => replayedText(one, io.color)).join('\n'));
    return EXIT.ok;
  } finally {
    await world.close();
  }
}

/**
 * The server in whose place the replay answers: a proxy that the capture shows, else the server
 * that the clients selected (option 54). The replay uses this address as its own, so that the
 * clients' requests are addressed to it, or to the other server where it is a proxy.
 */
function serverOf(datagrams: readonly Datagram[]): Ipv4 | undefined {
  const packets = datagrams.flatMap(({ payload }) => {
    const decoded = decode(payload);
    return decoded.ok ? [decoded.packet] : [];
  });
  for (const packet of [...packets.filter(isOfProxy), ...packets]) {
    const server = addressOption(packet, OPTION.serverId);
    if (server !== undefined) return server;
  }
  return undefined;
}

/** A reply with boot options and without an address for the client is a proxy's. */
const isOfProxy = ({ op, yiaddr, ciaddr, options }: DhcpPacket): boolean =>
  op === 2 &&
  yiaddr === ANY &&
  ciaddr === ANY &&
  options.get(OPTION.vendorClass)?.toString('latin1').startsWith('PXEClient') === true;

async function replay(
  world: LocalWorld,
  heard: readonly Heard[],
  only: string | undefined,
): Promise<Replayed[]> {
  const networks = only === undefined ? world.networks : world.networks.filter(({ name }) => name === only);
  if (only !== undefined && networks.length === 0)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no Network "${only}"; there are ${world.networks.map(({ name }) => name).join(', ') || 'none'}`,
    );
  const parts = { ...world, networks: () => networks, saw: () => {}, log: silentLog };
  const pipeline = new PacketPipeline(parts);
  const results: Replayed[] = [];
  for (const { at, datagram, port } of heard) {
    world.clock.advance(millis(Math.max(0, at - world.clock.now())));
    const step = await pipeline.receive({
      bytes: datagram.payload,
      port,
      source: { address: datagram.source as Ipv4, port: datagram.sourcePort },
    });
    // Replies of the server in the capture are not replayed.
    if (step.outcome !== 'not_a_request') results.push(replayedOf(at, step));
  }
  return results;
}

function replayedOf(at: number, step: Step): Replayed {
  const { answer, client, network, reply } = step;
  return {
    at: new Date(at).toISOString(),
    type: step.type ?? (step.packet ? typeOf(step.packet) : 'none'),
    outcome: step.outcome,
    text: outcome(step.outcome).text,
    ...(step.detail === undefined ? {} : { detail: step.detail }),
    ...(network ? { network: network.name } : {}),
    ...(client ? { client } : {}),
    ...(answer ? { subject: answer.subject, decision: answer.decision } : {}),
    ...(step.address === undefined ? {} : { address: formatIpv4(step.address) }),
    ...(reply
      ? {
          reply: {
            type: typeOf(reply.packet),
            to: `${formatIpv4(reply.to.address)}:${reply.to.port}`,
            yiaddr: formatIpv4(reply.packet.yiaddr),
            siaddr: formatIpv4(reply.packet.siaddr),
            file: reply.packet.file,
            options: Object.fromEntries(
              [...reply.packet.options].map(([code, value]) => {
                const { name, text } = describeOption(code, value);
                return [`${code} ${name}`, text];
              }),
            ),
          },
        }
      : {}),
  };
}

const typeOf = (packet: DhcpPacket): string => messageName(messageType(packet)) ?? 'BOOTP';

function replayedText(one: Replayed, color: boolean): string {
  const { client, reply, decision } = one;
  const lines = [
    `${one.at.slice(11, 23)} ${one.type} ${painted(client?.mac ?? '', 'bold', color)}`.trimEnd(),
  ];
  const add = (name: string, value: string | undefined): void => {
    if (value !== undefined && value !== '') lines.push(`  ${name.padEnd(10)} ${value}`);
  };
  if (client)
    add(
      'client',
      [client.stage, client.arch, client.firmware, client.vendorClass].filter((part) => part).join(', '),
    );
  add('network', one.network);
  add('machine', one.subject);
  if (decision) {
    add(
      'decision',
      [decision.kind, 'loader' in decision ? decision.loader : undefined].filter(Boolean).join(' '),
    );
    add('because', `${decision.reason.text} (${decision.reason.code})`);
  }
  add('outcome', `${one.text} (${one.outcome}${one.detail === undefined ? '' : `: ${one.detail}`})`);
  if (reply) {
    add('reply', `${reply.type} to ${reply.to}, address ${reply.yiaddr}, next server ${reply.siaddr}`);
    add('file', reply.file);
    for (const [name, text] of Object.entries(reply.options)) add('option', `${name}: ${text}`);
  }
  return `${lines.join('\n')}\n`;
}
