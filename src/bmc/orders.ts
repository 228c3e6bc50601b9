/**
 * Carries out the orders about machines' power. An order is durable before its first step, and
 * again at each step, so that a server that starts goes on with it; a power command is stored as
 * sent before it is. One order a machine: a new one takes the place of the one before.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { type Millis, millis, seconds, toMillis } from '../base/duration.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { inParts } from '../base/parts.ts';
import { apart, beforeChange } from '../base/rehearsal.ts';
import type { EventSink } from '../events/event.ts';
import { printable } from '../machines/identity.ts';
import { KEYS } from '../store/keys.ts';
import { MAX_OPERATIONS, type Store } from '../store/store.ts';
import { type Bmc, BmcFault, type BootOnce, type BootTarget, type PowerState } from './bmc.ts';
import type { Connections } from './connect.ts';
import {
  type Ask,
  answered,
  EVERY,
  type Heard,
  isInterrupted,
  named,
  newOrder,
  nextOf,
  type Order,
  type Reply,
  sending,
  signsFrom,
  type Want,
} from './order.ts';
import { decodeOrder, encodeOrder } from './order-record.ts';
import type { Reach } from './reach.ts';
import type { Signs } from './signs.ts';
import type { BmcShown, BmcViewName } from './views.ts';

export interface PowerDeps {
  readonly store: Pick<Store, 'list' | 'commit'>;
  readonly connections: Connections;
  readonly signs: Signs;
  /** How the BMC of a machine is reached now; undefined: its documents name none. */
  readonly reach: (machine: string) => Reach | undefined;
  /** Is told each state that was read. */
  readonly told: (machine: string, state: PowerState) => void;
  /** Whether the machine boots by UEFI, as far as that was seen. */
  readonly isUefi: (machine: string) => boolean;
  readonly events: EventSink;
  readonly clock: Clock;
  readonly log: Log;
}

/** What operators order of several machines. */
export interface Wanted {
  readonly want: Want;
  readonly boot?: BootTarget | undefined;
  readonly by: string;
  /** Between the beginnings of two machines. */
  readonly stagger?: Millis | undefined;
  /** How many are under way at once; absent: all. */
  readonly atOnce?: number | undefined;
  readonly patience?: Millis | undefined;
  readonly hardAfter?: Millis | undefined;
  /** One attempt; absent: three, each harder. */
  readonly once?: boolean | undefined;
}

/** A state of power, and when it was read. */
export interface ReadPower {
  readonly state: PowerState;
  readonly at: number;
  /** Why it is unknown. */
  readonly fault?: string | undefined;
}

export interface PowerOrders {
  /**
   * Gives an order about each machine; it is durable when this resolves.
   *
   * @throws {MusterError} E_BMC when the documents of one name no BMC
   */
  give(machines: readonly string[], wanted: Wanted): Promise<readonly Order[]>;
  /** The last order about a machine. */
  last(machine: string): Order | undefined;
  /** The last state that was read. */
  read(machine: string): ReadPower | undefined;
  /** Reads the state now. @throws {MusterError} E_BMC without a BMC */
  look(machine: string): Promise<ReadPower>;
  /** Lights the lamp. @throws {MusterError} E_BMC without a BMC, or when it does not */
  identify(machine: string, seconds: number): Promise<void>;
  /** What a BMC says of its machine. @throws {MusterError} E_BMC when it says nothing */
  show(machine: string, view: BmcViewName): Promise<BmcShown>;
  /** Forgets what was learnt of a machine's BMC. */
  forget(machine: string): Promise<void>;
  /** Orders under way stop where they are; the next start of the server goes on with them. */
  close(): void;
}

/** How long before another order a machine may have been ordered to start that is heard now. */
const ORDERED_BEFORE: Millis = toMillis(seconds(1800));

/** How often an order that waits for its turn in a group looks. */
const TURN_EVERY: Millis = millis(200);

export async function openPowerOrders(deps: PowerDeps): Promise<PowerOrders> {
  const orders = new RunningOrders(deps);
  await orders.load();
  return orders;
}

class RunningOrders implements PowerOrders {
  readonly #deps: PowerDeps;
  readonly #orders = new Map<string, Order>();
  readonly #read = new Map<string, ReadPower>();
  /** What ends the pauses of orders. */
  readonly #waking = new Set<() => void>();
  #closed = false;

  constructor(deps: PowerDeps) {
    this.#deps = deps;
  }

  async load(): Promise<void> {
    for (const { key, value } of (await this.#deps.store.list(KEYS.power.prefix())).records) {
      const order = decodeOrder(value);
      if (order) this.#orders.set(order.machine, order);
      else this.#deps.log.error({ key }, 'an order about power is not of a version known here');
    }
    const now = this.#deps.clock.now();
    for (const order of this.#orders.values()) {
      if (order.end) continue;
      if (isInterrupted(order, now)) await this.#become(order, named(order, now, 'order-interrupted'));
      else this.#start(order);
    }
  }

  async give(machines: readonly string[], wanted: Wanted): Promise<readonly Order[]> {
    const { clock, isUefi, store } = this.#deps;
    for (const machine of machines) this.#reach(machine);
    const { boot, stagger = 0, atOnce, want, by, patience, hardAfter, once } = wanted;
    const at = clock.now();
    const group = atOnce === undefined ? undefined : { id: randomUUID(), atOnce };
    const orders = machines.map((machine, n) =>
      newOrder({
        ...{ id: randomUUID(), machine, want, by, at, from: at + n * stagger },
        ...(boot !== undefined && { boot: { target: boot, uefi: boot === 'http' || isUefi(machine) } }),
        ...(patience !== undefined && { patience }),
        ...(hardAfter !== undefined && { hardAfter }),
        ...(once && { once }),
        ...(group && { group }),
        ...recoveredBefore(this.#orders.get(machine), at),
      }),
    );
    for (const part of inParts(orders, MAX_OPERATIONS))
      await store.commit(
        part.map((order) => ({ key: KEYS.power.key(order.machine), put: encodeOrder(order) })),
      );
    for (const order of orders) {
      const before = this.#orders.get(order.machine);
      if (before && !before.end) this.#ended(named(before, at, 'order-replaced'));
      this.#orders.set(order.machine, order);
      this.#record(order, 'ordered', `${order.want} was ordered`);
      this.#start(order);
    }
    return orders;
  }

  last(machine: string): Order | undefined {
    return this.#orders.get(machine);
  }

  read(machine: string): ReadPower | undefined {
    return this.#read.get(machine);
  }

  async look(machine: string): Promise<ReadPower> {
    const reach = this.#reach(machine);
    const found = await this.#deps.connections
      .with(machine, reach, (bmc) => bmc.power())
      .then((state) => ({ state }))
      .catch((error: unknown) => ({ state: 'unknown' as const, fault: faultOf(error).message }));
    return this.#noteRead(machine, found);
  }

  async identify(machine: string, seconds: number): Promise<void> {
    const reach = this.#reach(machine);
    beforeChange(`light the lamp of ${machine}`);
    await this.#asked(machine, reach, (bmc) => bmc.identify(seconds));
  }

  show(machine: string, view: BmcViewName): Promise<BmcShown> {
    return this.#asked(machine, this.#reach(machine), (bmc) => bmc.show(view));
  }

  #asked<T>(machine: string, reach: Reach, ask: (bmc: Bmc) => Promise<T>): Promise<T> {
    return this.#deps.connections.with(machine, reach, ask).catch((error: unknown) => {
      throw new MusterError('E_BMC', `${machine}: ${faultOf(error).message}`);
    });
  }

  forget(machine: string): Promise<void> {
    return this.#deps.connections.forget(machine);
  }

  close(): void {
    this.#closed = true;
    for (const wake of this.#waking) wake();
  }

  #reach(machine: string): Reach {
    const reach = this.#deps.reach(machine);
    if (reach) return reach;
    throw new MusterError('E_BMC', `no document names a BMC of ${machine}`);
  }

  #noteRead(machine: string, found: Omit<ReadPower, 'at'>): ReadPower {
    const read = { ...found, at: this.#deps.clock.now() };
    this.#read.set(machine, read);
    this.#deps.told(machine, found.state);
    return read;
  }

  #start(order: Order): void {
    void apart(() => this.#drive(order)).catch((err: unknown) => {
      this.#deps.log.error(
        { err, machine: order.machine },
        'an order about power stopped; a restart goes on',
      );
    });
  }

  /** Whether this is still the order of its machine, and the server runs. */
  #isMine({ id, machine }: Order): boolean {
    return !this.#closed && this.#orders.get(machine)?.id === id;
  }

  async #drive(given: Order): Promise<void> {
    const { clock } = this.#deps;
    let order = given;
    while (!order.end && this.#isMine(order)) {
      const move = nextOf(order, this.#heard(order), clock.now());
      if (move.do === 'wait') await this.#pause(millis(Math.min(move.ms, EVERY)));
      else if (move.do === 'become')
        if (order.step === 'queued' && this.#isFull(order)) await this.#pause(TURN_EVERY);
        else order = await this.#become(order, move.order);
      else {
        const step = order.step;
        if (move.ask.is === 'order') order = await this.#become(order, sending(order, clock.now()));
        const reply = await this.#ask(order.machine, move.ask);
        if (!this.#isMine(order)) return;
        order = await this.#become(order, answered(order, move.ask, reply, clock.now()));
        if (!order.end && order.step === step) await this.#pause(millis(EVERY));
      }
    }
  }

  #pause(span: Millis): Promise<void> {
    return new Promise((done) => {
      const wake = (): void => {
        cancel();
        this.#waking.delete(wake);
        done();
      };
      const cancel = this.#deps.clock.after(span, wake);
      this.#waking.add(wake);
    });
  }

  /** Whether as many orders of its group are under way as may be. */
  #isFull({ group }: Order): boolean {
    if (!group) return false;
    let busy = 0;
    for (const one of this.#orders.values())
      if (one.group?.id === group.id && !one.end && one.step !== 'queued') busy++;
    return busy >= group.atOnce;
  }

  #heard(order: Order): Heard {
    const since = signsFrom(order);
    if (since === undefined) return { others: [] };
    const { signs } = this.#deps;
    // A machine that was ordered to start as well is where it should be.
    const isOther = (subject: string): boolean => {
      const begun = this.#orders.get(subject)?.begun;
      return subject !== order.machine && (begun === undefined || begun < since - ORDERED_BEFORE);
    };
    return {
      own: signs.of(order.machine, since),
      others: order.step === 'sign' ? signs.since(since).filter(isOther) : [],
    };
  }

  async #ask(machine: string, ask: Ask): Promise<Reply> {
    try {
      const value = await this.#deps.connections.with(machine, this.#reach(machine), (bmc) => put(bmc, ask));
      if (ask.is === 'power') this.#noteRead(machine, { state: value as PowerState });
      return { ok: true, value };
    } catch (error) {
      const { code, message } = faultOf(error);
      if (ask.is === 'power') this.#noteRead(machine, { state: 'unknown', fault: message });
      return { ok: false, fault: { code, message } };
    }
  }

  /** Stores what became of an order, and records it where its step changed. */
  async #become(before: Order, order: Order): Promise<Order> {
    if (!this.#isMine(order)) return order;
    this.#orders.set(order.machine, order);
    const isNew = before.step !== order.step || before.sent !== order.sent || order.end !== undefined;
    if (!isNew) return order;
    await this.#deps.store.commit([{ key: KEYS.power.key(order.machine), put: encodeOrder(order) }]);
    if (order.end) this.#ended(order);
    return order;
  }

  #ended(order: Order): void {
    if (order.end) this.#record(order, order.end.code, order.end.text);
  }

  #record({ machine, want, rung, boot }: Order, code: string, text: string): void {
    this.#deps.events.record({
      kind: 'machine.power',
      subject: machine,
      reason: { code, text },
      fields: { order: want, attempts: rung + 1, ...(boot && { boot: boot.target }) },
    });
  }
}

/** Asks a BMC. */
function put(bmc: Bmc, ask: Ask): Promise<PowerState | BootOnce | undefined> {
  switch (ask.is) {
    case 'power':
      return bmc.power();
    case 'boot':
      return bmc.boot();
    case 'boot-once':
      return bmc.bootOnce(ask.target, ask).then(() => undefined);
    case 'order':
      return bmc.order(ask.order).then(() => undefined);
  }
}

/** The name by which Muster orders restarts of machines that hang. */
export const RECOVERY = 'power.recover';
const HOUR = toMillis(seconds(3600));

/** When a machine was restarted because it hung, as its last order says, in the last hour. */
export const recoveriesOf = (last: Order | undefined, now: number): readonly number[] =>
  [...(last?.recovered ?? []), ...(last?.by === RECOVERY ? [last.at] : [])].filter((at) => now - at < HOUR);

/** A record of it, which each order takes over from the one before: it outlives the server. */
function recoveredBefore(last: Order | undefined, now: number): Pick<Order, 'recovered'> {
  const recovered = recoveriesOf(last, now);
  return recovered.length > 0 ? { recovered } : {};
}

const MAX_TEXT = 200;

/** A fault, with a text that is safe to show: a part of it may be the BMC's. */
export function faultOf(error: unknown): Pick<BmcFault, 'code' | 'message'> {
  const code =
    error instanceof BmcFault ? error.code : error instanceof MusterError ? 'refused' : 'unreachable';
  return { code, message: printable(messageOf(error), MAX_TEXT) };
}
