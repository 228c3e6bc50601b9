/** How far a change is, for operators: its steps, what is waited for, and the evidence. Pure. */
import { z } from 'zod';
import { type Parsed, texts, time } from '../../base/body.ts';
import type { AnyKind } from './kind.ts';
import { kindName } from './preview.ts';
import type { ChangeRecord } from './record.ts';

const step = z.strictObject({
  name: z.string(),
  sentence: z.string(),
  state: z.enum(['done', 'now', 'next', 'rolled-back']),
  since: time.optional(),
  until: time.optional(),
  machines: z.int().optional().meta({ description: 'How many machines have shown the evidence.' }),
  text: z.string().optional(),
  noReturn: z.boolean().meta({ description: 'The change cannot be rolled back from this step on.' }),
});
type StepProgress = Parsed<z.output<typeof step>>;

/** How far a change is, as the API shows it. */
export const changeProgress = z
  .strictObject({
    cluster: z.string(),
    id: z.string(),
    kind: kindName,
    by: z.string(),
    at: time,
    order: z.unknown().meta({ description: 'What was ordered; its form depends on the kind.' }),
    back: z.boolean().meta({ description: 'It is being rolled back.' }),
    steps: z.array(step),
    step: z.string(),
    paused: z.strictObject({ at: time, by: z.string() }).optional(),
    holding: z.strictObject({ at: time, code: z.string(), text: z.string(), remedy: z.string() }).optional(),
    waiting: texts.meta({ description: 'Machine → what it is waited for; `` is the whole cluster.' }),
    evidence: z
      .record(z.string(), z.strictObject({ at: time, text: z.string() }))
      .meta({ description: 'Machine → what it has shown in this step.' }),
    without: z.array(z.string()),
    notBack: z.string().optional().meta({ description: 'Why it cannot be rolled back.' }),
    wayBack: z.array(z.string()).meta({ description: 'What a roll-back would do.' }),
    ended: z.strictObject({ at: time, as: z.enum(['done', 'rolled-back']) }).optional(),
  })
  .meta({ id: 'Change' });
export type ChangeProgress = Parsed<z.output<typeof changeProgress>>;

const iso = (at: number): string => new Date(at).toISOString();
/** What happened at a time of the record, with the time as the API shows it. */
const timed = <T extends { readonly at: number }>(one: T) => ({ ...one, at: iso(one.at) });

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
      since: iso(one.since),
      until: iso(one.until),
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
      ...(n === 0 && { since: iso(record.since), machines: Object.keys(evidence).length }),
      noReturn,
    }),
  );
  const notBack = kind.whyNotBack(record);
  return {
    cluster,
    id,
    kind: record.kind,
    by,
    at: iso(at),
    order,
    back: route === 'back',
    steps: [...past, ...coming],
    step,
    waiting: ended || paused ? {} : waiting,
    evidence: Object.fromEntries(Object.entries(evidence).map(([machine, one]) => [machine, timed(one)])),
    without,
    ...(paused && { paused: timed(paused) }),
    ...(holding && { holding: timed(holding) }),
    ...(notBack !== undefined && { notBack }),
    wayBack: notBack === undefined ? kind.steps({ ...record, route: 'back' }).map((one) => one.sentence) : [],
    ...(ended && { ended: timed(ended) }),
  };
}
