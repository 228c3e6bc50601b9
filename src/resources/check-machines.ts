/** Checks machines against each other: no two may claim the same address, MAC or identity. */
import { firstFew } from '../base/first-few.ts';
import { type Ip, ip, ipNetwork, networkHolds } from '../base/ip.ts';
import { type Ipv4, ipv4 } from '../base/ipv4.ts';
import {
  bootDiskFault,
  type Disks,
  dataDiskFault,
  etcdDiskFault,
  narrowestDisk,
  wholeDiskFault,
} from './boot-disk.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  checkReference,
  isFaulty,
  lacksAny,
  placeOf,
  report,
} from './candidate.ts';
import { checkBmc } from './check-bmc.ts';
import { isHost, type NetworkView } from './check-networks.ts';
import type { BootDiskSpec, DataDiskSpec, Document, MachineSpec } from './kinds.ts';
import { etcdMembers, type Membership } from './membership.ts';
import { staticAddresses } from './static-addresses.ts';
import { endorsementPin } from './tpm-spec.ts';
import { type Trust, trustAsked } from './trust.ts';
import type { Path } from './yaml.ts';

/**
 * Which machine claims which MAC, address or identity. The first claim wins; a later one is a fault
 * of its document.
 */
export class Claims {
  readonly #by = new Map<string, Candidate<'Machine'>>();
  readonly #base: Claims | undefined;
  readonly #ignored: ReadonlySet<string>;
  /**
   * Whether anything was claimed twice. If so, {@link remove} cannot tell which machine has the
   * next claim, and the claims must be built again.
   */
  shared = false;

  /** Adds to the claims of `base`, without those of the machines in `ignored`. */
  constructor(base?: Claims, ignored: ReadonlySet<string> = new Set()) {
    this.#base = base;
    this.#ignored = ignored;
  }

  #holder(what: string): Candidate<'Machine'> | undefined {
    const own = this.#by.get(what);
    if (own !== undefined || this.#base === undefined) return own;
    const below = this.#base.#holder(what);
    return below && this.#ignored.has(below.document.metadata.name) ? undefined : below;
  }

  /** Returns the machine that already claims `what`. If there is none, `machine` claims it now. */
  take(what: string, machine: Candidate<'Machine'>): Candidate<'Machine'> | undefined {
    const holder = this.#holder(what);
    if (holder === undefined) this.#by.set(what, machine);
    else this.shared = true;
    return holder;
  }

  /** Returns the machine that claims `what`. */
  holder(what: string): Candidate<'Machine'> | undefined {
    return this.#holder(what);
  }

  /** Returns the machine whose configuration has the address. */
  holderOfStatic(address: string): Candidate<'Machine'> | undefined {
    return this.#holder(staticClaim(address));
  }

  /**
   * Like {@link take}, for an address of a configuration. Segments without a Network may repeat
   * addresses, so a second claim is no reason to build the claims again.
   */
  takeStatic(address: string, machine: Candidate<'Machine'>): Candidate<'Machine'> | undefined {
    const holder = this.holderOfStatic(address);
    if (holder === undefined) this.#by.set(staticClaim(address), machine);
    return holder;
  }

  add(machine: Candidate<'Machine'>): void {
    const { spec } = machine.document;
    for (const what of claimsOf(spec)) this.take(what, machine);
    for (const { text } of staticAddresses(spec.config)) this.takeStatic(text, machine);
  }

  remove(machine: Candidate<'Machine'>): void {
    const { metadata, spec } = machine.document;
    const { name } = metadata;
    const statics = staticAddresses(spec.config).map(({ text }) => staticClaim(text));
    for (const what of [...claimsOf(spec), ...statics])
      if (this.#by.get(what)?.document.metadata.name === name) this.#by.delete(what);
  }
}

/**
 * Everything that the machine claims: MACs, addresses, its TPM, UUID, and UUID with serial number.
 * The forms cannot collide.
 */
function* claimsOf(spec: MachineSpec): Iterable<string> {
  yield* spec.macs;
  yield* spec.addresses ?? [];
  if (spec.tpm !== undefined) yield tpmClaim(spec.tpm.endorsementKey);
  if (spec.uuid === undefined) return;
  yield spec.uuid;
  if (spec.serial !== undefined) yield `${spec.uuid} ${spec.serial}`;
}

const tpmClaim = (endorsementKey: string): string => `tpm ${endorsementPin(endorsementKey)}`;

const staticClaim = (address: string): string => `static ${address}`;

export interface MachineContext {
  readonly candidates: CandidateSet;
  readonly networkOf: (address: Ipv4) => NetworkView | undefined;
  readonly claims: Claims;
  /** By machine name: the Cluster that gives it a role. */
  readonly roles: ReadonlyMap<string, Membership>;
  readonly reserving: Set<NetworkView>;
  readonly merged: MergedFaults;
  readonly found: CrossFault[];
}

export function checkMachine(machine: Candidate<'Machine'>, context: MachineContext): void {
  const { candidates, found, claims } = context;
  const { spec } = machine.document;
  checkMacs(machine, spec, claims, found);
  checkHardware(machine, spec, claims, found);
  if (spec.profile !== undefined)
    checkReference(machine, 'Profile', spec.profile, ['spec', 'profile'], candidates, found);
  if (spec.cluster !== undefined)
    checkReference(machine, 'Cluster', spec.cluster, ['spec', 'cluster'], candidates, found);
  if (spec.addresses) checkAddresses(machine, spec.addresses, context);
  if (spec.tpm !== undefined) {
    const other = claims.take(tpmClaim(spec.tpm.endorsementKey), machine);
    if (other)
      report(found, machine, ['spec', 'tpm', 'endorsementKey'], `the TPM is also that of ${placeOf(other)}`, {
        code: 'E_DUPLICATE',
        other,
      });
  }
  checkBmc(machine, candidates, found);
  checkDisks(machine, context);
  checkTrust(machine, context);
}

/**
 * Checks that the machine can meet the tier of trust that its documents ask for. A machine without
 * data disk makes another key at each boot, and each would wait for an operator.
 */
function checkTrust(
  machine: Candidate<'Machine'>,
  { candidates, roles, networkOf, found }: MachineContext,
): void {
  const { document } = machine;
  const { spec, metadata } = document;
  const role = roles.get(metadata.name)?.cluster;
  if (role === undefined || isFaulty(candidates, 'Profile', spec.profile ?? '')) return;
  const profile = candidates.Profile.get(spec.profile ?? '')?.document;
  const clusters = [role, spec.cluster].map((name) => candidates.Cluster.get(name ?? '')?.document);
  const networks = (spec.addresses ?? []).flatMap((text) => {
    const network = text.includes(':') ? undefined : networkOf(ipv4(text));
    return network === undefined ? [] : [network.candidate.document];
  });
  const asked = trustAsked([document, profile, ...clusters, ...networks]);
  const path = spec.trust === undefined ? ['spec'] : ['spec', 'trust'];
  if (spec.delivery === 'inline') {
    if (asked !== undefined && asked.tier !== 'segment')
      report(
        found,
        machine,
        path,
        `delivery: inline sends its secrets to whoever has its address, and ${asked.from} asks for trust: ${asked.tier}; remove one of the two`,
      );
    return;
  }
  if (asked?.tier === 'tpm')
    checkTpmTools(machine, asked, candidates.Image.get(profile?.spec.image ?? ''), found);
  // A profile that is selected at its boot may name the disk.
  const selected = spec.profile === undefined && candidates.Profile.size > 0;
  if (selected || narrowestDisk('dataDisk', [spec, profile?.spec, clusters[0]?.spec]) !== undefined) return;
  if (asked?.tier === 'approved')
    report(
      found,
      machine,
      path,
      `trust: approved (${asked.from}) would ask for an approval at each of its boots, because it has no dataDisk that keeps its key; name a dataDisk, or write "trust: tpm" if it has a TPM 2.0`,
    );
}

/** The program that an image lists when it has tpm2-tools. */
const TPM_TOOLS = 'tpm2';

/** Refuses an image that says what it has, and has no tools with which a machine shows its TPM. */
function checkTpmTools(
  machine: Candidate<'Machine'>,
  asked: Trust,
  image: Candidate<'Image'> | undefined,
  found: CrossFault[],
): void {
  const { programs } = image?.document.spec ?? {};
  if (programs === undefined || programs.includes(TPM_TOOLS)) return;
  const name = image?.document.metadata.name;
  report(
    found,
    machine,
    machine.document.spec.trust === undefined ? ['spec'] : ['spec', 'trust'],
    `trust: tpm (${asked.from}) needs tpm2-tools, and the programs of Image/${name} do not list ${TPM_TOOLS}; build the image again by \`muster image build\`, or add the tools and list them`,
  );
}

/** The disks that the documents of a machine name. `layers`: narrowest first. */
interface MachineDisks {
  readonly layers: readonly (Disks | undefined)[];
  readonly data: DataDiskSpec | undefined;
  readonly boot: BootDiskSpec | undefined;
  readonly image: Document<'Image'> | undefined;
}

/** A fault of what layers of a machine say together, and the machines that have it. */
interface MergedFault {
  readonly layer: Candidate;
  readonly path: Path;
  readonly message: string;
  readonly machines: Candidate<'Machine'>[];
}

/** By place and message. A fault of a Profile or Cluster is told once, not for each machine. */
export type MergedFaults = Map<string, MergedFault>;

/** Tells each merged fault at the document that wrote the value. */
export function reportMerged(merged: MergedFaults, found: CrossFault[]): void {
  for (const { layer, path, message, machines } of merged.values()) {
    const names = firstFew(machines.map(({ document }) => document.metadata.name));
    if (layer.document.kind === 'Machine') report(found, layer, path, message);
    else report(found, layer, path, `${names}: ${message}`, { other: machines[0]! });
  }
}

/** Checks the disks of Muster, which the machine, its profile or its cluster may name. */
function checkDisks(
  machine: Candidate<'Machine'>,
  { candidates, roles, found, merged }: MachineContext,
): void {
  const { spec, metadata } = machine.document;
  const cluster = spec.cluster ?? roles.get(metadata.name)?.cluster;
  if (cluster === undefined) return;
  const profile = candidates.Profile.get(spec.profile ?? '');
  const writers = [machine, profile, candidates.Cluster.get(cluster)];
  const layers = writers.map((one): Disks | undefined => one?.document.spec);
  // At the narrowest of the layers that wrote one of the fields.
  const tell = (message: string | undefined, ...fields: readonly (keyof Disks)[]): void => {
    if (message === undefined) return;
    const layer = writers.find((one, n) => one && fields.some((field) => layers[n]?.[field])) ?? machine;
    const field = fields.find((one) => (layer.document.spec as Disks)[one]);
    const path: Path = field === undefined ? ['spec'] : ['spec', field];
    const key = `${layer.document.kind}/${layer.document.metadata.name} ${path.join('.')} ${message}`;
    const known = merged.get(key);
    if (known) known.machines.push(machine);
    else merged.set(key, { layer, path, message, machines: [machine] });
  };
  const data = narrowestDisk('dataDisk', layers);
  const image = candidates.Image.get(profile?.document.spec.image ?? '')?.document;
  tell(image && dataDiskFault(data, { name: image.metadata.name, ...image.spec }), 'dataDisk');
  const disk = narrowestDisk('bootDisk', layers);
  for (const field of ['dataDisk', 'etcdDisk', 'bootDisk'] as const)
    tell(wholeDiskFault(narrowestDisk(field, layers), field), field);
  for (const fault of etcdFaults({ layers, data, boot: disk, image }, metadata.name, candidates, roles))
    tell(fault, 'etcdDisk', ...(data === undefined ? [] : (['dataDisk'] as const)));
  if (disk === undefined) return;
  if (spec.delivery !== 'inline') tell(bootDiskFault(disk, data, image?.spec), 'bootDisk');
  else if (spec.bootDisk !== undefined) {
    const fault =
      'delivery: inline and bootDisk exclude each other; only a machine with an agent can start from its boot disk';
    report(found, machine, ['spec', 'bootDisk'], fault);
  }
}

/**
 * What is wrong with the etcd disk of a machine. Machines that are no members of etcd do not use
 * that of a Profile or Cluster.
 */
function* etcdFaults(
  { layers, data, boot, image }: MachineDisks,
  name: string,
  candidates: CandidateSet,
  roles: ReadonlyMap<string, Membership>,
): Iterable<string> {
  const etcd = narrowestDisk('etcdDisk', layers);
  const cluster = candidates.Cluster.get(roles.get(name)?.cluster ?? '')?.document;
  if (etcd === undefined || cluster === undefined) return;
  if (!etcdMembers(cluster).includes(name)) {
    if (layers[0]?.etcdDisk !== undefined)
      yield `etcdDisk is for members of etcd, and ${name} is none in Cluster/${cluster.metadata.name}; remove it`;
    return;
  }
  const fault = etcdDiskFault(etcd, { data, boot });
  if (fault !== undefined) yield fault;
  const lacking = image && dataDiskFault(etcd, { name: image.metadata.name, ...image.spec }, 'etcdDisk');
  if (lacking !== undefined) yield lacking;
}

function checkAddresses(
  machine: Candidate<'Machine'>,
  addresses: readonly string[],
  { candidates, networkOf, claims, reserving, found }: MachineContext,
): void {
  const seen = new Map<NetworkView, string>();
  for (const [n, text] of addresses.entries()) {
    const path: Path = ['spec', 'addresses', n];
    const other = claims.take(text, machine);
    const configured = claims.holderOfStatic(text);
    const holder = other ?? (configured === machine ? undefined : configured);
    if (holder)
      report(found, machine, path, `address ${text} is also claimed by ${placeOf(holder)}`, {
        code: 'E_DUPLICATE',
        other: holder,
      });
    if (text.includes(':')) {
      if (!isOwn(ip(text)))
        report(found, machine, path, `address ${text} is not one at which other hosts can reach the machine`);
      continue;
    }
    const network = networkOf(ipv4(text));
    if (!network) {
      if (lacksAny(candidates, 'Network')) continue;
      report(found, machine, path, `address ${text} is outside every network`, {
        code: 'E_REFERENCE',
        missing: 'Network',
      });
      continue;
    }
    reserving.add(network);
    checkReservation(machine, path, text, network, seen, found);
  }
}

const NOT_OWN = ['::/127', 'fe80::/10', 'ff00::/8'].map(ipNetwork);

/**
 * False for unspecified, loopback, link-local and multicast addresses: they do not identify one
 * host.
 */
const isOwn = (address: Ip): boolean => !NOT_OWN.some((network) => networkHolds(network, address));

/**
 * Checks an address of a Network that no machine can have.
 *
 * @param mayRoute Whether the machine may be the gateway itself; that is then a warning.
 */
export function checkPlace(
  layer: Candidate,
  path: Path,
  text: string,
  network: NetworkView,
  found: CrossFault[],
  mayRoute = false,
): void {
  const name = network.candidate.document.metadata.name;
  if (!isHost(network, ipv4(text)))
    report(
      found,
      layer,
      path,
      `address ${text} is the network address or the broadcast address (Network/${name})`,
    );
  for (const field of ['address', 'gateway'] as const)
    if (network.spec[field] === text)
      report(
        found,
        layer,
        path,
        `address ${text} is the ${field} of ${placeOf(network.candidate, ['spec', field])}`,
        {
          code: 'E_DUPLICATE',
          other: network.candidate,
          ...(mayRoute && field === 'gateway' && { severity: 'warning' }),
        },
      );
}

function checkReservation(
  machine: Candidate,
  path: Path,
  text: string,
  network: NetworkView,
  seen: Map<NetworkView, string>,
  found: CrossFault[],
): void {
  const name = network.candidate.document.metadata.name;
  checkPlace(machine, path, text, network, found);
  const before = seen.get(network);
  if (before !== undefined)
    report(
      found,
      machine,
      path,
      `addresses ${before} and ${text} are both in Network/${name}; a machine can have one address per network`,
    );
  seen.set(network, text);
}

function checkMacs(
  machine: Candidate<'Machine'>,
  spec: MachineSpec,
  claims: Claims,
  found: CrossFault[],
): void {
  for (const [n, mac] of spec.macs.entries()) {
    const path: Path = ['spec', 'macs', n];
    const other = claims.take(mac, machine);
    if (other === machine) report(found, machine, path, `${mac} is listed twice`, { code: 'E_DUPLICATE' });
    else if (other)
      report(found, machine, path, `MAC ${mac} is also claimed by ${placeOf(other)}`, {
        code: 'E_DUPLICATE',
        other,
      });
    // The lowest bit of the first octet marks a group address (multicast or broadcast).
    if (mac === '00:00:00:00:00:00' || (Number.parseInt(mac[1]!, 16) & 1) === 1)
      report(
        found,
        machine,
        path,
        `${mac} is not the address of an interface (zero, broadcast or multicast)`,
      );
    else if (EXAMPLE_MACS.has(mac))
      report(found, machine, path, `${mac} is an address of examples; write that of the machine`, {
        severity: 'warning',
      });
  }
}

/** Addresses that documentation of many programs shows, and that people copy from there. */
const EXAMPLE_MACS: ReadonlySet<string> = new Set([
  'aa:bb:cc:dd:ee:ff',
  '00:11:22:33:44:55',
  '12:34:56:78:9a:bc',
  '00:00:5e:00:53:00',
]);

/**
 * Boards whose vendor programmed no UUID share one. Two machines with the same UUID are therefore a
 * warning; with the same serial number as well they are an error.
 */
function checkHardware(
  machine: Candidate<'Machine'>,
  spec: MachineSpec,
  claims: Claims,
  found: CrossFault[],
): void {
  if (spec.uuid === undefined) return;
  const same = spec.serial === undefined ? undefined : claims.take(`${spec.uuid} ${spec.serial}`, machine);
  const alike = claims.take(spec.uuid, machine);
  if (same)
    report(
      found,
      machine,
      ['spec', 'uuid'],
      `UUID ${spec.uuid} and serial ${spec.serial} are also those of ${placeOf(same)}`,
      { code: 'E_DUPLICATE', other: same },
    );
  else if (alike)
    report(
      found,
      machine,
      ['spec', 'uuid'],
      `UUID ${spec.uuid} is also that of ${placeOf(alike)}; neither machine is recognised by its UUID alone`,
      { code: 'E_DUPLICATE', other: alike, severity: 'warning' },
    );
}
