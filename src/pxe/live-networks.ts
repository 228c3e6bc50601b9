/** Keeps the served networks current: documents change, and interfaces get and lose addresses. */
import type { Clock } from '../base/clock.ts';
import { millis } from '../base/duration.ts';
import type { Fault } from '../base/errors.ts';
import type { Ipv4 } from '../base/ipv4.ts';
import type { Log } from '../base/log.ts';
import type { Catalog } from '../resources/catalog.ts';
import type { ServedNetwork } from './network.ts';
import { type HostAddress, joinNetworks } from './networks.ts';

export interface LiveNetworks {
  /** The networks that are served now; the same array until something changes. */
  served(): readonly ServedNetwork[];
  /** Networks that cannot be served as their documents say. */
  faults(): readonly Fault[];
  /** Reads the interfaces now. */
  refresh(): void;
}

/** How often interfaces are read, because Node has no event for their changes. */
const READ_EVERY = millis(5_000);

/**
 * Follows documents and interfaces until `signal` aborts. Logs each fault once. `interfaces`: the
 * interfaces that Muster listens on.
 */
export function followNetworks(options: {
  readonly catalog: Catalog;
  readonly addresses: () => readonly HostAddress[];
  readonly interfaces: readonly string[];
  /** The boot addresses, which networks are served by. */
  readonly preferred?: readonly Ipv4[];
  /**
   * The kernel's present index of an interface. Sockets are bound to the index, not to the name.
   */
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

  // The indexes when the sockets were opened.
  const indexes = new Map(options.interfaces.map((name) => [name, options.indexOf(name)]));
  /** Interfaces that were deleted and created again. Their sockets never receive anything. */
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
      ...(options.preferred && { preferred: options.preferred }),
      httpPort: options.httpPort,
    });
    // Compared as text, so that the array is replaced only when its content changes: callers
    // compare the array's identity.
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
    cancel = clock.after(READ_EVERY, look);
  };
  look();
  const stop = (): void => {
    unsubscribe();
    cancel();
  };
  signal.addEventListener('abort', stop, { once: true });
  return { served: () => networks, faults: () => faults, refresh };
}
