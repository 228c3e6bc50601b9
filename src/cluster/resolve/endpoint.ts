/** The endpoint of a Cluster: where people and machines reach its API. */
import { formatIp, parseIp } from '../../base/ip.ts';
import { domainName } from '../../resources/fields.ts';
import { API_PORT } from '../model/ports.ts';

export interface Endpoint {
  /** A name in lower case or an IP address in its canonical form, without brackets. */
  readonly host: string;
  readonly port: number;
}

/**
 * Reads `api.example:6443`, `10.0.0.10` or `[fd00::1]:6443`; the port is 6443 when the text has
 * none. Undefined when the text is neither a name nor an address.
 */
export function parseEndpoint(text: string): Endpoint | undefined {
  const found =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)|([0-9a-fA-F]*:[0-9a-fA-F:.]+))(?::([1-9][0-9]{0,4}))?$/.exec(text);
  const whole = parseIp(text);
  if (whole?.family === 6) return { host: formatIp(whole), port: API_PORT };
  if (!found) return undefined;
  const host = found[1] ?? found[2] ?? '';
  const port = Number(found[4] ?? API_PORT);
  const address = parseIp(host);
  const isName = domainName.safeParse(host).success;
  // A text of digits and dots that is not an address is a typing error, never a name.
  if (port > 65535 || (address === undefined && (!isName || /^[0-9.]+$/.test(host)))) return undefined;
  if (found[1] !== undefined && address?.family !== 6) return undefined;
  return { host: address ? formatIp(address) : host.toLowerCase(), port };
}
