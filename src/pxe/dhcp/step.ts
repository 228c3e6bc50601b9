/** The values that the pure step works with. */
import type { Millis } from '../../base/duration.ts';
import type { Ipv4 } from '../../base/ipv4.ts';
import type { Write } from '../../store/store.ts';
import type { BootAnswer, BootService } from '../boot.ts';
import type { BootClient } from '../client.ts';
import type { ServedNetwork } from '../network.ts';
import type { LeaseBook, LeaseChange } from './leases.ts';
import type { NetworkLeases } from './network-leases.ts';
import type { Datagram, NetworkIndex } from './networks.ts';
import type { MessageName } from './options.ts';
import type { OutcomeCode } from './outcomes.ts';
import type { DhcpPacket } from './packet.ts';
import type { PoolRules } from './pool.ts';

/** Everything that a step looks at. It changes none of it. */
export interface DhcpState {
  readonly networks: NetworkIndex;
  readonly boot: Pick<BootService, 'answer' | 'reservedFor'>;
  readonly leases: Pick<LeaseBook, 'network'>;
  readonly now: Millis;
}

export interface Reply {
  readonly packet: DhcpPacket;
  readonly to: { readonly address: Ipv4; readonly port: number };
  /** Largest payload that the client takes, octets. */
  readonly maximum: number;
}

/**
 * What has to be durable before the reply leaves: a lease, or only records of the boot session
 * (port 4011).
 */
export type Durable =
  | Extract<LeaseChange, { kind: 'write' }>
  | { readonly kind: 'records'; readonly writes: readonly Write[] };

/**
 * What a packet leads to. Exactly one outcome; the rest says how it came to be and what is to be
 * done.
 */
export interface Step {
  readonly outcome: OutcomeCode;
  /** The particulars, where the outcome's own text does not say enough. */
  readonly detail?: string;
  readonly type?: MessageName;
  readonly packet?: DhcpPacket;
  readonly network?: ServedNetwork;
  readonly client?: BootClient;
  readonly answer?: BootAnswer;
  /** The address that was offered, confirmed, refused or given back. */
  readonly address?: Ipv4;
  /** In memory, at once. */
  readonly memory?: Extract<LeaseChange, { kind: 'offer' | 'elsewhere' }>;
  /** In the store, before the reply. */
  readonly durable?: Durable;
  readonly reply?: Reply;
}

/** A packet that has found its network. */
export interface Ask {
  readonly datagram: Datagram;
  readonly packet: DhcpPacket;
  readonly type: MessageName;
  readonly network: ServedNetwork;
  readonly rules: PoolRules;
  readonly client: BootClient;
  readonly leases: NetworkLeases;
  readonly state: DhcpState;
}
