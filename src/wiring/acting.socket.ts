/**
 * Holds back what this process answers, once another host may act. A process that was paused finds
 * packets and requests when it goes on, before its timers tell it how late it is.
 */
import diagnostics from 'node:diagnostics_channel';
import { systemClock } from '../base/clock.ts';
import { BATCH, type Datagrams, type Received } from '../base/datagrams.ts';
import { millis } from '../base/duration.ts';
import type { InheritedSocket } from '../base/inherited.ts';
import { Kernel } from '../base/kernel/kernel.socket.ts';
import { descriptor } from '../base/kernel/memory.socket.ts';

/**
 * Calls `mustAct` before each request of any HTTP server of this process, also before it is
 * answered. Lasts until the process ends.
 */
export function guardRequests(mustAct: () => void): void {
  diagnostics.subscribe('http.server.request.start', mustAct);
}

/**
 * Datagrams that are taken and sent only after `mustAct`. Those that arrived a moment before this
 * host acted come first.
 */
export const guardedDatagrams = (
  datagrams: Datagrams,
  mustAct: () => void,
  recent: () => RecentDatagrams | undefined,
): Datagrams => ({
  native: datagrams.native,
  async openEdge(listener, handlers) {
    const edge = await datagrams.openEdge(listener, {
      failed: (error, address, port) => handlers.failed(error, address, port),
      take(batch) {
        mustAct();
        handlers.take(batch);
      },
    });
    const early = 'fd' in listener ? (recent()?.taken(listener.fd) ?? []) : [];
    // The caller has to have the edge before it takes anything.
    if (early.length > 0)
      setImmediate(() => {
        mustAct();
        for (let n = 0; n < early.length; n += BATCH) handlers.take(early.slice(n, n + BATCH));
      });
    return {
      native: edge.native,
      local: edge.local,
      send(bytes, address, port) {
        mustAct();
        edge.send(bytes, address, port);
      },
      close: () => edge.close(),
    };
  },
});

/** How often a host that stands by empties its sockets. */
const EMPTY_EVERY = millis(100);
/** What is younger is answered after a take-over: its sender still waits. */
const RECENT_MS = 1000;
/** At most so many are kept for each socket, and batches taken at once. */
const MOST_KEPT = 1024;
const BATCHES = 100;

/** Datagrams that arrived a moment before this host acted. */
export interface RecentDatagrams {
  /** Stops emptying the sockets: this host acts, and will read them. */
  stop(): void;
  /** What arrived at the socket; empty when asked again. */
  taken(fd: number): readonly Received[];
}

/**
 * Empties sockets for datagrams while this host stands by, and keeps what arrived within the last
 * second. The kernel would keep all of it, and a take-over would answer what machines asked hours
 * ago.
 */
export function emptySockets(sockets: readonly InheritedSocket[], env: NodeJS.ProcessEnv): RecentDatagrams {
  const udp = sockets.filter(({ name }) => /^(dhcp|pxe|tftp)-/.test(name)).map(({ fd }) => descriptor(fd));
  const kept = new Map<number, { readonly at: number; readonly received: Received }[]>();
  const kernel = udp.length > 0 && env.MUSTER_NATIVE !== '0' ? openKernel() : undefined;
  // Without system calls, all of it is answered.
  if (kernel === undefined) return { stop: () => {}, taken: () => [] };
  const read = (): void => {
    const at = systemClock.monotonic();
    for (const socket of udp) {
      const before = kept.get(socket.fd) ?? [];
      for (let batches = 0; batches < BATCHES; batches++) {
        const batch = kernel.receiveBatch(socket);
        if (batch.length === 0) break;
        for (const received of batch) before.push({ at, received });
      }
      const recent = before.filter((one) => at - one.at < RECENT_MS);
      kept.set(socket.fd, recent.slice(-MOST_KEPT));
    }
  };
  for (const socket of udp) kernel.set(socket, 'packetInfo', 1);
  let stop = (): void => {};
  const round = (): void => {
    read();
    stop = systemClock.after(EMPTY_EVERY, round);
  };
  round();
  return {
    stop: () => stop(),
    taken(fd) {
      const taken = (kept.get(fd) ?? []).map(({ received }) => received);
      kept.delete(fd);
      return taken;
    },
  };
}

function openKernel(): Kernel | undefined {
  try {
    return new Kernel({ loop: false });
  } catch {
    return undefined;
  }
}
