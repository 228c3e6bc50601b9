/** How the garbage collector of a server behaves (docs/decisions/0025 has the figures). */
import { setFlagsFromString } from 'node:v8';

/**
 * Full collections become rare. V8 by itself makes one each time the heap of a server under load
 * has grown by some tens of MB; then several threads mark for two tenths of a second, and packets
 * wait for one of two processors. Here the heap may grow to twice of what is in use.
 *
 * A V8 that does not know the flag says so on standard error and goes on without it.
 */
export function collectRarely(): void {
  setFlagsFromString('--heap-growing-percent=100');
}
