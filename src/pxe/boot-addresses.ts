/** The addresses that go from one acting boot host to the next, as operators write them. */
import { MusterError } from '../base/errors.ts';
import { formatIpv4, type Ipv4, netmask, parseIpv4 } from '../base/ipv4.ts';

/** `eth1=10.0.0.2/24` */
export interface BootAddress {
  readonly interface: string;
  readonly address: Ipv4;
  /** Length of the subnet's prefix. */
  readonly prefix: number;
}

const FORM = /^([A-Za-z0-9_.-]{1,15})=([0-9.]+)\/([0-9]{1,2})$/;

/**
 * Reads boot addresses. `source` is the flag or variable that has them, for messages.
 *
 * @throws {MusterError} E_USAGE for one that a host cannot have, or that is listed twice
 */
export function bootAddresses(list: readonly string[], source: string): readonly BootAddress[] {
  const wrong = (text: string, why: string): never => {
    throw new MusterError('E_USAGE', `${source}: "${text}" ${why}`);
  };
  const addresses = list.map((text) => {
    const [, name = '', dotted = '', length = ''] = FORM.exec(text) ?? [];
    const [address, prefix] = [parseIpv4(dotted), Number(length)];
    if (address === undefined || prefix < 8 || prefix > 32)
      return wrong(text, 'is not an interface and an address like eth1=10.0.0.2/24');
    const host = (address & ~netmask(prefix)) >>> 0;
    if (prefix < 31 && (host === 0 || host === ~netmask(prefix) >>> 0))
      return wrong(text, 'is the address of a network or its broadcast address, not of a host');
    return { interface: name, address, prefix };
  });
  list.forEach((text, n) => {
    if (addresses.findIndex(({ address }) => address === addresses[n]!.address) < n)
      wrong(text, 'is listed twice');
  });
  return addresses;
}

export const bootAddressText = ({ interface: name, address, prefix }: BootAddress): string =>
  `${name}=${formatIpv4(address)}/${prefix}`;
