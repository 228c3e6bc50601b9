/**
 * Holds back what this process answers, once another host may act. A process that was paused finds
 * packets and requests when it goes on, before its timers tell it how late it is.
 */
import diagnostics from 'node:diagnostics_channel';
import type { Datagrams } from '../base/datagrams.ts';

/**
 * Calls `mustAct` before each request of any HTTP server of this process, also before it is
 * answered. Lasts until the process ends.
 */
export function guardRequests(mustAct: () => void): void {
  diagnostics.subscribe('http.server.request.start', mustAct);
}

/** Datagrams that are taken and sent only after `mustAct`. */
export const guardedDatagrams = (datagrams: Datagrams, mustAct: () => void): Datagrams => ({
  native: datagrams.native,
  async openEdge(listener, handlers) {
    const edge = await datagrams.openEdge(listener, {
      failed: (error, address, port) => handlers.failed(error, address, port),
      take(batch) {
        mustAct();
        handlers.take(batch);
      },
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
