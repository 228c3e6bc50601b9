/** Orders that wait for a second person, in memory. */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Principal } from './access.ts';
import type { ApiRequest, ApiResponse, Route } from './handler.ts';
import { timestamp } from './times.ts';

/** An order that nobody confirms is forgotten then. */
const LIFETIME = duration('1h');
/** More orders are refused, so that nobody fills the memory. */
const MAX_PENDING = 100;

/** What was ordered. */
export interface Order {
  readonly route: Pick<Route<never>, 'method' | 'path' | 'access'>;
  readonly params: ApiRequest['params'];
  readonly body: Buffer;
  /** Carries it out; `signal` aborts when the second person disconnects. */
  readonly carryOut: (signal: AbortSignal) => ApiResponse | Promise<ApiResponse>;
}

export interface Pending extends Order {
  readonly id: string;
  readonly principal: Principal;
  readonly at: Millis;
  /** For people. */
  readonly until: Millis;
}

export class PendingOrders {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  /** `endsAt` is monotonic, because the clock may be set. */
  readonly #orders = new Map<string, Pending & { readonly endsAt: number }>();

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
  }

  /** @throws {MusterError} E_SECOND_PERSON, always: it says how the order is confirmed */
  hold(order: Order, principal: Principal): never {
    if (this.list().length >= MAX_PENDING)
      throw new MusterError('E_SECOND_PERSON', `${MAX_PENDING} orders wait for a second person already`);
    const id = randomBytes(4).toString('hex');
    const at = this.#clock.now();
    const until = (at + LIFETIME) as Millis;
    const endsAt = this.#clock.monotonic() + LIFETIME;
    this.#orders.set(id, { ...order, id, principal, at, until, endsAt });
    throw new MusterError(
      'E_SECOND_PERSON',
      `the order waits as ${id} until ${timestamp(until)}; another operator confirms it with \`muster pending confirm ${id}\``,
    );
  }

  /** Orders that wait, oldest first. */
  list(): readonly Pending[] {
    const now = this.#clock.monotonic();
    for (const [id, { endsAt }] of this.#orders) if (endsAt <= now) this.#orders.delete(id);
    return [...this.#orders.values()];
  }

  /** @throws {MusterError} E_NOT_FOUND */
  get(id: string): Pending {
    const found = this.list().find((order) => order.id === id);
    if (found) return found;
    throw new MusterError('E_NOT_FOUND', `no order "${id}" waits; \`muster pending ls\` lists them`);
  }

  remove(id: string): void {
    this.#orders.delete(id);
  }
}
