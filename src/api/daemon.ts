/** What the API shows and orders of the process itself. */
import type { Millis } from '../base/duration.ts';

export interface Readiness {
  readonly ready: boolean;
  /** Checks that `/readyz` shows; the detail says what is missing or went wrong. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[];
}

export interface Daemon {
  readonly version: string;
  readonly startedAt: Millis;
  readiness(): Readiness;
  /**
   * Reads the addresses of the host's interfaces and the loader directories again, as SIGHUP does
   * in addition to the documents.
   */
  reread(): void;
}
