/** The dependencies that nearly every part of the server takes. */
import type { HostClock } from '../base/host-clock.ts';
import type { Metrics } from '../base/metrics.ts';
import type { DaemonLog } from '../base/pino.files.ts';
import type { SystemCalls } from '../base/system-calls.socket.ts';

export interface Common {
  readonly clock: HostClock;
  readonly log: DaemonLog;
  readonly metrics: Metrics;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
  /** Undefined where they cannot be used. */
  readonly systemCalls?: SystemCalls | undefined;
}
