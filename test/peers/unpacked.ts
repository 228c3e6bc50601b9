/**
 * Peers that `scripts/packages.sh` unpacks instead of installing, because Debian would start them.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

export interface Unpacked {
  /** Absolute path of the program. */
  readonly command: string;
  /** Environment in which it finds the libraries of its package. */
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Returns a program of an unpacked package, e.g. `unpacked('dnsmasq-base', 'usr/sbin/dnsmasq')`.
 * Throws when it does not exist.
 */
export function unpacked(name: string, path: string): Unpacked {
  const root = resolve('.cache/peers', name);
  const command = join(root, path);
  if (!existsSync(command))
    throw new Error(`${command} is not there; run: scripts/packages.sh install (as root)`);
  const libraries = ['lib', 'usr/lib']
    .map((directory) => join(root, directory))
    .filter(existsSync)
    .flatMap((directory) => readdirSync(directory).map((entry) => join(directory, entry)))
    .filter((directory) => directory.endsWith('-linux-gnu'));
  return {
    command,
    env: {
      ...process.env,
      LD_LIBRARY_PATH: libraries.join(':'),
      PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
    },
  };
}
