/** The setting `spares` of a Cluster: machines that take the place of lost ones by themselves. */
import { z } from 'zod';
import { duration as span } from '../base/duration.ts';
import { duration } from './fields.ts';

/** A system may be quiet for so long. */
const LEAST = span('1m');

export const sparesSpec = z.strictObject({
  selector: z
    .strictObject({
      labels: z
        .record(z.string(), z.string())
        .refine((labels) => Object.keys(labels).length > 0, 'name at least one label')
        .meta({ description: 'Labels that the Machine document of a spare has.' }),
    })
    .meta({
      description:
        'Which machines are spares: those of the API that have these labels, are in no cluster and were seen.',
    }),
  max: z.int().min(1).max(16).optional().meta({
    description:
      'How many replaced machines may wait for an operator; with so many, no other one is replaced. Default 1.',
  }),
  after: duration
    .refine((text) => span(text) >= LEAST, 'too short: a system may be quiet for 1m')
    .optional()
    .meta({ description: 'How long nothing is heard of a machine before it counts as lost. Default 15m.' }),
});

export type SparesSpec = z.output<typeof sparesSpec>;
