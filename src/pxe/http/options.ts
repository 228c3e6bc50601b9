/** What the listener for machines is started with. */
import type { Clock } from '../../base/clock.ts';
import type { HttpLimits } from '../../base/limits.server.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from '../../base/metrics.ts';
import type { EventSink } from '../../events/event.ts';
import type { OpenedAssets } from '../assets/assets.ts';
import type { BootService } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';

export interface MachineHttpOptions {
  /** An inherited, listening socket, or where to listen; port 0 picks one. */
  readonly listen: { readonly fd: number } | { readonly host: string; readonly port: number };
  readonly boot: Pick<BootService, 'script' | 'config' | 'inline' | 'report' | 'needs'>;
  readonly assets: OpenedAssets;
  /**
   * The networks in force now: which one a machine is on, and the URL under which it reaches us.
   */
  readonly networks: () => readonly ServedNetwork[];
  /** Who has this address, for events about files. */
  readonly subjectOf?: (
    address: string,
  ) => { readonly subject: string; readonly session?: string } | undefined;
  /** False: everything is answered 503 with Retry-After. Default: always ready. */
  readonly ready?: () => boolean;
  readonly events: EventSink;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
  readonly limits?: Partial<HttpLimits>;
}
