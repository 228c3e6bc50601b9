/**
 * The namespace around a run, with its own network, mounts, processes and an empty /run. A run
 * touches neither the host's network nor its services, and leaves nothing behind, however it ends.
 * Root is not needed where the host allows user namespaces.
 */
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';

const INSIDE = 'MUSTER_LAB_INSIDE';
/** The device for the machines' network cards; on Debian every user may open it. */
const TUN = '/dev/net/tun';
const SYSTEM_PATHS = ['/usr/sbin', '/sbin'];

/** Whether this process is inside the namespace already; then it is the first process there. */
export const insideNamespace = (): boolean => process.env[INSIDE] !== undefined;

/** The id of the process on the host whose child is the first process inside the namespace. */
export const hostProcess = (): string => process.env[INSIDE] ?? '';

/** The program's path; undefined when it is not installed. */
export function findProgram(name: string): string | undefined {
  const places = [...(process.env.PATH ?? '').split(delimiter), ...SYSTEM_PATHS];
  return places
    .map((place) => join(place, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/**
 * Replaces this process with the same command line inside a new namespace, with `settings` in its
 * environment. Never returns. `tap`: whether machines in QEMU need {@link TUN}.
 *
 * @throws {MusterError} E_LAB_TOOL without `unshare`, E_LAB_NAMESPACE when the host does not allow
 *   namespaces.
 */
export function enterNamespace(
  settings: Readonly<Record<string, string>>,
  { tap }: { readonly tap: boolean } = { tap: true },
): never {
  const unshare = findProgram('unshare');
  if (!unshare)
    throw new MusterError('E_LAB_TOOL', 'unshare (package util-linux) is missing; the rack needs it');
  try {
    if (tap) accessSync(TUN, constants.R_OK | constants.W_OK);
  } catch (cause) {
    throw new MusterError('E_LAB_NAMESPACE', `${TUN}: ${messageOf(cause)}`, { cause });
  }
  const flags = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  if (process.getuid?.() !== 0) flags.unshift('--user', '--map-root-user');
  try {
    execFileSync(unshare, [...flags, 'true'], { stdio: 'pipe' });
  } catch (cause) {
    throw new MusterError('E_LAB_NAMESPACE', `unshare ${flags.join(' ')}: ${messageOf(cause)}`, {
      cause,
    });
  }
  const setUp =
    'mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/netns /run/muster /run/lock && ip link set lo up && exec "$@"';
  const env = {
    ...process.env,
    ...settings,
    [INSIDE]: String(process.pid),
    PATH: [process.env.PATH, ...SYSTEM_PATHS].join(delimiter),
  };
  const words = [
    'unshare',
    ...flags,
    'sh',
    '-c',
    setUp,
    'muster-lab',
    process.execPath,
    ...process.argv.slice(1),
  ];
  process.execve!(unshare, words, env);
  throw new MusterError('E_INTERNAL', 'execve returned');
}
