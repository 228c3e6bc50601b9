/**
 * Sockets that whoever started us opened for us, after systemd's protocol (sd_listen_fds(3)):
 * descriptors from 3 on, their number in LISTEN_FDS, their names in LISTEN_FDNAMES, the process
 * that they are for in LISTEN_PID.
 */

export interface InheritedSocket {
  readonly fd: number;
  readonly name: string;
}

const FIRST = 3;

/**
 * What the environment says was passed on. Empty when nothing was, or when it was for another
 * process (`pid`). Names are `dhcp-IFACE`, `pxe-IFACE`, `tftp-IFACE` and `http`; a socket without a
 * name is called `unknown`, as systemd does.
 */
export function inheritedSockets(
  env: Readonly<Record<string, string | undefined>>,
  pid?: number,
): InheritedSocket[] {
  const { LISTEN_FDS: count, LISTEN_PID: meant, LISTEN_FDNAMES: names } = env;
  if (count === undefined || !/^[0-9]{1,4}$/.test(count)) return [];
  if (pid !== undefined && meant !== undefined && meant !== String(pid)) return [];
  const list = names === undefined || names === '' ? [] : names.split(':');
  return Array.from({ length: Number(count) }, (_, n) => ({ fd: FIRST + n, name: list[n] ?? 'unknown' }));
}
