/**
 * Decides a machine's plan from what `collect.ts` gathered, and says what the machine waits for.
 * Pure: the same input gives the same plan. Everything that asks another part of the boot host,
 * makes a key or gives a turn was done before, and gathering ends where the plan would not use
 * more.
 */
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Plan, PlanLine } from '../../agent/wire/plan.ts';
import type { Reason } from '../../events/event.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { DataPart } from './data.ts';
import type { DeparturePlan } from './departure.ts';
import { hold } from './lines.ts';
import { heldLines, type PlanParts, type Programs, planLines, systemPart } from './machine-plan.ts';
import type { RestartDecision } from './restarts.ts';

/** What was gathered for one poll, named by what the machine lacks. */
export type PlanInput =
  /** No operator has accepted the machine: there is no document for it. */
  | { readonly lacks: 'document'; readonly machine: string }
  /** No Cluster names it. */
  | { readonly lacks: 'cluster' }
  /** Its Cluster has faults, or cannot be had in the versions that are allowed now. */
  | { readonly lacks: 'sound cluster'; readonly why: string }
  /** It was ordered out of its cluster, or the cluster was reset. */
  | { readonly lacks: 'membership'; readonly plan: DeparturePlan }
  | (OfCluster &
      (
        | { readonly lacks: 'disk'; readonly data: DataPart }
        /** The founding stops it: its etcd may not start, and nothing else is done. */
        | {
            readonly lacks: 'etcd';
            readonly parts: Pick<PlanParts, 'resolved' | 'data' | 'etcd' | 'binaries' | 'logins'>;
          }
        | { readonly lacks: 'keys'; readonly data: readonly PlanLine[]; readonly clockDoubt?: string }
        | { readonly lacks: 'certificates'; readonly before: readonly PlanLine[]; readonly missing: Missing }
        | Complete
      ));

/** What every plan of a machine with a sound Cluster follows from. */
interface OfCluster {
  readonly facts: Pick<AgentFacts, 'applied' | 'hold'>;
  /** Whether the cluster is being upgraded: then its machines wait for each other. */
  readonly upgrading: boolean;
}

/** Why a machine does not have all of its certificates. */
export type Missing =
  /** Nothing is issued now. */
  | { readonly limited: Reason }
  /** `leaves`: with the pin of the key that each replaces. `refused`: a request was none. */
  | {
      readonly leaves: ReadonlyMap<LeafName, string | undefined>;
      readonly algorithm: ResolvedCluster['keys'];
      readonly refused: boolean;
    };

/** All that a machine needs is there. */
interface Complete {
  readonly lacks: 'nothing';
  readonly parts: PlanParts;
  /** Why nothing may be started on this machine; its system is configured nevertheless. */
  readonly preflight?: Reason | undefined;
  /** Absent while the preflight fails. */
  readonly programs?: Programs | undefined;
  /** Which programs may restart now; absent: nobody was asked. */
  readonly restart?: RestartDecision | undefined;
  /** Why add-ons are missing from the in-cluster objects. */
  readonly addons?: Reason | undefined;
  /** Whether a change of the cluster is under way that waits for no operator. */
  readonly changing: boolean;
}

export interface Planned extends Plan {
  /** What the machine waits for, in sentences; empty: it has all and does all. */
  readonly waits: readonly string[];
}

/** Seconds until the next poll, by what the machine waits for. */
const POLL = {
  /** The machine waits for nothing: the next lines are ready as soon as these are carried out. */
  now: 0,
  /** The machine waits for other machines. */
  soon: 2,
  /** The machine waits for an operator, or for a retry of a failed line. */
  held: 10,
  /** The machine waits for nothing: it has carried out the whole plan. */
  settled: 30,
  /** The machine belongs to no cluster. */
  idle: 60,
} as const;

/** Seconds until the next poll during a change: at most 100 machines poll in a second. */
const changing = ({ machines }: ResolvedCluster): number =>
  Math.min(POLL.settled, Math.max(POLL.soon, Math.ceil(machines.length / 100)));

/** Seconds until the next poll; longer after a failed plan, because a retry would fail again. */
const next = ({ hold: failed }: OfCluster['facts']): number => (failed === undefined ? POLL.now : POLL.held);

/** What a boot host says whose own clock cannot be trusted. */
export const clockText = (doubt: string): string =>
  `The boot host issues nothing while its clock is in doubt: ${doubt}. Set the clock of the boot host.`;

const NO_KEYS =
  'No member of etcd has polled yet; the keys of the cluster are made when the first of them polls.';

/**
 * The plan of a machine, and what it waits for.
 *
 * @example
 * planOf({ lacks: 'document', machine: 'cp1' });
 * // { waits: ['cp1 is not accepted: …'], lines: [{ do: 'hold', … }], pollSeconds: 10 }
 */
export function planOf(input: PlanInput): Planned {
  switch (input.lacks) {
    case 'document':
      return held([], 'not-accepted', `${input.machine} is not accepted: nothing is written to its disks.`);
    case 'cluster':
      return planned([], POLL.idle, 'No Cluster names it.');
    case 'sound cluster':
      return held([], 'cluster-faulty', input.why);
    case 'membership':
      return planned(input.plan.lines, input.plan.pollSeconds);
    default: {
      const step = stepOf(input);
      return input.upgrading ? { ...step, pollSeconds: Math.min(step.pollSeconds, POLL.soon) } : step;
    }
  }
}

/** The plan as far as the machine has come: its disks, etcd, keys, certificates, and then all. */
function stepOf(input: Extract<PlanInput, OfCluster>): Planned {
  switch (input.lacks) {
    case 'disk': {
      const { state, lines } = input.data;
      return state === 'held'
        ? planned(lines, POLL.held)
        : planned(lines, next(input.facts), 'Its filesystems are made and mounted first.');
    }
    case 'etcd':
      return planned(heldLines(input.parts), input.parts.etcd?.pollSeconds ?? POLL.held);
    case 'keys':
      return input.clockDoubt === undefined
        ? held(input.data, 'waiting-for-members', NO_KEYS, POLL.soon)
        : held(input.data, 'clock', clockText(input.clockDoubt));
    case 'certificates':
      return certificatesPlan(input);
    case 'nothing':
      return wholePlan(input);
  }
}

function certificatesPlan({
  before,
  missing,
  facts,
}: Extract<PlanInput, { lacks: 'certificates' }>): Planned {
  if ('limited' in missing) return held(before, missing.limited.code, missing.limited.text);
  const { algorithm, leaves, refused } = missing;
  const requests = [...leaves].map(([leaf, replaces]): PlanLine => {
    return { do: 'request', leaf, algorithm, ...(replaces !== undefined && { replaces }) };
  });
  const why = `It has to request certificates: ${[...leaves.keys()].join(', ')}.`;
  return planned([...before, ...requests], refused ? POLL.held : next(facts), why);
}

/** The plan of a machine that lacks nothing. */
function wholePlan({
  facts,
  parts,
  preflight,
  programs,
  restart,
  addons,
  ...of
}: Complete & OfCluster): Planned {
  const { etcd, resolved, orders = [] } = parts;
  const lines = preflight
    ? [...systemPart(parts), hold(preflight.code, preflight.text)]
    : planLines(parts, programs, restart?.turn);
  const waits = [
    ...(restart?.soon && restart.turn.do === 'go' ? ['Its programs restart.'] : []),
    ...orders.map((order) => `It was ordered to do now: ${order.do}.`),
    ...(facts.applied === undefined ? ['It has carried out no whole plan since it booted.'] : []),
    ...(facts.hold ? [`It did not carry out the last plan: ${facts.hold.text}`] : []),
  ];
  const soon = waits.length > 0 || etcd?.hold !== undefined || restart?.soon === true;
  const often = of.changing ? changing(resolved) : POLL.settled;
  const pollSeconds = etcd?.pollSeconds ?? (soon ? POLL.soon : often);
  // Missing add-ons hold the plan only at its end, and a hold of etcd takes precedence.
  return addons === undefined || etcd?.hold !== undefined
    ? planned(lines, pollSeconds, ...waits)
    : held(lines, addons.code, addons.text, Math.max(pollSeconds, POLL.held), ...waits);
}

/** A plan that waits for what its holds say, and for what is said besides. */
const planned = (
  lines: readonly PlanLine[],
  pollSeconds: number,
  ...besides: readonly string[]
): Planned => ({
  waits: [...lines.flatMap((line) => (line.do === 'hold' ? [line.text] : [])), ...besides],
  lines,
  pollSeconds,
});

/** A plan that ends in a hold. */
const held = (
  before: readonly PlanLine[],
  code: string,
  text: string,
  pollSeconds: number = POLL.held,
  ...besides: readonly string[]
): Planned => planned([...before, hold(code, text)], pollSeconds, ...besides);
