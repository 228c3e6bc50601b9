/** Chooses how datagrams are received and sent: by direct system calls, or by `node:dgram`. */

import type { Datagrams } from './datagrams.ts';
import { messageOf } from './error-text.ts';
import { ipv4 } from './ipv4.ts';
import { Kernel } from './kernel/kernel.socket.ts';
import type { Descriptor } from './kernel/memory.socket.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import { nativeDatagrams } from './native-datagrams.socket.ts';
import { nodeDatagrams } from './node-datagrams.socket.ts';

export interface OpenedDatagrams {
  readonly datagrams: Datagrams;
  /** The main thread's system calls; undefined when they cannot be used. */
  readonly kernel: Kernel | undefined;
}

/**
 * Loads the system calls and tries them with two sockets of this host. If that fails, or with
 * `MUSTER_NATIVE=0`, datagrams go by `node:dgram`. One line of the log and a metric say which.
 */
export function openDatagrams({
  env,
  log,
  metrics,
}: {
  readonly env: { readonly MUSTER_NATIVE?: string | undefined };
  readonly log: Log;
  readonly metrics: Metrics;
}): OpenedDatagrams {
  const without = (cause: string): OpenedDatagrams => {
    metrics.set('muster_datagrams_native', {}, 0);
    log.warn({ cause }, 'datagrams go by node:dgram, which is slower than system calls');
    return { datagrams: nodeDatagrams, kernel: undefined };
  };
  if (env.MUSTER_NATIVE === '0') return without('MUSTER_NATIVE=0');
  try {
    const kernel = new Kernel({ loop: true });
    tryOut(kernel);
    metrics.set('muster_datagrams_native', {}, 1);
    return { datagrams: nativeDatagrams(kernel), kernel };
  } catch (error) {
    return without(messageOf(error));
  }
}

const LOOPBACK = ipv4('127.0.0.1');
/** More than the size of the segments below, so that the kernel has to cut it. */
const TRIAL = Buffer.from(Array.from({ length: 1000 }, (_, n) => n & 255));
const SEGMENT = 600;

/**
 * Sends datagrams over loopback and compares what arrives. @throws when anything is not as it was
 * sent, or a call fails.
 */
export function tryOut(kernel: Kernel): void {
  const open: Descriptor[] = [];
  const bound = () => {
    const socket = kernel.udp();
    open.push(socket);
    kernel.bind(socket, LOOPBACK, 0);
    return socket;
  };
  try {
    const [sender, receiver] = [bound(), bound()];
    kernel.set(receiver, 'packetInfo', 1);
    const to = kernel.local(receiver);
    const from = kernel.local(sender);
    kernel.sendBatch(sender, [{ bytes: TRIAL.subarray(0, 300), ...to }]);
    kernel.connect(sender, to.address, to.port);
    const region = kernel.region(TRIAL.length);
    region.bytes.set(TRIAL);
    const run = { region, offset: 0, octets: TRIAL.length, packetSize: SEGMENT };
    kernel.sendRun(sender, run, { segments: false });
    const got = kernel.receiveBatch(receiver);
    const sent = [TRIAL.subarray(0, 300), TRIAL.subarray(0, SEGMENT), TRIAL.subarray(SEGMENT)];
    const right =
      got.length === sent.length &&
      got.every(
        ({ bytes, address, port, interfaceIndex, unicast }, n) =>
          bytes.equals(sent[n]!) &&
          address === from.address &&
          port === from.port &&
          interfaceIndex > 0 &&
          unicast === true,
      );
    if (!right) throw new Error('datagrams over loopback do not arrive as they were sent');
  } finally {
    for (const socket of open) kernel.close(socket);
  }
}
