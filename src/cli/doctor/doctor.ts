/** `muster doctor`: checks this host and its segments as machines see them. */
import { broadcastOf, cidr, formatIpv4 } from '../../base/ipv4.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { type Color, painted } from '../color.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { firewallOf, interfaceIn, isSynchronized, linkOf, neighbourLimit } from './host.files.ts';
import { type Finding, judgeHost, judgeSegment, type Observed, type Segment, type State } from './judge.ts';
import { askByHttp, askForOffers, fetchByTftp } from './probes.socket.ts';

export interface DoctorOptions extends ServerOptions {
  readonly output?: string;
  readonly httpPort?: string;
  readonly loader?: string;
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
 * @throws {MusterError} what the server answers
 */
export async function doctor(options: DoctorOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const status = await client.ask('GET /v1/status');
  const { items } = await client.call<{ items: readonly NetworkDocument[] }>('GET', '/v1/networks');
  const unready = status.checks
    .filter(({ ok }) => !ok)
    .map(({ name, detail }) => `${name}${detail === undefined ? '' : ` (${detail})`}`);
  const { items: machines } = await client.call<{ items: readonly unknown[] }>('GET', '/v1/machines');
  const [synchronized, dropping, neighbours] = await Promise.all([
    isSynchronized(),
    firewallOf(),
    neighbourLimit(),
  ]);
  const host = { synchronized, dropping, unready, machines: machines.length, neighbours };
  const findings: Finding[] = [...judgeHost(host)];
  // One after the other, because each needs port 68.
  for (const segment of items.map(segmentOf)) findings.push(...(await examine(segment, options)));
  if (format === 'json') io.out(jsonText(findings));
  else if (format === 'yaml') io.out(yamlText(findings));
  else io.out(findingsText(findings, io.color));
  return findings.some(({ state }) => state === 'fail') ? EXIT.failure : EXIT.ok;
}

const segmentOf = ({ metadata, spec }: NetworkDocument): Segment => ({
  network: metadata.name,
  mode: spec.dhcp?.mode ?? 'off',
  subnet: spec.subnet,
  ...(spec.mtu !== undefined && { mtu: spec.mtu }),
  ...interfaceIn(spec.subnet),
});

async function examine(segment: Segment, options: DoctorOptions): Promise<readonly Finding[]> {
  const { address, interface: name, subnet } = segment;
  if (address === undefined || name === undefined) return judgeSegment(segment, undefined);
  const url = `http://${address}:${options.httpPort ?? '8080'}/boot.ipxe`;
  const [link, offers, tftp, http] = await Promise.all([
    linkOf(name),
    askForOffers(formatIpv4(broadcastOf(cidr(subnet)))),
    fetchByTftp(address, options.loader ?? 'ipxe.efi', address),
    askByHttp(url),
  ]);
  const observed: Observed = { ...link, offers, tftp, http };
  return judgeSegment(segment, observed);
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
