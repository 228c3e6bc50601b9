/**
 * The files of snapshots: `CLUSTER/ID.etcd`, sealed with a key of its own, and `CLUSTER/ID.json`,
 * which describes it, holds that key sealed with the vault, and is written last. Copies elsewhere
 * have the same two files.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { moveDurably, replaceDurably } from '../../base/replace-file.files.ts';
import { KEY_OCTETS, openedStream } from '../../pki/sealed-stream.ts';
import { rewrapped, type Vault } from '../../pki/vault.ts';
import { name } from '../../resources/fields.ts';
import { Received, SnapshotCheck } from './received.ts';
import { decodeSnapshot, encodeSnapshot, isSnapshotId, type Snapshot, sealName } from './snapshot.ts';

interface SnapshotFilesDeps {
  /** Made when the first snapshot comes. */
  readonly directory: string;
  readonly vault: Vault;
  /** Octets that snapshots may still take on the disk of the directory. */
  readonly room: () => Promise<number>;
}

/** The room is read again after this many octets, because other programs write to the disk too. */
const ROOM_CHECK_BYTES = 64 * 1024 * 1024;

/** A snapshot that is being received. */
export interface Receiving {
  /** Octets that came. */
  readonly size: number;
  /**
   * Adds a part.
   *
   * @throws {MusterError} E_SNAPSHOT when the disk has no room; also the body's own error
   */
  add(body: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Checks and stores it; durable when it resolves.
   *
   * @throws {MusterError} E_SNAPSHOT when it is not whole
   */
  finish(known: Omit<Snapshot, 'sealed' | 'size' | 'v'>): Promise<Snapshot>;
  /** Removes what came. */
  abort(): Promise<void>;
}

export interface SnapshotFiles {
  receive(cluster: string, id: string, expected: number): Promise<Receiving>;
  /** All snapshots of a cluster, oldest first, and why some files could not be understood. */
  list(cluster: string): Promise<{ readonly items: readonly Snapshot[]; readonly faults: readonly string[] }>;
  /**
   * The snapshot in the clear, with etcd's SHA-256 at its end.
   *
   * @throws {MusterError} E_SNAPSHOT during the iteration when it was changed or cut off
   */
  read(snapshot: Snapshot): AsyncIterable<Uint8Array>;
  /** Reads all of it. Throws as {@link SnapshotFiles.read}. */
  verify(snapshot: Snapshot): Promise<void>;
  /** Writes the description again. */
  describe(snapshot: Snapshot): Promise<void>;
  remove(cluster: string, id: string): Promise<void>;
  /** The paths of the two files. */
  paths(snapshot: Pick<Snapshot, 'cluster' | 'id'>): { readonly data: string; readonly description: string };
  /** Seals the keys of all snapshots with the vault's primary key. Returns how many it changed. */
  rewrap(): Promise<number>;
}

const unlessAbsent = async <T>(work: Promise<T>, absent: T): Promise<T> => {
  try {
    return await work;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return absent;
    throw error;
  }
};

/** Why octets could not be written, with what to do. */
function writeFault(error: unknown, directory: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return new MusterError('E_SNAPSHOT', noRoom(directory), { cause: error });
}

const noRoom = (directory: string): string =>
  `${directory} has no room for a snapshot; free space there, or lower spec.backup.keep of the Cluster`;

/**
 * Opens the files. Removes what a server that ended left unfinished.
 *
 * @throws {MusterError} nothing itself; {@link SnapshotFiles} documents what its methods throw
 */
export async function openSnapshotFiles(deps: SnapshotFilesDeps): Promise<SnapshotFiles> {
  const { directory, vault } = deps;
  const folder = (cluster: string): string => path.join(directory, nameOfCluster(cluster));
  const paths: SnapshotFiles['paths'] = ({ cluster, id }) => ({
    data: path.join(folder(cluster), `${id}.etcd`),
    description: path.join(folder(cluster), `${id}.json`),
  });
  const clusters = await unlessAbsent(readdir(directory), []);
  for (const cluster of clusters)
    for (const name of await readdir(path.join(directory, cluster)))
      if (/\.(part|new)$/.test(name)) await rm(path.join(directory, cluster, name), { force: true });

  const keyOf = async (snapshot: Snapshot): Promise<Buffer> =>
    Buffer.from(await vault.open(sealName(snapshot), snapshot.sealed), 'base64');

  const read: SnapshotFiles['read'] = async function* (snapshot) {
    const { data } = paths(snapshot);
    try {
      yield* openedStream(await keyOf(snapshot), createReadStream(data, { highWaterMark: 1024 * 1024 }));
    } catch (cause) {
      if (cause instanceof MusterError) throw cause;
      throw new MusterError('E_SNAPSHOT', unreadable(data, cause), { cause });
    }
  };

  const list: SnapshotFiles['list'] = async (cluster) => {
    const at = folder(cluster);
    const items: Snapshot[] = [];
    const faults: string[] = [];
    for (const name of (await unlessAbsent(readdir(at), [])).toSorted()) {
      if (!name.endsWith('.json') || !isSnapshotId(name.slice(0, -5))) continue;
      const file = path.join(at, name);
      try {
        const snapshot = decodeSnapshot(file, await readFile(file, 'utf8'), cluster);
        if (`${snapshot.id}.json` !== name) throw new MusterError('E_SNAPSHOT', `${file} names another id`);
        items.push(snapshot);
      } catch (error) {
        faults.push(messageOf(error));
      }
    }
    return { items, faults };
  };

  const describe: SnapshotFiles['describe'] = (snapshot) =>
    replaceDurably(paths(snapshot).description, encodeSnapshot(snapshot));

  return {
    receive: (cluster, id, expected) => receive(deps, paths({ cluster, id }).data, expected, { describe }),
    list,
    read,
    async verify(snapshot) {
      const check = new SnapshotCheck();
      for await (const part of read(snapshot)) check.push(part);
      const fault = check.fault() ?? (check.size === snapshot.size ? undefined : 'its size differs');
      if (fault !== undefined)
        throw new MusterError('E_SNAPSHOT', `${paths(snapshot).data}: ${fault}; bring a copy of it back`);
    },
    describe,
    async remove(cluster, id) {
      const { data, description } = paths({ cluster, id });
      await rm(description, { force: true });
      await rm(data, { force: true });
    },
    paths,
    async rewrap() {
      let changed = 0;
      for (const cluster of await unlessAbsent(readdir(directory), []))
        for (const snapshot of (await list(cluster)).items) {
          const sealed = await rewrapped(vault, sealName(snapshot), snapshot.sealed);
          if (sealed === undefined) continue;
          await describe({ ...snapshot, sealed });
          changed++;
        }
      return changed;
    },
  };
}

/**
 * The name, if a Cluster can have it: operators' requests name clusters, and a name must not lead
 * out of the directory.
 *
 * @throws {MusterError} E_NOT_FOUND for any other text
 */
function nameOfCluster(text: string): string {
  if (name.safeParse(text).success) return text;
  throw new MusterError('E_NOT_FOUND', 'no Cluster can have this name; `muster get clusters` lists them');
}

const unreadable = (file: string, cause: unknown): string =>
  (cause as NodeJS.ErrnoException).code === 'ENOENT'
    ? `${file} is missing; bring a copy of it back`
    : `${file} was changed, cut off or sealed for another snapshot; bring a copy of it back`;

async function receive(
  { directory, vault, room }: SnapshotFilesDeps,
  data: string,
  expected: number,
  { describe }: Pick<SnapshotFiles, 'describe'>,
): Promise<Receiving> {
  const begun = `${data}.part`;
  await mkdir(path.dirname(data), { recursive: true, mode: 0o700 });
  const key = randomBytes(KEY_OCTETS);
  const received = new Received(key);
  let writable = 0;
  const spare = async (wanted: number): Promise<void> => {
    writable = Math.min(await room(), ROOM_CHECK_BYTES);
    if (writable < Math.min(wanted, ROOM_CHECK_BYTES)) throw new MusterError('E_SNAPSHOT', noRoom(directory));
  };
  if ((await room()) < expected) throw new MusterError('E_SNAPSHOT', noRoom(directory));
  const file = await open(begun, 'w', 0o600);
  let closed = false;
  const close = async (): Promise<void> => {
    if (!closed) await file.close();
    closed = true;
  };
  const write = async (pieces: readonly Buffer[]): Promise<void> => {
    const octets = pieces.reduce((sum, { length }) => sum + length, 0);
    if (octets > writable) await spare(octets);
    writable -= octets;
    await writeAll(file, pieces).catch((error: unknown) => {
      throw writeFault(error, directory);
    });
  };
  return {
    get size() {
      return received.size;
    },
    async add(body) {
      for await (const piece of body) {
        const pieces = received.push(piece);
        if (pieces.length > 0) await write(pieces);
      }
    },
    async finish(known) {
      await write([received.end()]);
      const fault = received.fault();
      if (fault !== undefined) throw new MusterError('E_SNAPSHOT', `the snapshot is not whole: ${fault}`);
      await file.sync();
      await close();
      await moveDurably(begun, data);
      const sealed = await vault.seal(sealName(known), key.toString('base64'));
      const snapshot: Snapshot = { v: 1, ...known, size: received.size, sealed };
      await describe(snapshot);
      return snapshot;
    },
    async abort() {
      await close();
      await rm(begun, { force: true });
      await rm(data, { force: true });
    },
  };
}

async function writeAll(file: FileHandle, pieces: readonly Buffer[]): Promise<void> {
  const whole = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  for (let at = 0; at < whole.length; ) at += (await file.write(whole, at)).bytesWritten;
}
