/** Decides whether the server is ready, and lists what else is wrong. Pure. */
import type { Fault } from '../base/errors.ts';
import type { Readiness } from './daemon.ts';

/** The facts that readiness depends on. */
export interface ReadinessFacts {
  /** Names of the networks that are served. */
  readonly served: readonly string[];
  /** Number of Network documents. */
  readonly networks: number;
  /** Why the store refused the last commit; undefined while it accepts commits. */
  readonly storeFailure: string | undefined;
  /** How many addresses were acknowledged without a record. */
  readonly unrecorded: number;
  /** Whether events fail to reach the journal. */
  readonly journalFailing: boolean;
  /** Whether entries fail to reach the security log. */
  readonly securityLogFailing: boolean;
  /** Kinds of firmware for which a loader is installed. */
  readonly firmware: readonly string[];
  /** Why the agents' listener does not work; undefined while it does. */
  readonly agentsFault: string | undefined;
  /** Why the store does not serve; undefined while it does. */
  readonly lifeFault?: string | undefined;
  /** The hosts that share the store; undefined when it is not shared. */
  readonly hosts?: Readiness['checks'][number] | undefined;
  /** Why the release of this server counts as not signed. */
  readonly releaseFault?: string | undefined;
  /** What is wrong with the boot addresses. */
  readonly addressFaults?: readonly string[];
  /** Why the host's clock is in doubt; undefined while it is proved. */
  readonly clockDoubt?: string | undefined;
  /** Faults of networks and documents. */
  readonly faults: readonly Pick<Fault, 'code' | 'message'>[];
}

const NO_LOADER =
  'none of the usual ones is installed: a machine without iPXE in its ROM gets one only if a document names it; install the package ipxe, then run systemctl reload muster';

const unrecordedText = (count: number): string =>
  count === 0 ? '' : `; ${count} addresses were confirmed without a record, and are recorded later`;

/**
 * The server is ready when it can store leases and boot sessions and serves a network, if there is
 * a Network document. All other checks are shown and do not delay readiness.
 */
export function readinessOf(facts: ReadinessFacts): Readiness {
  const { served, storeFailure, firmware, agentsFault } = facts;
  const required = [
    {
      name: 'networks',
      ok: served.length > 0 || facts.networks === 0,
      detail: served.join(', ') || 'none is served',
    },
    ...(facts.lifeFault === undefined ? [] : [{ name: 'store life', ok: false, detail: facts.lifeFault }]),
    {
      name: 'store',
      ok: storeFailure === undefined,
      ...(storeFailure ? { detail: storeFailure + unrecordedText(facts.unrecorded) } : {}),
    },
  ];
  return {
    ready: required.every(({ ok }) => ok),
    checks: [
      ...required,
      { name: 'loaders', ok: firmware.length > 0, detail: firmware.join(', ') || NO_LOADER },
      { name: 'event journal', ok: !facts.journalFailing },
      { name: 'security log', ok: !facts.securityLogFailing },
      ...(agentsFault === undefined ? [] : [{ name: "agents' listener", ok: false, detail: agentsFault }]),
      ...(facts.hosts === undefined ? [] : [facts.hosts]),
      ...(facts.addressFaults ?? []).map((detail) => ({ name: 'boot address', ok: false, detail })),
      ...(facts.releaseFault === undefined
        ? []
        : [{ name: 'release', ok: false, detail: facts.releaseFault }]),
      ...(facts.clockDoubt === undefined ? [] : [{ name: 'clock', ok: false, detail: facts.clockDoubt }]),
      ...facts.faults.map(({ code, message }) => ({ name: code, ok: false, detail: message })),
    ],
  };
}
