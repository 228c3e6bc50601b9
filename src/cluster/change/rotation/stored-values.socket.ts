/** Reads values from a cluster's etcd, to see how the API server stored them. */
import type { Clock } from '../../../base/clock.ts';
import { fieldsOf, listOf, parsed, textOf } from '../../../base/foreign-json.ts';
import type { Pki } from '../../../pki/pki.ts';
import { bootHostCredentials } from '../../boot-host.ts';
import { ask } from '../../https.socket.ts';
import { etcdClientUrl } from '../../model/ports.ts';

const PATIENCE_MS = 10_000;
const ANSWER_LIMIT = 64 * 1024 * 1024;
/** How many values are read with one request. */
const PAGE = 200;

/** Resolves with all values below `prefix`; rejects when no member of etcd answers. */
export type StoredValues = (
  cluster: string,
  members: readonly { readonly address: string }[],
  prefix: string,
) => Promise<readonly Buffer[]>;

export function createStoredValues(deps: {
  readonly pki: Pki;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): StoredValues {
  const credentials = bootHostCredentials(deps, 'muster-etcd-client', 'etcd-ca');
  return async (cluster, members, prefix) => {
    let last: unknown = new Error('etcd has no members');
    for (const { address } of members) {
      try {
        return await all(etcdClientUrl(address), prefix);
      } catch (error) {
        last = error;
      }
    }
    throw last;

    async function all(url: string, from: string): Promise<readonly Buffer[]> {
      const values: Buffer[] = [];
      const end = Buffer.from(prefix);
      end[end.length - 1]! += 1;
      for (let key = Buffer.from(from); ; ) {
        const { status, text } = await ask(`${url}/v3/kv/range`, await credentials(cluster), {
          method: 'POST',
          body: { key: key.toString('base64'), range_end: end.toString('base64'), limit: PAGE },
          patience: PATIENCE_MS,
          limit: ANSWER_LIMIT,
          signal: deps.signal,
        });
        if (status !== 200) throw new Error(`etcd answers with status ${status}`);
        const { kvs, more } = fieldsOf(parsed(text));
        const page = listOf(kvs).map(fieldsOf);
        values.push(...page.map(({ value }) => Buffer.from(textOf(value), 'base64')));
        if (more !== true || page.length === 0) return values;
        const read = Buffer.from(textOf(page.at(-1)!.key), 'base64');
        key = Buffer.concat([read, Buffer.from([0])]);
      }
    }
  };
}
