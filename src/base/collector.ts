/** Settings of the garbage collector for the server (docs/decisions/0025 has the figures). */
import { setFlagsFromString } from 'node:v8';

/**
 * Makes full collections rare: the heap may grow to twice the memory that is in use. By default V8
 * makes one each time the heap of a server under load has grown by some tens of MB; then several
 * threads mark for 0.2 seconds, and on a host with two processors packets wait.
 *
 * A V8 that does not know the flag prints a message to standard error and ignores it.
 */
export function collectRarely(): void {
  setFlagsFromString('--heap-growing-percent=100');
}
