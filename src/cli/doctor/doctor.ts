/** `muster doctor`: checks this host and its segments as machines see them. */
import { MusterError } from '../../base/errors.ts';
import { broadcastOf, cidr, formatIpv4 } from '../../base/ipv4.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { type Color, painted } from '../color.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import {
  firewallOf,
  interfaceIn,
  isSynchronized,
  linkOf,
  listensOn,
  neighbourLimit,
  segmentsHere,
} from './host.files.ts';
import { type Finding, judgeHost, judgeSegment, type Observed, type Segment, type State } from './judge.ts';
import { askByHttp, askForOffers, fetchByTftp } from './probes.socket.ts';

export interface DoctorOptions extends ServerOptions {
  readonly output?: string;
  readonly httpPort?: string;
  readonly loader?: string;
  readonly interface?: readonly string[];
}

interface NetworkDocument {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly subnet: string;
    readonly mtu?: number;
    readonly dhcp?: { readonly mode?: string };
  };
}

/**
 * `muster doctor`: prints findings about this host and each Network, with what to change. Exit code
 * 1 when something fails.
 *
 * @throws {MusterError} what a server that runs answers
 */
export async function doctor(options: DoctorOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const [told, synchronized, dropping, neighbours] = await Promise.all([
    askServer(options, io),
    isSynchronized(),
    firewallOf(),
    neighbourLimit(),
  ]);
  const { unready, machines } = told;
  const findings: Finding[] = [...judgeHost({ synchronized, dropping, unready, machines, neighbours })];
  findings.push(...(await examine(told.segments ?? segmentsHere(options.interface ?? []), options)));
  if (format === 'json') io.out(jsonText(findings));
  else if (format === 'yaml') io.out(yamlText(findings));
  else io.out(findingsText(findings, io.color));
  return findings.some(({ state }) => state === 'fail') ? EXIT.failure : EXIT.ok;
}

interface Told {
  readonly unready: readonly string[] | string;
  readonly machines: number | undefined;
  readonly segments: readonly Segment[] | undefined;
}

/** What the server says of itself; a host whose server does not run is examined without it. */
async function askServer(options: DoctorOptions, io: Io): Promise<Told> {
  const client = openClient(options, io);
  try {
    const { checks } = await client.ask('GET /v1/status');
    const { items } = await client.call<{ items: readonly NetworkDocument[] }>('GET', '/v1/networks');
    const { items: machines } = await client.call<{ items: readonly unknown[] }>('GET', '/v1/machines');
    const unready = checks
      .filter(({ ok }) => !ok)
      .map(({ name, detail }) => `${name}${detail === undefined ? '' : ` (${detail})`}`);
    return { unready, machines: machines.length, segments: items.map(segmentOf) };
  } catch (error) {
    if (!(error instanceof MusterError && error.code === 'E_UNREACHABLE')) throw error;
    return { unready: error.message, machines: undefined, segments: undefined };
  }
}

const segmentOf = ({ metadata, spec }: NetworkDocument): Segment => ({
  network: metadata.name,
  mode: spec.dhcp?.mode ?? 'off',
  subnet: spec.subnet,
  ...(spec.mtu !== undefined && { mtu: spec.mtu }),
  ...interfaceIn(spec.subnet),
});

/** Examines all segments at once: a slow DHCP server takes its time only once. */
async function examine(segments: readonly Segment[], options: DoctorOptions): Promise<readonly Finding[]> {
  const here = segments.flatMap(({ address, subnet }) =>
    address === undefined ? [] : [{ address, broadcast: formatIpv4(broadcastOf(cidr(subnet))) }],
  );
  const port = options.httpPort ?? '8080';
  const asked = here.length === 0 ? '' : askForOffers(here);
  const found = segments.map(async (segment) => {
    const { address, interface: name } = segment;
    if (address === undefined || name === undefined) return judgeSegment(segment, undefined);
    const [link, tftp, http, heardTftp, heardHttp, answers] = await Promise.all([
      linkOf(name),
      fetchByTftp(address, options.loader ?? 'ipxe.efi', address),
      askByHttp(`http://${address}:${port}/boot.ipxe`),
      listensOn('udp', 69),
      listensOn('tcp', Number(port)),
      asked,
    ]);
    const observed: Observed = {
      ...link,
      offers: typeof answers === 'string' ? answers : (answers.get(address) ?? []),
      tftp: { ...tftp, listens: heardTftp },
      http: { ...http, listens: heardHttp },
    };
    return judgeSegment(segment, observed);
  });
  return (await Promise.all(found)).flat();
}

const COLORS: Readonly<Record<State, Color>> = { ok: 'green', warn: 'yellow', fail: 'red', unknown: 'cyan' };

/** Findings as text, grouped by network. */
function findingsText(findings: readonly Finding[], color: boolean): string {
  let group: string | undefined;
  const lines = findings.flatMap((finding, index) => {
    const { network, check, state, text, remedy } = finding;
    const heading =
      index === 0 || network !== group ? [network === undefined ? 'host' : `network ${network}`] : [];
    group = network;
    return [
      ...heading,
      `  ${painted(state.padEnd(7), COLORS[state], color)}  ${check.padEnd(12)}  ${text}`,
      ...(remedy === undefined ? [] : [`  ${' '.repeat(23)}→ ${remedy}`]),
    ];
  });
  return `${lines.join('\n')}\n`;
}
