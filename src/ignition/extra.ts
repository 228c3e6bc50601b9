/**
 * The `extra` documents: whole cloud-config or Ignition documents, for what NodeConfig has no field
 * for.
 */
import type { Fault } from '../base/errors.ts';
import { readYaml } from '../resources/yaml.ts';
import { type Mapping, mergeFaults } from './cloudinit.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { validateIgnition } from './ignition-validate.ts';
import type { Merged } from './merge.ts';
import { expand, isTemplate, type TemplateScope } from './template.ts';

export interface Extras {
  readonly cloudInit: readonly Mapping[];
  readonly ignition: readonly object[];
}

const NONE: Extras = { cloudInit: [], ignition: [] };

/**
 * Reads them and expands the templates in their texts (after parsing, so that a value cannot change
 * the structure). What is wrong with one goes to `faults`.
 */
export function extraDocuments(merged: Merged, scope: TemplateScope, faults: Fault[]): Extras {
  if (merged.extras.length === 0) return NONE;
  const cloudInit: Mapping[] = [];
  const ignition: object[] = [];
  for (const { kind, text, source } of merged.extras) {
    const tell = (message: string) =>
      faults.push({
        code: 'E_CONFIG',
        message: `${source.document}: ${message}`,
        path: `spec.config.extra.${kind}`,
        document: source.document,
      });
    const value = parsed(text);
    if (!value.ok) {
      tell(value.message);
      continue;
    }
    const document = expandAll(value.document, scope, tell) as Mapping;
    if (kind === 'cloudInit') {
      for (const message of mergeFaults(document)) tell(message);
      cloudInit.push(document);
    } else {
      const whole = { ignition: { version: IGNITION_VERSIONS[0] }, ...document };
      for (const fault of validateIgnition(whole)) tell(`${fault.path}: ${fault.message}`);
      ignition.push(whole);
    }
  }
  return { cloudInit, ignition };
}

type Parsed =
  | { readonly ok: true; readonly document: object }
  | { readonly ok: false; readonly message: string };

const memory = new Map<string, Parsed>();
const REMEMBERED = 256;

/** Parsing is the slow part and depends on nothing but the text. */
function parsed(text: string): Parsed {
  let result = memory.get(text);
  if (!result) {
    result = parse(text);
    if (memory.size >= REMEMBERED) memory.delete(memory.keys().next().value!);
    memory.set(text, result);
  }
  return result;
}

function parse(text: string): Parsed {
  const yaml = readYaml(text, 'extra');
  if (!yaml.ok) {
    const { line, column } = yaml.fault.at ?? { line: 1, column: 1 };
    return { ok: false, message: `line ${line}, column ${column} of the text: ${yaml.fault.message}` };
  }
  const document = yaml.documents[0]?.value;
  if (
    yaml.documents.length !== 1 ||
    typeof document !== 'object' ||
    document === null ||
    Array.isArray(document)
  )
    return { ok: false, message: 'must be one document, a mapping' };
  return { ok: true, document };
}

function expandAll(value: unknown, scope: TemplateScope, tell: (message: string) => void): unknown {
  if (typeof value === 'string') {
    if (!isTemplate(value)) return value;
    const result = expand(value, scope);
    if (result.ok) return result.text;
    tell(result.message);
    return value;
  }
  if (Array.isArray(value)) return value.map((item) => expandAll(item, scope, tell));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, expandAll(inner, scope, tell)]),
  );
}
