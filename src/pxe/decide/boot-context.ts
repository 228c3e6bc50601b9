/**
 * What the boot service keeps at hand: per machine, what follows from documents and status,
 * computed once per change.
 */
import type { AgentBoot } from '../../agent/agents.ts';
import { deliveryOf } from '../../agent/machine-layer.ts';
import type { Clock } from '../../base/clock.ts';
import { contains, formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { Mac } from '../../base/mac.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog, EventSink } from '../../events/event.ts';
import type { Render } from '../../ignition/rendered.ts';
import type { Memberships } from '../../machines/membership.ts';
import type { Recognition } from '../../machines/recognition.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import { type NamedProfile, type Selection, select } from '../../machines/select.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { PxeOptions } from '../../resources/kinds.ts';
import type { Store } from '../../store/store.ts';
import { type AssetStore, assetsOf } from '../assets/assets.ts';
import type { BootAnswer } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { type Configurations, createConfigurations } from './configuration.ts';
import { judge, type Recognised, reason, type Verdict } from './decide.ts';
import type { BootDecision } from './decision.ts';

export interface BootDeps {
  readonly catalog: Catalog;
  readonly memberships: Memberships;
  readonly roster: Roster;
  readonly assets: AssetStore;
  /** The networks that are served; a function where they can change. */
  readonly networks: readonly ServedNetwork[] | (() => readonly ServedNetwork[]);
  readonly render: Render;
  readonly store: Store;
  /** With `list`, explanations tell the last events. */
  readonly events: EventSink & Partial<Pick<EventLog, 'list'>>;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
  /** Machines of clusters; absent: there are none. */
  readonly agents?: AgentBoot;
  /** Addresses that a hardware address holds a lease on, to know a machine's reports by. */
  readonly leasedAddresses?: (mac: Mac) => readonly string[];
}

/** What follows for a machine on a network, as long as neither it nor a document changes. */
export interface MachineAnswer {
  readonly network: ServedNetwork;
  readonly generation: number;
  readonly version: number;
  readonly recognised: Extract<Recognised, { kind: 'known' }> | { readonly kind: 'unknown' };
  /** Without images and configuration looked at: what DHCP goes by. */
  readonly outline: Verdict;
  readonly address: Ipv4 | undefined;
  readonly hostname: string | undefined;
  readonly machinePxe: PxeOptions | undefined;
  /** For an ordinary DHCP client. */
  readonly ordinary: BootAnswer;
}

export interface BootContext extends BootDeps {
  readonly configurations: Configurations;
  servedNetworks(): readonly ServedNetwork[];
  profiles(): readonly NamedProfile[];
  /** The hashes that Images name. */
  needed(): ReadonlySet<string>;
  standing(member: Member, network: ServedNetwork): MachineAnswer;
  /** Merged from network, longest vendor class, machine: the narrower wins. */
  pxeFor(
    machine: PxeOptions | undefined,
    network: ServedNetwork,
    vendorClass: string | undefined,
  ): PxeOptions;
  /**
   * The one machine that was recognised; a conflict with its names; or nobody. Folds discovered
   * records into a known machine.
   */
  whois(found: Recognition): Whois;
  /** Records and counts a decision once per change within a session. */
  decided(
    subject: string,
    live: LiveSession,
    at: string,
    network: string | undefined,
    decision: BootDecision,
    fields?: Readonly<Record<string, string>>,
  ): boolean;
  close(): void;
}

export type Whois =
  | { readonly kind: 'known'; readonly member: Member }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'conflict'; readonly machines: readonly string[] };

const NOT_A_BOOT_CLIENT: BootDecision = { kind: 'ignore', reason: reason('not_a_boot_client') };

export function createBootContext(deps: BootDeps): BootContext {
  const { catalog, roster, events, metrics } = deps;
  const configurations = createConfigurations(deps);
  const answers = new WeakMap<Member, MachineAnswer>();
  let generation = 1;
  let profiles: readonly NamedProfile[] | undefined;
  let needed: ReadonlySet<string> | undefined;

  const unsubscribe = catalog.subscribe((changes) => {
    if (changes.every((change) => change.kind === 'Machine')) return;
    generation++;
    profiles = undefined;
    needed = undefined;
    configurations.documentsChanged();
  });

  const allProfiles = (): readonly NamedProfile[] => {
    profiles ??= catalog
      .list('Profile')
      .map(({ document }) => ({ name: document.metadata.name, spec: document.spec }));
    return profiles;
  };

  return {
    ...deps,
    configurations,
    servedNetworks: () => (typeof deps.networks === 'function' ? deps.networks() : deps.networks),
    profiles: allProfiles,
    needed() {
      needed ??= new Set(catalog.list('Image').flatMap(({ document }) => assetsOf(document.spec)));
      return needed;
    },
    standing(member, network) {
      const found = answers.get(member);
      if (
        found !== undefined &&
        found.generation === generation &&
        found.version === member.version &&
        found.network === network
      )
        return found;
      const made = standingOf(member, network, allProfiles(), generation);
      answers.set(member, made);
      return made;
    },
    pxeFor(machine, network, vendorClass) {
      let pxe = network.pxe;
      if (vendorClass !== undefined && network.vendorClasses.length > 0) {
        const fitting = network.vendorClasses
          .filter(({ prefix }) => vendorClass.startsWith(prefix))
          .sort((a, b) => b.prefix.length - a.prefix.length)[0];
        if (fitting) pxe = { ...pxe, ...fitting.pxe };
      }
      return machine ? { ...pxe, ...machine } : pxe;
    },
    whois(found) {
      if (found.kind === 'unknown') return found;
      if (found.kind === 'conflict')
        return { kind: 'conflict', machines: found.matches.map((match) => match.name).sort() };
      const member = roster.get(found.match.name)!;
      if (found.same.length > 0) roster.fold(member, found.same);
      return { kind: 'known', member };
    },
    decided(subject, live, at, network, decision, fields = {}) {
      const { kind, reason } = decision;
      const last = live.decided;
      if (last?.subject === subject && last.at === at && last.kind === kind && last.code === reason.code)
        return false;
      live.decided = { subject, at, kind, code: reason.code };
      metrics.add('muster_boot_decisions_total', { kind, reason: reason.code });
      events.record({
        kind: 'boot.decision',
        subject,
        session: live.session.id,
        ...(network ? { network } : {}),
        reason,
        fields: {
          stage: at,
          decision: kind,
          ...fields,
          ...(decision.kind === 'loader' ? { loader: decision.loader } : {}),
          ...(decision.kind === 'script' ? { profile: decision.profile, image: decision.image } : {}),
        },
      });
      return true;
    },
    close: unsubscribe,
  };
}

/** Whether the secrets of a machine come with its first configuration. */
export const isInline = ({ agents, catalog }: BootDeps, machine: string): boolean =>
  agents?.agentCluster(machine) !== undefined &&
  deliveryOf(catalog.get('Machine', machine)?.document) === 'inline';

export function selectionOf(
  member: Member,
  network: string | undefined,
  profiles: readonly NamedProfile[],
): Selection {
  const document = member.entry?.document;
  const { seen } = member.status;
  return select(
    {
      spec: document?.spec ?? { macs: [] },
      labels: document?.metadata.labels,
      macs: seen.macs,
      arch: seen.arch,
      firmware: seen.firmware,
      network,
      manufacturer: seen.manufacturer,
      product: seen.product,
      serial: document?.spec.serial ?? seen.serial,
    },
    profiles,
  );
}

/** The address on this network that the machine's document names. */
export function reservedAddress(member: Member, { subnet }: ServedNetwork): Ipv4 | undefined {
  for (const text of member.entry?.document.spec.addresses ?? []) {
    const address = parseIpv4(text);
    if (address !== undefined && contains(subnet, address)) return address;
  }
  return undefined;
}

/** The machine's address for templates: reserved, else the one it asks from. */
export function addressOf(
  member: Member,
  network: ServedNetwork | undefined,
  peer: string | undefined,
): string | undefined {
  const reserved = network && reservedAddress(member, network);
  return reserved === undefined ? peer : formatIpv4(reserved);
}

function standingOf(
  member: Member,
  network: ServedNetwork,
  profiles: readonly NamedProfile[],
  generation: number,
): MachineAnswer {
  const spec = member.entry?.document.spec;
  const recognised: MachineAnswer['recognised'] = spec
    ? {
        kind: 'known',
        selection: selectionOf(member, network.name, profiles),
        bootsWithoutReady: member.status.bootsWithoutReady,
      }
    : { kind: 'unknown' };
  const address = reservedAddress(member, network);
  const hostname = spec ? hostnameOf(member) : undefined;
  return {
    network,
    generation,
    version: member.version,
    recognised,
    outline: judge(recognised),
    address,
    hostname,
    machinePxe: spec?.pxe,
    ordinary: {
      decision: NOT_A_BOOT_CLIENT,
      subject: member.name,
      pxe: network.pxe,
      ...(address === undefined ? {} : { reservedAddress: address }),
      ...(hostname === undefined ? {} : { hostname }),
      writes: [],
    },
  };
}

/**
 * The document's host name where it is a plain one (templates need a session), else the machine's
 * name.
 */
function hostnameOf(member: Member): string {
  const hostname = member.entry?.document.spec.config?.hostname;
  return hostname !== undefined && !hostname.includes('${') ? hostname : member.name;
}
