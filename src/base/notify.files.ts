/**
 * Telling systemd how the service does (sd_notify(3)). Node has no unix datagram sockets, so the
 * message goes by way of systemd-notify(1), which also waits until the manager has read it; the
 * unit therefore says NotifyAccess=all.
 */
import { execFile } from 'node:child_process';
import type { Clock } from './clock.ts';
import { type Millis, millis } from './duration.ts';
import type { Log } from './log.ts';

interface ServiceManager {
  /** Start-up or reload is done; `status` is the line that `systemctl status` shows. */
  ready(status: string): Promise<void>;
  reloading(): Promise<void>;
  stopping(): Promise<void>;
  /** Ends the watchdog's pings. */
  close(): void;
}

interface Environment {
  readonly NOTIFY_SOCKET?: string | undefined;
  readonly WATCHDOG_USEC?: string | undefined;
  readonly WATCHDOG_PID?: string | undefined;
}

const NOBODY: ServiceManager = {
  ready: async () => {},
  reloading: async () => {},
  stopping: async () => {},
  close: () => {},
};

/**
 * Speaks to the service manager that `env` names; does nothing when there is none. A message that
 * cannot be delivered is logged, never thrown. With WATCHDOG_USEC set for this process, says
 * "alive" at a third of that interval: a blocked event loop stops the pings, and systemd restarts
 * the service.
 */
export function connectServiceManager(options: {
  readonly env: Environment;
  readonly clock: Clock;
  readonly log: Log;
}): ServiceManager {
  const { env, clock, log } = options;
  if (!env.NOTIFY_SOCKET) return NOBODY;
  const environment = { NOTIFY_SOCKET: env.NOTIFY_SOCKET, PATH: '/usr/bin:/bin' };
  const send = (...lines: string[]): Promise<void> =>
    new Promise((resolve) => {
      execFile('systemd-notify', lines, { env: environment, timeout: 10_000 }, (error) => {
        if (error) log.warn({ err: error.message, message: lines[0] }, 'the service manager was not told');
        resolve();
      });
    });

  let cancel = (): void => {};
  const interval = watchdogInterval(env);
  const ping = (): void => {
    cancel = clock.after(interval!, () => {
      void send('WATCHDOG=1');
      ping();
    });
  };
  if (interval !== undefined) ping();

  return {
    ready: (status) => send('READY=1', `STATUS=${status}`),
    reloading: () => send('RELOADING=1', 'STATUS=reloading'),
    stopping: () => send('STOPPING=1', 'STATUS=stopping'),
    close: () => cancel(),
  };
}

/**
 * A third of the watchdog's interval, or undefined when none is set for this process
 * (sd_watchdog_enabled(3)).
 */
function watchdogInterval(env: Environment): Millis | undefined {
  const micros = Number(env.WATCHDOG_USEC);
  if (!(micros > 0)) return undefined;
  if (env.WATCHDOG_PID !== undefined && Number(env.WATCHDOG_PID) !== process.pid) return undefined;
  return millis(Math.max(1, Math.floor(micros / 3000)));
}
