/** What a root file system contains, as `find` lists it, and what an image must not contain. */
import { MusterError } from '../../base/errors.ts';

/** An entry of a root file system. */
export interface Entry {
  readonly type: 'file' | 'directory' | 'link' | 'device' | 'other';
  readonly octets: number;
  /** Octets that the file takes on its disk; fewer than `octets` in a sparse file. */
  readonly stored: number;
  /** The same for all names of a hard-linked file. */
  readonly inode: string;
  /** Relative to the root, without a slash at the beginning. */
  readonly path: string;
  /** Target of a symbolic link. */
  readonly target: string;
}

/** The format of `find -printf` that `parseEntries` reads. */
export const ENTRY_FORMAT = '%y %s %b %D:%i %P\\0%l\\0';

const TYPES: Readonly<Record<string, Entry['type']>> = {
  f: 'file',
  d: 'directory',
  l: 'link',
  b: 'device',
  c: 'device',
};

/**
 * Parses what `find -printf` with `ENTRY_FORMAT` prints. The root itself is left out.
 *
 * @throws {MusterError} E_IMPORT_FORMAT when the listing is malformed.
 */
export function parseEntries(listing: string): readonly Entry[] {
  const parts = listing.split('\0');
  const entries: Entry[] = [];
  for (let n = 0; n + 1 < parts.length; n += 2) {
    const fields = /^(\S) ([0-9]+) ([0-9]+) (\S+) ([\s\S]*)$/.exec(parts[n]!);
    if (!fields) throw new MusterError('E_IMPORT_FORMAT', 'the list of its files cannot be read');
    const [, type, octets, blocks, inode, path] = fields;
    if (path === '') continue;
    entries.push({
      type: TYPES[type!] ?? 'other',
      octets: Number(octets),
      stored: Number(blocks) * 512,
      inode: inode!,
      path: path!,
      target: parts[n + 1]!,
    });
  }
  return entries;
}

/** Octets of all files that an image may have: machines keep it in memory. */
export const MAX_OCTETS = 32 * 2 ** 30;
const MAX_ENTRIES = 2_000_000;
/** From this size on, a file that is nearly all holes is refused. */
const SPARSE_OCTETS = 2 ** 30;
const SPARSE_RATIO = 64;

/**
 * Checks the entries of an image that a stranger may have made.
 *
 * @throws {MusterError} E_IMPORT_SIZE for more than machines can hold, E_IMPORT_ENTRY for an entry
 *   that no root file system needs: a name with control characters, a link that leads out of the
 *   tree, a device outside of /dev.
 */
export function checkEntries(entries: readonly Entry[]): void {
  if (entries.length > MAX_ENTRIES)
    throw new MusterError('E_IMPORT_SIZE', `it has more than ${MAX_ENTRIES} files`);
  const seen = new Set<string>();
  let octets = 0;
  for (const entry of entries) {
    const fault = faultOf(entry);
    if (fault) throw new MusterError('E_IMPORT_ENTRY', `${shown(entry.path)} ${fault}`);
    if (entry.type !== 'file' || seen.has(entry.inode)) continue;
    seen.add(entry.inode);
    octets += entry.octets;
    if (entry.octets >= SPARSE_OCTETS && entry.stored * SPARSE_RATIO < entry.octets)
      throw new MusterError(
        'E_IMPORT_SIZE',
        `${shown(entry.path)} has ${entry.octets} octets, of which the image holds ${entry.stored}`,
      );
  }
  if (octets > MAX_OCTETS)
    throw new MusterError(
      'E_IMPORT_SIZE',
      `its files have ${octets} octets, more than the ${MAX_OCTETS} that an image in memory may have`,
    );
}

function faultOf({ type, path, target }: Entry): string | undefined {
  if (CONTROL.test(path)) return 'is a name with control characters';
  if (CONTROL.test(target)) return 'is a link to a name with control characters';
  if (type === 'device' && !path.startsWith('dev/')) return 'is a device outside of /dev';
  if (type === 'link' && leavesTree(path, target)) return `is a link out of the tree, to ${target}`;
  return undefined;
}

const CONTROL = /[\u0000-\u001f\u007f]/;

/** A name as a message may show it: without characters that a terminal would obey. */
const shown = (name: string): string =>
  `/${JSON.stringify(name).slice(1, -1).replaceAll('\u007f', '\\u007f')}`;

/** Whether a relative link climbs above the root, where it would lead out of an unpacked tree. */
function leavesTree(path: string, target: string): boolean {
  if (target.startsWith('/')) return false;
  let depth = path.split('/').length - 1;
  for (const part of target.split('/')) {
    if (part === '..') depth -= 1;
    else if (part !== '' && part !== '.') depth += 1;
    if (depth < 0) return true;
  }
  return false;
}
