/** What Muster asks of a management controller (BMC), whichever protocol it speaks. */
import type { BmcShown, BmcViewName } from './views.ts';

/**
 * `paused`: powered, and stopped before a system runs. `unknown`: it says none of these, e.g. while
 * it starts. Nobody may take that for `off`.
 */
export const POWER_STATES = ['on', 'off', 'paused', 'unknown'] as const;
export type PowerState = (typeof POWER_STATES)[number];

/**
 * `shut-down` asks the system to end itself; `off` cuts the power; `cycle` cuts it for a while, and
 * `reset` restarts without that.
 */
export const POWER_ORDERS = ['on', 'off', 'shut-down', 'cycle', 'reset'] as const;
export type PowerOrder = (typeof POWER_ORDERS)[number];

/**
 * Where the next boot alone comes from. `none`: as the firmware is set; `http`: the network by UEFI
 * HTTP, to where DHCP leads, as `network` leads by PXE.
 */
export const BOOT_TARGETS = ['none', 'network', 'http', 'disk', 'setup'] as const;
export type BootTarget = (typeof BOOT_TARGETS)[number];

/** What a BMC says of the next boot. */
export interface BootOnce {
  readonly target: BootTarget | 'other';
  /** Undefined where it does not say. */
  readonly uefi: boolean | undefined;
  /** Whether it stays so after the next boot. */
  readonly persistent: boolean;
}

/** A session with a BMC. Every call rejects with a {@link BmcFault}. */
export interface Bmc {
  readonly protocol: 'ipmi' | 'redfish';
  power(): Promise<PowerState>;
  order(order: PowerOrder): Promise<void>;
  boot(): Promise<BootOnce>;
  bootOnce(target: BootTarget, how: { readonly uefi: boolean }): Promise<void>;
  /** Lights the machine's lamp for so many seconds; 0 ends it. */
  identify(seconds: number): Promise<void>;
  /** Reads what it says of the machine: much of it costs many requests. */
  show(view: BmcViewName): Promise<BmcShown>;
  /**
   * Opens the machine's serial console. By IPMI a BMC gives it to one session at a time: `busy`
   * where another one has it, which `take` ends.
   */
  console(how: ConsoleUse): Promise<BmcConsole>;
  /** Makes an account that may do all, or gives the one of that name this password. */
  setAccount(login: { readonly user: string; readonly password: string }): Promise<void>;
  /** The certificate of its web server. Absent where the protocol has none. */
  readonly certificates?: BmcCertificates;
  /** Switches an account off. One that does not exist is off. */
  switchOff(user: string): Promise<void>;
  /** Ends the session at the BMC, which has few. Never rejects. */
  close(): Promise<void>;
}

export interface BmcCertificates {
  /** Makes a new key, and asks for a certificate of it (PKCS#10 in PEM). */
  request(): Promise<string>;
  /** Gives it a certificate in PEM for the key that it made last. It shows that soon, or later. */
  replace(pem: string): Promise<void>;
}

export interface ConsoleUse {
  /** What the machine printed. */
  readonly printed: (octets: Buffer) => void;
  /** The BMC ended it, or does not answer any more. */
  readonly ended: () => void;
  /** Whether it is taken from a session that has it. */
  readonly take?: boolean;
}

export interface BmcConsole {
  /** Types into it. Returns false where so much waits already that nothing of it is sent. */
  type(octets: Buffer): boolean;
  /** Gives it back. Never rejects. */
  close(): Promise<void>;
}

/** Why a BMC did not do what was asked. */
export const BMC_FAULTS = [
  'unreachable',
  'password',
  'sessions-exhausted',
  'pin-changed',
  'busy',
  'refused',
  'not-understood',
] as const;
export type BmcFaultCode = (typeof BMC_FAULTS)[number];

/** How long a BMC may take for a view; others wait for it meanwhile. */
const SHOW_MS = 60_000;

/** `ask`, until a BMC has taken too long for all of it. `now` is monotonic, in ms. */
export function inTime<A, T>(ask: (of: A) => Promise<T>, now: () => number): (of: A) => Promise<T> {
  const ends = now() + SHOW_MS;
  return async (of) => {
    if (now() > ends) throw new BmcFault('unreachable', 'it takes too long for its records');
    return ask(of);
  };
}

export class BmcFault extends Error {
  readonly code: BmcFaultCode;

  constructor(code: BmcFaultCode, message: string) {
    super(message);
    this.code = code;
  }
}
