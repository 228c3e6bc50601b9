/**
 * Compares the addresses in `config.network` with those of other machines and with Networks. An
 * address of a Network is that of one host; elsewhere, two segments may have the same addresses.
 */
import { firstFew } from '../base/first-few.ts';
import { ipv4 } from '../base/ipv4.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  lacksAny,
  placeOf,
  report,
} from './candidate.ts';
import { checkPlace, type MachineContext } from './check-machines.ts';
import type { NetworkView } from './check-networks.ts';
import { clusterOfMachine, type Membership } from './membership.ts';
import { learnsAddresses, replaces, type StaticAddress, staticAddresses } from './static-addresses.ts';

/** Machines that repeat an address which is in no Network; the first one has it by itself. */
export type Repeats = Map<
  string,
  { readonly first: Candidate<'Machine'>; readonly others: [Candidate<'Machine'>, StaticAddress][] }
>;

type Context = MachineContext & { readonly repeats: Repeats };

/** Checks addresses in the configuration of a Machine; its own are claimed already. */
export function checkStatic(machine: Candidate<'Machine'>, context: Context): void {
  const { claims, found, networkOf } = context;
  const { spec } = machine.document;
  const own = new Set(spec.addresses);
  const home = homeOf(machine, networkOf);
  for (const address of staticAddresses(spec.config)) {
    const { text, path } = address;
    const network = text.includes(':') ? undefined : networkOf(ipv4(text));
    const reserved = claims.holder(text);
    const holder = claims.takeStatic(text, machine);
    const other = reserved !== undefined && reserved !== machine ? reserved : holder;
    if (own.has(text)) continue;
    if (other !== undefined && other !== machine) {
      if (network !== undefined || other === reserved)
        report(found, machine, path, `address ${text} is also claimed by ${placeOf(other)}`, {
          code: 'E_DUPLICATE',
          other,
        });
      // It may be meant for a Network that is not known because of its faults.
      else if (!lacksAny(context.candidates, 'Network'))
        repeat(context.repeats, text, other, [machine, address]);
    }
    if (network === undefined) continue;
    checkPlace(machine, path, text, network, found, network !== home);
    checkPool(machine, address, network, found);
  }
  checkHome(machine, home, context);
}

/** The Network that has the reserved address of the machine. */
function homeOf(
  { document }: Candidate<'Machine'>,
  networkOf: MachineContext['networkOf'],
): NetworkView | undefined {
  const text = document.spec.addresses?.find((one) => !one.includes(':'));
  return text === undefined ? undefined : networkOf(ipv4(text));
}

function repeat(
  repeats: Repeats,
  text: string,
  first: Candidate<'Machine'>,
  one: [Candidate<'Machine'>, StaticAddress],
): void {
  const known = repeats.get(text);
  if (known === undefined) repeats.set(text, { first, others: [one] });
  else known.others.push(one);
}

/** Tells each repeated address once. */
export function reportRepeats(repeats: Repeats, found: CrossFault[]): void {
  for (const [text, { first, others }] of repeats) {
    const [[machine, { path }]] = others as [[Candidate<'Machine'>, StaticAddress]];
    const more = others.slice(1).map(([one]) => one.document.metadata.name);
    const also = more.length === 0 ? '' : `, and so do ${firstFew(more)}`;
    report(
      found,
      machine,
      path,
      `address ${text} is also claimed by ${placeOf(first)}${also}; no Network has it, so this works only where they are on different segments`,
      { code: 'E_DUPLICATE', other: first, severity: 'warning' },
    );
  }
}

/** An address that Muster would lease to any client. One in `spec.addresses` is reserved. */
function checkPool(
  layer: Candidate,
  { text, path }: StaticAddress,
  { candidate, spec }: NetworkView,
  found: CrossFault[],
): void {
  const value = ipv4(text);
  const pool = spec.dhcp.pools?.find(({ start, end }) => ipv4(start) <= value && value <= ipv4(end));
  if (pool !== undefined)
    report(
      found,
      layer,
      path,
      `address ${text} is inside the pool ${pool.start} to ${pool.end} of ${placeOf(candidate)}, from which any machine may get it; use one outside, or reserve it in \`addresses\` of its Machine`,
      { other: candidate, severity: 'warning' },
    );
}

/** A machine that is reserved one address in its network and configured with another one. */
function checkHome(
  machine: Candidate<'Machine'>,
  home: NetworkView | undefined,
  { found, networkOf, roles }: Context,
): void {
  const { metadata, spec } = machine.document;
  if (home === undefined || roles.has(metadata.name) || learnsAddresses(spec.config)) return;
  const inside = staticAddresses(spec.config).filter(
    ({ text }) => !text.includes(':') && networkOf(ipv4(text)) === home,
  );
  const reserved = spec.addresses!.find((one) => !one.includes(':') && networkOf(ipv4(one)) === home);
  if (inside.length === 0 || inside.some(({ text }) => text === reserved)) return;
  report(
    found,
    machine,
    inside[0]!.path,
    `address ${inside[0]!.text} is in Network/${home.candidate.document.metadata.name}, where \`addresses\` has ${reserved}; correct one of the two`,
    { severity: 'warning' },
  );
}

/** Checks addresses that a Profile or Cluster gives to each of its machines. */
export function checkSharedStatic(
  layers: Pick<CandidateSet, 'Profile' | 'Cluster'>,
  machines: ReadonlyMap<string, Candidate<'Machine'>>,
  context: Pick<Context, 'found' | 'networkOf' | 'claims' | 'roles'>,
): void {
  const all = [...layers.Profile.values(), ...layers.Cluster.values()];
  const given = new Map(
    all.flatMap((layer) => {
      const addresses = staticAddresses(layer.document.spec.config);
      const key = `${layer.document.kind}/${layer.document.metadata.name}`;
      return addresses.length === 0 ? [] : [[key, { layer, addresses }] as const];
    }),
  );
  if (given.size === 0) return;
  const users = usersOf(given, machines, context.roles);
  for (const [key, { layer, addresses }] of given)
    for (const address of addresses) checkShared(layer, address, users.get(key) ?? [], context);
}

/** By Profile and Cluster: the machines that have it. */
function usersOf(
  given: ReadonlyMap<string, unknown>,
  machines: ReadonlyMap<string, Candidate<'Machine'>>,
  roles: ReadonlyMap<string, Membership>,
): ReadonlyMap<string, readonly Candidate<'Machine'>[]> {
  const users = new Map<string, Candidate<'Machine'>[]>([...given.keys()].map((key) => [key, []]));
  for (const machine of machines.values()) {
    const { spec, metadata } = machine.document;
    const cluster = clusterOfMachine(metadata.name, machine.document, roles);
    for (const key of [`Profile/${spec.profile}`, `Cluster/${cluster}`]) users.get(key)?.push(machine);
  }
  return users;
}

function checkShared(
  layer: Candidate<'Profile'> | Candidate<'Cluster'>,
  address: StaticAddress,
  users: readonly Candidate<'Machine'>[],
  { found, networkOf, claims }: Pick<Context, 'found' | 'networkOf' | 'claims'>,
): void {
  const { text, path } = address;
  const network = text.includes(':') ? undefined : networkOf(ipv4(text));
  const having = users.filter(({ document }) => !replaces(document.spec.config, address.interface));
  if (having.length > 1) {
    const names = firstFew(having.map(({ document }) => document.metadata.name));
    report(
      found,
      layer,
      path,
      `address ${text} is given to ${having.length} machines: ${names}; write it in one Machine${network === undefined ? '; no Network has it, so this works only where they are on different segments' : ''}`,
      { code: 'E_DUPLICATE', ...(network === undefined && { severity: 'warning' }) },
    );
    return;
  }
  const [only] = having;
  const other = claims.holder(text) ?? (network === undefined ? undefined : claims.holderOfStatic(text));
  if (other !== undefined && other !== only && having.length > 0)
    report(found, layer, path, `address ${text} is also claimed by ${placeOf(other)}`, {
      code: 'E_DUPLICATE',
      other,
    });
  if (network === undefined || (other !== undefined && other === only)) return;
  checkPlace(layer, path, text, network, found, true);
  checkPool(layer, address, network, found);
}
