/** `muster store copy`: copies a store that no server has open. */
import fs from 'node:fs';
import os from 'node:os';
import { MusterError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { createMetrics } from '../../base/metrics.ts';
import { copyStore, newFileAfter, writeFile } from '../../store/copy.files.ts';
import { etcdPlace, isEtcdUrl } from '../../store/etcd/place.ts';
import { openSqliteStore } from '../../store/sqlite.files.ts';
import type { Store } from '../../store/store.ts';
import { EXIT, type Io } from '../io.ts';

interface Options {
  readonly storeCa?: string;
  readonly storeCert?: string;
  readonly storeKey?: string;
}

/**
 * `muster store copy FROM TO`.
 *
 * @throws {MusterError} E_USAGE when the source is not there or the target is not empty;
 *   E_STORE_IN_USE when a server runs on one of them; E_STORE_DAMAGED when the copy is not equal.
 */
export async function copy(from: string, to: string, options: Options, io: Io): Promise<number> {
  if (!isEtcdUrl(from) && !fs.existsSync(from))
    throw new MusterError('E_USAGE', `${from}: there is no such file`);
  if (!isEtcdUrl(to) && fs.existsSync(to))
    throw new MusterError('E_USAGE', `${to} exists; move it away, or name a new file`);
  const source = isEtcdUrl(from) ? await openEtcd(from, options) : await openFile(from);
  try {
    const target = isEtcdUrl(to) ? await openEtcd(to, options) : await newFileAfter(source, to);
    try {
      const { records, sha256 } = await copyStore(source, target);
      io.out(`${to} has all ${records} records of ${from} (sha256 ${sha256}) and is the store from now on\n`);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
  return EXIT.ok;
}

const openFile = (path: string): Promise<Store> =>
  openSqliteStore({ path, log: silentLog, metrics: createMetrics() });

/** Opens a store on etcd as the acting host; does not wait for another one. */
async function openEtcd(url: string, options: Options): Promise<Store> {
  const files = { ca: options.storeCa, cert: options.storeCert, key: options.storeKey };
  const place = etcdPlace(url, files);
  const { openEtcdStore } = await import('../../store/etcd.socket.ts');
  const abort = new AbortController();
  let acting: string | undefined;
  try {
    return await openEtcdStore({
      ...place,
      ...{ log: silentLog, metrics: createMetrics(), copy: writeFile, signal: abort.signal },
      about: undefined,
      host: `muster store copy at ${os.hostname()}`,
      standsBy(name) {
        acting = name;
        abort.abort();
      },
    });
  } catch (error) {
    if (acting === undefined) throw error;
    throw new MusterError(
      'E_STORE_IN_USE',
      `${acting} acts on ${url}; stop \`muster serve\` on all hosts first`,
    );
  }
}
