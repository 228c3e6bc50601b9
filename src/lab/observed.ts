/**
 * What a run has observed of its machines: events, the facts that their systems report, disks.
 * Values, and pure functions over them.
 */
import type { MusterEvent } from '../events/event.ts';
import type { LabMachine } from './scenario.ts';
import type { EventMatch } from './steps.ts';

/**
 * What the system on a machine reports about itself. A full system reports by src/lab/facts.ts, the
 * probe by images/probe/init.sh.
 */
export interface Facts {
  readonly hostname?: string;
  /** MAC → IPv4 addresses with prefix length. */
  readonly addresses?: Readonly<Record<string, readonly string[]>>;
  readonly files?: Readonly<Record<string, FileFact>>;
  readonly users?: Readonly<Record<string, UserFact>>;
  readonly units?: Readonly<Record<string, string>>;
  readonly commandLine: string;
  /** The machine's clock when it reported, seconds since 1970. */
  readonly clock: number;
  readonly dhcpServer?: string;
  readonly documents?: Readonly<Record<string, { readonly sha256: string; readonly text: string }>>;
  readonly failure?: string;
}

type FileFact =
  | { readonly absent: true }
  | {
      readonly absent: false;
      readonly mode: string;
      readonly owner: string;
      readonly group: string;
      readonly content: string;
    };

interface UserFact {
  readonly uid: number;
  readonly shell: string;
  readonly home: string;
  readonly groups: readonly string[];
  readonly sshKeys: readonly string[];
  readonly sudo: boolean;
}

/** The SHA-256 of a disk before and after the run. */
interface DiskFact {
  readonly before: string;
  readonly after: string;
}

/** A moment of a machine's boot; `at` in seconds since the scenario started. */
export interface TimedStep {
  readonly step: string;
  readonly at: number;
}

export interface MachineObserved {
  readonly machine: LabMachine;
  readonly steps: TimedStep[];
  readonly events: MusterEvent[];
  /** The latest facts, and the host's clock (ms) when they arrived. */
  facts?: { readonly value: Facts; readonly hostAt: number };
  disks: DiskFact[];
  /** The console's output, filled in at the end of the run. */
  console: string;
  /** Its address in `muster get leases` at the end of the run. */
  lease?: string;
}

/**
 * The subjects of events about a machine: its name, its MAC addresses, and the names under which it
 * was discovered.
 */
export function subjectsOf(machine: LabMachine): ReadonlySet<string> {
  const names = new Set([machine.name]);
  for (const { mac } of machine.nics) {
    names.add(mac);
    names.add(`m-${mac.replaceAll(':', '')}`);
  }
  return names;
}

/** Whether the event has the wanted kind, reason and fields; it may have further fields. */
export function matches(event: MusterEvent, wanted: EventMatch): boolean {
  return (
    event.kind === wanted.kind &&
    (wanted.reason === undefined || event.reason?.code === wanted.reason) &&
    Object.entries(wanted.fields ?? {}).every(([key, value]) => event.fields?.[key] === value)
  );
}

/** The phase that the events moved the machine to; undefined before the first such event. */
export function phaseOf(observed: Pick<MachineObserved, 'events'>): string | undefined {
  const moves = observed.events.filter((event) => event.kind === 'machine.phase' && event.fields?.to);
  const last = moves.at(-1);
  if (last) return String(last.fields?.to);
  return observed.events.some((event) => event.kind === 'machine.discovered') ? 'discovered' : undefined;
}

/** The code of the reason when the machine's last boot script holds it; otherwise undefined. */
export function heldFor(observed: Pick<MachineObserved, 'events'>): string | undefined {
  const last = observed.events
    .filter((event) => event.kind === 'machine.held' || event.kind === 'boot.script')
    .at(-1);
  if (last?.kind === 'machine.held') return last.reason?.code;
  return last?.fields?.decision === 'hold' ? last.reason?.code : undefined;
}

/** `ready`, `failed`, `held (unknown_machine)`, or the last phase or step that it reached. */
export function outcomeOf(observed: MachineObserved): string {
  const phase = phaseOf(observed);
  if (phase === 'ready' || phase === 'failed') return phase;
  const held = heldFor(observed);
  return held ? `held (${held})` : (phase ?? observed.steps.at(-1)?.step ?? 'off');
}

/** The step of a boot that an event means; undefined for an event that is no step of a boot. */
export function stepOf(event: MusterEvent): string | undefined {
  switch (event.kind) {
    case 'dhcp.offer':
      return 'offer';
    case 'dhcp.ack':
      return 'ack';
    case 'tftp.served':
      return 'loader';
    case 'boot.script':
      return event.fields?.decision === 'hold' ? 'hold' : 'script';
    case 'machine.held':
      return 'hold';
    case 'config.served':
      return 'configuration';
    case 'machine.discovered':
      return 'discovered';
    case 'boot.discovery':
      return 'discovery';
    case 'machine.inventory':
      return 'inventory';
    case 'machine.restarts':
      return 'restarts';
    case 'machine.accepted':
      return 'accepted';
    case 'agent.alive':
      return 'agent';
    case 'agent.step':
      return `agent: ${event.fields?.step}`;
    case 'agent.held':
      return `agent: held (${event.reason?.code})`;
    case 'machine.phase': {
      const to = event.fields?.to;
      if (to === 'starting') return 'kernel';
      return to === 'configured' || to === 'ready' || to === 'failed' ? to : undefined;
    }
    default:
      return undefined;
  }
}
