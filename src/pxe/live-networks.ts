/**
 * The networks that are served, kept current: documents change, and interfaces get their addresses
 * late or lose them.
 */
import type { Clock } from '../base/clock.ts';
import { millis } from '../base/duration.ts';
import type { Fault } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Catalog } from '../resources/catalog.ts';
import type { ServedNetwork } from './network.ts';
import { type HostAddress, joinNetworks } from './networks.ts';

export interface LiveNetworks {
  /** The same array until something changes. */
  served(): readonly ServedNetwork[];
  /** Networks that cannot be served as their documents say. */
  faults(): readonly Fault[];
  /** Looks at the interfaces now. */
  refresh(): void;
}

/** Interfaces are looked at this often: Node is told of no change. */
const LOOK_EVERY = millis(5_000);

/**
 * Follows documents and interfaces until `signal` aborts. A fault is logged once, when it appears.
 * `interfaces`: those that Muster listens on.
 */
export function followNetworks(options: {
  readonly catalog: Catalog;
  readonly addresses: () => readonly HostAddress[];
  readonly interfaces: readonly string[];
  /** The kernel's number of an interface now; sockets are bound to that, not to the name. */
  readonly indexOf: (name: string) => number | undefined;
  readonly httpPort: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}): LiveNetworks {
  const { catalog, clock, log, signal } = options;
  let networks: readonly ServedNetwork[] = [];
  let faults: readonly Fault[] = [];
  let seen = '';

  // As they are when the sockets have just been opened.
  const indexes = new Map(options.interfaces.map((name) => [name, options.indexOf(name)]));
  /**
   * Deleted and made again under the same name: nothing arrives on the sockets of the former one,
   * ever.
   */
  const remade = (): readonly string[] =>
    options.interfaces.filter((name) => {
      const now = options.indexOf(name);
      return now !== undefined && now !== indexes.get(name);
    });

  const refresh = (): void => {
    const joined = joinNetworks({
      remade: remade(),
      documents: catalog.list('Network'),
      addresses: options.addresses(),
      interfaces: options.interfaces,
      httpPort: options.httpPort,
    });
    // Compared as text: documents are few, and who holds the array may compare by identity.
    const text = JSON.stringify(joined);
    if (text === seen) return;
    seen = text;
    const before = new Set(faults.map(({ message }) => message));
    for (const fault of joined.faults)
      if (!before.has(fault.message)) log.warn({ code: fault.code, at: fault.at }, fault.message);
    ({ networks, faults } = joined);
    for (const { name, interface: via, mode } of networks)
      log.info({ network: name, via, mode }, 'network served');
  };

  const unsubscribe = catalog.subscribe((changes) => {
    if (changes.some(({ kind }) => kind === 'Network')) refresh();
  });
  let cancel: () => void = () => {};
  const look = (): void => {
    refresh();
    cancel = clock.after(LOOK_EVERY, look);
  };
  look();
  const stop = (): void => {
    unsubscribe();
    cancel();
  };
  signal.addEventListener('abort', stop, { once: true });
  return { served: () => networks, faults: () => faults, refresh };
}
