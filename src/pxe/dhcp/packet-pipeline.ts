/**
 * Takes a packet from arrival to reply: calls the pure step, carries out its lease changes, counts
 * and records its outcome. It contains no sockets, so tests run the same code as real packets.
 */

import type { Clock } from '../../base/clock.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Log } from '../../base/log.ts';
import type { Mac } from '../../base/mac.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventKind, EventSink, Reason } from '../../events/event.ts';
import type { Store } from '../../store/store.ts';
import type { BootService } from '../boot.ts';
import type { BootClient } from '../client.ts';
import { createNoteRefusal, type NoteRefusal } from '../gate.ts';
import type { ServedNetwork } from '../network.ts';
import { handle } from './handle.ts';
import { cannotWrite, type LeaseBook, type WriteResult } from './leases.ts';
import { type Datagram, indexNetworks, type NetworkIndex } from './networks.ts';
import { OPTION } from './options.ts';
import { DHCP_OUTCOMES, type OutcomeCode, type SilentOutcome } from './outcomes.ts';
import { addressOption, type DhcpPacket } from './packet.ts';
import type { DhcpState, Durable, Step } from './step.ts';

export interface PacketPipelineParts {
  /** The networks that are served now. Returns the same array until something changes. */
  readonly networks: () => readonly ServedNetwork[];
  readonly boot: Pick<BootService, 'answer' | 'isStranger' | 'reservedFor' | 'withoutReservation'>;
  readonly leases: LeaseBook;
  /** Is told of each client that no firmware or loader is, and that a Network knows. */
  readonly saw: (client: BootClient, network: string) => void;
  /** Stores the records of boot sessions that were answered on port 4011. */
  readonly store: Pick<Store, 'commit'>;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}

/** How often a packet is evaluated when a concurrent write invalidates the first answer. */
const ATTEMPTS = 2;

/** An exhausted pool is logged at most once per network in this interval. */
const EXHAUSTED_LOG_INTERVAL: Millis = millis(60_000);

/** One shared object per outcome, because events are many and stay in memory. */
const REASONS = Object.fromEntries(
  Object.entries(DHCP_OUTCOMES).map(([code, { text }]) => [code, { code, text }]),
) as unknown as Readonly<Record<OutcomeCode, Reason>>;

/** Adds what the timeline of a boot shows of a packet. */
function addPacketFields(fields: Record<string, string | number>, packet: DhcpPacket, kind: EventKind): void {
  fields.xid = `0x${packet.xid.toString(16)}`;
  if (packet.secs > 0) fields.secs = packet.secs;
  const server = kind === 'dhcp.noted' ? addressOption(packet, OPTION.serverId) : undefined;
  if (server !== undefined) fields.server = formatIpv4(server);
}

/** The step of a packet that gets no reply after all. */
function unanswered(step: Step, outcome: SilentOutcome, detail?: string): Step {
  const { reply: _, durable: _durable, ...rest } = step;
  return { ...rest, outcome, ...(detail === undefined ? {} : { detail }) };
}

/**
 * Processes the packets of all interfaces. Its state is the index of networks and pending replies.
 */
export class PacketPipeline {
  readonly #parts: PacketPipelineParts;
  readonly #log: Log;
  readonly #noteRefusal: NoteRefusal;
  #networks: readonly ServedNetwork[] | undefined;
  #index: NetworkIndex = indexNetworks([]);
  /**
   * For each network whose pools are exhausted: when that was last logged, and how many clients got
   * no address since.
   */
  readonly #exhausted = new Map<string, { readonly logged: Millis; unanswered: number }>();
  /** Number of replies that wait for the store. */
  #pending = 0;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(parts: PacketPipelineParts) {
    this.#parts = parts;
    this.#log = parts.log.child({ room: 'dhcp' });
    this.#noteRefusal = createNoteRefusal({ ...parts, log: this.#log });
  }

  /** The index of the networks that are served now. */
  get index(): NetworkIndex {
    const networks = this.#parts.networks();
    if (networks !== this.#networks) {
      this.#networks = networks;
      this.#index = indexNetworks(networks);
    }
    return this.#index;
  }

  #state(unwritable: boolean): DhcpState {
    const { boot, leases, clock } = this.#parts;
    return {
      networks: this.index,
      boot,
      leases,
      now: leases.now(),
      unwritable,
      clockDoubted: clock.doubt() !== undefined,
    };
  }

  /**
   * Processes a packet. The step that is returned has the outcome, and a reply if one is to be sent
   * now. It is a promise when something has to be stored first. Never throws and never rejects.
   */
  receive(datagram: Datagram): Step | Promise<Step> {
    const step = this.#handle(datagram);
    if (step.memory) this.#parts.leases.apply(step.memory);
    if (step.durable === undefined) {
      this.#account(step);
      return step;
    }
    this.#pending++;
    return this.#settle(datagram, step, step.durable);
  }

  /** `unwritable`: the store has just refused what this packet wants durable. */
  #handle(datagram: Datagram, unwritable = false): Step {
    try {
      return handle(datagram, this.#state(unwritable));
    } catch (error) {
      // No packet of any test or fuzzer gets here. If one does, it must not stop the other
      // machines.
      this.#log.error(
        { err: error, packet: Buffer.from(datagram.bytes).toString('hex') },
        'a DHCP packet could not be handled',
      );
      return { outcome: 'internal', detail: String(error) };
    }
  }

  /**
   * Stores what a step wants durable. When another boot host was faster, the packet is evaluated
   * once more with what that host wrote.
   */
  async #settle(datagram: Datagram, first: Step, write: Durable): Promise<Step> {
    let step = first;
    let durable: Durable | undefined = write;
    for (let attempt = 1; durable !== undefined; attempt++) {
      try {
        const result = await this.#write(durable);
        if (result === 'in_flight') step = unanswered(step, 'in_flight');
        if (result !== 'lost' && result !== 'stale') break;
      } catch (error) {
        const why = messageOf(error);
        const promised =
          durable.kind === 'write' && cannotWrite(error) ? this.#handle(datagram, true) : undefined;
        if (promised?.memory?.kind === 'promise') {
          this.#parts.leases.apply(promised.memory);
          step = { ...promised, detail: why };
        } else step = unanswered(step, 'store_failed', why);
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
    if (--this.#pending === 0) this.#drained?.resolve();
    return step;
  }

  /** Not async: this saves one promise for each lease. */
  #write(durable: Durable): Promise<WriteResult> {
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
    if (client?.stage === 'none' && network !== undefined) this.#parts.saw(client, network.name);
    if (step.refused) this.#noteRefusal(step.refused.why, step.refused.asker);
    const about: { readonly text: string; readonly event?: EventKind } = DHCP_OUTCOMES[outcome];
    const kind = about.event ?? (client === undefined || client.stage === 'none' ? undefined : 'dhcp.noted');
    if (kind === undefined || client === undefined) {
      if (this.#log.isLevelEnabled('debug'))
        this.#log.debug(
          { outcome, type, mac: client?.mac, network: network?.name, detail: step.detail },
          about.text,
        );
      return;
    }
    if (about.event === 'dhcp.exhausted') this.#warn(step, client.mac);
    const fields: Record<string, string | number> = { mac: client.mac, stage: client.stage };
    if (type !== undefined) fields.type = type;
    if (step.packet !== undefined) addPacketFields(fields, step.packet, kind);
    if (address !== undefined) fields.address = formatIpv4(address);
    if (answer?.bootFile !== undefined) fields.file = answer.bootFile;
    if (step.detail !== undefined) fields.detail = step.detail;
    this.#parts.events.record({
      kind,
      subject: answer?.subject ?? client.mac,
      reason: REASONS[outcome],
      ...(network ? { network: network.name } : {}),
      ...(answer?.session === undefined ? {} : { session: answer.session }),
      fields,
    });
  }

  /**
   * Logs that there is no address for a client. Each client gets an event, but an exhausted pool is
   * logged only once in {@link EXHAUSTED_LOG_INTERVAL}.
   */
  #warn({ outcome, network, detail }: Step, mac: Mac): void {
    const name = network?.name ?? '';
    let unanswered = 1;
    if (outcome === 'exhausted') {
      const now = this.#parts.clock.monotonic();
      const earlier = this.#exhausted.get(name);
      unanswered += earlier?.unanswered ?? 0;
      if (earlier !== undefined && now - earlier.logged < EXHAUSTED_LOG_INTERVAL) {
        earlier.unanswered = unanswered;
        return;
      }
      this.#exhausted.set(name, { logged: now, unanswered: 0 });
    }
    this.#log.warn({ network: name, outcome, mac, unanswered, detail }, DHCP_OUTCOMES[outcome].text);
  }

  /** Resolves when no reply waits for the store any more. */
  async drain(): Promise<void> {
    if (this.#pending === 0) return;
    this.#drained ??= Promise.withResolvers();
    await this.#drained.promise;
  }
}
