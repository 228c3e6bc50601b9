/**
 * What a support bundle contains: answers of the API that hold no secrets. Documents are left out
 * except for their names and status, because they can hold password hashes and tokens.
 */
import { messageOf } from '../../base/error-text.ts';
import { VERSION } from '../../base/version.ts';
import { CONDITIONS, type ConditionTone, type ConditionWord } from '../../machines/condition.ts';
import type { ApiClient } from '../client.socket.ts';

/** A file of the bundle. */
export interface BundleFile {
  readonly name: string;
  readonly text: string;
}

/** Routes whose answers are taken as they are. */
const WHOLE: Readonly<Record<string, string>> = {
  'status.json': '/v1/status',
  'events.json': '/v1/events',
  'leases.json': '/v1/leases',
  'inventory.json': '/v1/inventory',
  'pki.json': '/v1/pki',
  'waiting.json': '/v1/waiting',
  'backup.json': '/v1/backup',
};
/** Kinds of which names and status are taken. */
const KINDS = ['networks', 'images', 'profiles', 'machines', 'clusters'] as const;
/** Per cluster. */
const OF_CLUSTERS = ['founding', 'running', 'addons', 'upgrade', 'rotation'] as const;
/** Timelines of so many machines that are not well are taken. */
const MAX_TIMELINES = 50;
const TROUBLED: ReadonlySet<ConditionTone> = new Set(['bad', 'warn', 'busy']);

interface Item {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly condition?: { readonly word: ConditionWord } };
}

/** Collects the files of a bundle. What cannot be read becomes a file that says why. */
export async function collect(
  client: Pick<ApiClient, 'call'>,
  host: unknown,
): Promise<readonly BundleFile[]> {
  const files: BundleFile[] = [];
  const take = async <T>(
    name: string,
    path: string,
    view = (answer: T): unknown => answer,
  ): Promise<T | undefined> => {
    try {
      const answer = await client.call<T>('GET', path);
      files.push({ name, text: jsonOf(view(answer)) });
      return answer;
    } catch (error) {
      files.push({ name: `${name}.error`, text: `${messageOf(error)}\n` });
      return undefined;
    }
  };
  files.push({ name: 'host.json', text: jsonOf({ muster: VERSION, host }) });
  for (const [name, path] of Object.entries(WHOLE)) await take(name, path);
  const listed = new Map<string, readonly Item[]>();
  for (const kind of KINDS)
    listed.set(
      kind,
      (await take<{ items: readonly Item[] }>(`${kind}.json`, `/v1/${kind}`, outlined))?.items ?? [],
    );
  for (const { metadata } of listed.get('clusters') ?? [])
    for (const part of OF_CLUSTERS)
      await take(`clusters/${metadata.name}/${part}.json`, `/v1/clusters/${metadata.name}/${part}`);
  const troubled = (listed.get('machines') ?? []).filter(({ status }) =>
    TROUBLED.has(CONDITIONS[status?.condition?.word ?? 'registered'].tone),
  );
  for (const { metadata } of troubled.slice(0, MAX_TIMELINES))
    await take(
      `machines/${metadata.name}.json`,
      `/v1/machines/${encodeURIComponent(metadata.name)}/timeline`,
    );
  return files;
}

const jsonOf = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/**
 * Names and status of documents; a machine's log tail is left out. Labels and annotations are texts
 * of the operator's own.
 */
function outlined({ items }: { readonly items: readonly Item[] }): unknown {
  return items.map(({ metadata, status }) => {
    const { logTail: _, ...shown } = (status ?? {}) as Record<string, unknown>;
    return { metadata: { name: metadata.name }, status: shown };
  });
}
