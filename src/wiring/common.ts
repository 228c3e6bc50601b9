/** The dependencies that nearly every part of the server takes. */
import type { Hosts } from '../api/hosts.ts';
import type { Clock } from '../base/clock.ts';
import type { ClockWitnesses } from '../base/host-clock.ts';
import type { InheritedSocket } from '../base/inherited.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { openDatagrams } from '../base/open-datagrams.socket.ts';
import type { DaemonLog } from '../base/pino.files.ts';
import type { PostAndRead } from '../base/post.socket.ts';
import type { SystemCalls } from '../base/system-calls.socket.ts';
import type { Protocols } from '../bmc/connect.ts';
import type { searchRedfish } from '../bmc/redfish/ssdp.socket.ts';
import type { AnyKind } from '../cluster/change/kind.ts';
import type { createStoredValues } from '../cluster/change/rotation/stored-values.socket.ts';
import type { createGateways } from '../cluster/etcd/gateway.socket.ts';
import type { createKubes } from '../cluster/kube.socket.ts';
import type { EventSink } from '../events/event.ts';
import type { Vault } from '../pki/vault.ts';
import type { startSealer } from '../pki/vault-key.files.ts';
import type { Assets } from '../pxe/assets/assets.files.ts';
import type { BootAddress } from '../pxe/boot-addresses.ts';
import type { HeldAddresses } from '../pxe/hold-addresses.socket.ts';
import type { hostAddresses, interfaceIndex } from '../pxe/interfaces.files.ts';
import type { exchange } from '../pxe/names/exchange.socket.ts';
import type { neighbour } from '../pxe/neighbours.files.ts';
import type { TakeOver } from '../store/etcd/acting.socket.ts';
import type { FileStore, SqliteStoreOptions } from '../store/sqlite.files.ts';

export interface Common {
  readonly clock: Clock & ClockWitnesses;
  readonly log: Log & Pick<DaemonLog, 'unredacted'>;
  readonly metrics: Metrics;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
  /** Undefined where they cannot be used. */
  readonly systemCalls?: SystemCalls | undefined;
  readonly outside: Outside;
}

export interface HostsOutside extends Hosts {
  /** This host's name among the hosts that share its store; undefined: the store is its own. */
  readonly sharedAs: string | undefined;
  /** After which host this one acts; undefined when none was seen. */
  readonly takeOver: () => TakeOver | undefined;
  /** All records were read. */
  readonly loaded: () => void;
  /** This host acts: these are the files that all hosts should have. */
  readonly wants: (files: () => Iterable<string>) => void;
}

/** Where the server reaches out of its process; `outside.files.ts` has the real ones. */
export interface Outside {
  /** The hosts that share the store. */
  readonly hosts: HostsOutside;
  /** Exchanges files with the other boot hosts until it is closed. The store opens later. */
  readonly shareAssets: (
    assets: Assets,
    common: Pick<Common, 'clock' | 'log'> & { readonly events: EventSink },
  ) => Promise<{ readonly close: () => Promise<void> }>;
  /** Opens the store; where several hosts share one, this waits until none of the others acts. */
  readonly openStore: (options: SqliteStoreOptions) => Promise<FileStore>;
  /** Holds these addresses while this host acts. Called once the store is open. */
  readonly holdAddresses: (
    addresses: readonly BootAddress[],
    common: Pick<Common, 'clock' | 'log'>,
  ) => HeldAddresses;
  /** The vault: at a signer's socket, or with a key that this process reads. */
  readonly startVault: (
    signer: string | undefined,
    own: Parameters<typeof startSealer>[0],
    closing: AsyncDisposableStack,
  ) => Promise<Vault>;
  /** Why the release of this tree counts as not signed; running machines do not get its agent. */
  readonly releaseFault: string | undefined;
  /** The sockets that the process inherited. */
  readonly sockets: readonly InheritedSocket[];
  readonly openDatagrams: typeof openDatagrams;
  readonly addresses: () => ReturnType<typeof hostAddresses>;
  readonly indexOf: typeof interfaceIndex;
  readonly neighbour: typeof neighbour;
  readonly createGateways: typeof createGateways;
  readonly createKubes: typeof createKubes;
  readonly createStoredValues: typeof createStoredValues;
  readonly post: PostAndRead;
  /** Sends a message to a name server. */
  readonly exchangeNames: typeof exchange;
  /** What opens sessions with BMCs. */
  readonly bmcs: Protocols;
  /** Asks from own addresses which Redfish services there are. */
  readonly searchRedfish: typeof searchRedfish;
  /** Kinds of change besides Muster's own. */
  readonly kinds: readonly AnyKind[];
}
