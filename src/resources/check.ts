/**
 * Checks between fields and between documents. The cost is linear in the number of documents (some
 * milliseconds for 10,000 machines); a change of machines only is checked without the others.
 */
import { MAX_COMMAND_LINE } from '../base/kernel-argument.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  checkReference,
  lacksAny,
  report,
} from './candidate.ts';
import { Claims, checkMachine, type MachineContext, reportMerged } from './check-machines.ts';
import { checkNames } from './check-names.ts';
import {
  checkNetwork,
  checkOverlaps,
  type NetworkView,
  networkIndex,
  networkView,
} from './check-networks.ts';
import { checkSharedStatic, checkStatic, reportRepeats } from './check-static.ts';
import type { ImageSpec, ProfileSpec } from './kinds.ts';
import { type Membership, membershipsIn } from './membership.ts';
import { secretsOf } from './secret-references.ts';
import { unsaidTrust } from './trust.ts';

/** Checks all documents. `candidates` contains each name at most once. */
export function checkDocuments(candidates: CandidateSet): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networks = [...candidates.Network.values()].map(networkView);
  for (const network of networks) {
    checkNetwork(network, found);
    const image = network.spec.discovery?.image;
    if (image !== undefined) {
      const path = ['spec', 'discovery', 'image'];
      checkReference(network.candidate, 'Image', image, path, candidates, found, 'warning');
    }
  }
  checkOverlaps(networks, found);
  const claims = new Claims();
  const reserving = new Set<NetworkView>();
  const roles = rolesIn(candidates);
  const networkOf = networkIndex(networks);
  const context = { candidates, networkOf, claims, roles, reserving, found };
  checkEach(candidates.Machine.values(), context);
  checkNames(candidates, found);
  checkSharedStatic(candidates, candidates.Machine, context);
  // A machine whose address is in no network may be meant for one of these.
  const isPlaceless = found.some((one) => one.missing === 'Network' && one.missingName === undefined);
  if (!isPlaceless && !lacksAny(candidates, 'Machine'))
    for (const network of networks) checkReservations(network, reserving, found);
  for (const profile of candidates.Profile.values()) checkProfile(profile, candidates, found);
  for (const cluster of candidates.Cluster.values()) {
    const unsaid = unsaidTrust(cluster.document);
    if (unsaid !== undefined) report(found, cluster, ['spec'], unsaid, { code: 'E_TRUST' });
  }
  return found;
}

/**
 * Checks only `machines`, in constant time each. Finds what `checkDocuments` would find about them
 * if no other document changed. `claims`: the claims of all other machines.
 */
export function checkMachines(
  machines: readonly Candidate<'Machine'>[],
  candidates: CandidateSet,
  claims: Claims,
): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networkOf = networkIndex([...candidates.Network.values()].map(networkView));
  const roles = rolesIn(candidates);
  const reserving = new Set<NetworkView>();
  checkEach(machines, { candidates, networkOf, claims, roles, reserving, found });
  return found;
}

/** Checks machines one by one, and reports once what several of them share. */
function checkEach(
  machines: Iterable<Candidate<'Machine'>>,
  of: Omit<MachineContext, 'repeats' | 'merged'>,
): void {
  const context = { ...of, repeats: new Map(), merged: new Map() };
  for (const machine of machines) {
    checkMachine(machine, context);
    checkStatic(machine, context);
  }
  reportRepeats(context.repeats, of.found);
  reportMerged(context.merged, of.found);
}

const rolesIn = ({ Cluster }: CandidateSet): ReadonlyMap<string, Membership> =>
  membershipsIn([...Cluster.values()].map(({ document }) => document));

function checkProfile(profile: Candidate<'Profile'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { spec }: { readonly spec: ProfileSpec } = profile.document;
  if (spec.image !== undefined)
    checkReference(profile, 'Image', spec.image, ['spec', 'image'], candidates, found, 'warning');
  else if ((spec.boot ?? 'image') === 'image')
    report(
      found,
      profile,
      ['spec'],
      'names no image: its machines are held; write "boot: hold" if you intend that',
      {
        severity: 'warning',
      },
    );
  const image = candidates.Image.get(spec.image ?? '')?.document;
  const arch = spec.selector?.arch;
  if (image !== undefined && arch !== undefined && image.spec.arch !== arch)
    report(
      found,
      profile,
      ['spec', 'selector', 'arch'],
      `selects machines of ${arch}, and Image/${image.metadata.name} is for ${image.spec.arch}, so each is held; correct one of the two`,
      { severity: 'warning' },
    );
  checkHome(profile, image?.spec, found);
  checkFormat(profile, candidates, found);
  checkCommandLine(profile, candidates, found);
  checkInventorySelector(profile, found);
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

/** `home` and the image fit, and the disk is named. */
function checkHome(profile: Candidate<'Profile'>, image: ImageSpec | undefined, found: CrossFault[]): void {
  const { spec }: { readonly spec: ProfileSpec } = profile.document;
  const onDisk = spec.home === 'disk';
  const warn = (path: string, text: string) =>
    report(found, profile, ['spec', path], text, { severity: 'warning' });
  if (image !== undefined && onDisk !== (image.disk !== undefined))
    warn(
      'home',
      onDisk
        ? `has home: disk, and Image/${spec.image} is not that of a disk, so its machines are held; \`muster image add NAME --disk FILE\` makes one`
        : `does not have home: disk, and Image/${spec.image} is that of a disk, so its machines are held`,
    );
  if (!onDisk && spec.installDisk !== undefined) warn('installDisk', 'has no effect without home: disk');
  if (spec.home === 'ram' && spec.bootDisk !== undefined) warn('bootDisk', 'has no effect with home: ram');
}

/**
 * A machine that has a certificate can claim any inventory, and so choose among the profiles that
 * select by it.
 */
function checkInventorySelector(profile: Candidate<'Profile'>, found: CrossFault[]): void {
  const { spec } = profile.document;
  if (spec.selector?.inventory === undefined) return;
  const path = ['spec', 'selector', 'inventory'];
  const claim = 'an inventory is what a machine says of itself';
  const [secret] = secretsOf(profile.document);
  if (secret !== undefined)
    report(
      found,
      profile,
      path,
      `${claim}, and a machine could claim the one that gets it Secret ${secret.secret}; name the Secret in the Cluster or in Machines, or name the profile in Machines`,
    );
  if (spec.trust !== undefined)
    report(
      found,
      profile,
      path,
      `${claim}, so a machine can evade trust: ${spec.trust}; write trust in the Network, the Cluster or in Machines`,
      { severity: 'warning' },
    );
}

/** The extra document that an image reads, and the one that it does not read, by its format. */
const EXTRAS = {
  'cloud-init': ['cloudInit', 'ignition'],
  ignition: ['ignition', 'cloudInit'],
} as const;

/**
 * Warns about an image with `configFormat: none`: it gets no configuration, and so nothing that
 * reports to Muster. Warns as well about an `extra` document that the image does not read, unless
 * the profile has one for either format.
 */
function checkFormat(profile: Candidate<'Profile'>, candidates: CandidateSet, found: CrossFault[]): void {
  const { image: name, config } = profile.document.spec;
  const image = candidates.Image.get(name ?? '')?.document.spec;
  if (image === undefined) return;
  if (image.configFormat !== 'none') {
    const [read, other] = EXTRAS[image.configFormat];
    if (config?.extra?.[other] !== undefined && config.extra[read] === undefined)
      report(
        found,
        profile,
        ['spec', 'config', 'extra', other],
        `its image "${name}" reads ${image.configFormat}, so this document has no effect; write it as extra.${read}`,
        { severity: 'warning' },
      );
    return;
  }
  const none = `its image "${name}" has configFormat none`;
  if (config !== undefined)
    report(
      found,
      profile,
      ['spec', 'config'],
      `${none}, so this configuration has no effect; use an image that cloud-init or Ignition configures`,
      { severity: 'warning' },
    );
  if (!image.reports)
    report(
      found,
      profile,
      ['spec', 'image'],
      `${none} and does not report: its machines never become ready; let the image run muster-report.sh and set "reports: true"`,
      { severity: 'warning' },
    );
}

/**
 * Length of Muster's own kernel arguments with the longest possible addresses, without `initrd=`
 * and the name of the root image: the URL of the session, URL and hash of the root image, the time,
 * and the source of the configuration. A test compares it with the boot script.
 */
const OWN_ARGUMENTS = 440;
/** Length of `initrd=initrd0.img` and a space. */
const AN_INITRD = 19;

/**
 * Checks that the kernel arguments of image and profile leave room for Muster's own. The exact
 * check happens when the boot script of a machine is made.
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
      `with those of its image these are ${given} characters; a kernel takes ${MAX_COMMAND_LINE}, of which Muster's own arguments leave ${left}`,
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
      'no pool and no Machine with an address in this network: no client gets an address',
      {
        severity: 'warning',
      },
    );
}
