/**
 * The `extra` documents: whole cloud-config or Ignition documents, for settings that NodeConfig has
 * no field for.
 */
import type { Fault } from '../base/errors.ts';
import { NO_SECRET_HERE, secretReference } from '../resources/secret-spec.ts';
import { readYaml } from '../resources/yaml.ts';
import { type Mapping, mergeFaults } from './cloudinit.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { validateIgnition } from './ignition-validate.ts';
import type { Merged } from './merge.ts';
import { expand, isTemplate, type TemplateScope } from './template.ts';

interface Extras {
  readonly cloudInit: readonly Mapping[];
  readonly ignition: readonly object[];
}

const NONE: Extras = { cloudInit: [], ignition: [] };

/**
 * Reads the extra documents and expands the templates in their texts; that happens after parsing,
 * so that a value cannot change the structure. Faults are added to `faults`.
 */
export function extraDocuments(merged: Merged, scope: TemplateScope, faults: Fault[]): Extras {
  if (merged.extras.length === 0) return NONE;
  const cloudInit: Mapping[] = [];
  const ignition: object[] = [];
  for (const { kind, text, source } of merged.extras) {
    const fault = (message: string) =>
      faults.push({
        code: 'E_CONFIG',
        message: `${source.document}: ${message}`,
        path: `spec.config.extra.${kind}`,
        document: source.document,
      });
    const value = parsed(text);
    if (!value.ok) {
      fault(value.message);
      continue;
    }
    if (namesSecret(value.document)) fault(NO_SECRET_HERE);
    const document = expandAll(value.document, scope, fault) as Mapping;
    if (kind === 'cloudInit') {
      for (const message of mergeFaults(document)) fault(message);
      cloudInit.push(document);
    } else {
      const whole = { ignition: { version: IGNITION_VERSIONS[0] }, ...document };
      for (const { path, message } of validateIgnition(whole)) fault(`${path}: ${message}`);
      ignition.push(whole);
    }
  }
  return { cloudInit, ignition };
}

type Parsed =
  | { readonly ok: true; readonly document: object }
  | { readonly ok: false; readonly message: string };

const memoParsed = new Map<string, Parsed>();
const REMEMBERED = 256;

/** Parsing is the slow part and depends on nothing but the text. */
function parsed(text: string): Parsed {
  let result = memoParsed.get(text);
  if (!result) {
    result = parse(text);
    if (memoParsed.size >= REMEMBERED) memoParsed.delete(memoParsed.keys().next().value!);
    memoParsed.set(text, result);
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

/** Whether a value anywhere in the document is in the form of a reference to a Secret. */
const namesSecret = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (secretReference.safeParse(value).success || Object.values(value).some(namesSecret));

function expandAll(value: unknown, scope: TemplateScope, fault: (message: string) => void): unknown {
  if (typeof value === 'string') {
    if (!isTemplate(value)) return value;
    const result = expand(value, scope);
    if (result.ok) return result.text;
    fault(result.message);
    return value;
  }
  if (Array.isArray(value)) return value.map((item) => expandAll(item, scope, fault));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, expandAll(inner, scope, fault)]),
  );
}
