/** Default paths on a boot host. `docs/ports.md` lists all paths with their modes. */
import { fileURLToPath } from 'node:url';

/** The operators' unix socket. */
export const DEFAULT_SOCKET = '/run/muster/muster.sock';

/** Where the package's unit listens that runs programs of clusters. */
export const JUDGE_SOCKET = '/run/muster-judge.sock';
/** Where the package's unit listens that holds the boot addresses. */
export const ADDRESS_SOCKET = '/run/muster-address.sock';
/** The group whose members may use the operators' socket. */
export const OPERATORS_GROUP = 'muster';

/** The root of the checkout or of the installed tree, without a slash at its end. */
export function projectRoot(): string {
  return fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
}
