/** Where a store is on etcd, as operators write it. */
import { MusterError } from '../../base/errors.ts';

export interface EtcdPlace {
  /** HOST:PORT of each member. */
  readonly endpoints: readonly string[];
  /** Begins all keys; ends in `/`. */
  readonly prefix: string;
  /** PEM files; undefined: no TLS. */
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string } | undefined;
}

/** PEM files as they are given; each may be missing. */
export interface GivenFiles {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** The name of a host among those that share a store. */
export const HOST_NAME = /^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$/;

/** Where boot hosts that share a store ask each other, unless operators name another port. */
export const DEFAULT_SIBLING_PORT = 8445;

const FORM = /^etcd:\/\/([^/\s]+)(?:\/([A-Za-z0-9._-]{1,64})\/?)?$/;
const ENDPOINT = /^([A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9a-fA-F:.]+\])(?::([0-9]{1,5}))?$/;
const LOOPBACK = /^(127\.|localhost:|\[::1\])/;
const PORT = '2379';

export const isEtcdUrl = (text: string): boolean => text.startsWith('etcd:');

/**
 * Reads `etcd://HOST:PORT,…/PREFIX`; the port is 2379 and the prefix `muster` unless they are
 * given.
 *
 * @throws {MusterError} E_USAGE when it is none, or the files are missing. Only members on this
 *   host may be spoken to without TLS: the store has all that machines and operators are trusted
 *   by.
 */
export function etcdPlace(text: string, { ca, cert, key }: GivenFiles): EtcdPlace {
  const [, hosts, prefix = 'muster'] = FORM.exec(text) ?? [];
  const endpoints = hosts?.split(',').map((one) => {
    const [, host, port = PORT] = ENDPOINT.exec(one) ?? [];
    return host !== undefined && Number(port) >= 1 && Number(port) <= 65535 ? `${host}:${port}` : undefined;
  });
  if (!endpoints?.every((one) => one !== undefined) || new Set(endpoints).size < endpoints.length)
    throw new MusterError(
      'E_USAGE',
      `"${text}" is not a list of different members like etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/muster`,
    );
  const place = { endpoints, prefix: `${prefix}/` };
  if (ca !== undefined && cert !== undefined && key !== undefined)
    return { ...place, files: { ca, cert, key } };
  if (ca !== undefined || cert !== undefined || key !== undefined)
    throw new MusterError('E_USAGE', '--store-ca, --store-cert and --store-key are given together');
  if (endpoints.every((one) => LOOPBACK.test(one))) return { ...place, files: undefined };
  throw new MusterError(
    'E_USAGE',
    `${text}: members on other hosts are only spoken to with --store-ca, --store-cert and --store-key`,
  );
}
