/** What a change would do: its steps, which machines restart what, and how long it takes. Pure. */
import { duration, type Millis } from '../../base/duration.ts';
import type { Fault } from '../../base/errors.ts';
import { roundsOf } from './groups.ts';
import type { ChangedMachine, StepOutline } from './kind.ts';
import { isFor } from './step.ts';

export interface StepPreview {
  readonly name: string;
  readonly sentence: string;
  /** Program → the machines on which it restarts, in the order of their turns. */
  readonly restarts: Readonly<Record<string, readonly string[]>>;
  readonly minutes: number;
  /** The change cannot be rolled back from this step on. */
  readonly noReturn: boolean;
}

/** What a change would do, and what prevents it. */
export interface ChangePreview extends StepsPreview {
  readonly kind: string;
  readonly faults: readonly Fault[];
  /** Machine or cluster → what the change is about. */
  readonly about: Readonly<Record<string, string>>;
  /** For what it would have to wait now, as a sentence. */
  readonly waits?: string;
  /** The hooks that it would ask. */
  readonly hooks: readonly string[];
}

interface StepsPreview {
  readonly steps: readonly StepPreview[];
  /** Expected, without the waits for operators and for tokens that have to end. */
  readonly minutes: number;
  /** Machine → how many programs restart on it in all. */
  readonly restarts: Readonly<Record<string, number>>;
}

/** Programs that restart on one machine after the other. */
const IN_TURN: readonly string[] = ['etcd', 'kube-apiserver'];
/** Every step waits at least for one poll of every machine. */
const ONE_POLL = duration('10s');

export function previewOf(
  steps: readonly StepOutline[],
  machines: readonly ChangedMachine[],
  without: readonly string[],
): StepsPreview {
  const shown = steps.map((step) => stepPreview(step, machines, without));
  const restarts: Record<string, number> = {};
  for (const names of shown.flatMap((step) => Object.values(step.restarts)))
    for (const name of names) restarts[name] = (restarts[name] ?? 0) + 1;
  return { steps: shown, restarts, minutes: rounded(shown.reduce((sum, { minutes }) => sum + minutes, 0)) };
}

const rounded = (minutes: number): number => Math.round(minutes * 10) / 10;

function stepPreview(
  { name, sentence, scope, takes, restarts, noReturn }: StepOutline,
  machines: readonly ChangedMachine[],
  without: readonly string[],
): StepPreview {
  const found: Record<string, string[]> = {};
  for (const machine of machines) {
    if (without.includes(machine.name) || !isFor(scope, machine)) continue;
    for (const program of restarts(machine.roles)) {
      found[program] ??= [];
      found[program].push(machine.name);
    }
  }
  const inTurn =
    scope.on === 'machines' && scope.atOnce !== 'all'
      ? roundsOf([...new Set(Object.values(found).flat())], scope.atOnce, scope.groups)
      : Math.max(0, ...IN_TURN.map((program) => found[program]?.length ?? 0));
  const asked = scope.on === 'machines' ? ONE_POLL : 0;
  const total = (takes.total ?? 0) + asked + inTurn * (takes.eachTurn ?? (0 as Millis));
  return { name, sentence, restarts: found, minutes: rounded(total / 60_000), noReturn };
}
