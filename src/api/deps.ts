/**
 * The dependencies of the operators' API on other rooms, as narrow interfaces.
 * src/wiring/operators.ts wires them.
 */
import type { WaitingView } from '../agent/approve.ts';
import type { EndingWatch } from '../agent/ending-watch.ts';
import type { KnownTpm } from '../agent/redeem-tpm.ts';
import type { TicketKeys } from '../agent/ticket-keys.ts';
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { SystemCalls } from '../base/system-calls.socket.ts';
import type { Snapshots } from '../cluster/backup/snapshots.ts';
import type { ClusterAgents } from '../cluster/change/agents/builds.ts';
import type { LaterKeys } from '../cluster/change/later-keys.ts';
import type { Membership } from '../cluster/change/membership.ts';
import type { QuarantinedMembers } from '../cluster/change/quarantined-member.ts';
import type { Rolls } from '../cluster/change/roll/rolls.ts';
import type { Rotations } from '../cluster/change/rotation/rotations.ts';
import type { Upgrades } from '../cluster/change/upgrade/upgrades.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { EtcdWatch } from '../cluster/health/etcd-watch.ts';
import type { Health } from '../cluster/health/health.ts';
import type { ClusterEndpoint, EtcdClient, UserCredential } from '../cluster/joining/user-credentials.ts';
import type { AddonLibrary } from '../cluster/objects/addons/library.ts';
import type { Running } from '../cluster/spec/release.ts';
import type { ResolvedCluster } from '../cluster/spec/resolved-cluster.ts';
import type { EventLog, Reason } from '../events/event.ts';
import type { SecurityLog } from '../events/security-log.files.ts';
import type { AcceptOptions } from '../machines/accept.ts';
import type { Consoles } from '../machines/console.files.ts';
import type { Inventories } from '../machines/inventories.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Roster } from '../machines/roster.ts';
import type { SecretUsers } from '../machines/secret-users.ts';
import type { Exports } from '../pki/exported.ts';
import type { GivenSecrets } from '../pki/given-secrets.ts';
import type { Pki } from '../pki/pki.ts';
import type { RunningBootService } from '../pxe/decide/boot-service.ts';
import type { LeaseBook } from '../pxe/dhcp/leases.ts';
import type { LiveCatalog } from '../resources/catalog.ts';
import type { Life } from '../store/life.ts';
import type { Accounts } from './accounts/accounts.ts';
import type { Actions } from './actions.ts';
import type { PendingOrders } from './pending-orders.ts';
import type { Timestamp } from './times.ts';

/** A text with documents, and the file name that its faults carry. */
export interface DocumentSource {
  readonly file: string;
  readonly text: string;
}

/** A lease as the API shows it. */
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
  /** Checks that `/readyz` shows; the detail says what is missing or went wrong. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[];
}

export interface Daemon {
  readonly version: string;
  readonly startedAt: Millis;
  readiness(): Readiness;
  /**
   * Reads the addresses of the host's interfaces and the loader directories again, as SIGHUP does
   * in addition to the documents.
   */
  reread(): void;
}

export interface ApiDeps {
  /** Identifies the client process; absent where system calls cannot be used. */
  readonly systemCalls?: SystemCalls | undefined;
  readonly catalog: LiveCatalog;
  readonly roster: Pick<Roster, 'get' | 'list' | 'view' | 'byMac' | 'forget'>;
  /**
   * Makes a document for a machine that was seen, or lets a held machine try again.
   *
   * @throws {MusterError} E_NOT_FOUND, and what applying a document throws
   */
  readonly accept: (name: string, options: AcceptOptions) => Promise<KnownMachine>;
  readonly leases: Pick<LeaseBook, 'list' | 'addressOf'>;
  /** What machines report of their parts. */
  readonly inventories: Pick<Inventories, 'get' | 'list' | 'counting'>;
  /** What machines printed on their consoles. */
  readonly consoles: Pick<Consoles, 'boots' | 'lines'>;
  /** Explains what a machine would get, and renders its configuration; see RunningBootService. */
  readonly preview: Pick<RunningBootService, 'explain' | 'render' | 'outlook' | 'trust' | 'missingFiles'>;
  /** The versions of kubelet that this boot host has for machines. */
  readonly kubelets?: () => readonly string[];
  /** Add-ons of clusters, with their files. */
  readonly addons: AddonLibrary;
  /**
   * The founding of clusters' etcd.
   *
   * @throws {MusterError} its methods: E_NOT_FOUND for an unknown cluster; orders also E_FOUNDING
   * when the state of etcd does not allow them
   */
  readonly founding: FoundingOrders;
  /** The alarms and the space of clusters' etcd, and the order to reclaim it. */
  readonly etcdSpace: Pick<EtcdWatch, 'space' | 'reclaim'>;
  /** What founded clusters run. */
  readonly running: Pick<Running, 'of'>;
  /** Backups of this boot host, and the life of its store. */
  readonly hostBackup: {
    readonly life: Life;
    /** The archive of a backup; it is secret. */
    readonly archive: (wanted: { readonly assets: boolean }) => AsyncIterable<Uint8Array>;
  };
  /** Snapshots of clusters' etcd. */
  readonly snapshots: Pick<Snapshots, 'order' | 'list' | 'get' | 'verify' | 'read'>;
  readonly rotations: Rotations;
  readonly laterKeys: Pick<LaterKeys, 'accept' | 'warnings'>;
  readonly upgrades: Upgrades;
  readonly rolls: Rolls;
  /** Which agents the machines of clusters run. */
  readonly builds: Pick<ClusterAgents, 'show' | 'of' | 'pause' | 'resume' | 'retry'>;
  readonly membership: Membership;
  /** Machine that is being removed from a cluster → what its removal waits for. */
  readonly waiting: (cluster: string) => Readonly<Record<string, string>>;
  /** @throws {MusterError} E_NOT_FOUND for an unknown cluster */
  readonly health: Health;
  readonly quarantine: {
    /** @throws {MusterError} E_NOT_FOUND for an unknown machine, E_USAGE without a reason */
    readonly hold: (machine: string, why: string, deletePods: boolean) => Promise<KnownMachine>;
    /**
     * @throws {MusterError} E_NOT_FOUND for an unknown machine, E_CONFLICT when it is not held so
     */
    readonly release: (machine: string) => Promise<KnownMachine>;
    /** What becomes of its member of etcd; undefined when it has none. */
    readonly leaveEtcd: QuarantinedMembers['leave'];
    readonly returnToEtcd: QuarantinedMembers['release'];
  };
  /** The machines of a cluster with their roles; undefined while its document is incomplete. */
  readonly resolved: (cluster: string) => Pick<ResolvedCluster, 'keys' | 'machines' | 'versions'> | undefined;
  /** Secrets that operators give, and the documents that refer to them. */
  readonly secrets: {
    readonly given: GivenSecrets;
    readonly users: Pick<SecretUsers, 'mayUse' | 'of' | 'names'>;
  };
  readonly pki: Pick<
    Pki,
    | 'adopt'
    | 'scopes'
    | 'keysets'
    | 'issued'
    | 'encryption'
    | 'isFounded'
    | 'dataKeys'
    | 'renew'
    | 'found'
    | 'change'
    | 'rewrap'
    | 'transition'
    | 'vaultKeys'
  >;
  /** Seals the keys of snapshots of etcd with the vault's first key; returns how many. */
  readonly resealSnapshots: () => Promise<number>;
  /** CAs and certificates that end soon. */
  readonly endings: Pick<EndingWatch, 'warnings'>;
  /** Which keys operators have a copy of. */
  readonly exports: Exports;
  readonly agents: {
    /** Whether an agent's certificate is accepted now, apart from its dates. */
    certificateState(machine: string, serial: string): 'valid' | 'superseded' | 'revoked';
    /** The cluster that a machine's agent works for; see AgentBoot. */
    agentCluster(machine: string): string | undefined;
    /** The keys that wait for an approval; with `codes`, what their machines' consoles show. */
    waiting(asked: { readonly codes: boolean }): readonly WaitingView[];
    /** Why a machine's agent waits for an approval; undefined when it does not. */
    waits(machine: string): Reason | undefined;
    /** The secrets from which tickets are derived, by their names. */
    ticketKeys(): Promise<Pick<TicketKeys, 'id' | 'before'>>;
    /** The TPM that is known for a machine; undefined when none is. */
    tpm(machine: string): KnownTpm | undefined;
    /** @throws {MusterError} E_APPROVAL when the code is not that of a key that waits */
    approve(machine: string, code: string): Promise<Omit<WaitingView, 'code'>>;
    /** @throws {MusterError} E_NOT_FOUND for an unknown machine */
    rearm(machine: string, options: { readonly keep: boolean }): Promise<KnownMachine>;
  };
  /**
   * Makes a kubeconfig with a new certificate; it is secret.
   *
   * @throws {MusterError} E_NOT_FOUND, E_USAGE, E_CLUSTER, E_NO_KEYS, E_PKI
   */
  readonly kubeconfig: (cluster: string, user: string) => Promise<string>;
  /** Makes a certificate for an hour. Throws the same. */
  readonly userCredential: (cluster: string, user: string) => Promise<UserCredential>;
  /** Where a cluster's API is. Throws the same. */
  readonly endpoint: (cluster: string) => Promise<ClusterEndpoint>;
  /**
   * Makes a new client certificate for a cluster's etcd; it is secret.
   *
   * @throws {MusterError} the same as `kubeconfig`
   */
  readonly etcdClient: (cluster: string, user: string) => Promise<EtcdClient>;
  readonly events: EventLog;
  readonly security: Pick<SecurityLog, 'status' | 'list' | 'subscribe' | 'checkpoint' | 'read'>;
  /** Operators, their sessions and tokens. */
  readonly accounts: Accounts;
  /** Where orders wait for a second person; undefined where the site does not ask for one. */
  readonly pending?: PendingOrders | undefined;
  /** Where operators log in, `https://HOST:PORT`; undefined without an HTTPS listener. */
  readonly page?: string | undefined;
  /** The SHA-256 fingerprint of the CA of that listener, if it is Muster's own. */
  readonly pageAuthority?: () => string | undefined;
  /** Records who asked for what. */
  readonly actions: Actions;
  readonly daemon: Daemon;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}
