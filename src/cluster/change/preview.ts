/** What a change would do: its steps, which machines restart what, and how long it takes. Pure. */
import { z } from 'zod';
import { fault, type Parsed, texts } from '../../base/body.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { roundsOf } from './groups.ts';
import type { ChangedMachine, StepOutline } from './kind.ts';
import { isFor } from './step.ts';

export const kindName = z.string().meta({ description: 'For example `rotation`, `upgrade` or `roll`.' });

const step = z.strictObject({
  name: z.string(),
  sentence: z.string(),
  restarts: z
    .record(z.string(), z.array(z.string()))
    .meta({ description: 'Program → the machines on which it restarts, in the order of their turns.' }),
  minutes: z.number(),
  noReturn: z.boolean().meta({ description: 'The change cannot be rolled back from this step on.' }),
});
type StepPreview = Parsed<z.output<typeof step>>;

/** What a change would do, and what prevents it, as the API shows it. */
export const changePreview = z
  .strictObject({
    kind: kindName,
    steps: z.array(step),
    minutes: z.number().meta({
      description: 'Expected, without the waits for operators and for tokens that have to end.',
    }),
    restarts: z.record(z.string(), z.int()).meta({
      description: 'Machine → how many programs restart on it in all.',
    }),
    faults: z.array(fault).meta({ description: 'What prevents it.' }),
    about: texts.meta({ description: 'Machine or cluster → what the change is about.' }),
    waits: z.string().optional().meta({ description: 'For what it would have to wait now.' }),
    hooks: z.array(z.string()).meta({ description: 'The hooks of the Cluster that it would ask.' }),
  })
  .meta({ id: 'ChangePreview' });
export type ChangePreview = Parsed<z.output<typeof changePreview>>;

/** Programs that restart on one machine after the other. */
const IN_TURN: readonly string[] = ['etcd', 'kube-apiserver'];
/** Every step waits at least for one poll of every machine. */
const ONE_POLL = duration('10s');

export function previewOf(
  steps: readonly StepOutline[],
  machines: readonly ChangedMachine[],
  without: readonly string[],
): Pick<ChangePreview, 'steps' | 'minutes' | 'restarts'> {
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
