/** Watches sockets in a thread of its own, which may block while it waits for them. */
import type { Kernel } from './kernel.socket.ts';
import type { Descriptor } from './memory.socket.ts';

/** Calls back when a socket has datagrams. */
export interface SocketWatcher {
  /** The returned function ends it, and must be called before the socket is closed. */
  watch(socket: Descriptor, readable: () => void): () => void;
  /** Calls `again` once, about a millisecond later. */
  soon(again: () => void): void;
}

/** The watcher of the main thread. */
export function loopWatcher(kernel: Kernel): SocketWatcher {
  return {
    watch: (socket, readable) => kernel.watch(socket, readable),
    soon: (again) => void setTimeout(again, 1),
  };
}

/** Longest wait. Timers of this thread may be late by it; `terminate` ends the thread after it. */
const WAIT_MS = 20;
/** Waits in one turn of the event loop, while sockets are ready. */
const ROUNDS = 64;

/**
 * A watcher for threads. While sockets are watched, the thread blocks in short waits for them; in
 * between, and when none is watched, Node's event loop takes its turns as usual.
 */
export class ThreadWaiter implements SocketWatcher {
  readonly #kernel: Kernel;
  readonly #set: Descriptor;
  /** By descriptor. */
  readonly #watched = new Map<number, () => void>();
  readonly #wake: Descriptor;
  #again: (() => void)[] = [];
  #due = false;
  #woken = false;

  /**
   * @param wake a counter that is written to when a message was sent to this thread.
   * @param set an empty set. Both are closed where they were opened, after this thread has ended.
   */
  constructor(kernel: Kernel, { wake, set }: { readonly wake: Descriptor; readonly set: Descriptor }) {
    this.#kernel = kernel;
    this.#set = set;
    this.#wake = wake;
    kernel.addTo(set, wake, { once: true });
  }

  watch(socket: Descriptor, readable: () => void): () => void {
    this.#kernel.addTo(this.#set, socket, { once: false });
    this.#watched.set(socket.fd, readable);
    this.#schedule();
    return () => {
      if (this.#watched.delete(socket.fd)) this.#kernel.removeFrom(this.#set, socket);
    };
  }

  soon(again: () => void): void {
    this.#again.push(again);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#due) return;
    this.#due = true;
    setImmediate(() => {
      this.#due = false;
      this.#turn();
    });
  }

  #turn(): void {
    this.#woken = false;
    for (let round = 0; round < ROUNDS && !this.#woken && this.#busy; round++) {
      const wait = this.#again.length > 0 ? 1 : WAIT_MS;
      const count = this.#kernel.wait(this.#set, wait, (fd) => this.#ready(fd));
      for (const again of this.#again.splice(0)) again();
      if (count === 0) break;
    }
    if (this.#busy) this.#schedule();
  }

  get #busy(): boolean {
    return this.#watched.size > 0 || this.#again.length > 0;
  }

  #ready(fd: number): void {
    if (fd === this.#wake.fd) this.#woken = true;
    // A socket that another one's callback closed in this round is not watched any more.
    else this.#watched.get(fd)?.();
  }
}
