/** Asks {@link refusal} for a listener, and counts and logs those that get no answer. */
import type { Clock } from '../base/clock.ts';
import { duration } from '../base/duration.ts';
import { parseIpv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import { limitedLines } from '../base/log-limit.ts';
import type { Metrics } from '../base/metrics.ts';
import type { ServedNetwork } from './network.ts';
import {
  type Asker,
  type Outsiders,
  type Perimeter,
  type Port,
  perimeterOf,
  type Refusal,
  refusal,
  refusalText,
} from './perimeter.ts';

/** Notes that somebody was refused. Anybody can cause this, so only some are logged. */
export type NoteRefusal = (why: Refusal, asker: Asker) => void;

/** How many refusals are logged in each {@link SPAN}; a source that repeats itself, once. */
const LINES = 20;
const SPAN = duration('1m');

export function createNoteRefusal({
  metrics,
  log,
  clock,
}: {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly clock: Clock;
}): NoteRefusal {
  const write: Log['warn'] = (fields, message) => log.warn(fields, message);
  const warn = limitedLines(write, { lines: LINES, span: SPAN, clock });
  const logged = new Set<string>();
  let since = clock.monotonic();
  return (why, asker) => {
    metrics.add('muster_refused_sources_total', { port: asker.port, reason: why });
    const now = clock.monotonic();
    if (now - since >= SPAN) {
      logged.clear();
      since = now;
    }
    const key = `${asker.port} ${why} ${asker.source}`;
    if (logged.has(key)) return;
    if (logged.size < LINES) logged.add(key);
    warn({ port: asker.port, reason: why }, `no answer: ${refusalText(why, asker)}`);
  };
}

export interface Gate {
  /** Whether the address, in dotted decimal, may speak to the port. */
  admits(port: Port, address: string, via?: string): boolean;
}

/** The gate of the listeners that get an address as text: TFTP, HTTP and the agents' listener. */
export function createGate({
  networks,
  outsiders,
  note,
}: {
  /** The networks that are served now; the same array until something changes. */
  readonly networks: () => readonly ServedNetwork[];
  readonly outsiders: Outsiders;
  readonly note: NoteRefusal;
}): Gate {
  let indexed: readonly ServedNetwork[] | undefined;
  let perimeter: Perimeter = perimeterOf([]);
  return {
    admits(port, address, via) {
      const now = networks();
      if (now !== indexed) {
        indexed = now;
        perimeter = perimeterOf(now);
      }
      // Only IPv4 is served.
      const source = parseIpv4(address);
      if (source === undefined) return false;
      const asker: Asker = { port, source, interface: via };
      const why = refusal(perimeter, asker, outsiders);
      if (why !== undefined) note(why, asker);
      return why === undefined;
    },
  };
}
