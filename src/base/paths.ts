/** Where things are on a boot host, unless told otherwise. `docs/ports.md` lists them with their modes. */

/** The operators' unix socket. */
export const DEFAULT_SOCKET = '/run/muster/muster.sock';
/** The group whose members may use it. */
export const OPERATORS_GROUP = 'muster';
