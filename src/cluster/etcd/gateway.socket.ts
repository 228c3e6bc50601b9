/**
 * A client of etcd's JSON gateway (`/v3/…`, etcd 3.4 and later) over mTLS, with a client
 * certificate from the cluster's own etcd CA. Keys and values are base64, 64-bit numbers are
 * decimal texts.
 */

import type { Clock } from '../../base/clock.ts';
import { fieldsOf, parsed, textOf } from '../../base/foreign-json.ts';
import type { Pki } from '../../pki/pki.ts';
import { bootHostCredentials } from '../boot-host.ts';
import { ask, type Credentials } from '../https.socket.ts';
import { etcdClientUrl, etcdPeerUrl } from '../model/ports.ts';
import { readCondition } from './condition.ts';
import type { EtcdMember, EtcdView, MemberAddress } from './founding.ts';
import type { EtcdDowngrade, EtcdGateway, EtcdMaintenance } from './views.ts';

/**
 * Milliseconds for an answer. Without a quorum etcd answers a linearizable read after 5 s, a
 * healthy etcd in milliseconds.
 */
const PATIENCE_MS = 3000;
/**
 * Milliseconds for a compaction or a defragmentation. A large database takes a minute on a slow
 * disk.
 */
const WORK_MS = 300_000;
const ANSWER_LIMIT = 1024 * 1024;

interface GatewayDeps {
  readonly pki: Pki;
  readonly clock: Clock;
  /** Aborts when the daemon stops. */
  readonly signal: AbortSignal;
}

/** Both sides of a cluster's etcd. */
export type Etcd = EtcdGateway & EtcdMaintenance & EtcdDowngrade;

/** Returns a function that makes the gateway of a cluster's etcd. */
export function createGateways({ pki, clock, signal }: GatewayDeps): (cluster: string) => Etcd {
  const credentials = bootHostCredentials({ pki, clock }, 'muster-etcd-client', 'etcd-ca');
  const gateways = new Map<string, Etcd>();
  return (cluster) => {
    const known = gateways.get(cluster);
    if (known) return known;
    const made = gatewayOf(async (url, body, patience = PATIENCE_MS) =>
      post(url, body, await credentials(cluster), { patience, signal }),
    );
    gateways.set(cluster, made);
    return made;
  };
}

/** `patience`: milliseconds for the answer; without it, {@link PATIENCE_MS}. */
type Post = (url: string, body: object, patience?: number) => Promise<unknown>;

/**
 * Implements the gateway's protocol with any function that posts JSON and resolves with the JSON
 * answer.
 */
export function gatewayOf(postTo: Post): Etcd {
  /**
   * Posts to one member after the other until one accepts. Throws etcd's last refusal, or the last
   * error when no member answered.
   */
  const any = async (
    members: readonly MemberAddress[],
    path: string,
    body: object,
    patience?: number,
  ): Promise<unknown> => {
    let last: unknown = new Error('etcd has no members');
    for (const { address } of members) {
      try {
        return await postTo(etcdClientUrl(address) + path, body, patience);
      } catch (error) {
        last = error instanceof EtcdRefusal || !(last instanceof EtcdRefusal) ? error : last;
      }
    }
    throw last;
  };
  const reads = (address: string): Promise<boolean> =>
    postTo(`${etcdClientUrl(address)}/v3/kv/range`, { key: UNUSED_KEY, count_only: true }).then(
      () => true,
      () => false,
    );
  const lives = (address: string): Promise<boolean> =>
    postTo(`${etcdClientUrl(address)}/v3/maintenance/status`, {}).then(
      () => true,
      () => false,
    );
  return {
    reads: ({ address }) => reads(address),
    async view(members) {
      const reading = await Promise.all(
        members.map(async (one) => ({ ...one, ok: await reads(one.address) })),
      );
      // This member has just answered a linearizable read, so its list is at least as new as that
      // read.
      const asked = reading.find(({ ok }) => ok);
      if (!asked) return undefined;
      const list = listOf(await postTo(`${etcdClientUrl(asked.address)}/v3/cluster/member/list`, {}));
      const healthy = await Promise.all(
        list.members.map(async (member) => {
          const at = reading.find(({ address }) => member.peerUrls.includes(etcdPeerUrl(address)));
          if (!at) return false;
          return member.learner ? lives(at.address) : at.ok;
        }),
      );
      return {
        clusterId: list.clusterId,
        members: list.members.map((member, n) => ({ ...member, healthy: healthy[n]! })),
      };
    },
    remove: async (members, id) => void (await any(members, '/v3/cluster/member/remove', { ID: id })),
    addLearner: async (members, url) =>
      void (await any(members, '/v3/cluster/member/add', { peerURLs: [url], isLearner: true })),
    promote: async (members, id) => void (await any(members, '/v3/cluster/member/promote', { ID: id })),
    ...maintenanceOf(postTo, any, reads),
    async storage(members) {
      const answers = await Promise.all(
        members.map(async ({ name, address }) => {
          const status = postTo(`${etcdClientUrl(address)}/v3/maintenance/status`, {});
          const { storageVersion } = fieldsOf(await status.catch(() => undefined));
          const [minor] = /^\d+\.\d+/.exec(typeof storageVersion === 'string' ? storageVersion : '') ?? [];
          return [name, minor] as const;
        }),
      );
      return Object.fromEntries(answers.filter((one): one is [string, string] => one[1] !== undefined));
    },
    async lower(members, minor) {
      try {
        await any(members, '/v3/maintenance/downgrade', { action: 'ENABLE', version: `${minor}.0` });
      } catch (error) {
        if (!(error instanceof EtcdRefusal) || !error.message.includes('downgrade job in progress'))
          throw error;
      }
    },
  };
}

type Any = (
  members: readonly MemberAddress[],
  path: string,
  body: object,
  patience?: number,
) => Promise<unknown>;

function maintenanceOf(
  postTo: Post,
  any: Any,
  reads: (address: string) => Promise<boolean>,
): EtcdMaintenance {
  return {
    async condition(members, quota) {
      const found = await Promise.all(
        members.map(async (one) => {
          const [answer, ok] = await Promise.all([
            postTo(`${etcdClientUrl(one.address)}/v3/maintenance/status`, {}).catch(() => undefined),
            reads(one.address),
          ]);
          return answer === undefined ? undefined : readCondition(one, answer, ok);
        }),
      );
      const answered = found.filter((one) => one !== undefined);
      const silent = members.filter((_, n) => found[n] === undefined).map(({ name }) => name);
      const reported = answered.flatMap((one) => one.quota ?? []);
      return { members: answered, silent, quota: reported.length > 0 ? Math.min(...reported) : quota };
    },
    async compact(members, revision) {
      try {
        await any(members, '/v3/kv/compaction', { revision, physical: true }, WORK_MS);
      } catch (error) {
        // An API server, or an earlier order, was there first.
        if (!(error instanceof EtcdRefusal) || !error.message.includes('has been compacted')) throw error;
      }
    },
    defragment: async ({ address }) =>
      void (await postTo(`${etcdClientUrl(address)}/v3/maintenance/defragment`, {}, WORK_MS)),
    disarm: async (members, { member, name }) =>
      void (await any(members, '/v3/maintenance/alarm', {
        action: 'DEACTIVATE',
        memberID: member,
        alarm: name,
      })),
    async write(members) {
      await any(members, '/v3/kv/put', { key: PROBE_KEY, value: PROBE_KEY });
      await any(members, '/v3/kv/deleterange', { key: PROBE_KEY });
    },
  };
}

/** The key that a probe writes and deletes; Kubernetes has all of its own below `/registry`. */
const PROBE_KEY = Buffer.from('muster/write-probe').toString('base64');

/** A key of one zero octet, which no program uses. */
const UNUSED_KEY = Buffer.from([0]).toString('base64');

/** An error with which etcd itself answered. */
export class EtcdRefusal extends Error {}

function listOf(answer: unknown): Pick<EtcdView, 'clusterId'> & {
  readonly members: readonly Omit<EtcdMember, 'healthy'>[];
} {
  const { header, members } = fieldsOf(answer);
  if (!Array.isArray(members)) throw new Error('etcd named no members');
  return {
    clusterId: textOf(fieldsOf(header).cluster_id),
    members: members.map((member: unknown) => {
      const { ID, name, peerURLs, isLearner } = fieldsOf(member);
      return {
        id: textOf(ID),
        name: textOf(name),
        peerUrls: Array.isArray(peerURLs) ? peerURLs.map(textOf) : [],
        learner: isLearner === true,
      };
    }),
  };
}

/**
 * etcd's own words in a refusal, or undefined. The gateway of etcd 3.4 writes them as `error`, that
 * of 3.6, and of 3.5 as Debian builds it, as `message` only.
 */
export function refusalOf(text: string): string | undefined {
  const { error, message } = fieldsOf(parsed(text));
  return textOf(error) || textOf(message) || undefined;
}

async function post(
  url: string,
  body: object,
  credentials: Credentials,
  { patience, signal }: { readonly patience: number; readonly signal: AbortSignal },
): Promise<unknown> {
  const { status, text } = await ask(url, credentials, {
    method: 'POST',
    body,
    patience,
    limit: ANSWER_LIMIT,
    signal,
  });
  if (status === 200) return parsed(text);
  throw new EtcdRefusal(refusalOf(text) ?? `status ${status}`);
}
