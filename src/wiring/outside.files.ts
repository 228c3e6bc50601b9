/** What the server uses of its host: files, sockets, interfaces, and the clusters' own servers. */
import os from 'node:os';
import { AGENT_BUNDLE } from '../agent/scripts/bundle.ts';
import { inheritedSockets } from '../base/inherited.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import { openDatagrams } from '../base/open-datagrams.socket.ts';
import { projectRoot } from '../base/paths.ts';
import { createPost } from '../base/post.socket.ts';
import { releaseFault } from '../base/release.files.ts';
import { VERSION } from '../base/version.ts';
import { openIpmi } from '../bmc/ipmi/client.socket.ts';
import { openRedfish } from '../bmc/redfish/client.socket.ts';
import { searchRedfish } from '../bmc/redfish/ssdp.socket.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { createStoredValues } from '../cluster/change/rotation/stored-values.socket.ts';
import { createGateways } from '../cluster/etcd/gateway.socket.ts';
import { createKubes } from '../cluster/kube.socket.ts';
import { SignerClient } from '../pki/signer/client.socket.ts';
import { vaultOver, vaultWith } from '../pki/vault.ts';
import { startSealer } from '../pki/vault-key.files.ts';
import { holdAddresses } from '../pxe/hold-addresses.socket.ts';
import { hostAddresses, interfaceIndex } from '../pxe/interfaces.files.ts';
import { exchange } from '../pxe/names/exchange.socket.ts';
import { neighbour } from '../pxe/neighbours.files.ts';
import { writeFile } from '../store/copy.files.ts';
import type { EtcdStore } from '../store/etcd.socket.ts';
import { openSqliteStore } from '../store/sqlite.files.ts';
import { emptySockets, guardedDatagrams, guardRequests, type RecentDatagrams } from './acting.socket.ts';
import type { Outside } from './common.ts';
import { whatJoins } from './join.files.ts';
import { openSiblings, type Siblings } from './siblings.socket.ts';

export const ofThisHost = ({
  localWebhooks,
  releaseKey,
}: Pick<ServeOptions, 'localWebhooks' | 'releaseKey'>): Outside => ({
  hosts: {
    ...{ shared: false, sharedAs: undefined, takeOver: () => undefined, loaded: () => {} },
    list: () => [],
    revision: () => 0,
    now: Date.now,
    ...{ wants: () => {}, wantedFiles: () => undefined, removedFile: () => {} },
    ...{ invite: () => '', invited: () => false, callOff: () => {} },
    forget: async () => false,
    handOver: () => {},
  },
  shareAssets: async () => ({ close: async () => {} }),
  openStore: openSqliteStore,
  holdAddresses: (addresses, common) =>
    holdAddresses({ ...common, addresses, actingMs: () => Number.POSITIVE_INFINITY }),
  async startVault(signer, own, closing) {
    if (signer === undefined) return vaultWith(startSealer(own));
    const vault = vaultOver(closing.use(new SignerClient(signer)).ask);
    // A server without its vault does not start.
    await vault.keys();
    return vault;
  },
  releaseFault: releaseFault(projectRoot(), releaseKey, AGENT_BUNDLE.digest),
  sockets: inheritedSockets(process.env, process.pid),
  openDatagrams,
  addresses: hostAddresses,
  indexOf: interfaceIndex,
  neighbour,
  createGateways,
  createKubes,
  createStoredValues,
  post: createPost({ local: localWebhooks }).postAndRead,
  exchangeNames: exchange,
  bmcs: { redfish: openRedfish, ipmi: openIpmi },
  searchRedfish,
  kinds: [],
});

/** What happens when the turn to act comes or goes. */
interface Turns {
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
  /** This host waits until it may act; called with the name of the host that acts. */
  readonly standsBy: (acting: string) => void;
  /** An operator orders that another host acts. */
  readonly handOver: () => void;
  /** Another host may act now: this one must not answer anybody. Does not return. */
  readonly stop: () => never;
}

/** As {@link ofThisHost}, with a store that several hosts share, if there is one. */
export function amongHosts(options: ServeOptions, { signal, standsBy, handOver, stop }: Turns): Outside {
  const outside = ofThisHost(options);
  const { etcd, hostName, bootAddresses, siblingPort, copyRate } = options;
  if (etcd === undefined) return outside;
  const host = hostName ?? os.hostname();
  let store: EtcdStore | undefined;
  let siblings: Siblings | undefined;
  let recent: RecentDatagrams | undefined;
  const mustAct = (): void => {
    if (store !== undefined && store.actingMs <= 0) stop();
  };
  return {
    ...outside,
    hosts: {
      ...{ shared: true, sharedAs: host, now: Date.now },
      takeOver: () => store?.takeOver,
      loaded: () => store?.loaded(),
      list: () => store?.hosts() ?? [],
      revision: () => store?.revision ?? 0,
      wants: (files) => siblings?.wants(files),
      wantedFiles: () => siblings?.wantedFiles(),
      removedFile: (sha256) => siblings?.removedFile(sha256),
      invite: (name, sharesCertificate) => siblings!.invite(name, sharesCertificate),
      invited: (name) => siblings?.invited(name) ?? false,
      callOff: (name) => siblings?.callOff(name),
      forget: async (name) => (await store?.forgetHost(name)) ?? false,
      handOver() {
        store?.leaveAs('handed_over');
        handOver();
      },
    },
    async shareAssets(assets, common) {
      const opened = await openSiblings({
        ...{ ...common, host, port: siblingPort, rate: copyRate, assets },
        addresses: () => ownAddresses(bootAddresses),
        whatJoins: (...asked) => whatJoins(options, ...asked),
      });
      siblings = opened;
      return opened;
    },
    async openStore(common) {
      const { openEtcdStore } = await import('../store/etcd.socket.ts');
      recent = emptySockets(outside.sockets, process.env);
      store = await openEtcdStore({
        ...{ ...common, ...etcd, host, signal, standsBy, copy: writeFile },
        about: { ...siblings!.about, version: VERSION, addresses: () => ownAddresses(bootAddresses) },
      }).finally(recent.stop);
      guardRequests(mustAct);
      return store;
    },
    holdAddresses: (addresses, common) =>
      holdAddresses({ ...common, addresses, actingMs: () => store?.actingMs ?? 0 }),
    openDatagrams(given) {
      const opened = outside.openDatagrams(given);
      return { ...opened, datagrams: guardedDatagrams(opened.datagrams, mustAct, () => recent) };
    },
  };
}

/** At most so many addresses are told. */
const ADDRESSES = 8;

/** The addresses by which this host alone is reached. */
const ownAddresses = (boot: ServeOptions['bootAddresses']): readonly string[] =>
  hostAddresses()
    .filter(({ address }) => !boot.some((one) => one.address === address))
    .slice(0, ADDRESSES)
    .map(({ address }) => formatIpv4(address));
