/**
 * What the operators' API needs of the other rooms, as narrow interfaces; src/main.ts wires them.
 */
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { SystemCalls } from '../base/system-calls.socket.ts';
import type { Membership } from '../cluster/change/membership.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { Health } from '../cluster/health/health.ts';
import type { EtcdClient } from '../cluster/joining/user-credentials.ts';
import type { AddonLibrary } from '../cluster/objects/addons/library.ts';
import type { EventLog } from '../events/event.ts';
import type { AcceptOptions } from '../machines/accept.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Roster } from '../machines/roster.ts';
import type { Pki } from '../pki/pki.ts';
import type { RunningBootService } from '../pxe/decide/boot-service.ts';
import type { LeaseBook } from '../pxe/dhcp/leases.ts';
import type { LiveCatalog } from '../resources/catalog.ts';
import type { Timestamp } from './times.ts';

/** A text with documents, and how its faults name it. */
export interface DocumentSource {
  readonly file: string;
  readonly text: string;
}

/** A lease as shown to operators. */
export interface LeaseView {
  readonly network: string;
  readonly address: string;
  readonly mac: string;
  readonly state: string;
  readonly machine?: string;
  readonly hostname?: string;
  readonly expiresAt: Timestamp;
}

export interface Readiness {
  readonly ready: boolean;
  /** What is waited for, or what went wrong; shown by /readyz. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[];
}

export interface Daemon {
  readonly version: string;
  readonly startedAt: Millis;
  readiness(): Readiness;
  /**
   * Reads again what the host has besides documents: the addresses of its interfaces, the loader
   * directories.
   */
  reread(): void;
}

export interface ApiDeps {
  /** Says which process asks; absent where system calls cannot be used. */
  readonly systemCalls?: SystemCalls | undefined;
  readonly catalog: LiveCatalog;
  readonly roster: Pick<Roster, 'get' | 'list' | 'view' | 'byMac' | 'forget'>;
  /**
   * Makes a document of a machine that was seen, or lets one that is held try again. Throws
   * E_NOT_FOUND and what apply throws.
   */
  readonly accept: (name: string, options: AcceptOptions) => Promise<KnownMachine>;
  readonly leases: Pick<LeaseBook, 'list'>;
  /** What a machine would get, and its configuration; see RunningBootService. */
  readonly preview: Pick<RunningBootService, 'explain' | 'render' | 'outlook' | 'missingFiles'>;
  /** Add-ons of clusters, with their files. */
  readonly addons: AddonLibrary;
  /**
   * The founding of clusters' etcd. All throw E_NOT_FOUND for a cluster that is not there, orders
   * E_FOUNDING with what stands against them.
   */
  readonly founding: FoundingOrders;
  readonly membership: Membership;
  /** Why machines on their way out are still where they are. */
  readonly waiting: (cluster: string) => Readonly<Record<string, string>>;
  /** Throws E_NOT_FOUND. */
  readonly health: Health;
  readonly pki: Pick<Pki, 'scopes' | 'keysets' | 'issued' | 'encryption'>;
  readonly agents: {
    /** Whether an agent's certificate is believed now, its dates aside. */
    certificateState(machine: string, serial: string): 'valid' | 'superseded' | 'revoked';
    /** The cluster that a machine's agent works for; see AgentBoot. */
    agentCluster(machine: string): string | undefined;
    /** Throws E_NOT_FOUND. */
    rearm(machine: string, options: { readonly keep: boolean }): Promise<KnownMachine>;
  };
  /**
   * A kubeconfig with a fresh certificate: secret. Throws E_NOT_FOUND, E_USAGE, E_CLUSTER, E_PKI.
   */
  readonly kubeconfig: (cluster: string, user: string) => Promise<string>;
  /** A client of a cluster's etcd, with a fresh certificate: secret. Throws the same. */
  readonly etcdClient: (cluster: string, user: string) => Promise<EtcdClient>;
  readonly events: EventLog;
  readonly daemon: Daemon;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}
