/**
 * Checks what a Machine may leave to its Profile and to Networks: which protocol listens at a port,
 * and the certificate of a BMC that is named by its MAC address.
 */
import { cidr, contains, parseIpv4 } from '../base/ipv4.ts';
import { NO_CERTIFICATE, NO_IPMI, NO_PROTOCOL, type SharedBmc } from './bmc-spec.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  isFaulty,
  lacksAny,
  report,
} from './candidate.ts';

/** The address of a BMC may be known late, so each Network may be the one that says more of it. */
export function checkBmc(machine: Candidate<'Machine'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { bmc, profile } = machine.document.spec;
  // Nothing is left to other documents.
  if (bmc === undefined || (bmc.mac === undefined && bmc.port === undefined)) return;
  const named = candidates.Profile.get(profile ?? '')?.document.spec.bmc;
  const lacks =
    profile === undefined ? lacksAny(candidates, 'Profile') : isFaulty(candidates, 'Profile', profile);
  const isKnown = !lacks && !lacksAny(candidates, 'Network');
  const profiles = profile === undefined ? [...candidates.Profile.values()] : [];
  const networks = [...candidates.Network.values()].filter(({ document: { spec } }) =>
    mayHold(spec.subnet, bmc.address),
  );
  const others = [...profiles, ...networks].map(({ document }) => document.spec.bmc);
  const isSaid = (says: (one: SharedBmc) => boolean): boolean =>
    [bmc, named, ...others].some((one) => one !== undefined && says(one));
  if (bmc.mac === undefined) {
    // A narrower document wins, also with `auto`.
    const by = bmc.protocol ?? named?.protocol;
    const has = by === undefined ? isSaid(({ protocol = 'auto' }) => protocol !== 'auto') : by !== 'auto';
    if (!has && (isKnown || by !== undefined)) report(found, machine, ['spec', 'bmc', 'port'], NO_PROTOCOL);
    return;
  }
  if (!isSaid(({ certificate }) => certificate !== undefined) && isKnown)
    report(found, machine, ['spec', 'bmc', 'mac'], NO_CERTIFICATE);
  const isIpmi = (bmc.protocol ?? named?.protocol) === 'ipmi' || (bmc.console ?? named?.console) === 'sol';
  if (isIpmi) report(found, machine, ['spec', 'bmc', 'mac'], `Profile/${profile} asks for IPMI: ${NO_IPMI}`);
}

/** Whether a BMC may be in a subnet: one that is named by its MAC address may be anywhere. */
function mayHold(subnet: string, address: string | undefined): boolean {
  const at = address === undefined ? undefined : parseIpv4(address);
  return address === undefined || (at !== undefined && contains(cidr(subnet), at));
}
