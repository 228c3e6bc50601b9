/**
 * A packet from arrival to its end: the pure step, its lease changes carried out, its outcome
 * counted and recorded. Everything but the sockets, so that tests and replays go the same way as
 * the wire.
 */
import type { Clock } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { Mac } from '../../base/mac.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventKind, EventSink, Reason } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import type { BootService } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { handle } from './handle.ts';
import type { LeaseBook, WriteResult } from './leases.ts';
import { type Datagram, indexNetworks, type NetworkIndex } from './networks.ts';
import { DHCP_OUTCOMES, type OutcomeCode } from './outcomes.ts';
import type { DhcpState, Step } from './step.ts';

export interface PacketPipelineParts {
  /** The networks in force. The same array again means that nothing changed. */
  readonly networks: () => readonly ServedNetwork[];
  readonly boot: Pick<BootService, 'answer' | 'reservedFor'>;
  readonly leases: LeaseBook;
  /** For the records that an answer on port 4011 wants durable. */
  readonly store: Pick<Store, 'commit'>;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}

/** A packet is looked at so often when others write what it is about. */
const ATTEMPTS = 2;

/** A pool that ran dry turns many away: it is said so often of a network. */
const DRY_EVERY: Millis = millis(60_000);

/** One object for all events of an outcome: there are many, and they are kept. */
const REASONS = Object.fromEntries(
  Object.entries(DHCP_OUTCOMES).map(([code, { text }]) => [code, { code, text }]),
) as unknown as Readonly<Record<OutcomeCode, Reason>>;

/** The step of a packet that gets no reply after all. */
function unanswered(step: Step, outcome: Step['outcome'], detail?: string): Step {
  const { reply: _, ...rest } = step;
  return { ...rest, outcome, ...(detail === undefined ? {} : { detail }) };
}

export class PacketPipeline {
  readonly #parts: PacketPipelineParts;
  readonly #log: Log;
  #networks: readonly ServedNetwork[] | undefined;
  #index: NetworkIndex = indexNetworks([]);
  /**
   * By network whose pools ran dry: when that was logged, and how many clients were turned away
   * since.
   */
  readonly #dry = new Map<string, { readonly said: Millis; unanswered: number }>();
  /** Answers that wait for the store. */
  #underWay = 0;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(parts: PacketPipelineParts) {
    this.#parts = parts;
    this.#log = parts.log.child({ room: 'dhcp' });
  }

  get index(): NetworkIndex {
    const networks = this.#parts.networks();
    if (networks !== this.#networks) {
      this.#networks = networks;
      this.#index = indexNetworks(networks);
    }
    return this.#index;
  }

  #state(): DhcpState {
    const { boot, leases, clock } = this.#parts;
    return { networks: this.index, boot, leases, now: clock.now() };
  }

  /**
   * Takes a packet to its end. The step that comes back has the outcome, and a reply only if one is
   * to be sent now; it is a promise when something has to be durable first. Never throws, never
   * rejects.
   */
  receive(datagram: Datagram): Step | Promise<Step> {
    const step = this.#handle(datagram);
    if (step.memory) this.#parts.leases.apply(step.memory);
    if (step.durable === undefined) {
      this.#account(step);
      return step;
    }
    this.#underWay++;
    return this.#settle(datagram, step, step.durable);
  }

  #handle(datagram: Datagram): Step {
    try {
      return handle(datagram, this.#state());
    } catch (error) {
      // Not reachable by any packet that a test or the fuzzer found; one machine's packet must not
      // stop the others.
      this.#log.error(
        { err: error, packet: Buffer.from(datagram.bytes).toString('hex') },
        'a DHCP packet could not be handled',
      );
      return { outcome: 'internal', detail: String(error) };
    }
  }

  /**
   * Makes a step durable, to its end. When another host was faster, the same packet is looked at
   * once more in the light of that.
   */
  async #settle(datagram: Datagram, first: Step, write: NonNullable<Step['durable']>): Promise<Step> {
    let step = first;
    let durable: Step['durable'] = write;
    for (let attempt = 1; durable !== undefined; attempt++) {
      try {
        const result = await this.#write(durable);
        if (result === 'in_flight') step = unanswered(step, 'in_flight');
        if (result !== 'lost' && result !== 'stale') break;
      } catch (error) {
        step = unanswered(step, 'store_failed', error instanceof Error ? error.message : String(error));
        break;
      }
      if (attempt === ATTEMPTS) {
        step = unanswered(step, 'store_failed', 'the store kept refusing');
        break;
      }
      step = this.#handle(datagram);
      if (step.memory) this.#parts.leases.apply(step.memory);
      durable = step.durable;
    }
    this.#account(step);
    if (--this.#underWay === 0) this.#drained?.resolve();
    return step;
  }

  /** Not async: a promise less for each lease. */
  #write(durable: NonNullable<Step['durable']>): Promise<WriteResult> {
    if (durable.kind === 'write') return this.#parts.leases.write(durable);
    return this.#parts.store.commit(durable.writes).then(({ ok }) => (ok ? 'stored' : 'stale'));
  }

  #account(step: Step): void {
    const { outcome, network, type, client, answer, address } = step;
    this.#parts.metrics.add('muster_dhcp_packets_total', {
      network: network?.name ?? '',
      type: type ?? '',
      outcome,
    });
    const about: { readonly text: string; readonly event?: EventKind } = DHCP_OUTCOMES[outcome];
    if (about.event === undefined || client === undefined) {
      if (this.#log.isLevelEnabled('debug'))
        this.#log.debug(
          { outcome, type, mac: client?.mac, network: network?.name, detail: step.detail },
          about.text,
        );
      return;
    }
    if (about.event === 'dhcp.exhausted') this.#warn(step, client.mac);
    const fields: Record<string, string> = { mac: client.mac, stage: client.stage };
    if (address !== undefined) fields.address = formatIpv4(address);
    if (answer?.bootFile !== undefined) fields.file = answer.bootFile;
    if (step.detail !== undefined) fields.detail = step.detail;
    this.#parts.events.record({
      kind: about.event,
      subject: answer?.subject ?? client.mac,
      reason: REASONS[outcome],
      ...(network ? { network: network.name } : {}),
      ...(answer?.session === undefined ? {} : { session: answer.session }),
      fields,
    });
  }

  /**
   * That there is no address for a client. It is an event of each; the log has pools that ran dry
   * once a minute.
   */
  #warn({ outcome, network, detail }: Step, mac: Mac): void {
    const name = network?.name ?? '';
    let unanswered = 1;
    if (outcome === 'exhausted') {
      const now = this.#parts.clock.monotonic();
      const dry = this.#dry.get(name);
      unanswered += dry?.unanswered ?? 0;
      if (dry !== undefined && now - dry.said < DRY_EVERY) {
        dry.unanswered = unanswered;
        return;
      }
      this.#dry.set(name, { said: now, unanswered: 0 });
    }
    this.#log.warn({ network: name, outcome, mac, unanswered, detail }, DHCP_OUTCOMES[outcome].text);
  }

  /** Waits for the answers that are under way. */
  async drain(): Promise<void> {
    if (this.#underWay === 0) return;
    this.#drained ??= Promise.withResolvers();
    await this.#drained.promise;
  }
}
