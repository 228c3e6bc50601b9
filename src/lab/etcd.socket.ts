/**
 * A client of a cluster's etcd, as an operator would use: it sends requests to etcd's JSON gateway
 * over mTLS, with a certificate that Muster made.
 */
import https from 'node:https';
import type { EtcdView } from '../cluster/etcd/founding.ts';
import { gatewayOf } from '../cluster/etcd/gateway.socket.ts';
import { ask } from '../cluster/https.socket.ts';
import type { EtcdClient } from '../cluster/joining/user-credentials.ts';

/**
 * Milliseconds for an answer. Emulated machines answer slowly; a machine without power never
 * answers.
 */
const PATIENCE_MS = 5000;
const ANSWER_LIMIT = 64 * 1024 * 1024;
const PREFIX = 'muster-lab/';
/** The end of the range: the first key after all keys with the prefix. */
const END = 'muster-lab0';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export interface LabEtcd {
  readonly members: EtcdClient['members'];
  /** Undefined when no member answers a linearizable read. */
  view(): Promise<EtcdView | undefined>;
  /** Resolves when etcd acknowledges the write. After an error the key may or may not exist. */
  put(member: string, key: string): Promise<void>;
  /**
   * All keys that were put. With `alone` the member answers from its own data, without asking the
   * others.
   */
  keys(member: string, alone: boolean): Promise<ReadonlySet<string>>;
  close(): void;
}

/** Makes a client of etcd with these members and credentials; it connects with the first call. */
export function connectEtcd({ members, ca, certificate, key }: EtcdClient): LabEtcd {
  const agent = new https.Agent({ keepAlive: true });
  const post = async (url: string, body: object): Promise<unknown> => {
    const sent = { method: 'POST', body, patience: PATIENCE_MS, limit: ANSWER_LIMIT, agent } as const;
    const { status, text } = await ask(url, { ca, cert: certificate, key }, sent);
    if (status === 200) return JSON.parse(text);
    throw new Error(`${url}: ${status} ${text}`);
  };
  const gateway = gatewayOf(post);
  const urlOf = (name: string): string => {
    const found = members.find((member) => member.name === name);
    if (!found) throw new Error(`etcd has no member ${name}`);
    return found.url;
  };
  return {
    members,
    view: () => gateway.view(members.map(({ name, url }) => ({ name, address: new URL(url).hostname }))),
    async put(member, name) {
      await post(`${urlOf(member)}/v3/kv/put`, {
        key: base64(PREFIX + name),
        value: base64(`value of ${name}`),
      });
    },
    async keys(member, alone) {
      const answer = (await post(`${urlOf(member)}/v3/kv/range`, {
        key: base64(PREFIX),
        range_end: base64(END),
        keys_only: true,
        serializable: alone,
      })) as { readonly kvs?: readonly { readonly key: string }[] };
      return new Set(
        (answer.kvs ?? []).map((one) => Buffer.from(one.key, 'base64').toString().slice(PREFIX.length)),
      );
    },
    close: () => agent.destroy(),
  };
}
