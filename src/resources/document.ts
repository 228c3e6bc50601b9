/**
 * Reads documents from text: parses YAML, then validates against the schema of the kind. Pure.
 * `check.ts` checks documents against each other.
 */
import type { z } from 'zod';
import type { Fault, SourceSpot } from '../base/errors.ts';
import { didYouMean } from '../base/suggest.ts';
import { withoutSecrets } from '../base/without-secrets.ts';
import { API_VERSION, type Document, KINDS, type Kind } from './kinds.ts';
import { salvage } from './salvage.ts';
import { meansSecret, NO_SECRET_HERE, secretReference } from './secret-spec.ts';
import { foreignDocument, leftIn, MERGE_KEY, oddIn, slipOf } from './slips.ts';
import { fieldsOf, schemaAt, takesText, typeText } from './walk.ts';
import { type Path, readYaml, type YamlDocument } from './yaml.ts';
import type { Written } from './yaml-written.ts';

/** A valid document, and the positions of its fields. */
export interface Located {
  readonly document: Document;
  readonly at: SourceSpot;
  /** Position of the field at `path` (from the root of the document). */
  spot(path: Path, what?: 'value' | 'key'): SourceSpot;
}

/**
 * What is left of a document whose other fields have faults. It is only there for checks of other
 * documents and fields, never in force.
 */
export interface Left extends Pick<Located, 'document'> {
  /** The paths that were left out. */
  readonly removed: readonly Path[];
  /** The path in the text of a path in `document`. */
  written(path: Path): Path;
}

/** What is left of a document of a text. */
export type Remnant = Left & Located;

export interface ParsedDocuments {
  /** The valid documents, in the order of the text. */
  readonly documents: readonly Located[];
  /** What is left of the documents with faults, as far as that is a document. */
  readonly remnants: readonly Remnant[];
  readonly faults: readonly Fault[];
  /**
   * The invalid documents of which no remnant is left, as `Profile/worker`; as `Profile/` where the
   * name cannot be read.
   */
  readonly faulty: readonly string[];
}

/**
 * Reads every document of a YAML text. `file` is the file name in faults. Never throws. A document
 * with a fault is left out and hides none of the others.
 *
 * @example
 * const { documents, faults } = parseDocuments(text, 'machines.yaml'); if (faults.length > 0) throw
 * new MusterError(faults[0].code, faults[0].message, { faults }); for (const { document, at } of
 * documents) console.log(document.kind, at.line);
 */
export function parseDocuments(text: string, file: string): ParsedDocuments {
  const yaml = readYaml(text, file);
  const documents: Located[] = [];
  const remnants: Remnant[] = [];
  const faults: Fault[] = yaml.ok ? [] : [...yaml.faults];
  const faulty: string[] = yaml.ok ? [] : yaml.broken.flatMap(idInText);
  for (const found of yaml.documents.flatMap(unfolded)) {
    const result = validate(found.value, found);
    if (result.ok)
      documents.push({
        document: result.document,
        get at() {
          return found.at;
        },
        spot: found.spot,
      });
    else {
      faults.push(...result.faults);
      const left = leftOf(found.value, result.paths);
      if (left)
        remnants.push({
          ...left,
          get at() {
            return found.at;
          },
          spot: (path, what) => found.spot(left.written(path), what),
        });
      else faulty.push(...idIn(found.value));
    }
  }
  return { documents, remnants, faults: faults.sort(byPlace), faulty };
}

/** Reads a value that has no text, as {@link parseDocuments} reads each document of one. */
export function readValue(value: unknown):
  | { readonly ok: true; readonly document: Document }
  | {
      readonly ok: false;
      readonly faults: readonly Fault[];
      readonly left?: Left | undefined;
      readonly faulty: readonly string[];
    } {
  const result = validate(value);
  if (result.ok) return result;
  const left = leftOf(value, result.paths);
  return { ok: false, faults: result.faults, left, faulty: left ? [] : idIn(value) };
}

/** What is left of a document without the fields at `paths`. */
function leftOf(value: unknown, paths: readonly Path[]): Left | undefined {
  const left = salvage(value, paths, (one) => {
    const again = validate(one);
    return again.ok ? [] : again.paths;
  });
  const result = left && validate(left.value);
  return result?.ok
    ? { document: result.document, removed: left!.removed, written: left!.written }
    : undefined;
}

/** Kind and name of a document that is not YAML, as far as its lines show them. */
function idInText(text: string): readonly string[] {
  const kind = /^["']?kind["']?:[ \t]*["']?([A-Za-z]+)/m.exec(text)?.[1];
  const metadata = /^["']?metadata["']?:([\s\S]*?)(?=^[^\s#]|$(?![\s\S]))/m.exec(text)?.[1] ?? '';
  const name = /(?:^|[\s{,])["']?name["']?:[ \t]*["']?([^\s"',}]+)/.exec(metadata)?.[1] ?? '';
  return kind === undefined ? [] : [`${kind}/${name}`];
}

function idIn(value: unknown): readonly string[] {
  const { kind, metadata } = (value ?? {}) as { kind?: unknown; metadata?: { name?: unknown } | null };
  return typeof kind === 'string' && typeof metadata?.name === 'string' ? [`${kind}/${metadata.name}`] : [];
}

/**
 * Expands a `List`, the form in which `muster get -o yaml` and kubectl print several documents,
 * into its items.
 */
function unfolded(found: YamlDocument): readonly YamlDocument[] {
  const { apiVersion, kind, items } = (found.value ?? {}) as Readonly<Record<string, unknown>>;
  if (kind !== 'List' || (apiVersion !== API_VERSION && apiVersion !== 'v1') || !Array.isArray(items))
    return [found];
  return items.map((value: unknown, n) => ({
    value,
    written: found.written.flatMap(({ path: [items, item, ...path], text }) =>
      items === 'items' && item === n ? [{ path, text }] : [],
    ),
    get at() {
      return found.spot(['items', n]);
    },
    spot: (path, what) => found.spot(['items', n, ...path], what),
  }));
}

/** Orders faults of one file by their place. */
export const byPlace = (a: Fault, b: Fault): number =>
  (a.at?.line ?? 0) - (b.at?.line ?? 0) || (a.at?.column ?? 0) - (b.at?.column ?? 0);

type Validated =
  | { readonly ok: true; readonly document: Document }
  | {
      readonly ok: false;
      readonly faults: readonly Fault[];
      /** The path of each fault. */
      readonly paths: readonly Path[];
    };

/**
 * Checks one value against the schema of its kind. With `source`, faults have positions in the
 * text.
 */
export function validate(value: unknown, source?: Pick<YamlDocument, 'spot' | 'written'>): Validated {
  const fault = (message: string, path: Path, what?: 'value' | 'key'): Fault => ({
    code: 'E_SCHEMA',
    message: withoutSecrets(message),
    ...(path.length > 0 && { path: pathText(path) }),
    ...(source && { at: source.spot(path, what) }),
  });
  const head = headFault(value);
  if (head) return { ok: false, faults: [fault(head.message, head.path)], paths: [[]] };
  const schema = KINDS[(value as { kind: Kind }).kind];
  const result = schema.safeParse(withoutShownStatus(value));
  const issues = result.success
    ? []
    : result.error.issues.flatMap((issue) => issueFaults(issue, schema, value));
  const told = new Set(issues.map(({ path }) => pathText(path)));
  const read = result.success ? result.data : withoutShownStatus(value);
  const found: readonly Finding[] = [
    ...issues,
    ...[...asWritten(read, schema, source?.written ?? []), ...leftIn(read)]
      .filter(({ path }) => told.size === 0 || !told.has(pathText(path)))
      .map((one) =>
        mayHoldSecret(one.path, undefined)
          ? { ...one, message: 'is a placeholder or an unquoted number, which is no value here' }
          : one,
      ),
  ];
  if (result.success && found.length === 0) return { ok: true, document: result.data as Document };
  return {
    ok: false,
    faults: found.map((f) => fault(f.message, f.path, f.what)),
    paths: found.map((f) => f.path),
  };
}

/**
 * A number or boolean where text is taken as well becomes text on the machine, so that it must not
 * lose its form. Variables get the written text; anywhere else it is a fault.
 */
function asWritten(document: unknown, schema: z.ZodType, written: readonly Written[]): readonly Finding[] {
  return written.flatMap(({ path, text }) => {
    const field = schemaAt(schema, path);
    if (field === undefined || !takesText(field)) return [];
    const value = valueAt(document, path);
    if (isConfig(path) && path[2] === 'variables' && value !== undefined) {
      Object.assign(valueAt(document, path.slice(0, -1)) as object, { [path.at(-1)!]: text });
      return [];
    }
    return [
      {
        message: `YAML reads ${short(text)} as ${short(value)}; put it in quotes, or write ${short(value)}`,
        path,
      },
    ];
  });
}

/**
 * Removes the `status` that the API adds to a document, recognised by its `origin`, so that the
 * output of `muster get` can be applied again. Any other `status` is refused as an unknown key,
 * because only the server sets it.
 */
function withoutShownStatus(value: unknown): unknown {
  const { status, ...written } = value as { readonly status?: { readonly origin?: unknown } | null };
  return typeof status === 'object' && status?.origin !== undefined ? written : value;
}

interface Finding {
  readonly message: string;
  readonly path: Path;
  readonly what?: 'key';
}

/** Faults that prevent the choice of a schema: not a mapping, another version, an unknown kind. */
function headFault(value: unknown): Finding | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { message: 'a document is a mapping with apiVersion, kind, metadata and spec', path: [] };
  const { apiVersion, kind } = value as { apiVersion?: unknown; kind?: unknown };
  if (kind === 'List' && (apiVersion === API_VERSION || apiVersion === 'v1'))
    return { message: 'must be a list of documents', path: ['items'] };
  if (apiVersion !== API_VERSION)
    return apiVersion === undefined
      ? {
          message: foreignDocument(value) ?? `apiVersion is missing; write "apiVersion: ${API_VERSION}"`,
          path: [],
        }
      : {
          message: `apiVersion is "${short(apiVersion)}"; ${otherVersion(String(apiVersion), value)}`,
          path: ['apiVersion'],
        };
  if (kind === undefined)
    return { message: `kind is missing; one of ${Object.keys(KINDS).join(', ')}`, path: [] };
  if (kind === 'Secret')
    return {
      message:
        'a Secret is no document, so that its values are in no file; write each with `muster secret put NAME KEY`',
      path: ['kind'],
    };
  if (typeof kind !== 'string' || !Object.hasOwn(KINDS, kind))
    return {
      message: `there is no kind "${short(kind)}"${didYouMean(String(kind), Object.keys(KINDS)) || `; one of ${Object.keys(KINDS).join(', ')}`}`,
      path: ['kind'],
    };
  return undefined;
}

/** What to do about a document with another apiVersion than ours. */
const otherVersion = (apiVersion: string, document: { readonly kind?: unknown }): string =>
  slipOf(apiVersion) ??
  (Object.hasOwn(KINDS, String(document.kind)) ? undefined : foreignDocument(document)) ??
  `this version reads "${API_VERSION}"`;

/** What people look for in `config`, and where it is. */
const ARRAYS =
  'write arrays as storage.raid of extra.ignition, and what is on /dev/md/NAME as filesystems; cloud-init makes none, so use an image with Ignition, or a controller that makes them';
const VOLUMES =
  'encrypt the data of a cluster by `encrypt` of its dataDisk or etcdDisk; other volumes are storage.luks of extra.ignition, with filesystems for what is on /dev/mapper/NAME';
const ELSEWHERE: Readonly<Record<string, string>> = {
  raid: ARRAYS,
  raids: ARRAYS,
  mdadm: ARRAYS,
  luks: VOLUMES,
  encrypt: VOLUMES,
  encryption: VOLUMES,
  lvm: 'Muster makes no logical volumes; make them in the image, and mount them by filesystems',
};

/** Whether a path is in `spec.config`. */
const isConfig = ([spec, config]: Path): boolean => spec === 'spec' && config === 'config';

/** Turns one issue of the schema into sentences that say what to write instead. */
function issueFaults(issue: z.core.$ZodIssue, schema: z.ZodType, value: unknown): Finding[] {
  // The limit of the field itself reports the same.
  if (issue.code === 'too_big' && issue.maximum === Number.MAX_SAFE_INTEGER) return [];
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)));
  if (issue.code === 'unrecognized_keys') {
    const owner = fieldAt(schema, path);
    const known = Object.keys((owner && fieldsOf(owner)) ?? {});
    return issue.keys.map((key) => ({
      message:
        key === '<<'
          ? MERGE_KEY
          : key === 'valueFrom'
            ? `valueFrom stands in the place of a value; ${SECRET_EXAMPLE}`
            : isConfig(path) && Object.hasOwn(ELSEWHERE, key)
              ? `unknown key "${key}": ${ELSEWHERE[key]}`
              : `unknown key "${short(key)}"${oddIn(key) ?? (didYouMean(key, known) || `; known here: ${known.join(', ')}`)}`,
      path: [...path, key],
      what: 'key',
    }));
  }
  const given = valueAt(value, path);
  if (meansSecret(given)) {
    // A field that takes a Secret is a union with its form; the faults of that form say more.
    const inner = issue.code === 'invalid_union' ? issue.errors.find(isOfReference) : undefined;
    if (inner === undefined) return [{ message: NO_SECRET_HERE, path }];
    return inner.flatMap((one) => issueFaults({ ...one, path: [...issue.path, ...one.path] }, schema, value));
  }
  if (path.at(-1) === '<<') return [{ message: MERGE_KEY, path, what: 'key' }];
  const field = fieldAt(schema, path);
  if (!mayHoldSecret(path, field))
    return [{ message: slipOf(given) ?? issueText(issue, field, given), path }];
  const takesReference = field !== undefined && fieldsOf(field)?.valueFrom !== undefined;
  if (takesReference && given !== undefined) return [{ message: WRITE_REFERENCE, path }];
  return [{ message: issueText(issue, field, given === undefined ? undefined : new Hidden(given)), path }];
}

/** The schema at a path, also inside a reference to a Secret, which is one form of several. */
function fieldAt(schema: z.ZodType, path: Path): z.ZodType | undefined {
  const n = path.indexOf('valueFrom');
  return schemaAt(schema, path) ?? (n < 0 ? undefined : schemaAt(secretReference, path.slice(n)));
}

const SECRET_WORDS = /passw|passphrase|secret|token|credential|login|private_?key|api_?key|psk/i;

/** Whether somebody may have written a secret at a path, so that no message shows the value. */
const mayHoldSecret = (path: Path, field: z.ZodType | undefined): boolean =>
  path.some((step) => typeof step === 'string' && SECRET_WORDS.test(step)) &&
  !(field !== undefined && typeText(field) === 'true or false');

const WRITE_REFERENCE =
  'a secret is not written into a document: give it to Muster with `muster secret put NAME KEY`, and write {valueFrom: {secret: NAME, key: KEY}} here';

/** A value of which messages show only the type. */
class Hidden {
  readonly value: unknown;
  constructor(value: unknown) {
    this.value = value;
  }
}

/** Whether these are the faults of a mapping, not that there is one. */
const isOfReference = (issues: readonly z.core.$ZodIssue[]): boolean =>
  issues.every((one) => one.path.length > 0 || one.code === 'unrecognized_keys');

const SECRET_EXAMPLE = 'write "content: {valueFrom: {secret: NAME, key: KEY}}"';

function issueText(issue: z.core.$ZodIssue, schema: z.ZodType | undefined, value: unknown): string {
  const wanted = schema ? typeText(schema) : 'another type';
  switch (issue.code) {
    case 'invalid_type':
      if (!issue.message.startsWith('Invalid input')) return issue.message;
      if (value === undefined) return `is missing: ${wanted}`;
      if (issue.expected === 'string' && (typeof value !== 'object' || typeOf(value) === 'number'))
        return `must be text, found ${nameOf(value)}; put it in quotes`;
      return `must be ${wanted.replace(/^(?=list|mapping|number)/, 'a ')}, found ${nameOf(value)}${nearMiss(issue.expected, value)}`;
    case 'invalid_value': {
      const values = issue.values.map(String);
      if (!issue.message.startsWith('Invalid ')) return issue.message;
      if (value === undefined) return `is missing: ${wanted}`;
      if (value instanceof Hidden) return `is none of ${values.join(', ')}`;
      return `"${short(value)}" is none of ${values.join(', ')}${didYouMean(String(value), values)}`;
    }
    case 'too_small':
      if (issue.origin === 'array') return `needs at least ${issue.minimum}`;
      if (issue.origin === 'string') return `must have at least ${issue.minimum} characters`;
      return `${short(value)} is too small; at least ${issue.minimum}`;
    case 'too_big':
      if (issue.origin === 'array') return `has too many; at most ${issue.maximum}`;
      if (issue.origin === 'string') return `is too long; at most ${issue.maximum} characters`;
      return `${short(value)} is too large; at most ${issue.maximum}`;
    case 'invalid_union': {
      const [own] = issue.errors.flatMap(([first]) =>
        first && first.code !== 'invalid_type' ? [first.message] : [],
      );
      if (own !== undefined) return own;
      if (value === undefined) return `is missing: ${wanted}`;
      return `must be ${wanted}, found ${nameOf(value)}`;
    }
    case 'invalid_key':
      return `is not a valid name here: ${issue.issues[0]?.message ?? ''}`;
    default:
      return issue.message;
  }
}

/** What is to be written instead of a text that was meant as a value of another type. */
function nearMiss(expected: string, value: unknown): string {
  const text = value instanceof Hidden ? value.value : value;
  if (typeof text !== 'string') return '';
  const unquoted = expected === 'boolean' ? /^(true|false)$/ : /^-?\d+(\.\d+)?$/;
  if (expected === 'boolean' || expected === 'number' || expected === 'int')
    return unquoted.test(text) ? '; write it without quotes' : '';
  return expected === 'object' && /^[A-Za-z][\w.-]*:\S/.test(text) ? '; write a blank after the colon' : '';
}

function valueAt(value: unknown, path: Path): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, unknown>)[step];
  }
  return here;
}

const typeOf = (value: unknown): string => (value instanceof Hidden ? typeof value.value : typeof value);

function nameOf(value: unknown): string {
  if (value instanceof Hidden)
    return typeof value.value === 'object' ? nameOf(value.value) : `a ${typeof value.value}`;
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  return `the ${typeof value} ${short(value)}`;
}

const short = (value: unknown): string => {
  if (value instanceof Hidden) return 'this value';
  const text = typeof value === 'object' ? nameOf(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
};

/**
 * Writes a path as text: `spec.files[0].mode`. Keys with other characters are quoted:
 * `metadata.labels["a/b"]`.
 */
export function pathText(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

/** Parses a path that {@link pathText} wrote. */
export function parsePath(text: string): Path {
  const steps: (string | number)[] = [];
  for (const [, index, key, name] of text.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)) {
    if (index !== undefined) steps.push(Number(index));
    else steps.push(key === undefined ? name! : (JSON.parse(key) as string));
  }
  return steps;
}

/**
 * What is wrong with a value that a schema refused, in sentences that say what to write instead. No
 * value is repeated, because it may be a secret.
 */
export const misfits = (
  error: z.ZodError,
  schema: z.ZodType,
  value: unknown,
): readonly { readonly message: string; readonly path: string }[] =>
  error.issues.flatMap((issue) => {
    const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)));
    if (issue.code === 'unrecognized_keys')
      return issueFaults(issue, schema, value).map((one) => ({
        message: one.message,
        path: pathText(one.path),
      }));
    const given = valueAt(value, path);
    const message = issueText(issue, fieldAt(schema, path), given === undefined ? given : new Hidden(given));
    return [{ message, path: pathText(path) }];
  });
