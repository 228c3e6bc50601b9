/** How far a change is, for operators: its steps, what is waited for, and the evidence. Pure. */
import type { AnyKind } from './kind.ts';
import type { ChangeRecord, Evidence } from './record.ts';

export interface StepProgress {
  readonly name: string;
  readonly sentence: string;
  readonly state: 'done' | 'now' | 'next' | 'rolled-back';
  readonly since?: number;
  readonly until?: number;
  /** How many machines have shown the evidence. */
  readonly machines?: number;
  readonly text?: string;
  readonly noReturn: boolean;
}

export interface ChangeProgress {
  readonly cluster: string;
  readonly id: string;
  readonly kind: string;
  readonly by: string;
  readonly at: number;
  readonly order: unknown;
  readonly back: boolean;
  readonly steps: readonly StepProgress[];
  readonly step: string;
  readonly paused?: { readonly at: number; readonly by: string };
  readonly holding?: {
    readonly at: number;
    readonly code: string;
    readonly text: string;
    readonly remedy: string;
  };
  /** Machine → what it is waited for; `` is the cluster as a whole. */
  readonly waiting: Readonly<Record<string, string>>;
  /** Machine → what it has shown in this step. */
  readonly evidence: Readonly<Record<string, Evidence>>;
  readonly without: readonly string[];
  /** Why it cannot be rolled back; absent when it can. */
  readonly notBack?: string;
  /** What a roll-back would do: the sentences of its steps; empty when it cannot be rolled back. */
  readonly wayBack: readonly string[];
  readonly ended?: { readonly at: number; readonly as: 'done' | 'rolled-back' };
}

/** How far a change is. */
export function progressOf(
  record: ChangeRecord,
  kind: AnyKind,
  waiting: Readonly<Record<string, string>>,
): ChangeProgress {
  const { cluster, id, by, at, order, route, step, paused, holding, evidence, without, ended } = record;
  const past = record.past.map((one): StepProgress => {
    const outline = kind.steps({ ...record, route: one.route }).find(({ name }) => name === one.step);
    return {
      name: one.step,
      sentence: outline?.sentence ?? '',
      state: route === 'back' && one.route === 'forward' ? 'rolled-back' : 'done',
      since: one.since,
      until: one.until,
      machines: one.machines,
      ...(one.text === undefined ? {} : { text: one.text }),
      noReturn: outline?.noReturn ?? false,
    };
  });
  const steps = kind.steps(record);
  const from = ended ? steps.length : steps.findIndex(({ name }) => name === step);
  const coming = steps.slice(from).map(
    ({ name, sentence, noReturn }, n): StepProgress => ({
      name,
      sentence,
      state: n === 0 ? 'now' : 'next',
      ...(n === 0 && { since: record.since, machines: Object.keys(evidence).length }),
      noReturn,
    }),
  );
  const notBack = kind.whyNotBack(record);
  return {
    cluster,
    id,
    kind: record.kind,
    by,
    at,
    order,
    back: route === 'back',
    steps: [...past, ...coming],
    step,
    waiting: ended || paused ? {} : waiting,
    evidence,
    without,
    ...(paused && { paused }),
    ...(holding && { holding }),
    ...(notBack !== undefined && { notBack }),
    wayBack: notBack === undefined ? kind.steps({ ...record, route: 'back' }).map((one) => one.sentence) : [],
    ...(ended && { ended }),
  };
}
