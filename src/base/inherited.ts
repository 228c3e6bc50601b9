/**
 * Sockets that the service manager opened and passed to this process, by systemd's protocol
 * (sd_listen_fds(3)): their descriptors begin at 3, LISTEN_FDS has their number, LISTEN_FDNAMES
 * their names, LISTEN_PID the process that they are for.
 */

export interface InheritedSocket {
  readonly fd: number;
  readonly name: string;
}

const FIRST = 3;

/**
 * Lists the sockets that the environment describes. The list is empty when there are none, or when
 * they are for a process other than `pid`. Names are `dhcp-IFACE`, `pxe-IFACE`, `tftp-IFACE` and
 * `http`; a socket without a name is called `unknown`, as systemd does.
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
