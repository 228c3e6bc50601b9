/** The addresses that `config.network` of a document gives to machines. Pure. */
import { formatIp, type Ip, ipNetwork, networkHolds, parseIp } from '../base/ip.ts';
import { interfaceKey, type NodeInterface } from './node-network.ts';
import type { NodeConfig } from './nodeconfig.ts';
import type { Path } from './yaml.ts';

/** An address of an interface, and the place that wrote it. */
export interface StaticAddress {
  /** In its usual notation, without the prefix length. */
  readonly text: string;
  readonly path: Path;
  readonly interface: NodeInterface;
}

/**
 * The addresses that can clash with those of other hosts. Left out are templates, addresses of one
 * link or of the machine itself, and those of interfaces that are on no segment: dummies, which
 * have anycast addresses, and bridges without ports.
 */
export function staticAddresses(config: NodeConfig | undefined): readonly StaticAddress[] {
  return (config?.network?.interfaces ?? []).flatMap((one, n) =>
    isOffSegment(one)
      ? []
      : (one.addresses ?? []).flatMap((written, k) => {
          const address = written.includes('${') ? undefined : parseIp(written.split('/')[0]!);
          if (address === undefined || isRepeatable(address)) return [];
          const path = ['spec', 'config', 'network', 'interfaces', n, 'addresses', k];
          return [{ text: formatIp(address), path, interface: one }];
        }),
  );
}

const isOffSegment = ({ name = '', bridge }: NodeInterface): boolean =>
  /^(lo|dummy)\d*$/.test(name) || (bridge !== undefined && (bridge.interfaces ?? []).length === 0);

const REPEATABLE = ['127.0.0.0/8', '169.254.0.0/16', '::/127', 'fe80::/10'].map(ipNetwork);

const isRepeatable = (address: Ip): boolean => REPEATABLE.some((network) => networkHolds(network, address));

/** Whether the configuration replaces the addresses of that interface of a wider layer. */
export const replaces = (config: NodeConfig | undefined, wider: NodeInterface): boolean =>
  (config?.network?.interfaces ?? []).some(
    (one) => one.addresses !== undefined && interfaceKey(one) === interfaceKey(wider),
  );

/** Whether an interface may get an address that the configuration does not name. */
export function learnsAddresses(config: NodeConfig | undefined): boolean {
  const interfaces = config?.network?.interfaces ?? [];
  const parts = new Set(
    interfaces.flatMap(({ bond, vlan, bridge }) => [
      ...(bond?.interfaces ?? []),
      ...(bridge?.interfaces ?? []),
      ...(vlan === undefined ? [] : [vlan.link]),
    ]),
  );
  return interfaces.some(
    ({ dhcp4, addresses, mac = '', name = '' }) =>
      dhcp4 === true ||
      (dhcp4 === undefined && addresses === undefined && !parts.has(mac) && !parts.has(name)) ||
      addresses?.some((text) => text.includes('${')),
  );
}
