/**
 * Keeps Muster's own accounts on BMCs, and their certificates, as documents and operators ask:
 * makes them at the first contact, and replaces them. What is to be done follows from what is
 * stored, so a server that starts goes on with it.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { apart } from '../base/rehearsal.ts';
import type { EventSink } from '../events/event.ts';
import { owes } from './account.ts';
import type { BmcAuthority } from './authority.ts';
import { owesCertificate } from './certificate.ts';
import { type Connections, KEPT, type Kept } from './connect.ts';
import type { Known } from './known.ts';
import { faultOf } from './orders.ts';
import type { Reach } from './reach.ts';

const EVERY: Millis = duration('15s');
/** How many BMCs are worked on at the same time. */
const AT_ONCE = 16;
/** An order ends with a name after so many tries; what documents ask for is tried again, later. */
const TRIES = 3;
const FIRST_RETRY: Millis = duration('15s');
const LAST_RETRY: Millis = duration('1h');

interface UpkeepDeps {
  /** The machines that have a BMC. */
  readonly machines: () => readonly string[];
  readonly reach: (machine: string) => Reach | undefined;
  readonly connections: Pick<Connections, 'keep' | 'certify' | 'known' | 'note'>;
  readonly authority: Pick<BmcAuthority, 'primary' | 'sign' | 'replace' | 'forgetBefore'>;
  readonly events: EventSink;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  readonly log: Log;
}

export interface Upkeep {
  /**
   * Orders new passwords; the order is durable when this resolves.
   *
   * @throws {MusterError} E_BMC when the documents of one do not let Muster have an account there
   */
  rotate(machines: readonly string[], by: string): Promise<void>;
  /**
   * Orders new certificates; the order is durable when this resolves.
   *
   * @throws {MusterError} E_BMC when the documents of one do not let Muster replace it
   */
  certify(machines: readonly string[], by: string): Promise<void>;
  /** Makes a CA that signs from now on; the one before ends when no BMC needs it any more. */
  replaceAuthority(): Promise<void>;
  close(): void;
}

/** Starts the upkeep. */
export function startUpkeep(deps: UpkeepDeps): Upkeep {
  const upkeep = new Rounds(deps);
  void apart(() => upkeep.wait());
  return upkeep;
}

/** Whether it is time to try again what failed before. */
function isTime({ fault }: Pick<Known, 'fault'>, now: number): boolean {
  if (fault === undefined) return true;
  const span = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** (fault.times - 1));
  return Math.abs(now - fault.at) >= span;
}

class Rounds implements Upkeep {
  readonly #deps: UpkeepDeps;
  /** The machines that are worked on now. */
  readonly #busy = new Set<string>();
  #cancel: () => void = () => {};
  #closed = false;

  constructor(deps: UpkeepDeps) {
    this.#deps = deps;
  }

  wait(): void {
    if (!this.#closed) this.#cancel = this.#deps.clock.after(EVERY, () => void this.#round());
  }

  rotate(machines: readonly string[], by: string): Promise<void> {
    return this.#order(machines, mustManage, { due: { by, at: this.#deps.clock.now() } });
  }

  certify(machines: readonly string[], by: string): Promise<void> {
    return this.#order(machines, mustCertify, { certify: { by, at: this.#deps.clock.now() } });
  }

  /** Notes an order for each machine, if documents allow it for all, and begins. */
  async #order(
    machines: readonly string[],
    must: typeof mustManage,
    order: Pick<Known, 'due' | 'certify'>,
  ): Promise<void> {
    const { reach, connections } = this.#deps;
    const reached = machines.map((machine) => [machine, must(machine, reach(machine))] as const);
    for (const [machine, to] of reached) await connections.note(machine, to, { ...order, fault: undefined });
    void apart(() => this.#all(machines));
  }

  async replaceAuthority(): Promise<void> {
    // Repeated orders leave no CAs behind that never signed for a BMC.
    await this.#forget(this.#deps.machines());
    await this.#deps.authority.replace();
    void apart(() => this.#all(this.#deps.machines()));
  }

  close(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #round(): Promise<void> {
    const machines = this.#deps.machines();
    await this.#all(machines);
    await this.#forget(machines).catch((err: unknown) =>
      this.#deps.log.warn({ err }, 'a CA of BMCs that nobody needs could not be ended'),
    );
    this.wait();
  }

  async #all(machines: readonly string[]): Promise<void> {
    const { reach, connections, clock } = this.#deps;
    const primary = await this.#primary();
    const left = machines.filter((machine) => {
      const to = reach(machine);
      if (to === undefined || this.#busy.has(machine)) return false;
      const known = connections.known(machine);
      const isDue = owes(to, known) || owesCertificate(to, known, clock.now(), primary);
      return isDue && isTime(known ?? {}, clock.now());
    });
    for (const machine of left) this.#busy.add(machine);
    const worker = async (): Promise<void> => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        if (!this.#closed) await this.#one(next);
        this.#busy.delete(next);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** Ends the CA before this one, when no BMC shows a certificate of it any more. */
  async #forget(machines: readonly string[]): Promise<void> {
    const known = machines.flatMap((machine) => this.#deps.connections.known(machine) ?? []);
    const used = known.flatMap(({ certificate, offered = [] }) => [
      ...(certificate ? [certificate] : []),
      ...offered,
    ]);
    await this.#deps.authority.forgetBefore(new Set(used.map(({ generation }) => generation)));
  }

  /** The generation of the CA that signs; undefined: there is none, or nobody knows. */
  #primary(): Promise<string | undefined> {
    return this.#deps.authority.primary().catch((err: unknown) => {
      this.#deps.log.warn({ err }, 'the CA of BMCs cannot be read');
      return undefined;
    });
  }

  /** Does what is owed, the account first. */
  async #keep(machine: string, to: Reach): Promise<readonly Kept[]> {
    const { connections, authority, clock } = this.#deps;
    const kept = owes(to, connections.known(machine)) ? await connections.keep(machine, to) : [];
    if (!owesCertificate(to, connections.known(machine), clock.now(), await this.#primary())) return kept;
    await connections.certify(machine, to, (request) => authority.sign(machine, to, request));
    return [...kept, 'certificate-replaced'];
  }

  async #one(machine: string): Promise<void> {
    const { reach, connections, clock, log } = this.#deps;
    const to = reach(machine);
    if (!to) return;
    const before = connections.known(machine);
    try {
      const kept = await this.#keep(machine, to);
      if (connections.known(machine)?.fault) await connections.note(machine, to, { fault: undefined });
      for (const code of kept) this.#record(machine, code, KEPT[code], before);
    } catch (error) {
      const { code, message } = faultOf(error);
      const times = (before?.fault?.times ?? 0) + 1;
      const isOver = (before?.due ?? before?.certify) !== undefined && times >= TRIES;
      const fault = { code, message, times, at: clock.now() };
      await connections
        .note(machine, to, { fault, ...(isOver && { due: undefined, certify: undefined }) })
        .catch((err: unknown) => log.warn({ err, machine }, 'what became of an account is not stored'));
      if (before?.fault?.code !== code || isOver) this.#record(machine, code, message, before);
    }
  }

  #record(machine: string, code: string, text: string, before: Known | undefined): void {
    const ordered = before?.due ?? before?.certify;
    this.#deps.events.record({
      kind: 'machine.bmc',
      subject: machine,
      reason: { code, text },
      fields: { ...(ordered && { by: ordered.by }) },
    });
  }
}

/** @throws {MusterError} E_BMC when the documents of a machine let Muster have no account there */
export function mustManage(machine: string, reach: Reach | undefined): Reach {
  if (reach?.credentials?.managed !== undefined) return reach;
  throw new MusterError(
    'E_BMC',
    reach
      ? `${machine} has a password of yours in Secret "${reach.credentials?.password.valueFrom.secret}"; with \`managed: beside\` in its bmc.credentials Muster makes an account of its own, whose password it replaces`
      : `no document names a BMC of ${machine}`,
  );
}

/** @throws {MusterError} E_BMC when the documents of a machine do not let Muster replace it */
export function mustCertify(machine: string, reach: Reach | undefined): Reach {
  if (reach?.managedCertificate) return reach;
  throw new MusterError(
    'E_BMC',
    reach
      ? `the certificate of ${machine} is its BMC's own; with \`managedCertificate: true\` in its bmc Muster's CA signs it`
      : `no document names a BMC of ${machine}`,
  );
}
