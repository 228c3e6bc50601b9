/** The timeline of a boot with its diagnosis, and the machine's console. */
import { z } from 'zod';
import { type Contracts, count, time, word } from './contract.ts';

const boot = z.strictObject({
  id: z.string(),
  from: z.enum(['network', 'own-disk']),
  at: time,
  until: time,
  outcome: z.enum(['ready', 'failed', 'held', 'left', 'discovery', 'underway']),
});
const stage = z.enum(['firmware', 'loader', 'kernel', 'discovery', 'system', 'agent', 'cluster']);

export const verdict = z
  .strictObject({
    code: z.string(),
    title: z.string(),
    certainty: z.enum(['certain', 'likely']),
    evidence: z.array(z.strictObject({ sequence: z.int(), at: time, text: z.string() })),
    remedy: z.string(),
    page: z.string(),
  })
  .meta({ id: 'Verdict', description: 'What is wrong with a boot.' });

const entry = z.strictObject({
  sequence: z.int(),
  at: time,
  kind: z.string(),
  stage,
  sinceStart: z.number().meta({ description: 'Milliseconds since the boot began.' }),
  gap: z.number().meta({ description: 'Milliseconds in which nothing was heard before.' }),
  waitedFor: z.string().optional(),
  duration: z.number().optional().meta({ description: 'Milliseconds that a transfer took.' }),
  bytesPerSecond: z.number().optional(),
  text: z.string(),
  code: z.string().optional(),
  claim: z.literal(true).optional().meta({ description: 'The machine said so; nobody else saw it.' }),
  fields: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
});

export const TIMELINE = {
  'GET /v1/machines/:name/timeline': {
    access: 'view',
    summary: 'Shows what happened in a boot of a machine, with durations, what was waited for, and verdicts.',
    query: z.strictObject({ boot: word('An id; 0 the last one, -1 the one before.') }),
    answer: z
      .strictObject({
        kind: z.literal('Timeline'),
        machine: z.string(),
        boots: z.array(boot),
        boot: boot.optional(),
        stages: z.array(
          z.strictObject({ stage, text: z.string(), from: time, to: time, silent: z.number() }),
        ),
        entries: z.array(entry),
        verdicts: z.array(verdict),
      })
      .meta({ id: 'Timeline' }),
  },
  'GET /v1/machines/:name/console': {
    access: 'view',
    summary: 'Shows what a machine printed in a boot: its kernel and system. It is the machine’s claim.',
    query: z.strictObject({
      boot: word('The id of a boot of the kernel; 0 the last one, -1 the one before.'),
      after: count('Only lines after the one with this number.', Number.MAX_SAFE_INTEGER),
    }),
    answer: z
      .strictObject({
        kind: z.literal('Console'),
        machine: z.string(),
        claim: z.literal(true).meta({ description: 'The machine said so; nobody else saw it.' }),
        boots: z.array(z.strictObject({ id: z.string(), at: time })),
        boot: z.string().optional(),
        lines: z
          .array(z.strictObject({ number: z.int(), text: z.string() }))
          .meta({ description: 'Numbers are missing where lines were removed.' }),
      })
      .meta({ id: 'Console' }),
  },
} as const satisfies Contracts;
