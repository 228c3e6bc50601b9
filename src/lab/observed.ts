/**
 * What a run has seen of its machines: events, what the systems on them said, disks. Values and
 * pure questions to them.
 */
import type { MusterEvent } from '../events/event.ts';
import type { LabMachine } from './scenario.ts';
import type { EventMatch } from './steps.ts';

/**
 * What the system on a machine says of itself: the full system by src/lab/facts.ts, the probe by
 * images/probe/init.sh.
 */
export interface Facts {
  readonly hostname?: string;
  /** By MAC: IPv4 addresses with prefix length. */
  readonly addresses?: Readonly<Record<string, readonly string[]>>;
  readonly files?: Readonly<Record<string, FileFact>>;
  readonly users?: Readonly<Record<string, UserFact>>;
  readonly units?: Readonly<Record<string, string>>;
  readonly commandLine: string;
  /** Seconds since 1970 when it said so. */
  readonly clock: number;
  readonly dhcpServer?: string;
  readonly documents?: Readonly<Record<string, { readonly sha256: string; readonly text: string }>>;
  readonly failure?: string;
}

export type FileFact =
  | { readonly absent: true }
  | {
      readonly absent: false;
      readonly mode: string;
      readonly owner: string;
      readonly group: string;
      readonly content: string;
    };

export interface UserFact {
  readonly uid: number;
  readonly shell: string;
  readonly home: string;
  readonly groups: readonly string[];
  readonly sshKeys: readonly string[];
  readonly sudo: boolean;
}

export interface DiskFact {
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
  /** Its latest words, and the host's clock (ms) when they came. */
  facts?: { readonly value: Facts; readonly hostAt: number };
  disks: DiskFact[];
  /** The whole console. */
  console: string;
  /** As `muster get leases` shows it at the end. */
  lease?: string;
}

/** The names under which events may speak of a machine. */
export function subjectsOf(machine: LabMachine): ReadonlySet<string> {
  const names = new Set([machine.name]);
  for (const { mac } of machine.nics) {
    names.add(mac);
    names.add(`m-${mac.replaceAll(':', '')}`);
  }
  return names;
}

export function matches(event: MusterEvent, wanted: EventMatch): boolean {
  return (
    event.kind === wanted.kind &&
    (wanted.reason === undefined || event.reason?.code === wanted.reason) &&
    Object.entries(wanted.fields ?? {}).every(([key, value]) => event.fields?.[key] === value)
  );
}

/** The phase that the events moved the machine to; undefined before the first. */
export function phaseOf(observed: Pick<MachineObserved, 'events'>): string | undefined {
  const moves = observed.events.filter((event) => event.kind === 'machine.phase' && event.fields?.to);
  const last = moves.at(-1);
  if (last) return String(last.fields?.to);
  return observed.events.some((event) => event.kind === 'machine.discovered') ? 'discovered' : undefined;
}

/** Why its last boot script holds it; undefined when it does not. */
export function heldFor(observed: Pick<MachineObserved, 'events'>): string | undefined {
  const last = observed.events
    .filter((event) => event.kind === 'machine.held' || event.kind === 'boot.script')
    .at(-1);
  if (last?.kind === 'machine.held') return last.reason?.code;
  return last?.fields?.decision === 'hold' ? last.reason?.code : undefined;
}

/**
 * What became of it, in a word or two: `ready`, `held (unknown_machine)`, `failed`, or as far as it
 * came.
 */
export function outcomeOf(observed: MachineObserved): string {
  const phase = phaseOf(observed);
  if (phase === 'ready' || phase === 'failed') return phase;
  const held = heldFor(observed);
  return held ? `held (${held})` : (phase ?? observed.steps.at(-1)?.step ?? 'off');
}

/** First occurrences that tell a boot's story, from the events that are told anyway. */
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
