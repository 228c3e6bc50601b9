/** What the operators' API needs of the other rooms, as narrow interfaces; src/main.ts wires them. */
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventLog } from '../events/event.ts';
import type { Rendered } from '../ignition/rendered.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Roster } from '../machines/roster.ts';
import type { LeaseBook } from '../pxe/dhcp/leases.ts';
import type { LiveCatalog } from '../resources/catalog.ts';

/** A text with documents, and how its faults name it. */
export interface DocumentSource {
  readonly file: string;
  readonly text: string;
}

export interface AcceptOptions {
  readonly profile?: string;
  readonly name?: string;
}

/** A lease as shown to operators. */
export interface LeaseView {
  readonly network: string;
  readonly address: string;
  readonly mac: string;
  readonly state: string;
  readonly machine?: string;
  readonly hostname?: string;
  readonly expiresAt: Millis;
}

/** One step from a client to what it gets, with its reason. */
export interface ExplainStep {
  readonly step: string;
  readonly result: string;
  readonly reason?: { readonly code: string; readonly text: string };
}

/** What a machine would get now, and why. */
export interface Explanation {
  readonly subject: string;
  readonly steps: readonly ExplainStep[];
}

/** The question: a machine by name or by hardware address; what is not said comes from what was last seen of it. */
export interface ExplainQuestion {
  readonly machine?: string;
  readonly mac?: Mac;
  readonly network?: string;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
}

export interface Preview {
  /** Throws E_NOT_FOUND for a machine name that nobody has. */
  explain(question: ExplainQuestion): Explanation;
  /** Throws E_NOT_FOUND, or the faults of a configuration that does not render. */
  render(machine: string): Rendered;
}

export interface Readiness {
  readonly ready: boolean;
  /** What is waited for, or what went wrong; shown by /readyz. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[];
}

export interface Daemon {
  readonly version: string;
  readonly startedAt: Millis;
  readiness(): Readiness;
}

export interface ApiDeps {
  readonly catalog: LiveCatalog;
  readonly roster: Pick<Roster, 'get' | 'list' | 'view' | 'byMac' | 'forget'>;
  /** Makes a document of a machine that was seen, or lets one that is held try again. Throws E_NOT_FOUND and what apply throws. */
  readonly accept: (name: string, options: AcceptOptions) => Promise<KnownMachine>;
  readonly leases: Pick<LeaseBook, 'list'>;
  readonly preview: Preview;
  readonly events: EventLog;
  readonly daemon: Daemon;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}
