/** How Muster reaches the BMC of a machine, by its documents. Pure. */
import type { Mac } from '../base/mac.ts';
import { type MachineBmc, NO_CERTIFICATE, NO_IPMI, type SharedBmc } from '../resources/bmc-spec.ts';
import { BmcFault } from './bmc.ts';

/** A BMC as documents describe it. Without `address`, nobody knows where its `mac` is now. */
export type Reach = Omit<MachineBmc, 'protocol'> & {
  readonly protocol: NonNullable<MachineBmc['protocol']>;
};

interface Says<B> {
  readonly bmc?: B | undefined;
}

/** What a Machine does not say of its BMC by itself. */
export interface Around {
  readonly profile: Says<SharedBmc> | undefined;
  /** Where a MAC address is now; undefined: nobody knows. */
  readonly addressOf: (mac: Mac) => string | undefined;
  /** The Network in whose subnet an address is. */
  readonly networkOf: (address: string) => Says<SharedBmc> | undefined;
}

/**
 * What a Machine says of its BMC, over what its Profile says, over what the Network of the BMC
 * says; undefined: the Machine names none.
 */
export function reachOf(machine: Says<MachineBmc> | undefined, around: Around): Reach | undefined {
  if (machine?.bmc === undefined) return undefined;
  const { mac } = machine.bmc;
  const address = mac === undefined ? machine.bmc.address : around.addressOf(mac as Mac);
  const network = address === undefined ? undefined : around.networkOf(address);
  const merged = { ...network?.bmc, ...around.profile?.bmc, ...machine.bmc, address };
  return { ...merged, protocol: merged.protocol ?? 'auto' };
}

/**
 * What is locked while one part of Muster asks: a BMC, also where it has several machines, and
 * wherever it is.
 */
export const lockOf = ({ address, mac, port }: Reach): string => `${mac ?? address}/${port ?? ''}`;

/** The protocols that are tried, in their order. `worked`: the one that did before. */
export function protocolsFor(
  { protocol, system, mac }: Reach,
  worked: 'redfish' | 'ipmi' | undefined,
): readonly ('redfish' | 'ipmi')[] {
  if (protocol !== 'auto') return [protocol];
  // IPMI cannot name a system of several, and shows no certificate.
  if (system !== undefined || mac !== undefined) return ['redfish'];
  return worked ? [worked] : ['redfish', 'ipmi'];
}

/** Where it is, for people: its MAC address while it has no other. */
export const whereOf = ({ address, mac }: Reach): string => address ?? mac!;

/**
 * The address to ask by a protocol.
 *
 * A lease belongs to whoever took it, so a BMC of which only the MAC address is written has to show
 * the certificate that documents name, before it gets a password.
 *
 * @throws {BmcFault} when it is not known, or may be that of somebody else
 */
export function addressFor({ address, mac, certificate }: Reach, protocol: 'redfish' | 'ipmi'): string {
  if (mac !== undefined && protocol === 'ipmi') throw new BmcFault('refused', NO_IPMI);
  if (mac !== undefined && certificate === undefined) throw new BmcFault('refused', NO_CERTIFICATE);
  if (address !== undefined) return address;
  throw new BmcFault('unreachable', `nobody has a lease of ${mac}, and no agent says where it is`);
}

/** The user and the reference of the password. @throws {BmcFault} where the documents name none */
export function loginOf({ credentials }: Reach): NonNullable<Reach['credentials']> {
  if (credentials) return credentials;
  throw new BmcFault('refused', 'no document says how to log in: write spec.bmc.credentials');
}
