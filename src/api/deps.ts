/** What the operators' API needs of the other rooms, as narrow interfaces; src/main.ts wires them. */
import type { Clock } from '../base/clock.ts';
import type { Millis } from '../base/duration.ts';
import type { Fault } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Mac } from '../base/mac.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventLog } from '../events/event.ts';
import type { Rendered } from '../ignition/rendered.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Catalog } from '../resources/catalog.ts';
import type { Document, Kind } from '../resources/kinds.ts';

/** A text with documents, and how its faults name it. */
export interface DocumentSource {
  readonly file: string;
  readonly text: string;
}

export interface ApplyOptions {
  /** Check and compare only. */
  readonly dryRun: boolean;
  /** Every document must be at this revision, or absent. */
  readonly expect?: number | 'absent';
}

export interface Applied {
  readonly kind: Kind;
  readonly name: string;
  readonly action: 'created' | 'changed' | 'unchanged';
  readonly before?: Document;
  readonly after: Document;
  readonly revision?: number;
}

export interface ApplyResult {
  readonly results: readonly Applied[];
  /** What is allowed, but will hold or surprise somebody. */
  readonly warnings: readonly Fault[];
}

/** Changing documents. All methods throw MusterError with every fault, and then nothing has changed. */
export interface Documents extends Catalog {
  /** Reads, checks together with what is in force, and stores: all or nothing. */
  applySources(sources: readonly DocumentSource[], options: ApplyOptions): Promise<ApplyResult>;
  /** Throws E_NOT_FOUND, E_FILE_OWNED, E_CONFLICT, or E_REFERENCE when another document names it. */
  remove(kind: Kind, name: string, options: ApplyOptions): Promise<void>;
  /** Faults of the configuration directory's present text; the last good version is in force. */
  faults(): readonly Fault[];
  /** Reads the configuration directory again, now. */
  reload(): Promise<void>;
}

/** The machines that are known: those with documents and those that were only seen. */
export interface Machines {
  /** Ordered by name. */
  list(): readonly KnownMachine[];
  byName(name: string): KnownMachine | undefined;
  byMac(mac: Mac): KnownMachine | undefined;
  /** Makes a document of what was seen, or resets the loop guard of one that has a document. */
  accept(name: string, options: { readonly profile?: string; readonly name?: string }): Promise<KnownMachine>;
  /** Forgets the status of a machine without document. */
  forget(name: string): Promise<void>;
}

/** A lease as shown to operators. */
export interface LeaseView {
  readonly network: string;
  readonly address: string;
  readonly mac: string;
  readonly state: string;
  readonly machine?: string;
  readonly hostname?: string;
  readonly expiresAt?: Millis;
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
  readonly documents: Documents;
  readonly machines: Machines;
  readonly leases: () => readonly LeaseView[];
  readonly preview: Preview;
  readonly events: EventLog;
  readonly daemon: Daemon;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Log;
}
