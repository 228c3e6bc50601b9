/**
 * Sockets that the event loop of Node's main thread watches for us, by `uv_poll_t` handles. Node
 * has no function for it, but its executable exports libuv's functions for native add-ons.
 */
import { type Call, call, type Descriptor, type Ffi, Region } from './memory.socket.ts';

/** Functions of libuv, which the executable of Node exports for native add-ons. */
const LIBUV = {
  uv_handle_size: call(1),
  uv_poll_init: call(3),
  uv_poll_start: call(3),
  uv_poll_stop: call(1),
  uv_close: { arguments: ['pointer', 'pointer'], return: 'void' },
} as const;

/** UV_POLL of `uv_handle_type`, and UV_READABLE. */
const [UV_POLL, UV_READABLE] = [8n, 1n];
/** Memory for a `uv_poll_t`, which has 160 octets. */
const UV_HANDLE = 512;

/**
 * What libuv may use at any time, so that it is never collected: the handles that were made (a few
 * hundred octets each), and the library with its callback.
 */
const forever: unknown[] = [];

export class LoopWatches {
  readonly #ffi: Ffi;
  readonly #uv: Readonly<Record<keyof typeof LIBUV, Call>>;
  readonly #loop: bigint;
  readonly #callback: bigint;
  /** By the address of their handle. */
  readonly #watches = new Map<bigint, { readonly readable: () => void; due: boolean }>();

  constructor(ffi: Ffi) {
    this.#ffi = ffi;
    const { lib, functions } = ffi.dlopen(null, LIBUV);
    forever.push(lib);
    this.#uv = functions as unknown as Readonly<Record<keyof typeof LIBUV, Call>>;
    const octets = this.#uv.uv_handle_size(UV_POLL);
    if (octets < 1 || octets > UV_HANDLE) throw new Error(`a uv_poll_t has ${octets} octets`);
    this.#loop = ffi.getCurrentEventLoop();
    const signature = { arguments: ['pointer', 'int32', 'int32'], return: 'void' } as const;
    this.#callback = lib.registerCallback(signature, (handle) => {
      const watch = this.#watches.get(handle as bigint);
      if (watch === undefined || watch.due) return;
      watch.due = true;
      // Promises and ticks are only run for code that Node calls itself. It calls immediates later
      // in the same turn.
      setImmediate(() => {
        watch.due = false;
        if (this.#watches.get(handle as bigint) === watch) watch.readable();
      });
    });
  }

  add(socket: Descriptor, readable: () => void): () => void {
    const handle = new Region(this.#ffi, UV_HANDLE);
    forever.push(handle);
    if (this.#uv.uv_poll_init(this.#loop, handle.address, socket.parameter) !== 0)
      throw new Error(`the event loop cannot watch descriptor ${socket.fd}`);
    this.#watches.set(handle.address, { readable, due: false });
    this.#uv.uv_poll_start(handle.address, UV_READABLE, this.#callback);
    return () => {
      if (!this.#watches.delete(handle.address)) return;
      this.#uv.uv_poll_stop(handle.address);
      this.#uv.uv_close(handle.address, 0n);
    };
  }
}
