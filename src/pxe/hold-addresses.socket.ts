/**
 * Has the boot addresses held by `systemd/hold-address.pl` for as long as this host acts: as a
 * child of a server that is root, else by the unit muster-address.socket. The program takes them
 * away when this process ends or falls silent.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import { ADDRESS_SOCKET, projectRoot } from '../base/paths.ts';
import { type BootAddress, bootAddressText } from './boot-addresses.ts';

/** How often the program is told to go on. */
const EVERY = millis(1_000);
/** The longest time for which it is told so; less when this host acts for less. */
const AT_MOST_MS = 30_000;
/** A start waits so long for the addresses, and goes on without them. */
const SETTLED = millis(4_000);
/** How long the end waits until they are taken away. */
const AWAY = millis(1_000);
/** For so long other hardware counts as using an address after it was last heard. */
const HEARD = millis(60_000);

/** Boot addresses while this host acts. */
export interface HeldAddresses {
  /** Resolves when all are on their interfaces or have failed; after four seconds in any case. */
  readonly settled: Promise<void>;
  /** What is wrong with them now. */
  faults(): readonly string[];
  /** Takes them away. */
  close(): Promise<void>;
}

export interface HoldAddressesOptions {
  readonly addresses: readonly BootAddress[];
  /** Milliseconds for which this host acts for certain. */
  readonly actingMs: () => number;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  readonly log: Log;
}

/** Where the program listens, and what it says. */
interface Program {
  readonly to: Writable;
  readonly from: Readable;
  onEnd(ended: (why: string) => void): void;
}

interface Standing {
  state: 'asked' | 'held' | 'failed';
  why?: string;
  /** The hardware that uses the address as well, and when it was heard. */
  other?: { readonly mac: string; readonly at: Millis };
}

/** Begins to hold the addresses; each that a fault keeps from its interface is tried again. */
export function holdAddresses(options: HoldAddressesOptions): HeldAddresses {
  return options.addresses.length === 0
    ? { settled: Promise.resolve(), faults: () => [], close: async () => {} }
    : new Holding(options);
}

class Holding implements HeldAddresses {
  readonly settled: Promise<void>;
  readonly #options: HoldAddressesOptions;
  readonly #standings: ReadonlyMap<string, Standing>;
  #settle = (): void => {};
  #program: Program | undefined;
  #cancel = (): void => {};
  #closed = false;
  #gone = (): void => {};
  /** Why there is no program. */
  #without: string | undefined;

  constructor(options: HoldAddressesOptions) {
    this.#options = options;
    this.#standings = new Map(options.addresses.map((one) => [keyOf(one), { state: 'asked' }]));
    this.settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
    options.clock.after(SETTLED, this.#settle);
    this.#goOn();
  }

  /** Tells the program to hold the addresses on, and starts it when there is none. */
  #goOn(): void {
    this.#program ??= this.#start();
    const left = Math.min(this.#options.actingMs(), AT_MOST_MS);
    if (left > 0) this.#program.to.write(`hold ${Math.floor(uptimeMs() + left)}\n`);
    this.#cancel = this.#options.clock.after(EVERY, () => this.#goOn());
  }

  #start(): Program {
    const { addresses, log } = this.#options;
    const program = process.geteuid?.() === 0 ? childOf(addresses) : connection();
    program.to.on('error', () => {});
    createInterface({ input: program.from }).on('line', (line) => this.#told(line));
    program.onEnd((why) => {
      this.#program = undefined;
      for (const standing of this.#standings.values()) standing.state = 'asked';
      if (!this.#closed && why !== this.#without)
        log.error({ cause: why }, 'nothing holds the boot addresses');
      this.#without = why;
      this.#gone();
    });
    return program;
  }

  #told(line: string): void {
    const [word, name, address, ...rest] = line.split(' ');
    const standing = this.#standings.get(`${name}=${address}`);
    if (standing === undefined) return;
    const { log, clock } = this.#options;
    const why = rest.join(' ');
    switch (word) {
      case 'held':
        log.info({ via: name, address }, 'this host has the boot address');
        Object.assign(standing, { state: 'held', why: undefined });
        break;
      case 'lost':
        standing.state = 'asked';
        break;
      case 'failed':
        log.error({ via: name, address, cause: why }, 'cannot take the boot address');
        Object.assign(standing, { state: 'failed', why });
        break;
      case 'other':
        log.warn({ via: name, address, mac: why }, 'other hardware uses the boot address');
        standing.other = { mac: why, at: clock.monotonic() };
        break;
    }
    if ([...this.#standings.values()].every(({ state }) => state !== 'asked')) this.#settle();
  }

  faults(): readonly string[] {
    const now = this.#options.clock.monotonic();
    return this.#options.addresses.flatMap((one) => {
      const { state, why, other } = this.#standings.get(keyOf(one))!;
      const text = bootAddressText(one);
      if (state === 'failed') return [`${text}: ${why}`];
      if (state === 'asked')
        return [`${text} is not on its interface: ${this.#without ?? 'it is asked for'}`];
      if (other !== undefined && now - other.at < HEARD)
        return [`${text}: hardware ${other.mac} uses it as well; find it, and take the address away there`];
      return [];
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    const program = this.#program;
    if (program === undefined) return;
    await new Promise<void>((resolve) => {
      this.#gone = resolve;
      this.#options.clock.after(AWAY, resolve);
      program.to.end();
    });
  }
}

const keyOf = ({ interface: name, address }: BootAddress): string => `${name}=${formatIpv4(address)}`;

/** Milliseconds since the kernel started, as the program reads them. */
const uptimeMs = (): number => Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000;

/** Why the program ended, when nothing else says so. */
const SILENT = 'the program that holds it ended; see the log of muster and of muster-address@.service';

function childOf(addresses: readonly BootAddress[]): Program {
  const script = join(projectRoot(), 'systemd/hold-address.pl');
  const child = spawn('perl', [script, ...addresses.map(bootAddressText)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return {
    to: child.stdin,
    from: child.stdout,
    onEnd(ended) {
      child.once('error', ({ message }) => ended(message));
      child.once('close', () => ended(SILENT));
    },
  };
}

function connection(): Program {
  const socket = createConnection(ADDRESS_SOCKET);
  let why = SILENT;
  socket.once('error', ({ message }) => {
    why = `${message}; it takes the unit muster-address.socket, or a server that is root`;
  });
  return { to: socket, from: socket, onEnd: (ended) => void socket.once('close', () => ended(why)) };
}
