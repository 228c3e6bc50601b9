/** What the stored records of accounts share. */
import { randomBytes } from 'node:crypto';
import type { z } from 'zod';
import { parsed } from '../../base/foreign-json.ts';
import type { Log } from '../../base/log.ts';
import type { Store } from '../../store/store.ts';

/** A random text of 256 bits, base64url. */
export const randomText = (): string => randomBytes(32).toString('base64url');

/** Reads a record by its schema; undefined when it is none. */
export const decode = <T>(schema: z.ZodType<T>, value: string): T | undefined => {
  const read = schema.safeParse(parsed(value));
  return read.success ? read.data : undefined;
};

/**
 * Reads all records of a kind. One that this version cannot read is logged and left alone.
 *
 * @param what For the log, with its article.
 */
export async function readRecords<T>(
  { store, log }: { readonly store: Store; readonly log: Log },
  keys: { prefix(): string; parse(key: string): readonly string[] | undefined },
  read: (id: string, value: string) => T | undefined,
  what: string,
): Promise<readonly T[]> {
  const { records } = await store.list(keys.prefix());
  return records.flatMap(({ key, value }) => {
    const one = read(keys.parse(key)?.[0] ?? '', value);
    if (one === undefined) log.error({ key }, `the record of ${what} cannot be read`);
    return one ?? [];
  });
}
