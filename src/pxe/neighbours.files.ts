/** Reads which hardware is behind an address, from the kernel's tables. */
import { closeSync, openSync, readSync } from 'node:fs';
import { hostAddresses } from './interfaces.files.ts';
import { type Neighbour, neighbourIn } from './neighbours.ts';

/** The tables stay open: to open and close one takes longer than to read it. */
const memoOpen = new Map<string, number>();
let octets = Buffer.alloc(64 * 1024);

/** The table as the kernel has it now; empty if it cannot be read. */
function read(file: string): string {
  let fd = memoOpen.get(file);
  try {
    if (fd === undefined) {
      fd = openSync(file, 'r');
      memoOpen.set(file, fd);
    }
    let length = 0;
    for (;;) {
      if (length === octets.length) octets = Buffer.concat([octets], 2 * length);
      const more = readSync(fd, octets, length, octets.length - length, length);
      if (more === 0) return octets.toString('latin1', 0, length);
      length += more;
    }
  } catch {
    memoOpen.delete(file);
    if (fd !== undefined) closeSync(fd);
    return '';
  }
}

/**
 * The neighbour behind an IPv4 address in dotted decimal, now. The other end of an open connection
 * is in the table, because the kernel sends it packets. Takes half a millisecond with 1,000
 * neighbours, which the kernel needs to write its table.
 */
export const neighbour = (address: string): Neighbour =>
  neighbourIn(
    {
      arp: read('/proc/net/arp'),
      get routes() {
        return read('/proc/net/route');
      },
      get own() {
        return hostAddresses({ loopback: true }).map((one) => one.address);
      },
    },
    address,
  );
