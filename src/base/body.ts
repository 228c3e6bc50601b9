/** Fields that several bodies and answers of the API have, as schemas. Pure. */
import { z } from 'zod';
import type { ErrorCode } from './errors.ts';

/** A list of names in a body. */
export const names = (about: string) =>
  z
    .array(z.string().min(1))
    .refine((all) => new Set(all).size === all.length, 'names one twice')
    .default([])
    .meta({ description: about });
/** A switch in a body. */
export const truth = (about: string) => z.boolean().default(false).meta({ description: about });

/** RFC 3339 in UTC. */
export const time = z.iso.datetime({ precision: 3 }).meta({ description: 'RFC 3339, in UTC.' });
export const texts = z.record(z.string(), z.string());

export const reason = z
  .strictObject({
    code: z.string().meta({ description: 'A stable word from a table.' }),
    text: z.string().meta({ description: 'A sentence for people.' }),
  })
  .meta({ id: 'Reason', description: 'Why something was decided.' });

export const spot = z.strictObject({ file: z.string(), line: z.int(), column: z.int() });

/** The description is a text, because later versions have other codes. */
const code = z
  .string()
  .meta({ description: 'A code of docs/errors.md.' }) as z.ZodType<string> as z.ZodType<ErrorCode>;

export const fault = z
  .strictObject({
    code,
    message: z.string(),
    path: z.string().optional().meta({ description: 'The field, e.g. `spec.files[0].mode`.' }),
    document: z.string().optional().meta({ description: 'The document that holds the field.' }),
    at: spot.optional(),
  })
  .meta({ id: 'Fault' });

/** A value as it comes out of JSON, which has no undefined. */
export type Parsed<T> = T extends string | number | boolean
  ? T
  : T extends object
    ? { readonly [K in keyof T]: Parsed<Exclude<T[K], undefined>> }
    : T;
