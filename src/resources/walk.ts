/**
 * Walks a schema by field path, for "did you mean", `muster explain KIND.field` and the reference
 * pages.
 */
import type { z } from 'zod';

/**
 * The parts of a zod schema definition that this file reads. zod publishes them for tools
 * (`_zod.def`).
 */
interface Definition {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly element?: z.ZodType;
  readonly valueType?: z.ZodType;
  readonly innerType?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly entries?: Readonly<Record<string, string>>;
  readonly values?: readonly unknown[];
}

const definition = (schema: z.ZodType): Definition => schema._zod.def as unknown as Definition;

/** The schema without `.optional()`. */
export function bare(schema: z.ZodType): z.ZodType {
  const { innerType } = definition(schema);
  return innerType === undefined ? schema : bare(innerType);
}

export const isOptional = (schema: z.ZodType): boolean => definition(schema).type === 'optional';

/** Fields of an object schema by name; undefined for anything else. */
export function fieldsOf(schema: z.ZodType): Readonly<Record<string, z.ZodType>> | undefined {
  return definition(bare(schema)).shape;
}

/** Schema of the items of an array, or of the values of a mapping with free keys. */
export function itemOf(schema: z.ZodType): z.ZodType | undefined {
  const inner = definition(bare(schema));
  return inner.element ?? inner.valueType;
}

/**
 * The schema at `path`; undefined when there is no such field. Numbers and free keys step into
 * items.
 */
export function schemaAt(schema: z.ZodType, path: readonly (string | number)[]): z.ZodType | undefined {
  let here: z.ZodType | undefined = schema;
  for (const step of path) {
    const fields: Readonly<Record<string, z.ZodType>> | undefined = fieldsOf(here);
    here = fields ? (Object.hasOwn(fields, step) ? fields[step] : undefined) : itemOf(here);
    if (here === undefined) return undefined;
  }
  return here;
}

/** Whether a field takes text beside other types. */
export const takesText = (schema: z.ZodType): boolean =>
  definition(bare(schema)).options?.some((one) => definition(bare(one)).type === 'string') === true;

/** Names the type of a schema for people: `text`, `number`, `list of text`, `one of: a, b`. */
export function typeText(schema: z.ZodType): string {
  const inner = bare(schema);
  const def = definition(inner);
  switch (def.type) {
    case 'string':
      return 'text';
    case 'number':
      return 'number';
    case 'boolean':
      return 'true or false';
    case 'object':
      return 'mapping';
    case 'record':
      return `mapping of ${typeText(itemOf(inner)!)}`;
    case 'array':
      return `list of ${typeText(itemOf(inner)!)}`;
    case 'enum':
      return `one of: ${Object.values(def.entries ?? {}).join(', ')}`;
    case 'literal':
      return `always ${String(def.values?.[0])}`;
    case 'union':
      return (def.options ?? []).map(typeText).join(' or ');
    default:
      return def.type;
  }
}

/** The description of a field, from its place of use or from its type. */
export function describe(schema: z.ZodType): string | undefined {
  return schema.description ?? bare(schema).description;
}
