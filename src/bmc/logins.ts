/** Log-ins to BMCs, and sessions that were opened with them. */
import type { Bmc } from './bmc.ts';

/** A log-in that may work. `own`: of Muster's account, and under which machine it is kept. */
export interface Login {
  /** Names it in what is known: never its password. */
  readonly id: string;
  readonly user: string;
  readonly password: string;
  readonly own?: { readonly holder: string; readonly at: number };
}

export interface Opened {
  readonly bmc: Bmc;
  readonly isOwn: boolean;
  readonly login: Login;
}

/** A session that stays open. A BMC has one. */
export interface Stay {
  readonly machine: string;
  readonly opened: Opened;
  /** The documents for which it was opened. */
  readonly reach: string;
  readonly cancel: () => void;
}
