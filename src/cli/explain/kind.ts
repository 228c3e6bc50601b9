/** `muster explain KIND[.field]`: describes a field from the schema that validates it. */
import type { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { didYouMean } from '../../base/suggest.ts';
import { KINDS, type Kind } from '../../resources/kinds.ts';
import { defaultIn, placeOf } from '../../resources/places.ts';
import { describe, fieldsOf, isOptional, itemOf, schemaAt, typeText } from '../../resources/walk.ts';

/** The fields of an object, or of the objects in a list or a mapping. */
function innerFields(schema: z.ZodType): Readonly<Record<string, z.ZodType>> | undefined {
  const own = fieldsOf(schema);
  if (own) return own;
  const item = itemOf(schema);
  return item && innerFields(item);
}

/**
 * Describes the field at `path`: its type, its description and its own fields. In a path like
 * `spec.config.files.mode`, `spec` may be omitted, and lists need no index.
 *
 * @throws {MusterError} E_NOT_FOUND, with the fields that exist.
 */
export function explainKind(kind: Kind, path: readonly string[]): string {
  const steps = path.map((step) => step.replace(/\[[0-9]*\]$/, '')).filter((step) => step !== '');
  const root: z.ZodType = KINDS[kind];
  const top = fieldsOf(root)!;
  const full = steps.length > 0 && !Object.hasOwn(top, steps[0]!) ? ['spec', ...steps] : steps;
  let here = root;
  for (const [n, step] of full.entries()) {
    const fields = innerFields(here);
    const next = fields ? (Object.hasOwn(fields, step) ? fields[step] : undefined) : schemaAt(here, [step]);
    if (!next) {
      const known = Object.keys(fields ?? {});
      const where = [kind, ...full.slice(0, n)].join('.');
      const hint = didYouMean(step, known) || (known.length > 0 ? `; there are ${known.join(', ')}` : '');
      throw new MusterError('E_NOT_FOUND', `${where} has no field "${step}"${hint}`);
    }
    here = next;
  }
  const about = describe(here);
  const lines = [`KIND:    ${kind}`];
  if (full.length > 0)
    lines.push(`FIELD:   ${full.join('.')} <${typeText(here)}>`, ...placeLines(kind, full, here));
  if (about) lines.push('', ...wrapped(about, ''));
  const fields = Object.entries(innerFields(here) ?? {});
  if (fields.length > 0)
    lines.push('', 'FIELDS:', ...fields.flatMap(([name, field]) => fieldLines(name, field)));
  return `${lines.join('\n')}\n`;
}

/** The default of a field, where its value lands, since when, and an example. */
function placeLines(kind: Kind, path: readonly string[], field: z.ZodType): readonly string[] {
  const { lands, since, example } = placeOf(kind, path) ?? {};
  const usual = isOptional(field) ? defaultIn(describe(field)) : 'none; the field is required';
  return [
    ...(usual === undefined ? [] : [`DEFAULT: ${usual}`]),
    ...(lands === undefined ? [] : [`LANDS:   ${lands}`]),
    ...(since === undefined ? [] : [`SINCE:   Kubernetes ${since}`]),
    ...(example === undefined ? [] : [`EXAMPLE: ${path.at(-1)}: ${example}`]),
  ];
}

/** Whether the first step of a path is a field of the kind, with `spec` or without. */
export function isFieldOf(kind: Kind, [first = '']: readonly string[]): boolean {
  const top = fieldsOf(KINDS[kind])!;
  const name = first.replace(/\[[0-9]*\]$/, '');
  return Object.hasOwn(top, name) || Object.hasOwn(fieldsOf(top.spec!) ?? {}, name);
}

function fieldLines(name: string, field: z.ZodType): string[] {
  const about = describe(field);
  return [
    `  ${name} <${typeText(field)}>${isOptional(field) ? '' : ' -required-'}`,
    ...(about ? wrapped(about, '    ') : []),
  ];
}

/** Wraps a text to lines of at most 100 columns. */
function wrapped(text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && indent.length + line.length + 1 + word.length > 100) {
      lines.push(indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return line === '' ? lines : [...lines, indent + line];
}
