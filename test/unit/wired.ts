/** What the server's wiring takes, for tests: a store in memory, no sockets, nobody who answers. */
import { ManualClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { nodeDatagrams } from '../../src/base/node-datagrams.socket.ts';
import type { ServeOptions } from '../../src/cli/serve/options.ts';
import { gatewayOf } from '../../src/cluster/etcd/gateway.socket.ts';
import type { Kube } from '../../src/cluster/kube.ts';
import { newVaultKey, type Vault, vaultFrom } from '../../src/pki/vault.ts';
import { openMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import type { Common, Outside } from '../../src/wiring/common.ts';

const nobody = () => Promise.reject(new Error('nobody answers here'));

const NO_BMCS: Outside['bmcs'] = { redfish: nobody, ipmi: nobody };

interface Wished extends Partial<ServeOptions> {
  /** The store and its key, to open them again. */
  readonly store?: Store | undefined;
  readonly vault?: Vault | undefined;
  readonly clock?: ManualClock | undefined;
  readonly addresses?: ReturnType<Outside['addresses']>;
  readonly kinds?: Outside['kinds'];
  readonly bmcs?: Outside['bmcs'];
  readonly searchRedfish?: Outside['searchRedfish'];
}

/**
 * Options and parts of a server in `state`. `closing` closes what is opened with them; `servers`
 * answer as tests set them.
 */
export function wired(given: Wished) {
  const { addresses = [], kinds = [], clock: time = new ManualClock(), ...others } = given;
  const { bmcs = NO_BMCS, searchRedfish = async () => [], ...wished } = others;
  const { store: kept = openMemoryStore(), vault = vaultFrom(newVaultKey(), 'test'), ...set } = wished;
  const servers: { kube: Kube } = { kube: nobody };
  const closing = new AsyncDisposableStack();
  const stop = new AbortController();
  closing.defer(() => stop.abort());
  const clock = Object.assign(time, { heard: () => {} });
  const store = Object.assign(kept, { copyTo: nobody });
  const outside: Outside = {
    hosts: {
      ...{ shared: false, sharedAs: undefined, takeOver: () => undefined, loaded: () => {} },
      ...{
        list: () => [],
        revision: () => 0,
        now: () => clock.now(),
        ...{ wants: () => {}, wantedFiles: () => undefined, removedFile: () => {} },
        ...{ invite: () => '', invited: () => false, callOff: () => {} },
        forget: async () => false,
        handOver: () => {},
      },
    },
    shareAssets: async () => ({ close: async () => {} }),
    openStore: async () => store,
    holdAddresses: () => ({ settled: Promise.resolve(), faults: () => [], close: async () => {} }),
    releaseFault: undefined,
    startVault: async () => vault,
    sockets: addresses.map((one) => ({ fd: -1, name: `dhcp-${one.interface}` })),
    openDatagrams: () => ({ datagrams: nodeDatagrams, kernel: undefined }),
    addresses: () => addresses,
    indexOf: () => 1,
    neighbour: () => 'host',
    createGateways: () => () => gatewayOf(nobody),
    createKubes:
      () =>
      () =>
      (...asked) =>
        servers.kube(...asked),
    createStoredValues: () => nobody,
    post: nobody,
    exchangeNames: nobody,
    bmcs,
    searchRedfish,
    kinds,
  };
  const common: Common = {
    clock,
    log: Object.assign({ ...silentLog }, { unredacted: silentLog }),
    metrics: createMetrics(),
    signal: stop.signal,
    outside,
  };
  const options: ServeOptions = {
    config: undefined,
    state: '',
    socket: '',
    interfaces: [],
    httpPort: 8080,
    agentPort: 0,
    vaultKey: undefined,
    signer: undefined,
    metricsListen: undefined,
    operatorsListen: undefined,
    operatorsName: undefined,
    operatorsPair: undefined,
    operatorsClientCa: undefined,
    oidc: undefined,
    otlpEndpoint: undefined,
    etcd: undefined,
    hostName: undefined,
    bootAddresses: [],
    siblingPort: 0,
    copyRate: 2 ** 20,
    requireSecondPerson: false,
    localWebhooks: false,
    loaders: [],
    logLevel: 'info',
    auditBytes: 2 ** 28,
    standby: [],
    backupCommands: '',
    releaseKey: undefined,
    ...set,
  };
  return { options, common, clock, store, vault, closing, servers };
}
