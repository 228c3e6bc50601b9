/**
 * Which hosts NO_PROXY lists, as curl and Go read it: names with their subdomains, addresses,
 * networks of addresses, `*`, each with a port if there is one. Pure.
 */
import { networkHolds, parseIp, parseIpNetwork } from '../base/ip.ts';

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Whether the list names the host of a URL. */
export function isDirect(list: string, url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port || DEFAULT_PORTS[url.protocol];
  return list
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => names(entry.toLowerCase(), host, port));
}

function names(entry: string, host: string, port: string | undefined): boolean {
  if (entry === '*') return true;
  const address = parseIp(host);
  const network = parseIpNetwork(entry);
  if (network !== undefined) return address !== undefined && networkHolds(network, address);
  const [, bracketed, plain, ofPort] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(entry) ?? [];
  // An IPv6 address without brackets has colons and no port.
  const name = bracketed ?? plain ?? entry;
  if (ofPort !== undefined && ofPort !== port) return false;
  const own = parseIp(name);
  if (own !== undefined)
    return address !== undefined && own.family === address.family && own.value === address.value;
  const domain = name.replace(/^\*?\./, '').replace(/\.$/, '');
  return address === undefined && (host === domain || host.endsWith(`.${domain}`));
}
