/** The server itself, as operators see it: version, readiness, and what a reload reads again. */
import type { Daemon } from '../api/daemon.ts';
import { checkHosts } from '../api/hosts.ts';
import { readinessOf } from '../api/readiness.ts';
import { pause } from '../base/clock.ts';
import { counted } from '../base/counted.ts';
import { duration } from '../base/duration.ts';
import { VERSION } from '../base/version.ts';
import { firmwareServed } from '../pxe/firmware/loaders.ts';
import { type Kind, PLURAL } from '../resources/kinds.ts';
import type { Boot } from './boot.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

export interface RunningDaemon extends Daemon {
  /** The numbers of served networks and machines, in one line: `1 network, 12 machines`. */
  summary(): string;
  /** Whether there is no document of any kind, so that no machine gets anything. */
  isEmpty(): boolean;
}

/**
 * Interval at which freed memory goes back to the kernel. Without it, what a flood of packets left
 * in pieces between other memory stays, and the process grows for an hour.
 */
const RETURN_EVERY = duration('1m');

/** Gives freed memory back to the kernel once a minute, until the server stops. */
export async function keepMemorySmall({ clock, signal, systemCalls }: Common): Promise<void> {
  if (systemCalls === undefined) return;
  for (;;) {
    await pause(clock, RETURN_EVERY, signal);
    if (signal.aborted) return;
    systemCalls.returnMemory();
  }
}

/** Composes the daemon from the state and the boot service. */
export function daemonOf(
  { clock, outside }: Common,
  { catalog, disk, held, journal, security, agents, assets, life, leases }: State,
  { networks }: Boot,
): RunningDaemon {
  return {
    version: VERSION,
    startedAt: clock.now(),
    readiness: () =>
      readinessOf({
        served: networks.served().map(({ name }) => name),
        networks: catalog.list('Network').length,
        storeFailure: disk.failure,
        unrecorded: leases.unrecorded,
        journalFailing: journal.failing,
        securityLogFailing: security.status().failing,
        firmware: firmwareServed((name) => assets.loader(name) !== undefined),
        agentsFault: agents.fault(),
        lifeFault: life.detail,
        hosts: checkHosts(outside.hosts),
        addressFaults: held.faults(),
        releaseFault: outside.releaseFault,
        clockDoubt: clock.doubt()?.text,
        faults: [...networks.faults(), ...catalog.faults()],
      }),
    reread() {
      networks.refresh();
      assets.rescanLoaders();
    },
    summary() {
      const served = counted(networks.served().length, 'network');
      return `${served}, ${counted(catalog.list('Machine').length, 'machine')}`;
    },
    isEmpty: () => (Object.keys(PLURAL) as Kind[]).every((kind) => catalog.list(kind).length === 0),
  };
}
