/** Boots of machines, and what is wrong with them. */
import { z } from 'zod';
import { time } from './contract.ts';

export const boot = z.strictObject({
  id: z.string(),
  from: z.enum(['network', 'own-disk']),
  at: time,
  until: time,
  outcome: z.enum(['ready', 'failed', 'held', 'left', 'discovery', 'underway']),
});
export const stage = z.enum(['firmware', 'loader', 'kernel', 'discovery', 'system', 'agent', 'cluster']);

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
