/**
 * Carries out the orders about the lives of machines: out of use, back, retired. The state is
 * durable before anything else happens, and a server that starts continues what is under way.
 */
import { randomUUID } from 'node:crypto';
import { type Clock, pause } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { apart } from '../../base/rehearsal.ts';
import type { EventSink } from '../../events/event.ts';
import { printable } from '../identity.ts';
import type { KnownMachine, Life } from '../machine.ts';
import { type Member, memberNamed } from '../member.ts';
import type { Roster } from '../roster.ts';
import { testOf } from './burn-in-order.ts';
import { allowedIn, LIFE, type LifeOrder, type LifeState, nextIn, type OutState } from './life.ts';
import { afterRescue } from './rescue.ts';
import { type Rescue, rescueOf } from './rescue-order.ts';
import { DISK_NAME, type Wipe } from './wipe-order.ts';

/** What an order has to know of other rooms. */
export interface LifeDeps {
  readonly roster: Roster;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
  readonly cluster: {
    /**
     * Orders the machine out of its cluster: drained, out of etcd, its Node deleted. The Cluster
     * still names it. Resolves with the cluster; undefined when it is in none that is founded.
     *
     * @throws {MusterError} E_FOUNDING when the cluster cannot do without it
     */
    leave(machine: string, drains: boolean): Promise<string | undefined>;
    /** Ends that: the machine joins again when it boots. */
    comeBack(machine: string): Promise<void>;
    /** Why a machine that leaves must still run; undefined when it may be switched off. */
    staysFor(machine: string): string | undefined;
  };
  /** Orders that the BMC switches it off. Resolves with false when the machine has none. */
  readonly switchOff: (machine: string, by: string) => Promise<boolean>;
  /** Orders that the BMC restarts it from the network. Resolves with false when it has none. */
  readonly restart: (machine: string, by: string) => Promise<boolean>;
  /** Why a machine cannot boot the system that wipes; undefined when it can. */
  readonly whyNoWipe: (member: Member) => string | undefined;
  /** Whether its agent was heard so lately that it runs now. */
  readonly runs: (machine: string) => boolean;
  /** Ends its certificate: after a wipe, its next key gets a new one. */
  readonly endCertificate: (machine: string) => Promise<void>;
  /** Ends its certificate, and removes the keys of its encrypted disks. */
  readonly endKeys: (machine: string) => Promise<void>;
}

/** Why and by whom something is ordered. */
export interface LifeReason {
  readonly why: string;
  readonly by: string;
}

/** A machine after an order, and the cluster that it leaves. */
export interface TakenOut {
  readonly machine: KnownMachine;
  readonly cluster?: string;
}

export interface Lives {
  /**
   * Takes a machine out of use.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown machine, E_USAGE without a reason, E_LIFE when
   *   the order does not fit, E_FOUNDING when its cluster cannot do without it
   */
  takeOut(machine: string, reason: LifeReason & { readonly drains: boolean }): Promise<TakenOut>;
  /** Lets it boot again. @throws {MusterError} E_NOT_FOUND, E_LIFE */
  bringBack(machine: string): Promise<KnownMachine>;
  /**
   * Orders that its disks are wiped at its next boot; its BMC restarts it.
   *
   * @throws {MusterError} E_NOT_FOUND, E_LIFE, E_USAGE for a disk that no order can name
   */
  wipe(machine: string, order: LifeReason & Pick<Wipe, 'level' | 'disks'>): Promise<KnownMachine>;
  /**
   * Orders that its parts are tested at its next boot; its BMC restarts it.
   *
   * @throws {MusterError} E_NOT_FOUND, E_LIFE, E_USAGE for a time that is none
   */
  test(machine: string, order: LifeReason & { readonly lasts: string }): Promise<KnownMachine>;
  /**
   * Orders that it boots the rescue system once; its BMC restarts it.
   *
   * @throws {MusterError} E_NOT_FOUND; E_LIFE when the order does not fit, or while its agent runs;
   *   E_USAGE for a key or a time that is none
   */
  rescue(
    machine: string,
    order: LifeReason & { readonly key: string; readonly lasts: string },
  ): Promise<KnownMachine>;
  /**
   * Cancels a wipe that has not begun, a test, or ends a rescue.
   *
   * @throws {MusterError} E_NOT_FOUND, E_LIFE
   */
  callOff(machine: string): Promise<KnownMachine>;
  /**
   * Ends its certificate and its keys, for good.
   *
   * @throws {MusterError} E_NOT_FOUND; E_LIFE when the order does not fit, or when its disks were
   *   not wiped and `unwiped` does not say that this is meant
   */
  retire(machine: string, reason: LifeReason & { readonly unwiped: boolean }): Promise<KnownMachine>;
  /** Why a machine that is taken out still runs; undefined when it does not have to. */
  waitsFor(machine: string): string | undefined;
  /** Goes on with what was under way when the server ended. */
  begin(): void;
  close(): Promise<void>;
}

const MAX_REASON = 300;
/** How often a machine that leaves is looked at. */
const EVERY = duration('2s');

/** The state of a machine's life. */
export const lifeOf = (member: Pick<Member, 'status'>): LifeState => member.status.life?.state ?? 'in-use';

/**
 * Makes the part that carries out orders about lives.
 *
 * @throws {MusterError} its methods: see {@link Lives}
 */
export function createLives(deps: LifeDeps): Lives {
  const { roster, events, clock, log, cluster } = deps;
  const stopping = new AbortController();
  const running = new Map<string, Promise<void>>();

  /** Checks an order, and returns the state after it. */
  const ordered = (machine: string, order: LifeOrder): { member: Member; after: LifeState } => {
    const member = memberNamed(roster, machine);
    return { member, after: afterOrder(machine, lifeOf(member), order) };
  };

  const become = async (member: Member, life: Life | undefined): Promise<void> => {
    roster.change(member, { life });
    await roster.commit([member], []);
    events.record({
      kind: 'machine.life',
      subject: member.name,
      reason: { code: life?.state ?? 'in-use', text: life?.text ?? 'An operator brought it back.' },
      ...(life && { fields: { by: life.by } }),
    });
  };

  /** Switches machines off that have left their clusters. */
  const goOut = async (machine: string): Promise<void> => {
    while (!stopping.signal.aborted) {
      const member = roster.get(machine);
      const life = member?.status.life;
      if (member === undefined || life?.leaving !== true) return;
      if (cluster.staysFor(machine) === undefined) {
        const off = await deps.switchOff(machine, life.by);
        const { leaving: _, ...rest } = life;
        if (roster.get(machine)?.status.life !== life) continue;
        roster.change(member, { life: { ...rest, ...(!off && { byHand: true }) } });
        await roster.commit([member], []);
        return;
      }
      await pause(clock, EVERY, stopping.signal);
    }
  };

  const go = (machine: string): void => {
    if (running.has(machine)) return;
    const work = apart(() => goOut(machine))
      .catch((err: unknown) => log.error({ err, machine }, 'taking a machine out; a restart goes on'))
      .finally(() => running.delete(machine));
    running.set(machine, work);
  };

  /** Restarts a machine from the network, or notes that a person has to. */
  const restarted = async (member: Member, by: string): Promise<KnownMachine> => {
    const { life } = member.status;
    if (!(await deps.restart(member.name, by)) && life) {
      roster.change(member, { life: { ...life, byHand: true } });
      await roster.commit([member], []);
    }
    return roster.view(member);
  };

  return {
    async takeOut(machine, { drains, ...reason }) {
      const { member, after } = ordered(machine, 'take-out');
      const life = lifeFrom(after, reason, clock);
      // A cluster that cannot do without the machine refuses before anything has changed.
      const left = await cluster.leave(machine, drains);
      await become(member, { ...life, leaving: true });
      go(machine);
      return { machine: roster.view(member), ...(left !== undefined && { cluster: left }) };
    },
    async bringBack(machine) {
      const { member } = ordered(machine, 'bring-back');
      await become(member, undefined);
      await cluster.comeBack(machine);
      return roster.view(member);
    },
    async wipe(machine, { level, disks, ...reason }) {
      const { member, after } = ordered(machine, 'wipe');
      checkWipe(deps, member, disks);
      const wipe = wipeOf(member, level, disks);
      await become(member, { ...lifeFrom(after, reason, clock), wipe });
      await deps.endCertificate(machine);
      return restarted(member, reason.by);
    },
    async test(machine, { lasts, ...reason }) {
      const { member, after } = ordered(machine, 'test');
      checkInDiscovery(deps, member);
      const test = testOf(lasts, member.status.seen.serial);
      await become(member, { ...lifeFrom(after, reason, clock), test });
      return restarted(member, reason.by);
    },
    async rescue(machine, { key, lasts, ...reason }) {
      const { member, after } = ordered(machine, 'rescue');
      checkRescue(deps, member);
      const rescue = { ...rescueOf({ key, lasts }, clock.now()), ...outBefore(member) };
      await become(member, { ...lifeFrom(after, reason, clock), rescue });
      return restarted(member, reason.by);
    },
    async callOff(machine) {
      const { member, after } = ordered(machine, 'call-off');
      await become(member, calledOff(member, after, clock.now()));
      return roster.view(member);
    },
    async retire(machine, { unwiped, ...reason }) {
      const { member, after } = ordered(machine, 'retire');
      checkWiped(member, unwiped);
      const { leaving } = member.status.life ?? {};
      await become(member, { ...lifeFrom(after, reason, clock), ...(leaving && { leaving }) });
      await deps.endKeys(machine);
      return roster.view(member);
    },
    waitsFor: (machine) =>
      roster.get(machine)?.status.life?.leaving ? cluster.staysFor(machine) : undefined,
    begin() {
      for (const { name, status } of roster.list()) if (status.life?.leaving) go(name);
    },
    async close() {
      stopping.abort();
      await Promise.all(running.values());
    },
  };
}

/**
 * The state after an order.
 *
 * @throws {MusterError} E_LIFE when the order does not fit the state
 */
export function afterOrder(machine: string, state: LifeState, order: LifeOrder): LifeState {
  const after = (LIFE[state] as { readonly allows: Partial<Record<LifeOrder, LifeState>> }).allows[order];
  if (after !== undefined) return after;
  const allowed = allowedIn(state);
  const may = allowed.length === 0 ? 'no order' : allowed.join(', ');
  throw new MusterError(
    'E_LIFE',
    `${machine} is ${state}, which allows ${may}, not ${order}; next: ${nextIn(state, machine)}`,
  );
}

/** @throws {MusterError} E_USAGE without a reason */
const lifeFrom = (state: LifeState, { why, by }: LifeReason, clock: Clock): Life => ({
  at: clock.now(),
  state: state as OutState,
  text: reasonText(why),
  by,
});

/** @throws {MusterError} E_USAGE without a reason */
function reasonText(why: string): string {
  const text = printable(why, MAX_REASON);
  if (text === '')
    throw new MusterError('E_USAGE', 'say why with --reason: it is shown wherever the machine is');
  return text;
}

/**
 * The wipe of a machine's disks, with the serial number without which it wipes nothing, and with
 * what the orders before it proved.
 */
function wipeOf({ status }: Member, level: Wipe['level'], disks: readonly string[]): Wipe {
  const { serial } = status.seen;
  const { proved, failed } = status.life?.wipe ?? {};
  return {
    ...{ id: randomUUID(), level, disks },
    ...(serial !== undefined && { serial }),
    ...(disks.length > 0 && proved && { proved }),
    ...(failed && { failed }),
  };
}

/** @throws {MusterError} E_LIFE when it cannot boot the discovery system now */
function checkInDiscovery(deps: LifeDeps, member: Member): void {
  const { name, status } = member;
  const why = status.life?.leaving
    ? `it still leaves its cluster; \`muster machine life ${name}\` shows for what it waits`
    : deps.whyNoWipe(member);
  if (why !== undefined) throw new MusterError('E_LIFE', `${name}: ${why}`);
}

/** @throws {MusterError} E_LIFE when it cannot be wiped now, E_USAGE for a name that is none */
function checkWipe(deps: LifeDeps, member: Member, disks: readonly string[]): void {
  checkInDiscovery(deps, member);
  for (const disk of disks)
    if (!DISK_NAME.test(disk))
      throw new MusterError('E_USAGE', `"${printable(disk, 64)}" is no serial number or world wide name`);
}

/** @throws {MusterError} E_LIFE when its disks were not wiped, and nobody says otherwise */
function checkWiped(member: Member, unwiped: boolean): void {
  if (unwiped || lifeOf(member) === 'wiped') return;
  throw new MusterError(
    'E_LIFE',
    `the disks of ${member.name} were not wiped; {"unwiped": true} (\`--unwiped\`) says that they are destroyed elsewhere`,
  );
}

/** @throws {MusterError} E_LIFE when it cannot be rescued now */
function checkRescue(deps: LifeDeps, member: Member): void {
  const { name, status } = member;
  const why = status.life?.leaving
    ? `it still leaves its cluster; \`muster machine life ${name}\` shows for what it waits`
    : deps.runs(name)
      ? `it runs, because its agent was heard moments ago; \`muster machine take-out ${name} --reason WHY\` empties it first`
      : deps.whyNoWipe(member);
  if (why !== undefined) throw new MusterError('E_LIFE', `${name}: ${why}`);
}

/** That a machine was taken out before it is rescued, which it is again afterwards. */
function outBefore({ status: { life } }: Member): Pick<Rescue, 'out'> {
  const out = life?.state === 'taken-out' ? life : life?.rescue?.out;
  return out ? { out: { text: out.text, by: out.by } } : {};
}

/** The life of a machine after its wipe or rescue was called off. @throws {MusterError} E_LIFE */
function calledOff(member: Member, after: LifeState, now: Millis): Life | undefined {
  const { life } = member.status;
  if (life?.state === 'rescue') return afterRescue(life, now);
  const { wipe, test: _, byHand: __, ...rest } = notBegun(member);
  // An order that was not carried out takes no failure back.
  if (wipe?.failed) return { ...rest, state: 'wipe-failed', wipe };
  return { ...rest, state: after as OutState };
}

/** The life of a machine whose wipe has not begun. @throws {MusterError} E_LIFE when it has */
function notBegun({ name, status: { life } }: Member): Life {
  if (life !== undefined && !life.wipe?.begun) return life;
  throw new MusterError(
    'E_LIFE',
    `${name} has begun to wipe its disks; wait for its report, or order the wipe again`,
  );
}
