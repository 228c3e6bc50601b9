/**
 * The dependencies of the boot service, and the answers that follow from each machine's document
 * and status. An answer is computed once and kept until one of them changes.
 */
import type { AgentBoot } from '../../agent/serve/agents.ts';
import { deliveryOf } from '../../agent/serve/machine-layer.ts';
import type { Clock } from '../../base/clock.ts';
import { contains, formatIpv4, type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventLog } from '../../events/event.ts';
import type { Render } from '../../ignition/rendered.ts';
import type { Consoles } from '../../machines/console.files.ts';
import type { CountingInventory, Inventories } from '../../machines/inventories.ts';
import type { Memberships } from '../../machines/membership.ts';
import type { Recognition } from '../../machines/recognition.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import type { NamedProfile } from '../../machines/select.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { DhcpOption } from '../../resources/dhcp-options.ts';
import type { MachineSpec, PxeOptions } from '../../resources/kinds.ts';
import { type AssetStore, assetsOf } from '../assets/assets.ts';
import type { BootAnswer } from '../boot.ts';
import type { Neighbour } from '../neighbours.ts';
import type { ServedNetwork } from '../network.ts';
import { type Configurations, createConfigurations } from './configuration.ts';
import { chosenDataDisk } from './data-disk.ts';
import {
  type Conflict,
  conflictOf,
  judge,
  type Recognised,
  reason,
  unknownOn,
  type Verdict,
} from './decide.ts';
import type { BootDecision } from './decision.ts';
import { type SelectedBy, selectionOf } from './selection.ts';
import { wasTried } from './trial.ts';

/**
 * What the boot service needs. It answers machines that nobody has authenticated, so it holds these
 * and nothing else: pass each by name, never a spread of a larger state.
 */
export interface BootDeps {
  readonly catalog: Catalog;
  readonly memberships: Memberships;
  readonly roster: Roster;
  readonly assets: Pick<AssetStore, 'find' | 'loader'>;
  /** Reads octets of a file, fewer at its end; undefined when it is not here. */
  readonly readAsset: (sha256: string, at: number, octets: number) => Promise<Buffer | undefined>;
  /** The networks that are served, or a function that returns them if they can change. */
  readonly networks: readonly ServedNetwork[] | (() => readonly ServedNetwork[]);
  readonly render: Render;
  /** `list`: explanations show the last events. */
  readonly events: Pick<EventLog, 'record' | 'list'>;
  readonly metrics: Pick<Metrics, 'add'>;
  readonly clock: Clock;
  /** Machines of clusters. */
  readonly agents: AgentBoot;
  /** Keeps what machines print on their consoles. */
  readonly consoles: Pick<Consoles, 'take'>;
  /** The addresses that a MAC holds leases on now. */
  readonly leasedAddresses: (mac: Mac) => readonly string[];
  /** The MAC that holds a lease on an address now. */
  readonly leaseHolder: (address: string) => Mac | undefined;
  /** Which hardware is behind an address now. */
  readonly neighbour: (address: string) => Neighbour;
  /** What agents reported of their machines. */
  readonly inventories: Pick<Inventories, 'get' | 'counting' | 'settle' | 'claim'>;
  /** The selector by which a machine of a running cluster found the disk that has its data. */
  readonly dataDiskOf: (machine: string) => string | undefined;
}

/**
 * The answer that follows from a machine's document, status and inventory on a network. It is valid
 * until one of them changes.
 */
interface MachineAnswer {
  readonly network: ServedNetwork;
  /** The generation of the documents (Machines aside) that it was computed from. */
  readonly generation: number;
  /** The version of the machine that it was computed from. */
  readonly version: number;
  readonly inventory: CountingInventory | undefined;
  readonly recognised: Exclude<Recognised, { kind: 'conflict' }>;
  /** The verdict before images and configuration are checked. DHCP uses it. */
  readonly outline: Verdict;
  readonly address: Ipv4 | undefined;
  readonly hostname: string | undefined;
  /** DHCP options of the Machine document. */
  readonly options: readonly DhcpOption[] | undefined;
  readonly machinePxe: PxeOptions | undefined;
  /** The answer to an ordinary DHCP client. */
  readonly ordinary: BootAnswer;
}

/** What the functions of this folder use to read and record. */
export interface BootContext
  extends Pick<
    BootDeps,
    | 'catalog'
    | 'roster'
    | 'assets'
    | 'readAsset'
    | 'events'
    | 'metrics'
    | 'clock'
    | 'agents'
    | 'consoles'
    | 'leasedAddresses'
    | 'leaseHolder'
    | 'neighbour'
    | 'inventories'
    | 'dataDiskOf'
  > {
  readonly configurations: Configurations;
  servedNetworks(): readonly ServedNetwork[];
  profiles(): readonly NamedProfile[];
  /** The hashes of all files that Images name. */
  needed(): ReadonlySet<string>;
  /**
   * What a machine gets on a network; computed again only when the machine or the documents
   * changed.
   */
  answerFor(member: Member, network: ServedNetwork): MachineAnswer;
  /** PXE options merged from network, longest matching vendor class and machine; the last wins. */
  pxeFor(
    machine: PxeOptions | undefined,
    network: ServedNetwork,
    vendorClass: string | undefined,
  ): PxeOptions;
  /**
   * Turns a recognition into a machine. Discovered records of a known machine are merged into it.
   */
  identify(found: Recognition): Identified;
  /** How many documented machines have no reserved address on the network. */
  withoutReservation(network: ServedNetwork): number;
  /**
   * Counts a decision and records it as an event, unless the session's last decision was the same.
   * Returns whether it did.
   */
  decided(
    subject: string,
    live: LiveSession,
    stage: string,
    network: string | undefined,
    decision: BootDecision,
    fields?: Readonly<Record<string, string>>,
  ): boolean;
  close(): void;
}

export type Identified =
  | { readonly kind: 'known'; readonly member: Member }
  | { readonly kind: 'unknown' }
  | Conflict;

const NOT_A_BOOT_CLIENT: BootDecision = { kind: 'ignore', reason: reason('not_a_boot_client') };

/** Creates the context. It subscribes to changes of documents until `close`. */
export function createBootContext(deps: BootDeps): BootContext {
  const { catalog, memberships, roster, assets, networks, render, events, metrics, clock } = deps;
  const { leasedAddresses, leaseHolder, neighbour, inventories, dataDiskOf, readAsset } = deps;
  const agents = bootPart(deps.agents);
  const configurations = createConfigurations({
    catalog,
    memberships,
    render,
    agents,
    chosenDataDisk: (machine, disks) => chosenDataDisk({ inventories, dataDiskOf }, machine, disks),
    inventory: (machine) => inventories.counting(machine),
  });
  const answers = new WeakMap<Member, MachineAnswer>();
  let generation = 1;
  let profiles: readonly NamedProfile[] | undefined;
  let needed: ReadonlySet<string> | undefined;

  /** How many documented machines have no reserved address, by network. */
  let withoutReservation = new WeakMap<ServedNetwork, number>();

  const unsubscribe = catalog.subscribe((changes) => {
    if (changes.some((change) => change.kind === 'Machine')) withoutReservation = new WeakMap();
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
    catalog,
    roster,
    assets,
    readAsset,
    events,
    metrics,
    clock,
    agents,
    ...{ leasedAddresses, leaseHolder, neighbour },
    inventories,
    dataDiskOf,
    consoles: deps.consoles,
    configurations,
    servedNetworks: () => (typeof networks === 'function' ? networks() : networks),
    profiles: allProfiles,
    withoutReservation(network) {
      let count = withoutReservation.get(network);
      if (count === undefined) {
        count = catalog.list('Machine').filter(({ document }) => !reserves(document.spec, network)).length;
        withoutReservation.set(network, count);
      }
      return count;
    },
    needed() {
      needed ??= new Set(catalog.list('Image').flatMap(({ document }) => assetsOf(document.spec)));
      return needed;
    },
    answerFor(member, network) {
      const found = answers.get(member);
      if (
        found !== undefined &&
        found.generation === generation &&
        found.version === member.version &&
        found.network === network &&
        found.inventory === inventories.counting(member.name)
      )
        return found;
      const selecting = { profiles: allProfiles, inventories, catalog };
      const made = machineAnswer(selecting, member, network, generation);
      answers.set(member, made);
      return made;
    },
    pxeFor,
    identify(found) {
      if (found.kind === 'unknown') return found;
      if (found.kind === 'conflict') return conflictOf(found);
      const member = roster.get(found.match.name)!;
      if (found.same.length > 0) roster.fold(member, found.same);
      return { kind: 'known', member };
    },
    decided(subject, live, stage, network, decision, fields = {}) {
      const { kind, reason } = decision;
      const last = live.decided;
      if (last?.subject === subject && last.at === stage && last.kind === kind && last.code === reason.code)
        return false;
      live.decided = { subject, at: stage, kind, code: reason.code };
      metrics.add('muster_boot_decisions_total', { kind, reason: reason.code });
      events.record({
        kind: 'boot.decision',
        subject,
        session: live.session.id,
        ...(network ? { network } : {}),
        reason,
        fields: {
          stage,
          decision: kind,
          ...fields,
          ...(decision.kind === 'loader' ? { loader: decision.loader } : {}),
          ...(decision.kind === 'script' ? { profile: decision.profile, image: decision.image } : {}),
          ...(decision.kind === 'discovery' ? { image: decision.image } : {}),
        },
      });
      return true;
    },
    close: unsubscribe,
  };
}

function pxeFor(
  machine: PxeOptions | undefined,
  network: ServedNetwork,
  vendorClass: string | undefined,
): PxeOptions {
  let { pxe } = network;
  if (vendorClass !== undefined && network.vendorClasses.length > 0) {
    const longest = network.vendorClasses
      .filter(({ prefix }) => vendorClass.startsWith(prefix))
      .sort((a, b) => b.prefix.length - a.prefix.length)[0];
    if (longest) pxe = { ...pxe, ...longest.pxe };
  }
  return machine ? { ...pxe, ...machine } : pxe;
}

/**
 * The part of `agents` that boots use. The object that is passed also holds identities and keys.
 */
function bootPart(agents: AgentBoot): AgentBoot {
  return {
    agentCluster: (machine) => agents.agentCluster(machine),
    tpm: (machine) => agents.tpm(machine),
    waits: (machine) => agents.waits(machine),
    hasAgent: (machine) => agents.hasAgent(machine),
    inline: (machine) => agents.inline(machine),
    alarm: (machine, why, address) => agents.alarm(machine, why, address),
    layer: (of) => agents.layer(of),
    get version() {
      return agents.version;
    },
  };
}

/** Whether the machine's first configuration carries its secrets (`delivery: inline`). */
export const isInline = (
  { agents, catalog }: Pick<BootContext, 'agents' | 'catalog'>,
  machine: string,
): boolean =>
  agents.agentCluster(machine) !== undefined &&
  deliveryOf(catalog.get('Machine', machine)?.document) === 'inline';

/** The address on this network that the machine's document names. */
export function reservedAddress(member: Member, network: ServedNetwork): Ipv4 | undefined {
  return reserves(member.entry?.document.spec, network);
}

function reserves(spec: MachineSpec | undefined, { subnet }: ServedNetwork): Ipv4 | undefined {
  for (const text of spec?.addresses ?? []) {
    const address = parseIpv4(text);
    if (address !== undefined && contains(subnet, address)) return address;
  }
  return undefined;
}

/**
 * The machine's address for templates: the reserved one, else `peer`, from which the request came.
 */
export function addressOf(
  member: Member,
  network: ServedNetwork | undefined,
  peer: string | undefined,
): string | undefined {
  const reserved = network && reservedAddress(member, network);
  return reserved === undefined ? peer : formatIpv4(reserved);
}

function machineAnswer(
  selecting: SelectedBy & { readonly catalog: Pick<Catalog, 'get'> },
  member: Member,
  network: ServedNetwork,
  generation: number,
): MachineAnswer {
  const spec = member.entry?.document.spec;
  const selection = selectionOf(selecting, member, network.name);
  const recognised: MachineAnswer['recognised'] = spec
    ? {
        kind: 'known',
        selection,
        tried: wasTried(selecting.catalog, member, selection),
        bootsWithoutReady: member.status.bootsWithoutReady,
        quarantine: member.status.quarantine?.text,
        life: member.status.life,
        discovery: network.discovery,
        install: member.status.install,
      }
    : unknownOn(network, member.status.bootsWithoutReady);
  const address = reservedAddress(member, network);
  const hostname = spec ? hostnameOf(member) : undefined;
  return {
    network,
    generation,
    version: member.version,
    inventory: selecting.inventories.counting(member.name),
    recognised,
    outline: judge(recognised),
    address,
    hostname,
    options: spec?.dhcpOptions,
    machinePxe: spec?.pxe,
    ordinary: {
      decision: NOT_A_BOOT_CLIENT,
      subject: member.name,
      pxe: network.pxe,
      ...(address === undefined ? {} : { reservedAddress: address }),
      ...(hostname === undefined ? {} : { hostname }),
      ...(spec?.dhcpOptions && { options: spec.dhcpOptions }),
      ...(spec ? { documented: true } : {}),
      writes: [],
    },
  };
}

/**
 * The document's host name unless it is a template, which needs a session; else the machine's name.
 */
function hostnameOf(member: Member): string {
  const hostname = member.entry?.document.spec.config?.hostname;
  return hostname !== undefined && !hostname.includes('${') ? hostname : member.name;
}
