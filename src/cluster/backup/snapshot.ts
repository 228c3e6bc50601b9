/** What is known of a snapshot of etcd, and the text of the file that says so. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import type { Envelope } from '../../pki/vault.ts';

/**
 * What describes a snapshot.
 *
 * @param at The form of its times: ms since 1970 in the file, RFC 3339 in the API.
 */
export const snapshotForm = <At extends z.ZodType>(at: At) => ({
  id: z.string(),
  cluster: z.string(),
  takenAt: at,
  /** The member that took it. */
  member: z.string(),
  by: z.enum(['schedule', 'operator']),
  /** The founding to which the data belong. */
  founding: z.string(),
  /** Octets of the snapshot in the clear. */
  size: z.int(),
  /** etcd's revision, the number of keys, and the hash over them, as etcd's tool says. */
  revision: z.int(),
  keys: z.int(),
  hash: z.string(),
  /** The version of etcd that wrote it. */
  etcd: z.string(),
  /** Ids of the keys that encrypt Secrets in it. */
  encryption: z.array(z.string()),
  copies: z.array(
    z.strictObject({
      /** The directory or command, as {@link nameOfCopy} writes it. */
      to: z.string(),
      at,
      /** Why it failed; absent: it is there. */
      fault: z.string().optional(),
    }),
  ),
});

const form = snapshotForm(z.int());
const schema = z.strictObject({
  v: z.literal(1),
  ...form,
  id: form.id.regex(/^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$/),
  copies: form.copies.optional(),
  /** The key of the data, sealed with the vault. */
  sealed: z.looseObject({ v: z.int(), kid: z.string() }),
});

/** A snapshot, as its file `ID.json` describes it. */
export type Snapshot = Omit<z.output<typeof schema>, 'sealed'> & { readonly sealed: Envelope };

/** The record's name to which the sealed key of a snapshot is bound. */
export const sealName = ({ cluster, id }: Pick<Snapshot, 'cluster' | 'id'>): string =>
  `snapshot/${cluster}/${id}`;

/** Makes an id: the time in UTC, and two random octets. */
export const newSnapshotId = (now: number, random: Uint8Array): string =>
  `${new Date(now).toISOString().replace(/[-:]|\.[0-9]+/g, '')}-${Buffer.from(random).toString('hex').slice(0, 4)}`;

export const isSnapshotId = (text: string): boolean => schema.shape.id.safeParse(text).success;

export const encodeSnapshot = (snapshot: Snapshot): string => `${JSON.stringify(snapshot, undefined, 2)}\n`;

/**
 * Reads the text of `ID.json`. `file` names it in errors.
 *
 * @throws {MusterError} E_SNAPSHOT when it is not the description of a snapshot of `cluster`
 */
export function decodeSnapshot(file: string, text: string, cluster: string): Snapshot {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new MusterError('E_SNAPSHOT', `${file} is not JSON; remove it, or bring a copy of it back`);
  }
  const read = schema.safeParse(json);
  if (!read.success)
    throw new MusterError('E_SNAPSHOT', `${file} does not describe a snapshot of a version known here`);
  if (read.data.cluster !== cluster)
    throw new MusterError(
      'E_SNAPSHOT',
      `${file} is a snapshot of the cluster ${read.data.cluster}, not of ${cluster}; move it to where those are`,
    );
  return read.data as Snapshot;
}

/** The output of `etcdutl snapshot status` as JSON. */
const status = z.looseObject({
  hash: z.int().nonnegative(),
  revision: z.int().nonnegative(),
  totalKey: z.int().nonnegative(),
  totalSize: z.int().nonnegative(),
});

/**
 * What etcd's own tool found in a snapshot.
 *
 * @throws {MusterError} E_SNAPSHOT when the tool's output is not understood
 */
export function readStatus(text: string): Pick<Snapshot, 'revision' | 'keys' | 'hash'> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  const read = status.safeParse(json);
  if (!read.success)
    throw new MusterError('E_SNAPSHOT', "etcd's tool did not say what is in the snapshot; take another one");
  const { revision, totalKey, hash } = read.data;
  return { revision, keys: totalKey, hash: hash.toString(16).padStart(8, '0') };
}
