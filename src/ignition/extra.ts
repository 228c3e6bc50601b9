/**
 * The `extra` documents: whole cloud-config or Ignition documents, for settings that NodeConfig has
 * no field for.
 */
import { CORE_SCHEMA, defineScalarTag, NOT_RESOLVED } from 'js-yaml';
import { setBounded } from '../base/aged.ts';
import type { Fault } from '../base/errors.ts';
import { fieldsOf } from '../base/foreign-json.ts';
import { NO_SECRET_HERE, secretReference } from '../resources/secret-spec.ts';
import { readYaml } from '../resources/yaml.ts';
import { fromButane, isButane, snakePath } from './butane.ts';
import { type Mapping, mergeFaults } from './cloudinit.ts';
import { unknownKeys, validateCloudConfig } from './cloudinit-validate.ts';
import { cloudConfigTraps, ignitionTraps } from './extra-traps.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { validateIgnition } from './ignition-validate.ts';
import type { Merged } from './merge.ts';
import { readOnlyFaults } from './read-only.ts';
import type { RenderInput } from './rendered.ts';
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
export function extraDocuments(
  merged: Merged,
  scope: TemplateScope,
  image: RenderInput['image'],
  faults: Fault[],
): Extras {
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
      if (namesButane(document)) fault('this is Butane; write it as extra.ignition');
      else if (Object.hasOwn(document, 'ignition')) fault('this is Ignition; write it as extra.ignition');
      const unmergeable = mergeFaults(document);
      for (const message of unmergeable) fault(message);
      if (image.configFormat === 'cloud-init')
        for (const { path, message } of validateCloudConfig(document, image.cloudInitVersion))
          if (!unmergeable.some((one) => one.startsWith(`${path} `))) fault(`${path}: ${message}`);
      for (const { path, message } of cloudConfigTraps(document)) fault(`${path}: ${message}`);
      cloudInit.push(document);
    } else {
      const whole = ignitionOf(document, fault);
      if (whole === undefined) continue;
      for (const { path, message } of [...readOnlyFaults(whole, image.os), ...ignitionTraps(whole)])
        fault(`${path}: ${message}`);
      ignition.push(whole);
    }
  }
  return { cloudInit, ignition };
}

const namesButane = (document: object): boolean => isButane(document) && !Object.hasOwn(document, 'ignition');

/** An operator's document as Ignition; undefined when it has faults. */
function ignitionOf(document: Mapping, fault: (message: string) => void): object | undefined {
  const say = (faults: readonly { readonly path: string; readonly message: string }[]) => {
    for (const { path, message } of faults) fault(path === '' ? message : `${path}: ${message}`);
  };
  if (isButane(document)) {
    const translated = fromButane(document);
    if (!translated.ok)
      return void say(translated.faults.map((one) => ({ ...one, path: `Butane ${one.path}` })));
    const faults = validateIgnition(translated.config);
    say(faults.map(({ path, message }) => ({ path: `Butane ${snakePath(path)}`, message })));
    return faults.length > 0 ? undefined : translated.config;
  }
  if (looksLikeCloudConfig(document)) return void fault('this is cloud-config; write it as extra.cloudInit');
  const whole = { ignition: { version: IGNITION_VERSIONS[0] }, ...translatedVersion(document) };
  say(validateIgnition(whole));
  return whole;
}

/**
 * A configuration of an earlier spec 3 as one of the oldest that Muster writes. Ignition does the
 * same: each version of spec 3 has all fields of the one before.
 */
function translatedVersion(document: Mapping): Mapping {
  const { ignition } = document as { readonly ignition?: unknown };
  if (!/^3\.[012]\.0$/.test(String(fieldsOf(ignition).version))) return document;
  return { ...document, ignition: { ...fieldsOf(ignition), version: IGNITION_VERSIONS[0] } } as Mapping;
}

/** Keys of cloud-config that Ignition has not, and none that it has. */
const looksLikeCloudConfig = (document: object): boolean =>
  ['write_files', 'runcmd', 'users', 'packages', 'bootcmd'].some((key) => Object.hasOwn(document, key)) &&
  !['ignition', 'storage', 'systemd', 'passwd'].some((key) => Object.hasOwn(document, key));

/** The document of an extra text, with its templates as they are; undefined if it has faults. */
export function extraDocument(text: string): object | undefined {
  const value = parsed(text);
  return value.ok ? value.document : undefined;
}

/** Keys of an extra cloud-config that only a module of the image itself could read. */
export function foreignKeys(text: string): readonly string[] {
  const document = extraDocument(text);
  return document === undefined ? [] : unknownKeys(document);
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
    setBounded(memoParsed, text, result, REMEMBERED);
  }
  return result;
}

/** Forms that cloud-init or Ignition people write and that are not one mapping in YAML. */
const OTHER_FORMS: readonly (readonly [RegExp, string])[] = [
  [/^\s*$/, 'is empty; remove it'],
  [/^#!/, 'this is a script; write it as a file and a unit that runs it, or as runcmd of a cloud-config'],
  [/^Content-Type:|^MIME-Version:/im, 'this is a MIME archive; write each part as a document of its own'],
  [/^## template: *jinja/i, 'Jinja is not expanded; Muster expands ${…} (docs/reference/templates.md)'],
];

/** Octal in YAML 1.1, as Butane and people read it; YAML 1.2 would take it for decimal. */
const octalModes = (text: string): string => text.replace(/(\bmode"?:\s*)0([0-7]{3,4})\b(?!\.)/g, '$10o$2');

/** The octets of a value with the tag `!!binary`, as PyYAML reads it for cloud-init. */
class Binary {
  readonly base64: string;
  constructor(base64: string) {
    this.base64 = base64;
  }
}

const WITH_BINARY = CORE_SCHEMA.withTags(
  defineScalarTag('tag:yaml.org,2002:binary', {
    resolve: (source: string) => {
      const base64 = source.replace(/\s+/g, '');
      return /^[A-Za-z0-9+/]*={0,2}$/.test(base64) ? new Binary(base64) : NOT_RESOLVED;
    },
    identify: () => false,
  }),
);

/**
 * The document with texts in place of octets. Those of a file to write, which may be no text, stay
 * in base64 beside the encoding that says so.
 */
function withoutBinary(value: unknown): unknown {
  if (value instanceof Binary) return Buffer.from(value.base64, 'base64').toString('utf8');
  if (Array.isArray(value)) return value.map(withoutBinary);
  if (typeof value !== 'object' || value === null) return value;
  const { content, encoding } = value as { content?: unknown; encoding?: unknown };
  const result = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutBinary(inner)]));
  return content instanceof Binary && encoding === undefined
    ? { ...result, content: content.base64, encoding: 'b64' }
    : result;
}

function parse(given: string): Parsed {
  const other = OTHER_FORMS.find(([form]) => form.test(given));
  if (other !== undefined) return { ok: false, message: other[1] };
  const text = octalModes(given);
  const yaml = readYaml(text, 'extra', WITH_BINARY);
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
  return { ok: true, document: withoutBinary(document) as object };
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
