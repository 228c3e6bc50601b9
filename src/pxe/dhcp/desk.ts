/**
 * A packet from arrival to its end: the pure step, its lease changes carried out, its outcome counted and recorded. Everything but
 * the sockets, so that tests and replays go the same way as the wire.
 */
import type { Clock } from '../../base/clock.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventKind, EventSink } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import type { BootService } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { handle } from './handle.ts';
import type { LeaseBook, WriteResult } from './leases.ts';
import { type Datagram, indexNetworks, type NetworkIndex } from './networks.ts';
import { DHCP_OUTCOMES } from './outcomes.ts';
import type { DhcpState, Step } from './step.ts';

export interface DeskParts {
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

/** The step of a packet that gets no reply after all. */
function unanswered(step: Step, outcome: Step['outcome'], detail?: string): Step {
  const { reply: _, ...rest } = step;
  return { ...rest, outcome, ...(detail === undefined ? {} : { detail }) };
}

export class DhcpDesk {
  readonly #parts: DeskParts;
  readonly #log: Log;
  #networks: readonly ServedNetwork[] | undefined;
  #index: NetworkIndex = indexNetworks([]);
  readonly #underWay = new Set<Promise<Step>>();

  constructor(parts: DeskParts) {
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
   * Takes a packet to its end. The step that comes back has the outcome, and a reply only if one is to be sent now; it is a promise
   * when something has to be durable first. Never throws, never rejects.
   */
  receive(datagram: Datagram): Step | Promise<Step> {
    const step = this.#handle(datagram);
    if (step.memory) this.#parts.leases.apply(step.memory);
    if (step.durable === undefined) {
      this.#account(step);
      return step;
    }
    const work = this.#settle(datagram, step, step.durable).then((settled) => {
      this.#underWay.delete(work);
      this.#account(settled);
      return settled;
    });
    this.#underWay.add(work);
    return work;
  }

  #handle(datagram: Datagram): Step {
    try {
      return handle(datagram, this.#state());
    } catch (error) {
      // Not reachable by any packet that a test or the fuzzer found; one machine's packet must not stop the others.
      this.#log.error(
        { err: error, packet: Buffer.from(datagram.bytes).toString('hex') },
        'a DHCP packet could not be handled',
      );
      return { outcome: 'internal', detail: String(error) };
    }
  }

  /** Makes a step durable. When another host was faster, the same packet is looked at once more in the light of that. */
  async #settle(datagram: Datagram, step: Step, durable: NonNullable<Step['durable']>): Promise<Step> {
    const first = await this.#attempt(step, durable);
    if (first !== undefined) return first;
    const again = this.#handle(datagram);
    if (again.memory) this.#parts.leases.apply(again.memory);
    if (again.durable === undefined) return again;
    return (
      (await this.#attempt(again, again.durable)) ??
      unanswered(again, 'store_failed', 'the store kept refusing')
    );
  }

  /** The step as it ends when its writes are done; undefined when they did not fit what the store holds. */
  async #attempt(step: Step, durable: NonNullable<Step['durable']>): Promise<Step | undefined> {
    try {
      const result = await this.#write(durable);
      if (result === 'in_flight') return unanswered(step, 'in_flight');
      return result === 'stored' || result === 'unchanged' ? step : undefined;
    } catch (error) {
      return unanswered(step, 'store_failed', error instanceof Error ? error.message : String(error));
    }
  }

  async #write(durable: NonNullable<Step['durable']>): Promise<WriteResult> {
    if (durable.kind === 'write') return this.#parts.leases.write(durable);
    const result = await this.#parts.store.commit(durable.writes);
    return result.ok ? 'stored' : 'stale';
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
    this.#parts.events.record({
      kind: about.event,
      subject: answer?.subject ?? client.mac,
      reason: { code: outcome, text: about.text },
      ...(network ? { network: network.name } : {}),
      ...(answer?.session === undefined ? {} : { session: answer.session }),
      fields: {
        mac: client.mac,
        stage: client.stage,
        ...(address === undefined ? {} : { address: formatIpv4(address) }),
        ...(answer?.bootFile === undefined ? {} : { file: answer.bootFile }),
        ...(step.detail === undefined ? {} : { detail: step.detail }),
      },
    });
  }

  /** Waits for the answers that are under way. */
  async drain(): Promise<void> {
    await Promise.all(this.#underWay);
  }
}
