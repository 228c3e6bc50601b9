/**
 * The last valid version of each file of the configuration directory, as records of the store. A
 * server that starts compares the files with what was in force when it ended, so that a file with a
 * fault that somebody changed meanwhile, or that a newer Muster refuses, takes no document away.
 */
import { relative, sep } from 'node:path';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { fieldsOf, parsed } from '../base/foreign-json.ts';
import type { Log } from '../base/log.ts';
import { KEYS } from '../store/keys.ts';
import { inCommits } from '../store/limits.ts';
import { MAX_VALUE_BYTES, type Store, type Write } from '../store/store.ts';
import type { Files } from './file-layer.ts';

/** A longer path fits in no key of the store; such a file is not kept. */
const MAX_PATH = 900;

export interface KeptFiles {
  /** By path below the directory, the texts that were in force when this was opened. */
  readonly texts: ReadonlyMap<string, string>;
  /** Keeps the versions in force. A text that cannot be stored is logged and left out. */
  keep(files: Files): Promise<void>;
}

/** Reads the kept files. A record that cannot be read is left out. */
export async function openKeptFiles(
  { store, log }: { readonly store: Pick<Store, 'list' | 'commit'>; readonly log: Log },
  directory: string,
): Promise<KeptFiles> {
  const texts = new Map<string, string>();
  for (const { key, value } of (await store.list(KEYS.file.prefix())).records) {
    const [path] = KEYS.file.parse(key) ?? [];
    const text = unpacked(value);
    if (path === undefined || text === undefined) log.warn({ key }, 'a stored record cannot be read');
    else texts.set(path, text);
  }
  const stored = new Map(texts);
  const pathOf = (file: string): string => relative(directory, file).split(sep).join('/');

  return {
    texts,
    async keep(files) {
      const writes: Write[] = [];
      const now = new Set<string>();
      for (const [file, { whole, text }] of files) {
        const path = pathOf(file);
        now.add(path);
        if (!whole || text === undefined || stored.get(path) === text) continue;
        stored.set(path, text);
        const put = packed(text);
        if (put !== undefined && path.length <= MAX_PATH) writes.push({ key: KEYS.file.key(path), put });
        else log.warn({ file }, 'the file is too large to be kept for the next start');
      }
      for (const path of [...stored.keys()])
        if (!now.has(path)) {
          stored.delete(path);
          writes.push({ key: KEYS.file.key(path), delete: true });
        }
      for (const part of inCommits(writes)) await store.commit(part);
    },
  };
}

function packed(text: string): string | undefined {
  const put = JSON.stringify({ v: 1, text: deflateRawSync(text).toString('base64') });
  return put.length > MAX_VALUE_BYTES ? undefined : put;
}

function unpacked(value: string): string | undefined {
  const { v, text } = fieldsOf(parsed(value));
  if (v !== 1 || typeof text !== 'string') return undefined;
  try {
    return inflateRawSync(Buffer.from(text, 'base64')).toString();
  } catch {
    return undefined;
  }
}
