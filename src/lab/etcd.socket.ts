/** A client of a cluster's etcd, as a person has one: its JSON gateway over mTLS, with the certificate that Muster made for it. */
import https from 'node:https';
import type { EtcdView } from '../cluster/founding/founding.ts';
import { gatewayOf } from '../cluster/founding/gateway.socket.ts';
import type { EtcdClient } from '../cluster/person.ts';

/** Emulated machines answer late; one that lost its power never does. */
const PATIENCE_MS = 5000;
const PREFIX = 'muster-lab/';
/** The first key behind all that begin with the prefix. */
const END = 'muster-lab0';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export interface LabEtcd {
  readonly members: EtcdClient['members'];
  /** Undefined when no member answers a linearizable read. */
  view(): Promise<EtcdView | undefined>;
  /** Resolves when it is acknowledged; else throws, and it may be there or not. */
  put(member: string, key: string): Promise<void>;
  /** All keys that were put. `alone`: what this member has, without asking the others. */
  keys(member: string, alone: boolean): Promise<ReadonlySet<string>>;
  close(): void;
}

export function connectEtcd({ members, ca, certificate, key }: EtcdClient): LabEtcd {
  const agent = new https.Agent({ keepAlive: true, ca, cert: certificate, key, minVersion: 'TLSv1.2' });
  const gateway = gatewayOf((url, body) => post(agent, url, body));
  const urlOf = (name: string): string => {
    const found = members.find((member) => member.name === name);
    if (!found) throw new Error(`etcd has no member ${name}`);
    return found.url;
  };
  return {
    members,
    view: () => gateway.view(members.map(({ name, url }) => ({ name, address: new URL(url).hostname }))),
    async put(member, name) {
      await post(agent, `${urlOf(member)}/v3/kv/put`, {
        key: base64(PREFIX + name),
        value: base64(`value of ${name}`),
      });
    },
    async keys(member, alone) {
      const answer = (await post(agent, `${urlOf(member)}/v3/kv/range`, {
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

function post(agent: https.Agent, url: string, body: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = https.request(
      url,
      { method: 'POST', agent, signal: AbortSignal.timeout(PATIENCE_MS) },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        response.on('error', reject);
        response.on('end', () => {
          if (response.statusCode === 200) resolve(JSON.parse(text));
          else reject(new Error(`${url}: ${response.statusCode} ${text}`));
        });
      },
    );
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}
