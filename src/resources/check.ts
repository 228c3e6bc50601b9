/**
 * What must be true between fields and between documents. Linear in the number of documents: 10,000 machines take some
 * milliseconds, so every change is checked against the whole.
 */
import { parseDuration } from '../base/duration.ts';
import type { ErrorCode, Fault, SourceSpot } from '../base/errors.ts';
import { broadcastOf, type Cidr, cidr, contains, formatIpv4, type Ipv4, ipv4 } from '../base/ipv4.ts';
import { pathText } from './document.ts';
import type { Document, Kind, MachineSpec, NetworkSpec, ProfileSpec } from './kinds.ts';
import { didYouMean } from './suggest.ts';
import type { Path } from './yaml.ts';

/** A document to be checked, and where it is written if it is from a file. An entry of the catalogue is one. */
export interface Candidate<K extends Kind = Kind> {
  readonly document: Document<K>;
  /** Where it begins; absent for documents of the API. */
  readonly at?: SourceSpot;
  readonly origin?: { readonly from: 'file'; readonly at: SourceSpot } | { readonly from: 'api' };
  /** Where a field is, when its text is at hand. */
  readonly spot?: (path: Path, what?: 'value' | 'key') => SourceSpot;
}

/** The place of a field, as exactly as it is known. */
export function spotOf(candidate: Candidate, path: Path): SourceSpot | undefined {
  const { spot, at, origin } = candidate;
  return spot?.(path) ?? at ?? (origin?.from === 'file' ? origin.at : undefined);
}

export type DocumentId = `${Kind}/${string}`;
export const idOf = (document: Document): DocumentId => `${document.kind}/${document.metadata.name}`;

/** A fault that documents have together. */
export interface CrossFault {
  readonly fault: Fault;
  /** Whose field it is. */
  readonly document: DocumentId;
  /** The other one, where two documents disagree. */
  readonly other?: DocumentId;
  /** What would heal it by existing, or being as it was. */
  readonly missing?: Kind;
  /** A warning does not refuse the document: it says what will not work yet. */
  readonly severity: 'error' | 'warning';
}

/** The same fault keeps its key when places move. */
export const faultKey = (one: CrossFault): string =>
  `${one.document} ${one.fault.code} ${one.fault.path ?? ''}`;

/** All candidates by kind and name. */
export type CandidateSet = { readonly [K in Kind]: ReadonlyMap<string, Candidate<K>> };

/** Checks the whole set. `candidates` holds each name at most once. */
export function checkDocuments(candidates: CandidateSet): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networks = [...candidates.Network.values()].map(networkView);
  for (const network of networks) checkNetwork(network, found);
  checkOverlaps(networks, found);
  const claims = new Claims();
  const reserving = new Set<NetworkView>();
  const context = { candidates, networkOf: networkIndex(networks), claims, reserving, found };
  for (const machine of candidates.Machine.values()) checkMachine(machine, context);
  for (const network of networks) checkReservations(network, reserving, found);
  for (const profile of candidates.Profile.values()) checkProfile(profile, candidates, found);
  return found;
}

/**
 * Checks only these machines against what others have claimed, in constant time for each: what `checkDocuments` would find
 * of them in a set that is otherwise as it was. `claims` are those of the others.
 */
export function checkMachines(
  machines: readonly Candidate<'Machine'>[],
  candidates: CandidateSet,
  claims: Claims,
): readonly CrossFault[] {
  const found: CrossFault[] = [];
  const networkOf = networkIndex([...candidates.Network.values()].map(networkView));
  const context = { candidates, networkOf, claims, reserving: new Set<NetworkView>(), found };
  for (const machine of machines) checkMachine(machine, context);
  return found;
}

interface MachineContext {
  readonly candidates: CandidateSet;
  readonly networkOf: (address: Ipv4) => NetworkView | undefined;
  readonly claims: Claims;
  readonly reserving: Set<NetworkView>;
  readonly found: CrossFault[];
}

interface NetworkView {
  readonly candidate: Candidate<'Network'>;
  readonly spec: NetworkSpec;
  readonly subnet: Cidr;
  readonly last: Ipv4;
}

function networkView(candidate: Candidate<'Network'>): NetworkView {
  const { spec } = candidate.document;
  const subnet = cidr(spec.subnet);
  return { candidate, spec, subnet, last: broadcastOf(subnet) };
}

/** Where a candidate is, for a message about another one. */
export function placeOf(candidate: Candidate, path: Path = []): string {
  const id = idOf(candidate.document);
  const at = spotOf(candidate, path);
  return at ? `${id} (${at.file}:${at.line})` : `${id} (from the API)`;
}

function report(
  found: CrossFault[],
  candidate: Candidate,
  path: Path,
  message: string,
  more: {
    readonly code?: ErrorCode;
    readonly other?: Candidate;
    readonly missing?: Kind;
    readonly severity?: 'warning';
  } = {},
): void {
  const at = spotOf(candidate, path);
  const id = idOf(candidate.document);
  found.push({
    fault: {
      code: more.code ?? 'E_SCHEMA',
      message: `${id}: ${message}`,
      path: pathText(path),
      ...(at && { at }),
    },
    document: id,
    ...(more.other && { other: idOf(more.other.document) }),
    ...(more.missing && { missing: more.missing }),
    severity: more.severity ?? 'error',
  });
}

/** Whether an address may be a host's own: inside, and neither the network's nor the broadcast address. */
function isHost(network: NetworkView, address: Ipv4): boolean {
  if (!contains(network.subnet, address)) return false;
  return network.subnet.prefix >= 31 || (address !== network.subnet.base && address !== network.last);
}

function checkNetwork(network: NetworkView, found: CrossFault[]): void {
  const { candidate, spec } = network;
  for (const field of ['address', 'gateway'] as const) {
    const text = spec[field];
    // Behind relays, Muster's own address is one of another network.
    if (field === 'address' && text !== undefined && !contains(network.subnet, ipv4(text))) continue;
    if (text !== undefined && !isHost(network, ipv4(text)))
      report(
        found,
        candidate,
        ['spec', field],
        `${field} ${text} is not a host address inside ${spec.subnet}`,
      );
  }
  checkPools(network, found);
  for (const field of ['leaseTime', 'bootLeaseTime'] as const) {
    const text = spec.dhcp[field];
    const span = text === undefined ? undefined : parseDuration(text);
    if (span !== undefined && (span < 30_000 || span > 0xfffffffe * 1000))
      report(found, candidate, ['spec', 'dhcp', field], `${field} ${text} is not between 30s and 136 years`);
  }
  const prefixes = new Set<string>();
  for (const [n, { prefix }] of (spec.vendorClasses ?? []).entries()) {
    if (prefixes.has(prefix))
      report(
        found,
        candidate,
        ['spec', 'vendorClasses', n, 'prefix'],
        `the prefix "${prefix}" stands twice`,
        {
          code: 'E_DUPLICATE',
        },
      );
    prefixes.add(prefix);
  }
}

function checkPools(network: NetworkView, found: CrossFault[]): void {
  const { candidate, spec } = network;
  const pools = spec.dhcp.pools ?? [];
  const at = (n: number, ...rest: string[]): Path => ['spec', 'dhcp', 'pools', n, ...rest];
  if (pools.length > 0 && spec.dhcp.mode !== 'server')
    report(
      found,
      candidate,
      ['spec', 'dhcp', 'pools'],
      `mode ${spec.dhcp.mode} gives no addresses from pools; remove them or use mode server`,
    );
  const ranges = pools.map((pool, n) => ({ n, start: ipv4(pool.start), end: ipv4(pool.end) }));
  for (const { n, start, end } of ranges) {
    for (const [field, address] of [
      ['start', start],
      ['end', end],
    ] as const)
      if (!isHost(network, address))
        report(
          found,
          candidate,
          at(n, field),
          `pool ${field} ${formatIpv4(address)} is not a host address inside ${spec.subnet}`,
        );
    if (start > end)
      report(
        found,
        candidate,
        at(n),
        `pool starts at ${formatIpv4(start)}, after its end ${formatIpv4(end)}`,
      );
    for (const field of ['address', 'gateway'] as const) {
      const own = spec[field] === undefined ? undefined : ipv4(spec[field]);
      if (own !== undefined && own >= start && own <= end)
        report(
          found,
          candidate,
          at(n),
          `the pool holds the network's own ${field} ${spec[field]}; it would be given to a machine`,
        );
    }
  }
  const sorted = ranges.filter((range) => range.start <= range.end).sort((a, b) => a.start - b.start);
  for (const [i, range] of sorted.entries()) {
    const before = sorted[i - 1];
    if (before && before.end >= range.start)
      report(
        found,
        candidate,
        at(range.n),
        `pools overlap: number ${range.n + 1} begins inside number ${before.n + 1}`,
      );
  }
}

function checkOverlaps(networks: readonly NetworkView[], found: CrossFault[]): void {
  const sorted = [...networks].sort(
    (a, b) => a.subnet.base - b.subnet.base || a.subnet.prefix - b.subnet.prefix,
  );
  let widest: NetworkView | undefined;
  for (const network of sorted) {
    if (widest && widest.last >= network.subnet.base)
      report(
        found,
        network.candidate,
        ['spec', 'subnet'],
        `subnet ${network.spec.subnet} overlaps ${widest.spec.subnet} of ${placeOf(widest.candidate, ['spec', 'subnet'])}`,
        { code: 'E_DUPLICATE', other: widest.candidate },
      );
    if (!widest || network.last > widest.last) widest = network;
  }
}

/** Who has claimed what. The first one keeps it; a later one is told. */
export class Claims {
  readonly #by = new Map<string, Candidate<'Machine'>>();
  readonly #base: Claims | undefined;
  readonly #ignored: ReadonlySet<string>;
  /** Whether anything was claimed twice: then giving it back does not tell who has it next. */
  shared = false;

  /** On top of `base`, whose machines named in `ignored` do not count. */
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

  /** Who holds `what` already; if nobody, it is now `machine`'s. */
  take(what: string, machine: Candidate<'Machine'>): Candidate<'Machine'> | undefined {
    const holder = this.#holder(what);
    if (holder === undefined) this.#by.set(what, machine);
    else this.shared = true;
    return holder;
  }

  add(machine: Candidate<'Machine'>): void {
    for (const what of claimsOf(machine.document.spec)) this.take(what, machine);
  }

  remove(machine: Candidate<'Machine'>): void {
    const { name } = machine.document.metadata;
    for (const what of claimsOf(machine.document.spec))
      if (this.#by.get(what)?.document.metadata.name === name) this.#by.delete(what);
  }
}

/** Hardware addresses, addresses, UUID, and UUID with serial number, in one name space. */
function* claimsOf(spec: MachineSpec): Iterable<string> {
  yield* spec.macs;
  yield* spec.addresses ?? [];
  if (spec.uuid === undefined) return;
  yield spec.uuid;
  if (spec.serial !== undefined) yield `${spec.uuid} ${spec.serial}`;
}

/** Finds the network of an address; networks are sorted and few, machines many. */
function networkIndex(networks: readonly NetworkView[]): (address: Ipv4) => NetworkView | undefined {
  const sorted = [...networks].sort((a, b) => a.subnet.base - b.subnet.base);
  return (address) => {
    let low = 0;
    let high = sorted.length - 1;
    let found: NetworkView | undefined;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const network = sorted[middle]!;
      if (network.subnet.base <= address) {
        found = network;
        low = middle + 1;
      } else high = middle - 1;
    }
    return found && contains(found.subnet, address) ? found : undefined;
  };
}

function checkMachine(machine: Candidate<'Machine'>, context: MachineContext): void {
  const { candidates, found, claims } = context;
  const { spec } = machine.document;
  checkMacs(machine, spec, claims, found);
  checkHardware(machine, spec, claims, found);
  if (spec.profile !== undefined)
    checkReference(machine, 'Profile', spec.profile, ['spec', 'profile'], candidates, found);
  if (spec.cluster !== undefined)
    checkReference(machine, 'Cluster', spec.cluster, ['spec', 'cluster'], candidates, found);
  if (spec.addresses) checkAddresses(machine, spec.addresses, context);
}

function checkAddresses(
  machine: Candidate<'Machine'>,
  addresses: readonly string[],
  { networkOf, claims, reserving, found }: MachineContext,
): void {
  const seen = new Map<NetworkView, string>();
  for (const [n, text] of addresses.entries()) {
    const path: Path = ['spec', 'addresses', n];
    const other = claims.take(text, machine);
    if (other)
      report(found, machine, path, `address ${text} is also claimed by ${placeOf(other)}`, {
        code: 'E_DUPLICATE',
        other,
      });
    const network = networkOf(ipv4(text));
    if (!network) {
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

function checkReservation(
  machine: Candidate,
  path: Path,
  text: string,
  network: NetworkView,
  seen: Map<NetworkView, string>,
  found: CrossFault[],
): void {
  const name = network.candidate.document.metadata.name;
  if (!isHost(network, ipv4(text)))
    report(
      found,
      machine,
      path,
      `address ${text} is the network's own or its broadcast address (Network/${name})`,
    );
  for (const field of ['address', 'gateway'] as const)
    if (network.spec[field] === text)
      report(
        found,
        machine,
        path,
        `address ${text} is the ${field} of ${placeOf(network.candidate, ['spec', field])}`,
        {
          code: 'E_DUPLICATE',
          other: network.candidate,
        },
      );
  const before = seen.get(network);
  if (before !== undefined)
    report(
      found,
      machine,
      path,
      `addresses ${before} and ${text} are both in Network/${name}; one a network`,
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
    if (other === machine) report(found, machine, path, `${mac} stands twice`, { code: 'E_DUPLICATE' });
    else if (other)
      report(found, machine, path, `MAC ${mac} is also claimed by ${placeOf(other)}`, {
        code: 'E_DUPLICATE',
        other,
      });
    // The lowest bit of the first octet: a group's address, not an interface's.
    if (mac === '00:00:00:00:00:00' || (Number.parseInt(mac[1]!, 16) & 1) === 1)
      report(
        found,
        machine,
        path,
        `${mac} is not the address of an interface (zero, broadcast or multicast)`,
      );
  }
}

/** Boards without a programmed UUID share one: alone it is a warning, with the same serial number it is the same machine. */
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
      `UUID ${spec.uuid} is also that of ${placeOf(alike)}; neither is recognised by it alone`,
      { code: 'E_DUPLICATE', other: alike, severity: 'warning' },
    );
}

function checkReference(
  from: Candidate,
  kind: Kind,
  name: string,
  path: Path,
  candidates: CandidateSet,
  found: CrossFault[],
  severity?: 'warning',
): void {
  if (candidates[kind].has(name)) return;
  report(found, from, path, `there is no ${kind} "${name}"${didYouMean(name, candidates[kind].keys())}`, {
    code: 'E_REFERENCE',
    missing: kind,
    ...(severity && { severity }),
  });
}

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
