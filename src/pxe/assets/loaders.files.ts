/**
 * Boot loaders: plain files of a few directories, read once and served by name. The list is flat
 * and contains only names that were found when the directories were read, so no request can reach
 * any other file.
 */
import {
  accessSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, sep } from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import type { Log } from '../../base/log.ts';
import { LOADER_NAME } from '../../resources/fields.ts';
import { SIGNED_LOADERS } from '../firmware/loaders.ts';
import { GRUB_CONFIG, grubConfig } from '../script/grub.ts';
import type { ServedFile } from './assets.ts';

/**
 * The loaders of `directories`. If two have the same name, the one in the earlier directory is
 * used. Missing directories are logged.
 *
 * Debian keeps some of its loaders as links (`/usr/lib/ipxe/ipxe.efi` → `/boot/ipxe.efi`), so links
 * are followed here. A link that leads out of its directory is followed only if it belongs to the
 * directory's owner or to root, and its target can be read by all users and written by its owner
 * only. A user who can make such a link could publish the file anyway.
 */
export function readLoaders(directories: readonly string[], log: Log): ReadonlyMap<string, ServedFile> {
  const found = new Map<string, ServedFile>();
  for (const directory of directories) {
    let names: string[];
    let root: string;
    try {
      root = realpathSync(directory);
      names = readdirSync(root).sort();
    } catch (error) {
      log.warn({ directory, error: messageOf(error) }, 'no boot loaders from this directory');
      continue;
    }
    for (const name of names) {
      if (!LOADER_NAME.test(name) || found.has(name)) continue;
      const path = join(root, name);
      try {
        const file = loaderFile(root, path);
        if (typeof file === 'string') log.warn({ path, why: file }, 'not served as a boot loader');
        else if (file) found.set(name, file);
      } catch (error) {
        log.warn({ path, why: messageOf(error) }, 'not served as a boot loader');
      }
    }
  }
  for (const [name, signed] of Object.entries(SIGNED_LOADERS)) {
    const file = found.get(signed);
    if (file && !found.has(name)) found.set(name, file);
  }
  return found;
}

/**
 * Writes what the server itself adds to the loaders: GRUB's first script, which names the port of
 * HTTP. Returns the directory.
 */
export function writeOwnLoaders(options: { readonly state: string; readonly httpPort: number }): string {
  const directory = join(options.state, 'loaders');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, GRUB_CONFIG), grubConfig(options.httpPort));
  return directory;
}

/** The file, or why it is not served; undefined for anything but a regular file. */
function loaderFile(root: string, path: string): ServedFile | string | undefined {
  const link = lstatSync(path);
  const real = realpathSync(path);
  const stat = statSync(real);
  if (!stat.isFile()) return undefined;
  if (link.isSymbolicLink() && !real.startsWith(root + sep)) {
    const owner = statSync(root).uid;
    if (link.uid !== owner && link.uid !== 0)
      return 'the link leads out of the directory and belongs to somebody else';
    if ((stat.mode & 0o004) === 0) return 'the link leads to a file that not everybody may read';
    if ((stat.mode & 0o022) !== 0) return 'the link leads to a file that others may write';
  }
  accessSync(real, constants.R_OK);
  return { path: real, size: stat.size, modified: stat.mtime };
}
