/** Checks that documents name the certificate of a BMC that is named by its MAC address. */
import { NO_CERTIFICATE, NO_IPMI } from './bmc-spec.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  isFaulty,
  lacksAny,
  report,
} from './candidate.ts';

/** The address of a BMC is known late, so each Network may be the one that says more of it. */
export function checkBmc(machine: Candidate<'Machine'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { bmc, profile } = machine.document.spec;
  if (bmc?.mac === undefined) return;
  const named = candidates.Profile.get(profile ?? '')?.document.spec.bmc;
  const lacks =
    profile === undefined ? lacksAny(candidates, 'Profile') : isFaulty(candidates, 'Profile', profile);
  const profiles = profile === undefined ? [...candidates.Profile.values()] : [];
  const others = [...profiles, ...candidates.Network.values()].map(({ document }) => document.spec.bmc);
  const isShown = [bmc, named, ...others].some((one) => one?.certificate !== undefined);
  if (!isShown && !lacks && !lacksAny(candidates, 'Network'))
    report(found, machine, ['spec', 'bmc', 'mac'], NO_CERTIFICATE);
  const isIpmi = (bmc.protocol ?? named?.protocol) === 'ipmi' || (bmc.console ?? named?.console) === 'sol';
  if (isIpmi) report(found, machine, ['spec', 'bmc', 'mac'], `Profile/${profile} asks for IPMI: ${NO_IPMI}`);
}
