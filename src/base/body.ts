/** Fields that bodies of several orders have, as schemas. Pure. */
import { z } from 'zod';

/** A list of names in a body. */
export const names = (about: string) =>
  z
    .array(z.string().min(1))
    .refine((all) => new Set(all).size === all.length, 'names one twice')
    .default([])
    .meta({ description: about });
/** A switch in a body. */
export const truth = (about: string) => z.boolean().default(false).meta({ description: about });
