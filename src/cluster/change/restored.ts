/**
 * Puts right what a restored snapshot of etcd says about the keys of its cluster. The snapshot may
 * be older than a rotation. Then pods would get a CA that has ended, aggregated API servers would
 * trust it, and Secrets would hold tokens that no API server accepts.
 *
 * A cluster does not count as healthy until all of it is right, and no change of it begins. What
 * was done once for a founding is not done again.
 */
import { z } from 'zod';
import { duration } from '../../base/duration.ts';
import { errorTexts } from '../../base/error-text.ts';
import type { Fault } from '../../base/errors.ts';
import { firstFew } from '../../base/first-few.ts';
import { parsed } from '../../base/foreign-json.ts';
import type { EventSink } from '../../events/event.ts';
import type { Keysets, Pki } from '../../pki/pki.ts';
import { KEYS } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import type { FoundingRecord } from '../etcd/founding.ts';
import { type Look, type RoundsDeps, startRounds } from '../joining/rounds.ts';
import { firstReady, ifThere, type Kube } from '../kube.ts';
import { addressOf, withRole } from '../model/resolved-cluster.ts';
import { legacyTokens } from './rotation/leftovers.ts';
import {
  namespacesWithout,
  publishedBy,
  publishRootCa,
  publishTrust,
  trustIsPublished,
} from './rotation/published.ts';
import { keyIdOfTokens } from './rotation/token-key.ts';

const EVERY = duration('5s');

/** `restored/CLUSTER` in the store. */
const schema = z.strictObject({
  v: z.literal(1),
  /** The founding in which all was found right. */
  founding: z.string(),
});

/** Something that a snapshot brought back, and what makes it right. */
interface Wrong {
  readonly text: string;
  readonly correct: () => Promise<unknown>;
}

interface RestoredDeps extends RoundsDeps {
  readonly pki: Pick<Pki, 'keysets'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly store: Store;
  readonly events: EventSink;
  /**
   * Whether the keys of this store count for a cluster. Those of a restored store may not, until it
   * is known to be the only one and no machine has later keys.
   */
  readonly mayAct: (cluster: string) => boolean;
}

export interface Restored {
  /** What is still wrong in a cluster after a snapshot was restored; undefined: nothing is. */
  holds(cluster: string): Fault | undefined;
  close(): Promise<void>;
}

/** Reads what was done, and puts clusters right from now on, until it is closed. */
export async function startRestored(deps: RestoredDeps): Promise<Restored> {
  const { founder, store, events, log } = deps;
  const textOf = errorTexts(log);
  /** Cluster → the founding in which all was found right. */
  const right = new Map<string, string>();
  for (const { key, value } of (await store.list(KEYS.restored.prefix())).records) {
    const read = schema.safeParse(parsed(value));
    if (read.success) right.set(KEYS.restored.parse(key)![0]!, read.data.founding);
    else log.warn({ key }, 'a stored record cannot be read and is ignored');
  }
  /** Cluster → what the last look found. */
  const found = new Map<string, readonly string[]>();
  const due = (cluster: string): FoundingRecord | undefined =>
    founder
      .records()
      .find(
        (record) =>
          record.cluster === cluster &&
          !record.reset &&
          record.founded?.snapshot !== undefined &&
          record.id !== right.get(cluster),
      );

  const round = async ({ resolved: { name }, resolved }: Look<undefined>): Promise<void> => {
    const record = due(name);
    if (record === undefined || !deps.mayAct(name)) return;
    const kubes = withRole(resolved, 'control-plane').map((one) => deps.kubes(name, addressOf(one)));
    const wrong = await wrongIn(await firstReady(kubes), await deps.pki.keysets(name));
    const texts: string[] = [];
    for (const { text, correct } of wrong)
      try {
        await correct();
        texts.push(text);
      } catch (error) {
        texts.push(`${text}: ${textOf(error, { cluster: name })}`);
      }
    found.set(name, texts);
    if (wrong.length > 0) return;
    const value: z.output<typeof schema> = { v: 1, founding: record.id };
    await store.commit([{ key: KEYS.restored.key(name), put: JSON.stringify(value) }]);
    right.set(name, record.id);
    found.delete(name);
    events.record({
      kind: 'cluster.restored',
      subject: `Cluster/${name}`,
      reason: { code: 'right', text: 'The CAs and tokens in the restored snapshot are those of today.' },
      fields: { snapshot: record.founded?.snapshot ?? '' },
    });
  };
  const what = 'correction of a restored snapshot';
  const rounds = startRounds<undefined>(deps, { every: EVERY, what, begin: () => undefined }, round);

  return {
    holds(cluster) {
      const snapshot = due(cluster)?.founded?.snapshot;
      if (snapshot === undefined) return undefined;
      const texts = found.get(cluster) ?? ['no API server has answered yet'];
      return {
        code: 'E_CHANGE',
        message: `snapshot ${snapshot} was restored, and its CAs and tokens are being put right: ${firstFew(texts)}`,
      };
    },
    close: () => rounds.close(),
  };
}

/** What is not of the keys that a cluster has today. */
export async function wrongIn(kube: Kube, keysets: Keysets): Promise<readonly Wrong[]> {
  const trust = publishedBy(keysets);
  const bundle = trust['client-ca-file'];
  const [published, namespaces, { body: secrets }] = await Promise.all([
    trustIsPublished(kube, trust),
    namespacesWithout(kube, bundle),
    kube('/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Fservice-account-token'),
  ]);
  const kids = new Set(keysets.get('sa')!.trusted.map(({ publicKey }) => keyIdOfTokens(publicKey)));
  const tokens = legacyTokens(secrets).filter(({ kid }) => !kids.has(kid));
  return [
    ...(published
      ? []
      : [
          {
            text: 'extension-apiserver-authentication has other CAs',
            correct: () => publishTrust(kube, trust),
          },
        ]),
    ...namespaces.map((namespace) => ({
      text: `kube-root-ca.crt of ${namespace} has other CAs`,
      correct: () => publishRootCa(kube, namespace, bundle),
    })),
    ...tokens.map(({ name }) => ({
      text: `${name} has a token of a key that has ended`,
      correct: () => emptyToken(kube, name),
    })),
  ];
}

/** Empties a token, which the controller manager then fills with one of today's key. */
async function emptyToken(kube: Kube, path: string): Promise<void> {
  const [, namespace = '', name = ''] = path.split('/');
  const emptied = {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body: { data: { token: null } },
  } as const;
  // Its service account, and the token with it, may have been deleted meanwhile.
  await kube(`/api/v1/namespaces/${namespace}/secrets/${name}`, emptied).catch(ifThere);
}
