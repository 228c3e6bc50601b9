/** What the programs of a cluster reach directly, and the variables that tell them. */
import { formatIpNetwork, parseIp } from '../../base/ip.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';

/**
 * Networks whose machines are reached directly, where the Cluster names no networks of machines. A
 * machine that is added mostly changes none of them, so the programs keep running.
 */
const AROUND = { 4: 24, 6: 64 } as const;

function networkAround(text: string): readonly string[] {
  const address = parseIp(text);
  if (address === undefined) return [];
  const bits = address.family === 4 ? 32 : 128;
  const prefix = AROUND[address.family];
  const host = BigInt(bits - prefix);
  const base = { ...address, value: (address.value >> host) << host };
  return [formatIpNetwork({ base, prefix })];
}

/** What is reached directly, by what it follows from. */
export function directOf(facts: {
  readonly networks: ResolvedCluster['networks'];
  readonly machines: readonly Pick<ClusterMachine, 'addresses'>[];
  readonly host: string;
  readonly virtual: readonly string[];
  readonly dnsDomain: string;
  readonly given: readonly string[];
}): readonly string[] {
  const { networks, machines, host, virtual, dnsDomain, given } = facts;
  const around =
    networks.machines.length > 0
      ? networks.machines
      : machines.flatMap(({ addresses }) => addresses.flatMap(networkAround)).toSorted();
  return [
    ...new Set([
      'localhost',
      '127.0.0.0/8',
      '::1',
      ...networks.pods,
      ...networks.services,
      ...around,
      host,
      ...virtual,
      '.svc',
      `.${dnsDomain}`,
      ...given,
    ]),
  ];
}

/** The hosts of mirrors, which are reached directly: among them is the boot host. */
const mirrorHosts = ({ mirrors }: ResolvedCluster): readonly string[] =>
  mirrors.filter((url) => URL.canParse(url)).map((url) => new URL(url).hostname.replace(/^\[|\]$/g, ''));

/**
 * The variables for a program of a machine; undefined without a proxy. Programs read them in
 * capital letters or in small ones, so both are given.
 */
export function proxyVariables(resolved: ResolvedCluster): Readonly<Record<string, string>> | undefined {
  const { proxy } = resolved;
  if (proxy === undefined) return undefined;
  const direct = [...new Set([...proxy.noProxy, ...mirrorHosts(resolved)])].join(',');
  const { http, https = http } = proxy;
  const values = {
    ...(http && { HTTP_PROXY: http }),
    ...(https && { HTTPS_PROXY: https }),
    NO_PROXY: direct,
  };
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => [
      [name, value],
      [name.toLowerCase(), value],
    ]),
  );
}
