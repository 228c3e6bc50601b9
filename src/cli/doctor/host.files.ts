/** What this host says of its interfaces, clock and firewall. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';
import { fieldsOf, listOf, parsed } from '../../base/foreign-json.ts';
import { cidr, contains, formatIpv4, type Ipv4, ipv4, parseCidr } from '../../base/ipv4.ts';
import { droppingChains, type Segment } from './judge.ts';

const run = promisify(execFile);
const TIMEOUT_MS = 5000;

/** This host's interface with an address in the subnet. */
export function interfaceIn(subnet: string): Pick<Segment, 'interface' | 'address'> {
  const network = parseCidr(subnet);
  if (network === undefined) return {};
  for (const [name, addresses = []] of Object.entries(networkInterfaces()))
    for (const { family, address } of addresses)
      if (family === 'IPv4' && contains(network, ipv4(address))) return { interface: name, address };
  return {};
}

/** This host's addresses, as segments of which no Network is known. */
export function segmentsHere(only: readonly string[]): readonly Segment[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses
      .filter(({ family, internal }) => family === 'IPv4' && !internal)
      .filter(() => only.length === 0 || only.includes(name))
      .map(({ address, netmask, cidr: own }) => {
        const base = ((ipv4(address) & ipv4(netmask)) >>> 0) as Ipv4;
        return {
          network: name,
          subnet: `${formatIpv4(base)}/${own?.split('/')[1]}`,
          interface: name,
          address,
        };
      })
      // A network of one or two addresses has no broadcast.
      .filter(({ subnet }) => cidr(subnet).prefix <= 30),
  );
}

/** Whether a program of this host listens on a port; undefined where the kernel does not say. */
export async function listensOn(kind: 'tcp' | 'udp', port: number): Promise<boolean | undefined> {
  const texts = await Promise.all(
    [kind, `${kind}6`].map((file) => readFile(`/proc/net/${file}`, 'utf8').catch(() => '')),
  );
  if (texts.every((text) => text === '')) return undefined;
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return texts
    .flatMap((text) => text.split('\n').map((line) => line.trim().split(/\s+/)))
    .some(([, local, , state]) => local?.endsWith(suffix) && (kind === 'udp' || state === '0A'));
}

/** The state and MTU that the kernel has for an interface. */
export async function linkOf(name: string): Promise<{ readonly operstate?: string; readonly mtu?: number }> {
  const said = await run('ip', ['-json', 'link', 'show', 'dev', name], { timeout: TIMEOUT_MS }).catch(
    () => undefined,
  );
  const { operstate, mtu } = fieldsOf(listOf(parsed(said?.stdout ?? ''))[0]);
  return {
    ...(typeof operstate === 'string' && { operstate: operstate.toLowerCase() }),
    ...(typeof mtu === 'number' && { mtu }),
  };
}

/** Whether the clock follows a time server; undefined where systemd does not say. */
export async function isSynchronized(): Promise<boolean | undefined> {
  const said = await run('timedatectl', ['show', '--property', 'NTPSynchronized', '--value'], {
    timeout: TIMEOUT_MS,
  }).catch(() => undefined);
  const text = said?.stdout.trim();
  return text === 'yes' ? true : text === 'no' ? false : undefined;
}

/** How many neighbours the kernel keeps; undefined in a network namespace, which does not say. */
export async function neighbourLimit(): Promise<number | undefined> {
  const file = '/proc/sys/net/ipv4/neigh/default/gc_thresh3';
  const text = await readFile(file, 'utf8').catch(() => '');
  return /^[0-9]+$/.test(text.trim()) ? Number(text) : undefined;
}

/** The chains of nftables that drop what comes in by default; a text says why nobody could look. */
export async function firewallOf(): Promise<readonly string[] | string> {
  try {
    return droppingChains((await run('nft', ['list', 'ruleset'], { timeout: TIMEOUT_MS })).stdout);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
      ? 'there is no program nft to ask'
      : 'root only may look: run it with sudo';
  }
}
