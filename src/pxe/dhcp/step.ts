/** The values that the pure step takes and returns. */
import type { Millis } from '../../base/duration.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Write } from '../../store/store.ts';
import type { BootAnswer, BootService } from '../boot.ts';
import type { BootClient } from '../client.ts';
import type { ServedNetwork } from '../network.ts';
import type { Asker, Refusal } from '../perimeter.ts';
import type { LeaseBook, LeaseChange } from './leases.ts';
import type { NetworkLeases } from './network-leases.ts';
import type { Datagram, NetworkIndex } from './networks.ts';
import type { MessageName } from './options.ts';
import type { RefusedOutcome, SilentOutcome } from './outcomes.ts';
import type { DhcpPacket } from './packet.ts';
import type { PoolRules } from './pool.ts';

/** Everything that a step reads. It changes none of it. */
export interface DhcpState {
  readonly networks: NetworkIndex;
  readonly boot: Pick<BootService, 'answer' | 'isStranger' | 'reservedFor' | 'withoutReservation'>;
  readonly leases: Pick<LeaseBook, 'network' | 'failing'>;
  /** The store just refused the lease of this packet. */
  readonly unwritable?: boolean;
  readonly now: Millis;
  /** The host's clock is in doubt: addresses are given for a short time. */
  readonly clockDoubted?: boolean;
}

/** A decoded packet whose network is known, with everything that its answer depends on. */
export interface Query {
  readonly datagram: Datagram;
  readonly packet: DhcpPacket;
  readonly type: MessageName;
  readonly network: ServedNetwork;
  readonly rules: PoolRules;
  readonly client: BootClient;
  readonly leases: NetworkLeases;
  readonly state: DhcpState;
}

export interface Reply {
  readonly packet: DhcpPacket;
  readonly to: { readonly address: Ipv4; readonly port: number };
  /** Largest payload that the client accepts, octets. */
  readonly maximum: number;
}

/** A change of leases that is kept in memory only. */
export type MemoryChange = Exclude<LeaseChange, { kind: 'write' }>;

type LeaseWrite = Extract<LeaseChange, { kind: 'write' }>;

/**
 * What has to be durable before the reply is sent: a lease, or only records of the boot session
 * (port 4011).
 */
export type Durable = LeaseWrite | { readonly kind: 'records'; readonly writes: readonly Write[] };

/** The fields that a result may have. Each member of {@link Result} says which it always has. */
interface ResultFields {
  /** Particulars, where the outcome's own text does not say enough. */
  readonly detail?: string;
  /** Why its sender gets no answer, whatever the packet asks. */
  readonly refused?: { readonly why: Refusal; readonly asker: Asker };
  readonly answer?: BootAnswer;
  /** The address that was offered, confirmed, refused or given back. */
  readonly address?: Ipv4;
  /** To be applied immediately, in memory. */
  readonly memory?: MemoryChange | undefined;
  /** To be stored before the reply is sent. */
  readonly durable?: Durable | undefined;
  readonly reply?: Reply | undefined;
}

/** The client gets a reply, and nothing has to be stored for it. */
interface Offered extends ResultFields {
  readonly outcome: 'offered' | 'proxy_offered' | 'informed';
  readonly answer: BootAnswer;
  readonly reply: Reply;
  readonly durable?: undefined;
}

/** The client gets its lease when the store has it. */
interface Confirmed extends ResultFields {
  readonly outcome: 'acked' | 'renewed';
  readonly answer: BootAnswer;
  readonly address: Ipv4;
  readonly reply: Reply;
  readonly durable: LeaseWrite;
  readonly memory?: undefined;
}

/** The client gets its address although the store cannot write. */
interface Promised extends ResultFields {
  readonly outcome: 'acked_unrecorded' | 'renewed_unrecorded';
  readonly answer: BootAnswer;
  readonly address: Ipv4;
  readonly reply: Reply;
  readonly memory: Extract<MemoryChange, { kind: 'promise' }>;
  readonly durable?: undefined;
}

/** The client gets its boot file on port 4011. */
interface BootServerConfirmed extends ResultFields {
  readonly outcome: 'boot_server_acked';
  readonly answer: BootAnswer;
  readonly reply: Reply;
  readonly durable?: Extract<Durable, { kind: 'records' }> | undefined;
}

/** The client gets a DHCPNAK. */
interface Refused extends ResultFields {
  readonly outcome: RefusedOutcome;
  readonly address: Ipv4;
  readonly reply: Reply;
  readonly durable?: undefined;
  readonly memory?: undefined;
}

/** The client ends its lease and expects no reply. */
interface Ended extends ResultFields {
  readonly outcome: 'released' | 'declined';
  readonly address: Ipv4;
  readonly durable: LeaseWrite;
  readonly reply?: undefined;
}

/** The client gets no reply; `outcome` says why. */
interface Silent extends ResultFields {
  readonly outcome: SilentOutcome;
  readonly reply?: undefined;
  readonly durable?: undefined;
}

/** What is to be done about a packet: exactly one outcome, which determines the other fields. */
export type Result = Offered | Confirmed | Promised | BootServerConfirmed | Refused | Ended | Silent;

/** A {@link Result}, with the packet as far as it could be read. */
export type Step = Result & {
  readonly packet?: DhcpPacket;
  readonly type?: MessageName;
  readonly network?: ServedNetwork;
  readonly client?: BootClient;
};
