/**
 * What must be true between fields and between documents. Linear in the number of documents: 10,000
 * machines take some milliseconds; a change of one machine is checked by itself.
 */
import { MAX_COMMAND_LINE } from '../base/kernel-argument.ts';
import { type Candidate, type CandidateSet, type CrossFault, checkReference, report } from './candidate.ts';
import { Claims, checkMachine } from './check-machines.ts';
import {
  checkNetwork,
  checkOverlaps,
  type NetworkView,
  networkIndex,
  networkView,
} from './check-networks.ts';
import type { ProfileSpec } from './kinds.ts';
import { clustersByMachine } from './membership.ts';

/** Checks the whole set. `candidates` holds each name at most once. */
export function checkDocuments(candidates: CandidateSet): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networks = [...candidates.Network.values()].map(networkView);
  for (const network of networks) checkNetwork(network, found);
  checkOverlaps(networks, found);
  const claims = new Claims();
  const reserving = new Set<NetworkView>();
  const roles = rolesIn(candidates);
  const context = { candidates, networkOf: networkIndex(networks), claims, roles, reserving, found };
  for (const machine of candidates.Machine.values()) checkMachine(machine, context);
  for (const network of networks) checkReservations(network, reserving, found);
  for (const profile of candidates.Profile.values()) checkProfile(profile, candidates, found);
  return found;
}

/**
 * Checks only these machines against what others have claimed, in constant time for each: what
 * `checkDocuments` would find of them in a set that is otherwise as it was. `claims` are those of
 * the others.
 */
export function checkMachines(
  machines: readonly Candidate<'Machine'>[],
  candidates: CandidateSet,
  claims: Claims,
): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networkOf = networkIndex([...candidates.Network.values()].map(networkView));
  const roles = rolesIn(candidates);
  const context = { candidates, networkOf, claims, roles, reserving: new Set<NetworkView>(), found };
  for (const machine of machines) checkMachine(machine, context);
  return found;
}

const rolesIn = ({ Cluster }: CandidateSet): ReadonlyMap<string, string> =>
  clustersByMachine([...Cluster.values()].map(({ document }) => document));

function checkProfile(profile: Candidate<'Profile'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { spec }: { readonly spec: ProfileSpec } = profile.document;
  if (spec.image !== undefined)
    checkReference(profile, 'Image', spec.image, ['spec', 'image'], candidates, found, 'warning');
  else if ((spec.boot ?? 'image') === 'image')
    report(
      found,
      profile,
      ['spec'],
      'names no image: its machines are held; say "boot: hold" if that is meant',
      {
        severity: 'warning',
      },
    );
  checkFormat(profile, candidates, found);
  checkCommandLine(profile, candidates, found);
  if (spec.selector?.network !== undefined)
    checkReference(
      profile,
      'Network',
      spec.selector.network,
      ['spec', 'selector', 'network'],
      candidates,
      found,
    );
}

/**
 * What an image of `configFormat: none` leaves undone: it gets no configuration, and so nothing of
 * ours that reports.
 */
function checkFormat(profile: Candidate<'Profile'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { image: name, config } = profile.document.spec;
  const image = candidates.Image.get(name ?? '')?.document.spec;
  if (image?.configFormat !== 'none') return;
  const none = `its image "${name}" has configFormat none`;
  if (config !== undefined)
    report(
      found,
      profile,
      ['spec', 'config'],
      `${none}, so nothing of this reaches a machine; take an image that cloud-init or Ignition configures`,
      { severity: 'warning' },
    );
  if (!image.reports)
    report(
      found,
      profile,
      ['spec', 'image'],
      `${none} and does not report: its machines never get ready; have the image run muster-report.sh and say "reports: true"`,
      { severity: 'warning' },
    );
}

/**
 * Muster's own arguments with addresses at their longest, without `initrd=` and the root image's
 * name: the session's URL, the root image's URL and hash, the time, and where the configuration is.
 * A test holds it to the boot script.
 */
const OWN_ARGUMENTS = 440;
/** `initrd=initrd0.img` and a blank. */
const AN_INITRD = 19;

/**
 * What the image and the profile append must leave room for Muster's own. The boot script's exact
 * verdict comes with the machine.
 */
function checkCommandLine(
  profile: Candidate<'Profile'>,
  candidates: CandidateSet,
  found: CrossFault[],
): void {
  const { image: name, kernelArguments: appended = [] } = profile.document.spec;
  const image = name === undefined ? undefined : candidates.Image.get(name)?.document.spec;
  const given = [...(image?.kernelArguments ?? []), ...appended].join(' ').length;
  const own =
    OWN_ARGUMENTS + AN_INITRD * (image?.initrds?.length ?? 0) + (image?.root?.name ?? 'root').length;
  const left = MAX_COMMAND_LINE - own;
  if (given > left)
    report(
      found,
      profile,
      ['spec', 'kernelArguments'],
      `with those of its image these are ${given} characters; kernels take ${MAX_COMMAND_LINE}, and beside Muster's own ${left} are left`,
      { code: 'E_KERNEL_ARGUMENT' },
    );
}

function checkReservations(
  network: NetworkView,
  reserving: ReadonlySet<NetworkView>,
  found: CrossFault[],
): void {
  const { dhcp } = network.spec;
  if (dhcp.mode === 'reservations' && !reserving.has(network))
    report(
      found,
      network.candidate,
      ['spec', 'dhcp', 'mode'],
      'mode reservations, but no Machine has an address in this network',
      {
        severity: 'warning',
      },
    );
  if (dhcp.mode === 'server' && (dhcp.pools ?? []).length === 0 && !reserving.has(network))
    report(
      found,
      network.candidate,
      ['spec', 'dhcp'],
      'no pool and no Machine with an address: nobody gets an address here',
      {
        severity: 'warning',
      },
    );
}
