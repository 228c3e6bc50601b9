/** Wires what powers machines through their BMCs. */
import { duration, parseDuration } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { cidr, contains, formatIpv4, parseIpv4 } from '../base/ipv4.ts';
import { type Mac, parseMac } from '../base/mac.ts';
import { answersAt } from '../bmc/answers.socket.ts';
import { openBmcAuthority } from '../bmc/authority.ts';
import { openConnections } from '../bmc/connect.ts';
import { openBmcConsoles } from '../bmc/consoles.ts';
import { openPowerOrders, type PowerOrders } from '../bmc/orders.ts';
import { type Reach, reachOf } from '../bmc/reach.ts';
import type { RecoverRule } from '../bmc/recover.ts';
import { watchSilence } from '../bmc/recovery.ts';
import { followSigns } from '../bmc/signs.ts';
import { startUpkeep } from '../bmc/upkeep.ts';
import { watchPower } from '../bmc/watch.ts';
import type { HealPower } from '../cluster/change/heal/heal.ts';
import type { RollPower } from '../cluster/change/roll/roll.ts';
import { REBOOTS_WITHIN } from '../cluster/change/turn.ts';
import { conditionOf } from '../machines/condition.ts';
import { openConsoles } from '../machines/console.files.ts';
import type { Heartbeats, Off } from '../machines/heartbeats.ts';
import type { KnownMachine } from '../machines/machine.ts';
import { selectionOf } from '../pxe/decide/selection.ts';
import type { NetworkSpec, ProfileSpec } from '../resources/kinds.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

export type Power = Awaited<ReturnType<typeof openPower>>;

/**
 * Opens the orders about power; those that a server before this one did not end go on. A boot host
 * whose store continues elsewhere powers nothing.
 */
export async function openPower(
  { clock, log, metrics, outside }: Common,
  state: State,
  directory: string,
  /** Why the cluster of a machine cannot do without it now. */
  needed: (machine: string) => Promise<string | undefined>,
) {
  const { store, roster, catalog, events, given, agents, secrets, pki } = state;
  const by = {
    profiles: () =>
      catalog.list('Profile').map(({ document: { metadata, spec } }) => ({ name: metadata.name, spec })),
    inventories: agents.inventories,
  };
  const profileOf = (machine: string) => {
    const member = roster.get(machine);
    const selection = member && selectionOf(by, member, undefined);
    return selection?.kind === 'selected' ? selection.profile.spec : undefined;
  };
  const reach = reaching(state, profileOf);
  const rule = (machine: string): RecoverRule | undefined => {
    const recover = reach(machine) && profileOf(machine)?.power?.recover;
    if (recover === undefined) return undefined;
    const { after = '10m', perHour = 2, silentAtMost = 3 } = recover;
    return { after: parseDuration(after) ?? duration('10m'), perHour, silentAtMost };
  };
  const connections = await openConnections({
    store,
    secret: (name, key) => {
      const value = given.value(name, key);
      const since = given.get(name)?.keys.find((one) => one.key === key)?.since;
      return value && since !== undefined ? { value, since } : undefined;
    },
    protocols: outside.bmcs,
    vault: secrets,
    ...{ clock, log },
  });
  const signs = followSigns(events, (subject) => {
    const mac = parseMac(subject);
    return (mac && roster.byMac(mac)?.name) ?? subject;
  });
  const offBy = (machine: string): Off => {
    const last = orders.last(machine);
    return last?.want === 'off' || last?.want === 'shut-down' ? 'ordered' : 'unasked';
  };
  const orders: PowerOrders = await openPowerOrders({
    ...{ store, connections, signs, reach, events, clock, log },
    told: (machine, state) => {
      if (state !== 'unknown') roster.heartbeats.power(machine, state === 'off' ? offBy(machine) : 'on');
    },
    // What boots by BIOS was seen; all that is new boots by UEFI.
    isUefi: (machine) => roster.get(machine)?.status.seen.firmware !== 'bios',
  });
  const kept = await openConsoles({ state: directory, of: 'bmc', roster, clock, log, metrics });
  const consoles = openBmcConsoles({
    connections,
    wanted: () => consolesWanted(roster.list(), reach),
    take: kept.take,
    // The loader prints the URL of the boot session.
    secrets: (machine) => {
      const live = roster.sessions.current(machine);
      return live ? [live.session.id] : [];
    },
    events,
    clock,
    log,
  });
  const unfollow = catalog.subscribe(() => consoles.sync());
  consoles.sync();
  const machines = () => roster.list().flatMap(({ name }) => (reach(name) ? [name] : []));
  const unwatch = watchPower({ machines, orders, clock });
  const authority = openBmcAuthority(pki);
  const upkeep = startUpkeep({ machines, reach, connections, authority, events, clock, log });
  const answers = (machine: string): Promise<boolean> => {
    const polledFrom = roster.heartbeats.last(machine)?.address;
    const written = roster.get(machine)?.entry?.document.spec.addresses ?? [];
    return answersAt([...new Set(polledFrom === undefined ? written : [polledFrom, ...written])]);
  };
  const unwatchSilence = watchSilence({
    silent: () =>
      roster.list().flatMap((member) => (isSilent(member, roster.heartbeats) ? [member.name] : [])),
    rule,
    ...{ answers, needed },
    ...{ orders, events, clock, log },
  });
  return {
    consoles: { ...kept, held: consoles.held, type: consoles.type, live: consoles.live },
    give: orders.give.bind(orders),
    last: orders.last.bind(orders),
    read: orders.read.bind(orders),
    look: orders.look.bind(orders),
    identify: orders.identify.bind(orders),
    show: orders.show.bind(orders),
    forget: orders.forget.bind(orders),
    rotate: upkeep.rotate.bind(upkeep),
    certify: upkeep.certify.bind(upkeep),
    replaceAuthority: upkeep.replaceAuthority.bind(upkeep),
    authority: authority.bundle,
    certifies: (machine: string) => reach(machine)?.managedCertificate === true,
    ...{ reach, answers },
    exchange: (one: string, other: string) => connections.exchange(one, other, reach),
    known: (machine: string) => connections.known(machine),
    async close() {
      unwatch();
      unwatchSilence();
      upkeep.close();
      signs.close();
      orders.close();
      unfollow();
      await consoles.close();
      await connections.close();
    },
  };
}

/** How the BMC of a machine is reached, by documents, leases and what agents report. */
function reaching(
  { roster, catalog, agents, leases, life }: State,
  profileOf: (machine: string) => ProfileSpec | undefined,
): (machine: string) => Reach | undefined {
  const networkOf = (address: string): NetworkSpec | undefined => {
    const at = parseIpv4(address);
    const all = at === undefined ? [] : catalog.list('Network').map(({ document }) => document.spec);
    return all.find(({ subnet }) => contains(cidr(subnet), at!));
  };
  return (machine) => {
    const spec = roster.get(machine)?.entry?.document.spec;
    if (spec?.bmc === undefined || life.state === 'superseded') return undefined;
    const addressOf = (mac: Mac): string | undefined => {
      const leased = leases.addressOf(mac);
      if (leased !== undefined) return formatIpv4(leased);
      // Anybody on the segment may have sent what the discovery system says.
      const said = agents.inventories.get(machine);
      return said?.claimed ? undefined : said?.inventory.bmc?.address;
    };
    return reachOf(spec, { profile: profileOf(machine), addressOf, networkOf });
  };
}

/** Lets rolls restart machines through their BMCs, once `begin` has got those: they open later. */
export function rollPower({ sessions }: State['roster']): RollPower & { begin(power: Power): void } {
  let power: Power | undefined;
  return {
    begin(opened) {
      power = opened;
    },
    has: (machine) => power?.reach(machine) !== undefined,
    last: (machine) => power?.last(machine),
    booted: (machine) => sessions.current(machine)?.openedAt,
    cycle: async (machine, by) =>
      power?.give([machine], { want: 'cycle', by, once: true, patience: REBOOTS_WITHIN }),
  };
}

/**
 * Lets healing ask BMCs, once `begin` has got those.
 *
 * @throws {MusterError} E_BMC (its functions) before that
 */
export function healPower(): HealPower & { begin(power: Power): void } {
  let power: Power | undefined;
  const opened = (): Power => {
    if (power) return power;
    throw new MusterError('E_BMC', 'BMCs cannot be asked yet');
  };
  return {
    begin(now) {
      power = now;
    },
    has: (machine) => opened().reach(machine) !== undefined,
    last: (machine) => opened().last(machine),
    read: (machine) => opened().read(machine),
    look: async (machine) => opened().look(machine),
    give: async (machines, wanted) => opened().give(machines, wanted),
    answers: async (machine) => opened().answers(machine),
    exchange: async (one, other) => opened().exchange(one, other),
  };
}

/** Whether the agent of a machine should be heard and is not. */
const isSilent = ({ name, status }: KnownMachine, heartbeats: Heartbeats): boolean =>
  conditionOf(status, { heard: heartbeats.heard(name), waits: undefined }).word === 'silent';

/** The machines whose consoles the boot host holds. */
const consolesWanted = (
  machines: readonly { readonly name: string }[],
  reach: (machine: string) => Reach | undefined,
): ReadonlyMap<string, Reach> =>
  new Map(
    machines.flatMap(({ name }) => {
      const found = reach(name);
      return found && (found.console ?? 'none') !== 'none' ? [[name, found] as const] : [];
    }),
  );
