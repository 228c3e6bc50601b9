/** What the server uses of its host: files, sockets, interfaces, and the clusters' own servers. */
import { inheritedSockets } from '../base/inherited.ts';
import { openDatagrams } from '../base/open-datagrams.socket.ts';
import { createPost } from '../base/post.socket.ts';
import { openIpmi } from '../bmc/ipmi/client.socket.ts';
import { openRedfish } from '../bmc/redfish/client.socket.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { createStoredValues } from '../cluster/change/rotation/stored-values.socket.ts';
import { createGateways } from '../cluster/etcd/gateway.socket.ts';
import { createKubes } from '../cluster/kube.socket.ts';
import { SignerClient } from '../pki/signer/client.socket.ts';
import { vaultOver, vaultWith } from '../pki/vault.ts';
import { startSealer } from '../pki/vault-key.files.ts';
import { hostAddresses, interfaceIndex } from '../pxe/interfaces.files.ts';
import { exchange } from '../pxe/names/exchange.socket.ts';
import { neighbour } from '../pxe/neighbours.files.ts';
import { openSqliteStore } from '../store/sqlite.files.ts';
import type { Outside } from './common.ts';

export const ofThisHost = ({ localWebhooks }: Pick<ServeOptions, 'localWebhooks'>): Outside => ({
  openStore: openSqliteStore,
  async startVault(signer, own, closing) {
    if (signer === undefined) return vaultWith(startSealer(own));
    const vault = vaultOver(closing.use(new SignerClient(signer)).ask);
    // A server without its vault does not start.
    await vault.keys();
    return vault;
  },
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
  kinds: [],
});
