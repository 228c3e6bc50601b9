/**
 * Sends the events of one Webhook, one after the other and in their order. An event stays in front
 * until the server has taken it or has refused it several times.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, millis } from '../../base/duration.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import { type Posted, whyFailed } from '../../base/post.socket.ts';
import { keyOf, MIN_KEY_OCTETS, signedHeaders } from '../../base/signature.ts';
import { VERSION } from '../../base/version.ts';
import type { MusterEvent } from '../../events/event.ts';
import type { WebhookSpec } from '../../resources/kinds.ts';
import { eventView } from '../times.ts';

/** How many events of a Webhook wait. Beyond that the oldest are dropped. */
export const MAX_WAITING = 1000;
/** How long the server of a Webhook may take to answer. */
const ANSWER_WITHIN = duration('10s');
const FIRST_PAUSE = duration('1s');
const LONGEST_PAUSE = duration('5m');
/** An event that the server refuses so often (4xx) is given up: it would hold up all later ones. */
export const MAX_REFUSALS = 5;

export interface DeliveryDeps {
  readonly name: string;
  /** The value of a Secret; undefined when there is none. */
  readonly secret: (name: string, key: string) => Buffer | undefined;
  readonly post: (posted: Posted, signal: AbortSignal) => Promise<number>;
  readonly metrics: Pick<Metrics, 'add' | 'set'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** What became of one attempt. */
type Attempt =
  | { readonly taken: true }
  | { readonly taken: false; readonly refused: boolean; readonly text: string };

/** How long to wait before attempt number `failures` + 1. */
export const pauseAfter = (failures: number): Millis =>
  millis(Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(failures - 1, 20)));

/** 4xx says that the event is at fault, unless the server asks to slow down or to try again. */
const isRefusal = (status: number): boolean =>
  status >= 400 && status < 500 && status !== 408 && status !== 429;

export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #waiting: MusterEvent[] = [];
  readonly #closing = new AbortController();
  #spec: WebhookSpec;
  #sending = false;
  #failures = 0;
  #refusals = 0;
  #cancel: () => void = () => {};

  constructor(spec: WebhookSpec, deps: DeliveryDeps) {
    this.#spec = spec;
    this.#deps = deps;
    this.#measure();
  }

  /** Another document of the same name: what waits is sent as it says, at once. */
  change(spec: WebhookSpec): void {
    this.#spec = spec;
    this.#failures = 0;
    this.#cancel();
    this.#next();
  }

  offer(event: MusterEvent): void {
    this.#waiting.push(event);
    // The first may be under way.
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.splice(1, 1);
      this.#count('dropped');
    }
    this.#measure();
    if (this.#failures === 0) this.#next();
  }

  /** Gives up what waits. */
  close(): void {
    this.#closing.abort();
    this.#cancel();
    this.#waiting.length = 0;
    this.#measure();
  }

  #next(): void {
    const [event] = this.#waiting;
    if (event === undefined || this.#sending || this.#closing.signal.aborted) return;
    this.#sending = true;
    void this.#attempt(event).then((attempt) => {
      this.#sending = false;
      if (!this.#closing.signal.aborted) this.#settle(attempt);
    });
  }

  #settle(attempt: Attempt): void {
    if (attempt.taken) {
      if (this.#failures > 0)
        this.#deps.log.info({ webhook: this.#deps.name }, 'the webhook takes events again');
      this.#done('delivered');
      this.#next();
      return;
    }
    this.#count('failed');
    this.#failures += 1;
    if (this.#failures === 1)
      this.#deps.log.warn(
        { webhook: this.#deps.name, cause: attempt.text },
        'the webhook does not take an event; it is sent again until it does',
      );
    if (attempt.refused && ++this.#refusals === MAX_REFUSALS) {
      this.#done('refused');
      this.#next();
      return;
    }
    this.#cancel = this.#deps.clock.after(pauseAfter(this.#failures), () => this.#next());
  }

  #done(outcome: 'delivered' | 'refused'): void {
    this.#waiting.shift();
    this.#failures = 0;
    this.#refusals = 0;
    this.#count(outcome);
    this.#measure();
  }

  async #attempt(event: MusterEvent): Promise<Attempt> {
    const { clock, post, secret } = this.#deps;
    const { valueFrom } = this.#spec.secret;
    const value = secret(valueFrom.secret, valueFrom.key);
    const key = value && keyOf(value);
    if (key === undefined) {
      const text = value ? `its key is shorter than ${MIN_KEY_OCTETS} octets` : 'its Secret is not there yet';
      return { taken: false, refused: false, text };
    }
    const body = JSON.stringify(eventView(event));
    const seconds = Math.floor(clock.now() / 1000);
    const headers = {
      'content-type': 'application/json',
      'user-agent': `muster/${VERSION}`,
      ...signedHeaders(key, { id: `event-${event.sequence}-${event.at}`, seconds, body }),
    };
    const late = new AbortController();
    const cancel = clock.after(ANSWER_WITHIN, () => late.abort());
    try {
      const signal = AbortSignal.any([late.signal, this.#closing.signal]);
      const status = await post({ url: this.#spec.url, headers, body }, signal);
      if (status >= 200 && status < 300) return { taken: true };
      return { taken: false, refused: isRefusal(status), text: `it answers ${status}` };
    } catch (error) {
      const text = late.signal.aborted ? 'it does not answer in time' : whyFailed(error);
      return { taken: false, refused: false, text };
    } finally {
      cancel();
    }
  }

  #count(outcome: 'delivered' | 'failed' | 'refused' | 'dropped'): void {
    this.#deps.metrics.add('muster_webhook_events_total', { webhook: this.#deps.name, outcome });
  }

  #measure(): void {
    this.#deps.metrics.set('muster_webhook_waiting', { webhook: this.#deps.name }, this.#waiting.length);
  }
}
