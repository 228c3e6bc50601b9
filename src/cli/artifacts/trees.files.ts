/**
 * The input of `muster artifacts import`: a directory or tar as a tree of files, each of which can
 * be read from any offset.
 */
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type FoundMember, tarMembers } from '../../artifacts/tar.ts';
import { MusterError } from '../../base/errors.ts';
import { type AssetSource, sourceOf } from '../image/sources.files.ts';

export interface Tree {
  /** The name of the directory or tar, as the operator wrote it. */
  readonly shown: string;
  /** Paths of the files in a tar; for a directory, names of the files directly in it. */
  readonly names: readonly string[];
  /** The file at a path; undefined when there is no such file. */
  file(name: string): Promise<AssetSource | undefined>;
  /**
   * Reads a small file; resolves with undefined when there is no such file.
   *
   * @throws {MusterError} E_TOO_LARGE when the file has more than `limit` octets.
   */
  octets(name: string, limit: number): Promise<Uint8Array | undefined>;
}

/**
 * Opens a directory or tar.
 *
 * @throws {MusterError} E_FILE_READ when the path cannot be read, E_ARTIFACT for a file that is not
 *   a tar.
 */
export async function treeOf(given: string): Promise<Tree> {
  const found = await stat(given).catch((cause: Error) => {
    throw new MusterError('E_FILE_READ', `${given}: ${cause.message}`, { cause });
  });
  return found.isDirectory() ? directoryTree(given) : tarTree(given);
}

async function directoryTree(given: string): Promise<Tree> {
  const entries = await readdir(given, { withFileTypes: true });
  const size = async (name: string) =>
    stat(path.join(given, name)).then(
      (found) => (found.isFile() ? found.size : undefined),
      () => undefined,
    );
  return {
    shown: given,
    names: entries.flatMap((entry) => (entry.isFile() ? [entry.name] : [])).sort(),
    file: async (name) => ((await size(name)) === undefined ? undefined : sourceOf(path.join(given, name))),
    async octets(name, limit) {
      const found = await size(name);
      if (found === undefined) return undefined;
      checkSize(path.join(given, name), found, limit);
      return readFile(path.join(given, name));
    },
  };
}

async function tarTree(given: string): Promise<Tree> {
  const members = new Map<string, FoundMember>();
  const file = await open(given, 'r');
  try {
    const start = await readSome(file, 0, 6);
    if (start[0] === 0x1f && start[1] === 0x8b)
      throw new MusterError('E_ARTIFACT', `${given} is compressed; unpack it first: gunzip ${given}`);
    for await (const member of tarMembers((offset, length) => readSome(file, offset, length)))
      members.set(member.path, member);
  } catch (error) {
    if (error instanceof MusterError && error.code === 'E_ARTIFACT' && !error.message.startsWith(given))
      throw new MusterError('E_ARTIFACT', `${given}: ${error.message}`);
    throw error;
  } finally {
    await file.close();
  }
  // Older versions of `docker save` write a link when a layer occurs twice.
  const resolve = (name: string, hops = 0): FoundMember | undefined => {
    const member = members.get(path.posix.normalize(name));
    if (member === undefined || hops > 5) return undefined;
    if (member.type === 'symlink')
      return resolve(path.posix.join(path.posix.dirname(name), member.to!), hops + 1);
    if (member.type === 'link') return resolve(member.to!, hops + 1);
    return member.type === 'file' ? member : undefined;
  };
  return {
    shown: given,
    names: [...members.keys()].sort(),
    async file(name) {
      const member = resolve(name);
      return member && sliceSource(given, name, member);
    },
    async octets(name, limit) {
      const member = resolve(name);
      if (member === undefined) return undefined;
      checkSize(`${given}:${name}`, member.size, limit);
      const again = await open(given, 'r');
      try {
        return await readSome(again, member.offset, member.size);
      } finally {
        await again.close();
      }
    },
  };
}

function checkSize(shown: string, size: number, limit: number): void {
  if (size > limit) throw new MusterError('E_TOO_LARGE', `${shown} has ${size} octets, more than ${limit}`);
}

async function readSome(
  file: Awaited<ReturnType<typeof open>>,
  offset: number,
  length: number,
): Promise<Uint8Array> {
  const octets = Buffer.alloc(length);
  let at = 0;
  while (at < length) {
    const { bytesRead } = await file.read(octets, at, length - at, offset + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return octets.subarray(0, at);
}

/** A part of a file that begins at `offset`. */
function sliceSource(file: string, name: string, member: FoundMember): AssetSource {
  return {
    shown: `${file}:${name}`,
    remote: false,
    async read(offset) {
      const from = offset < member.size ? offset : 0;
      const start = member.offset + from;
      const end = member.offset + member.size - 1;
      return {
        offset: from,
        total: member.size,
        octets:
          member.size === 0 ? nothing() : createReadStream(file, { start, end, highWaterMark: 1024 * 1024 }),
      };
    },
  };
}

async function* nothing(): AsyncIterable<Uint8Array> {}

/** Octets in memory as a source. */
export function memorySource(shown: string, octets: Uint8Array): AssetSource {
  return {
    shown,
    remote: false,
    async read(offset) {
      const from = offset < octets.length ? offset : 0;
      return {
        offset: from,
        total: octets.length,
        octets: (async function* () {
          yield octets.subarray(from);
        })(),
      };
    },
  };
}
