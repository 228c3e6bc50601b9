/**
 * A simulated BMC, apart from its protocol: accounts, power, the next boot, lamp, sensors, log. It
 * drives whatever is a {@link Driven}: a QEMU of the rack, or a value in a test.
 */
import type { BootOnce, BootTarget, PowerOrder } from '../../bmc/bmc.ts';
import { type FaultRule, Faults, type Traits } from './faults.ts';

/** The machine behind a BMC. */
export interface Driven {
  readonly on: boolean;
  /** Switches it on; `boot` is what its firmware tries first, `none` as it is set. */
  start(boot: BootTarget, how: { readonly hang: boolean }): Promise<void>;
  cut(): Promise<void>;
  /** Asks the system to end. */
  shutDown(): Promise<void>;
  /** Calls `listener` with what its serial port says from now on; returns how to end that. */
  listen(listener: (octets: Buffer) => void): () => void;
  type(octets: Buffer): void;
}

/** What a BMC says that it is. */
export interface Identity {
  readonly uuid: string;
  readonly manufacturer: string;
  readonly product: string;
  readonly serial: string;
  readonly macs: readonly string[];
}

export interface Account {
  name: string;
  password: string;
  enabled: boolean;
  /** As IPMI counts them: 4 is an administrator. */
  privilege: number;
}

export interface ControllerOptions {
  readonly user: string;
  readonly password: string;
  readonly identity: Identity;
  readonly traits: Traits;
  readonly faults: readonly FaultRule[];
  /** Ms since the epoch. */
  readonly now: () => number;
}

interface LogEntry {
  readonly at: number;
  readonly text: string;
}

const NO_BOOT: BootOnce = { target: 'none', uefi: true, persistent: false };
/** The first slot of accounts is not used, as of most BMCs. */
const SLOTS = 10;
const MAX_LOG = 200;

export class Controller {
  readonly identity: Identity;
  readonly traits: Traits;
  readonly faults: Faults;
  readonly accounts: Account[];
  readonly log: LogEntry[] = [];
  /** What was ordered, for tests. */
  readonly orders: PowerOrder[] = [];
  /** The target of each start, for tests. */
  readonly starts: BootTarget[] = [];
  readonly now: () => number;
  boot: BootOnce = NO_BOOT;
  /** Counts changes of the boot setting. */
  version = 1;
  readonly #driven: Driven;
  readonly #refused = new Map<string, { count: number; until: number }>();
  #litUntil = 0;
  /** The power of a machine that never starts. */
  #pretendsOn = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(driven: Driven, { user, password, identity, traits, faults, now }: ControllerOptions) {
    this.#driven = driven;
    this.identity = identity;
    this.traits = traits;
    this.faults = new Faults(faults);
    this.now = now;
    const empty = (): Account => ({ name: '', password: '', enabled: false, privilege: 0 });
    this.accounts = Array.from({ length: SLOTS }, empty);
    this.accounts[1] = { name: user, password, enabled: true, privilege: 4 };
  }

  get on(): boolean {
    return this.#pretendsOn || this.#driven.on;
  }

  get lit(): boolean {
    return this.now() < this.#litUntil;
  }

  identify(seconds: number): void {
    this.#litUntil = this.now() + seconds * 1000;
  }

  /** The account of that name, unless it is switched off. */
  accountNamed(name: string): Account | undefined {
    return this.accounts.find((one) => one.enabled && one.name === name && name !== '');
  }

  /** The account of that name, unless it is switched off or locked out. */
  account(name: string): Account | undefined {
    const found = this.accountNamed(name);
    return found && this.now() >= (this.#refused.get(name)?.until ?? 0) ? found : undefined;
  }

  /** Notes whether a log-in had the right password; too many wrong ones lock the account. */
  noteLogin(name: string, right: boolean): void {
    const { lockOut } = this.traits;
    if (right) this.#refused.delete(name);
    if (right || !lockOut) return;
    const count = (this.#refused.get(name)?.count ?? 0) + 1;
    const isLocked = count >= lockOut.after;
    this.#refused.set(name, {
      count: isLocked ? 0 : count,
      until: isLocked ? this.now() + lockOut.forMs : 0,
    });
    if (isLocked) this.note(`account ${name} is locked`);
  }

  /** Whether the password is right, which is noted. */
  logsIn(name: string, password: string): Account | undefined {
    const account = this.account(name);
    const right = account?.password === password;
    this.noteLogin(name, right);
    return right ? account : undefined;
  }

  setBoot(boot: BootOnce): void {
    this.boot = boot;
    this.version++;
  }

  note(text: string): void {
    this.log.push({ at: this.now(), text });
    if (this.log.length > MAX_LOG) this.log.shift();
  }

  /** Takes an order; it is carried out after those before it, as BMCs do. */
  order(order: PowerOrder): void {
    this.orders.push(order);
    this.note(`power: ${order}`);
    this.#last = this.#last
      .then(() => this.#carryOut(order))
      .catch((error: unknown) => this.note(`failed: ${String(error)}`));
  }

  /** Resolves when all orders were carried out. */
  async settled(): Promise<void> {
    await this.#last;
  }

  async #carryOut(order: PowerOrder): Promise<void> {
    if (order === 'shut-down') {
      if (this.#driven.on) await this.#driven.shutDown();
      return;
    }
    if (order === 'on' ? this.on : !this.on) return;
    if (order !== 'on') await this.#cut();
    if (order === 'off') return;
    await this.#start();
  }

  async #cut(): Promise<void> {
    this.#pretendsOn = false;
    if (this.#driven.on) await this.#driven.cut();
  }

  async #start(): Promise<void> {
    const { target, persistent } = this.boot;
    const wanted = target === 'other' ? 'none' : target;
    if (!persistent && target !== 'none') this.setBoot(NO_BOOT);
    const boot = this.traits.bootOnce === 'ignored' ? 'none' : wanted;
    this.starts.push(boot);
    if (this.traits.starts === 'never') this.#pretendsOn = true;
    else await this.#driven.start(boot, { hang: this.traits.post === 'hangs' });
  }
}

/** Sensors: name, unit and value, the same of all. */
export const SENSORS = [
  { name: 'Inlet Temp', kind: 'temperature', value: 24, upper: 42 },
  { name: 'CPU Temp', kind: 'temperature', value: 47, upper: 95 },
  { name: 'Fan 1', kind: 'fan', value: 40, upper: 0 },
  { name: 'Power', kind: 'power', value: 180, upper: 0 },
] as const;
