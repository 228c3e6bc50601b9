/**
 * Where things are on a boot host, unless told otherwise. `docs/ports.md` lists them with their
 * modes.
 */
import { fileURLToPath } from 'node:url';

/** The operators' unix socket. */
export const DEFAULT_SOCKET = '/run/muster/muster.sock';
/** The group whose members may use it. */
export const OPERATORS_GROUP = 'muster';

/**
 * Root of the checkout or of the installed tree: what is next to `src`. Without a slash at its end.
 */
export function projectRoot(): string {
  return fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
}
