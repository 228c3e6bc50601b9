/**
 * Decides which machine of a cluster may take the agent of this version of Muster: one control
 * plane first, the others when it has reported with that agent, and none after a machine did not
 * keep it. Pure; decides from what the machines last reported, and from the cluster's change.
 */
import type { RefusedAgent } from '../../../agent/wire/facts.ts';

/** The bundle of the agent that machines shall run, and the number of the attempt to bring it. */
export interface Wanted {
  readonly digest: string;
  readonly attempt: number;
  /** The machine that takes it before all others; absent: none was chosen yet. */
  readonly first?: string | undefined;
  /** No machine takes it until an operator resumes. */
  readonly paused: boolean;
  /** Why its release counts as not signed; absent: it is, or nobody asks for it. */
  readonly unsigned?: string | undefined;
}

/** What is known of a machine's agent. */
export interface MachineAgent {
  readonly name: string;
  /** It runs etcd or an API server. */
  readonly carries: boolean;
  /** SHA-256 of the bundle that it last reported; absent: it has not reported one. */
  readonly build?: string;
  readonly refused?: Pick<RefusedAgent, 'digest' | 'attempt' | 'text'>;
}

export const AGENT_STATES = {
  current: 'It runs the agent of this version of Muster.',
  'at-boot': 'It has not reported which agent it runs; it gets the new one when it boots.',
  refused: 'It did not keep the new agent and runs the old one.',
  unsigned: 'Its release is not signed with the key of `--release-key`.',
  paused: 'An operator paused the upgrade of agents, or took it back.',
  stopped: 'Another machine did not keep the new agent, so no more machines get it.',
  waits: 'A control plane takes the new agent first, and has not reported with it yet.',
  taking: 'It may take the new agent now.',
} as const;

/** What is due for a machine. `chosen`: it becomes the first, which must be recorded before. */
export type AgentTurn =
  | { readonly state: Exclude<keyof typeof AGENT_STATES, 'taking'>; readonly text: string }
  | { readonly state: 'taking'; readonly text: string; readonly chosen: boolean };

/** The part of the workers, at least two, that stops an upgrade for all. */
const WORKERS_STOP = 0.1;

/** Whether a machine did not keep the bundle in this attempt. */
const hasRefused = ({ refused }: MachineAgent, { digest, attempt }: Wanted): boolean =>
  refused?.digest === digest && refused.attempt === attempt;

/**
 * A machine because of which no more machines get the bundle: a control plane or member of etcd
 * that did not keep it, or the last of too many others. One worker alone cannot keep a fix from
 * all: it may be in the wrong hands.
 */
function stops(agents: readonly MachineAgent[], wanted: Wanted): MachineAgent | undefined {
  const refused = agents.filter((one) => hasRefused(one, wanted));
  const others = agents.filter(({ carries }) => !carries).length;
  const many = Math.max(2, Math.ceil(others * WORKERS_STOP));
  return refused.find(({ carries }) => carries) ?? (refused.length >= many ? refused.at(-1) : undefined);
}

/**
 * @param asking The machine that polls.
 * @param agents The machines of its cluster that are waited for.
 *
 * @example
 * // No machine has the new agent yet, and cp1 polls: it becomes the first.
 * const wanted = { digest: 'b', attempt: 1, paused: false };
 * agentTurn({ name: 'cp1', carries: true, build: 'a' }, [cp1, cp2, w1], wanted);
 * // { state: 'taking', chosen: true, text: 'It may take the new agent now.' }
 */
export function agentTurn(asking: MachineAgent, agents: readonly MachineAgent[], wanted: Wanted): AgentTurn {
  const turn = (state: Exclude<keyof typeof AGENT_STATES, 'taking'>, more = ''): AgentTurn => ({
    state,
    text: `${AGENT_STATES[state]}${more}`,
  });
  const take = (chosen: boolean): AgentTurn => ({ state: 'taking', text: AGENT_STATES.taking, chosen });
  if (asking.build === wanted.digest) return turn('current');
  if (asking.build === undefined) return turn('at-boot');
  if (hasRefused(asking, wanted)) return turn('refused', ` ${asking.refused!.text}`);
  if (wanted.unsigned !== undefined) return turn('unsigned', ` ${wanted.unsigned}`);
  if (wanted.paused) return turn('paused');
  const stopper = stops(agents, wanted);
  if (stopper) return turn('stopped', ` It is ${stopper.name}.`);
  if (agents.some(({ carries, build }) => carries && build === wanted.digest)) return take(false);
  if (wanted.first === asking.name) return take(false);
  const first = agents.find(({ name }) => name === wanted.first);
  if (first) return turn('waits', ` It is ${first.name}.`);
  // A first machine that has left the cluster is replaced by another one.
  return asking.carries ? take(true) : turn('waits');
}
