/**
 * The types of fields of the components' configurations, also inside of mappings and lists. A
 * component that reads a field of another type, or one that it does not know, ends as it starts.
 */
import { didYouMean } from '../../base/suggest.ts';
import type { Value } from '../model/resolved-cluster.ts';
import type { Minor } from '../model/versions.ts';
import { goMilliseconds, isGoDuration, isQuantity, isZeroQuantity } from './flag-values.ts';
import { rowsOf } from './tables.ts';

const isMapping = (value: Value): value is { readonly [key: string]: Value } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isList = (value: Value): value is readonly Value[] => Array.isArray(value);
const values = (value: Value): readonly Value[] => (isMapping(value) ? Object.values(value) : []);
const isText = (value: Value): value is string => typeof value === 'string';

const flushTime = (value: Value): number => {
  if (isText(value)) return goMilliseconds(value) ?? -1;
  return Number.isSafeInteger(value) ? Number(value) : -1;
};

/** The types of a configuration's fields. `what` completes the message "expected …". */
const FIELD_TYPES = {
  text: { holds: isText, what: 'a text; quote it' },
  duration: {
    holds: (value) => isText(value) && isGoDuration(value),
    what: 'a duration like "90s" or "1h30m"',
  },
  /** component-base's TimeOrMetaDuration: a number is nanoseconds, and 0 the default. */
  flushTime: {
    holds: (value) => flushTime(value) >= 0,
    what: 'a duration that is not negative, like "5s"',
  },
  truth: { holds: (value) => typeof value === 'boolean', what: 'true or false, unquoted' },
  whole: {
    holds: (value) => Number.isInteger(value) && Math.abs(value as number) < 2 ** 31,
    what: 'a whole number, unquoted, of at most 2147483647',
  },
  long: { holds: Number.isSafeInteger, what: 'a whole number, unquoted' },
  number: { holds: (value) => typeof value === 'number', what: 'a number, unquoted' },
  quantity: {
    holds: (value) => typeof value === 'number' || (isText(value) && isQuantity(value)),
    what: 'a quantity like "512", "64Ki" or "1Gi"',
  },
  texts: { holds: (value) => isList(value) && value.every(isText), what: 'a list of texts' },
  list: { holds: isList, what: 'a list' },
  textMapping: {
    holds: (value) => isMapping(value) && values(value).every(isText),
    what: 'a mapping of names to texts; quote numbers',
  },
  gates: {
    holds: (value) => isMapping(value) && values(value).every((item) => typeof item === 'boolean'),
    what: 'a mapping of feature gates to true or false, unquoted',
  },
  mapping: { holds: isMapping, what: 'a mapping' },
} as const satisfies Readonly<
  Record<string, { readonly holds: (value: Value) => boolean; readonly what: string }>
>;

export type FieldType = keyof typeof FIELD_TYPES;

/** A type, the shape of each item of a list, or the fields of a mapping; `*`: of any name. */
export type Shape = FieldType | readonly [Shape] | { readonly [field: string]: Shape };

export interface ShapeFault {
  /** The path below the configuration, like `logging.vmodule[0].verbosity`. */
  readonly field: string;
  readonly message: string;
}

/**
 * What does not have its shape. Null counts as absent, as the components read it.
 *
 * @param what The configuration, for the message about a field that it does not have.
 */
export function shapeFaults(shape: Shape, value: Value, field: string, what: string): readonly ShapeFault[] {
  if (typeof shape === 'string')
    return FIELD_TYPES[shape].holds(value) ? [] : [{ field, message: `expected ${FIELD_TYPES[shape].what}` }];
  if (isItems(shape)) {
    if (!isList(value)) return [{ field, message: `expected ${FIELD_TYPES.list.what}` }];
    return value.flatMap((item, n) => shapeFaults(shape[0], item, `${field}[${n}]`, what));
  }
  if (!isMapping(value)) return [{ field, message: `expected ${FIELD_TYPES.mapping.what}` }];
  return Object.entries(value).flatMap(([name, inner]) => {
    const at = field === '' ? name : `${field}.${name}`;
    const of = Object.hasOwn(shape, name) ? shape[name] : shape['*'];
    if (of === undefined)
      return [{ field: at, message: `${what} has no ${at}${didYouMean(name, Object.keys(shape))}` }];
    return inner === null ? [] : shapeFaults(of, inner, at, what);
  });
}

const isItems = (shape: Exclude<Shape, FieldType>): shape is readonly [Shape] => Array.isArray(shape);

/** The value at a path like `logging.format`. */
export function fieldAt(config: { readonly [field: string]: Value }, path: string): Value | undefined {
  let here: Value | undefined = config;
  for (const step of path.split('.')) {
    if (here === undefined || !isMapping(here)) return undefined;
    here = here[step];
  }
  return here;
}

type Fields = { [field: string]: FieldType | Fields };

/** The fields of a configuration in a minor version, from the generated table. */
export function fieldsOf(component: 'kubelet' | 'kube-proxy', minor: Minor): Readonly<Record<string, Shape>> {
  const all: Fields = {};
  for (const { name, words, minors } of rowsOf(`field ${component}`))
    if (minors.includes(minor)) put(all, name.split(/\.|(?=\[\])/), words[0] as FieldType);
  return listsIn(all) as Readonly<Record<string, Shape>>;
}

/** Puts a type at a path of which `[]` is the step into the items of a list. */
function put(into: Fields, [step = '', ...rest]: readonly string[], type: FieldType): void {
  const below = rest.length === 0 ? type : (into[step] ?? {});
  into[step] = below;
  if (rest.length > 0) put(below as Fields, rest, type);
}

const listsIn = (shape: FieldType | Fields): Shape => {
  if (typeof shape === 'string') return shape;
  const fields = Object.entries(shape).map(([name, of]): [string, Shape] => [name, listsIn(of)]);
  return fields[0]?.[0] === '[]' ? [fields[0][1]] : Object.fromEntries(fields);
};

/**
 * The fields below `logging` that need a gate, each with the gate. A component that reads a file
 * takes splitStream from its flag, so the field has no effect.
 */
export const LOGGING_GATES: readonly (readonly [
  field: string,
  gate: string,
  isUsed: (value: Value) => boolean,
])[] = [
  ['logging.format', 'LoggingBetaOptions', (value) => value === 'json'],
  ...(['text', 'json'] as const).map(
    (format) =>
      [
        `logging.options.${format}.infoBufferSize`,
        'LoggingAlphaOptions',
        (value: Value) => !isZeroQuantity(String(value)),
      ] as const,
  ),
];
