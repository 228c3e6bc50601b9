/**
 * Reports the state of the service to systemd (sd_notify(3)). Node has no unix datagram sockets, so
 * systemd-notify(1) sends the message and waits until the manager has read it. For that the unit
 * needs NotifyAccess=all.
 */
import { execFile } from 'node:child_process';
import type { Clock } from './clock.ts';
import { type Millis, millis } from './duration.ts';
import type { Log } from './log.ts';

interface ServiceManager {
  /** Reports that start-up or reload is done; `systemctl status` shows the line `status`. */
  ready(status: string): Promise<void>;
  reloading(): Promise<void>;
  stopping(): Promise<void>;
  /** Stops the watchdog's pings. */
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
 * Connects to the service manager that `env` names; without one, all methods do nothing. A message
 * that cannot be delivered is logged, and no method throws. If WATCHDOG_USEC is set for this
 * process, a ping is sent at a third of that interval: a blocked event loop stops the pings, and
 * systemd restarts the service.
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
        if (error)
          log.warn({ err: error.message, message: lines[0] }, 'the service manager could not be notified');
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
 * A third of the watchdog's interval; undefined when no watchdog is set for this process
 * (sd_watchdog_enabled(3)).
 */
function watchdogInterval(env: Environment): Millis | undefined {
  const micros = Number(env.WATCHDOG_USEC);
  if (!(micros > 0)) return undefined;
  if (env.WATCHDOG_PID !== undefined && Number(env.WATCHDOG_PID) !== process.pid) return undefined;
  return millis(Math.max(1, Math.floor(micros / 3000)));
}
