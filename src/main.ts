/** The server: opens what it knows, answers machines, agents and operators, and ends in order. */
import { isatty } from 'node:tty';
import { pause, systemClock } from './base/clock.ts';
import { millis } from './base/duration.ts';
import { MusterError } from './base/errors.ts';
import { HostClock } from './base/host-clock.ts';
import { createMetrics } from './base/metrics.ts';
import { connectServiceManager } from './base/notify.files.ts';
import { passedTime } from './base/passed-time.files.ts';
import { createLog } from './base/pino.files.ts';
import { openSystemCalls } from './base/system-calls.socket.ts';
import { EXIT } from './cli/io.ts';
import type { ServeOptions } from './cli/serve/options.ts';
import { type CloseListener, createBoot } from './wiring/boot.ts';
import { followClock } from './wiring/clock.ts';
import { openClusters } from './wiring/clusters.ts';
import { daemonOf, keepMemorySmall } from './wiring/daemon.ts';
import { tellTakeOver } from './wiring/hosts.ts';
import { listenToOperators } from './wiring/operators.ts';
import { amongHosts } from './wiring/outside.files.ts';
import { openState } from './wiring/state.ts';

/** A hand-over waits so long until nothing is sent to machines, and looks so often. */
const FINISH_MS = millis(10_000);
const LOOK_MS = millis(50);
/** Then the listeners have so long for their last answers. */
const LAST_ANSWERS = millis(200);
const NEVER = new AbortController().signal;

/**
 * Runs until SIGTERM or SIGINT. SIGHUP reads documents and loader directories again; but when
 * standard input or output is a terminal, it ends the server in order, because that terminal was
 * closed.
 * @throws {MusterError} when the server cannot start, and when the store fails for good: the
 *   service manager starts the process again.
 */
export async function serve(options: ServeOptions): Promise<void> {
  const onTerminal = isatty(0) || isatty(1);
  const metrics = createMetrics();
  const log = createLog({
    level: options.logLevel,
    pretty: process.stdout.isTTY === true,
    dropped: (lines) => metrics.add('muster_log_lines_dropped_total', {}, lines),
  });
  const stopping = new AbortController();
  const manager = connectServiceManager({ env: process.env, clock: systemClock, log });
  const systemCalls = openSystemCalls({ env: process.env, log });
  const clock = new HostClock({ source: systemClock, passed: passedTime() });
  const outside = amongHosts(options, {
    signal: stopping.signal,
    standsBy: (acting) => void manager.ready(`stands by for ${acting}`),
    handOver: () => void handOver(),
    stop: leave,
  });
  const common = { clock, log, metrics, signal: stopping.signal, systemCalls, outside };
  const ended = Promise.withResolvers<void>();
  /** Another host may act from now on, so nothing is finished or answered any more. */
  function leave(): never {
    void log.flush();
    process.exit(EXIT.failure);
  }
  const broken = (error: MusterError): void => {
    ended.reject(error);
    if (error.code !== 'E_HOST_NOT_ACTING') return;
    log.error({ code: error.code }, `this host stops at once: ${error.message}`);
    leave();
  };
  /** Downloads and requests of machines that are under way. */
  let active = (): number => 0;
  let closeDhcp: CloseListener = async () => {};
  let handing = false;
  /** Ends once no machine is in the middle of something, or that takes too long. */
  async function handOver(): Promise<void> {
    log.info({}, 'this host hands over to another one');
    for (let left: number = FINISH_MS; left > 0 && active() > 0; left -= LOOK_MS)
      await pause(systemClock, LOOK_MS, stopping.signal);
    handing = true;
    ended.reject(new MusterError('E_HOST_NOT_ACTING', 'it handed over, as an operator ordered'));
  }
  // The part that was opened last is closed first, also when starting fails half-way.
  const closing = new AsyncDisposableStack();
  closing.defer(() => log.flush());
  closing.defer(() => manager.close());
  try {
    const state = await openState(options, common, closing, broken);
    closing.defer(await followClock(common, state));
    await state.held.settled;
    const boot = createBoot(options, common, state, closing);
    // Set before the first listener opens, because a client that got an answer may stop the server.
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => ended.resolve());
    // Listeners let the requests under way finish, all at the same time.
    const listeners: CloseListener[] = [];
    const opened = (close: CloseListener): void => void listeners.push(close);
    closing.defer(async () => {
      stopping.abort();
      const closed = Promise.all(listeners.map((close) => close()));
      // In a hand-over, DHCP answers until the other listeners are closed.
      if (handing) await Promise.race([closed, pause(systemClock, LAST_ANSWERS, NEVER)]);
      else await Promise.all([closed, closeDhcp()]);
      await closeDhcp();
    });
    const clusters = await openClusters(options, common, state, boot, closing);
    // A boot host whose store continues elsewhere answers no machine.
    const serves = state.life.state !== 'superseded';
    if (serves) await clusters.listen(opened);
    const listening = serves ? await boot.listen(opened) : undefined;
    if (listening) ({ active, closeDhcp } = listening);
    const ofMachines = [...listeners, closeDhcp];
    state.life.onSuperseded(() => void Promise.all(ofMachines.map((close) => close())));
    const daemon = daemonOf(common, state, boot);
    void keepMemorySmall(common);
    await listenToOperators(options, common, state, boot, clusters, daemon, opened);
    outside.hosts.loaded();
    tellTakeOver(common, state);
    log.info({ http: listening?.httpPort, socket: options.socket, sockets: boot.sockets }, 'listening');

    const ready = (): Promise<void> => {
      const status = daemon.summary();
      log.info({}, `ready: ${status}`);
      if (daemon.isEmpty())
        log.info({}, 'there are no documents: name a directory with --config, or run muster apply -f FILE');
      return manager.ready(status);
    };
    const reload = async (): Promise<void> => {
      await manager.reloading();
      await state.catalog.reload().catch((error: unknown) => log.error({ err: error }, 'reload'));
      daemon.reread();
      await ready();
    };
    // A terminal sends SIGHUP when it is closed; a service manager, to reload.
    if (onTerminal) process.once('SIGHUP', () => ended.resolve());
    else process.on('SIGHUP', () => void reload());
    await ready();
    await ended.promise;
    log.info({}, 'stopping');
    await manager.stopping();
  } finally {
    await closing.disposeAsync();
  }
}
