/**
 * Expands every template of a merged configuration. A fault names the field of the document that
 * the value came from.
 */
import { setBounded } from '../base/aged.ts';
import type { Fault } from '../base/errors.ts';
import { isShared, shared } from '../base/shared.ts';
import { pathText } from '../resources/document.ts';
import { type NodeConfig, nodeConfig } from '../resources/nodeconfig.ts';
import { schemaAt } from '../resources/walk.ts';
import type { Path } from '../resources/yaml.ts';
import { type Merged, sourceOf } from './merge.ts';
import { compile, fill, isTemplate, type Template, type TemplateScope } from './template.ts';

/** Fields whose text is never a template. */
const VERBATIM = new Set(['contentBase64', 'passwordHash']);

/** The largest sum of all texts of a configuration after expansion, in UTF-16 units. */
const MAX_CONFIG_LENGTH = 4 * 1024 * 1024;

type ExpandedConfig =
  | { readonly ok: true; readonly config: NodeConfig; readonly scope: TemplateScope }
  | { readonly ok: false; readonly faults: readonly Fault[] };

interface Slot {
  readonly path: Path;
  readonly template: Template;
  /** The schema of the field, which the expanded text must fit. */
  readonly fits: (text: string) => { readonly value: string } | { readonly message: string };
}

/**
 * A configuration prepared before the machine is known: texts are cut at their templates, and texts
 * without a name are finished.
 */
interface Prepared {
  readonly config: NodeConfig;
  readonly slots: readonly Slot[];
  readonly length: number;
}

const memoPrepared = new WeakMap<Merged, Prepared>();

function prepare(merged: Merged): Prepared {
  let prepared = memoPrepared.get(merged);
  if (!prepared) {
    const slots: Slot[] = [];
    const size = { length: 0 };
    const config = settle(merged.config, [], slots, size) as NodeConfig;
    prepared = { config, slots, length: size.length };
    memoPrepared.set(merged, prepared);
  }
  return prepared;
}

/**
 * Resolves escapes in a value and collects the texts that hold names in `slots`. Returns the same
 * object where nothing changed.
 */
function settle(value: unknown, path: (string | number)[], slots: Slot[], size: { length: number }): unknown {
  if (typeof value === 'string') {
    size.length += value.length;
    if (!isTemplate(value) || VERBATIM.has(String(path.at(-1)))) return value;
    const template = compiled(value);
    if (template.parts.length === 1) return template.parts[0]!;
    slots.push({ path: [...path], template, fits: ruleOf(path) });
    return value;
  }
  if (typeof value !== 'object' || value === null) return value;
  const known = isShared(value) ? memoSettled.get(value) : undefined;
  if (known !== undefined) {
    size.length += known.length;
    return known.settled;
  }
  const before = { slots: slots.length, length: size.length };
  const settled = settleFields(value, path, slots, size);
  if (isShared(value) && slots.length === before.slots)
    memoSettled.set(value, { settled: shared(settled), length: size.length - before.length });
  return settled;
}

/** Shared values that no template names, finished. */
const memoSettled = new WeakMap<object, { readonly settled: object; readonly length: number }>();

function settleFields(
  value: object,
  path: (string | number)[],
  slots: Slot[],
  size: { length: number },
): object {
  let changed: Record<string | number, unknown> | undefined;
  for (const [key, inner] of Object.entries(value)) {
    path.push(Array.isArray(value) ? Number(key) : key);
    const next = settle(inner, path, slots, size);
    path.pop();
    if (next === inner) continue;
    changed ??= (Array.isArray(value) ? [...value] : { ...value }) as Record<string | number, unknown>;
    changed[key] = next;
  }
  return changed ?? value;
}

/**
 * Compiles a text. Long texts are remembered: many machines share them, and they take most time.
 */
function compiled(text: string): Template {
  if (text.length < LONG) return compile(text);
  let template = memoLongTexts.get(text);
  if (!template) {
    template = compile(text);
    setBounded(memoLongTexts, text, template, REMEMBERED);
  }
  return template;
}

/** Texts of at least this many characters are remembered. */
const LONG = 512;
/** Number of long texts that are remembered. Beyond it the oldest is dropped. */
const REMEMBERED = 128;
const memoLongTexts = new Map<string, Template>();

function ruleOf(path: Path): Slot['fits'] {
  const rule = path[0] === 'variables' ? undefined : schemaAt(nodeConfig, path);
  return (text) => {
    const result = rule?.safeParse(text);
    if (!result || result.success) return { value: (result?.data as string | undefined) ?? text };
    return { message: `expands to "${text.slice(0, 80)}": ${result.error.issues[0]?.message}` };
  };
}

/**
 * Expands the templates of `merged`. Variables (`${var.x}`) come from the merged configuration
 * itself; they may use every other name, but not each other. An expanded text must fit the schema
 * of its field (an address, a host name). Faults are E_CONFIG.
 */
export function expandConfig(merged: Merged, scope: TemplateScope): ExpandedConfig {
  const prepared = prepare(merged);
  const faults: Fault[] = [];
  let left = MAX_CONFIG_LENGTH - prepared.length;
  if (left < 0)
    faults.push(
      configFault(merged, [], `all texts together are longer than ${MAX_CONFIG_LENGTH} characters`),
    );
  let { config } = prepared;
  const put = (slot: Slot, names: TemplateScope) => {
    const result = fill(slot.template, names, Math.max(0, left));
    const fitting = result.ok ? slot.fits(result.text) : { message: inText(slot.template, result) };
    if ('message' in fitting) faults.push(configFault(merged, slot.path, fitting.message));
    else {
      left -= fitting.value.length;
      config = replace(config, slot.path, 0, fitting.value) as NodeConfig;
    }
  };
  for (const slot of prepared.slots) if (slot.path[0] === 'variables') put(slot, scope);
  const withVariables: TemplateScope = { ...scope, var: config.variables ?? {} };
  for (const slot of prepared.slots) if (slot.path[0] !== 'variables') put(slot, withVariables);
  return faults.length > 0
    ? { ok: false, faults: faults.slice(0, 20) }
    : { ok: true, config, scope: withVariables };
}

/** Whether a template of `merged` names a value of that group, e.g. `network`. */
export function names(merged: Merged, group: string): boolean {
  const begin = `${group}.`;
  return (
    prepare(merged).slots.some(({ template }) =>
      template.parts.some((part, n) => n % 2 === 1 && part.startsWith(begin)),
    ) || merged.extras.some(({ text }) => text.includes(`\${${begin}`))
  );
}

const inText = (template: Template, fault: { readonly message: string; readonly line: number }): string =>
  template.text.includes('\n') ? `line ${fault.line} of the text: ${fault.message}` : fault.message;

/** A copy with another value at `path`; everything that is not on the path is shared. */
function replace(value: unknown, path: Path, step: number, text: string): unknown {
  if (step === path.length) return text;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string | number,
    unknown
  >;
  copy[path[step]!] = replace(copy[path[step]!], path, step + 1, text);
  return copy;
}

/** A fault of a machine's configuration, at the document that the value came from. */
export function configFault(merged: Merged, path: Path, message: string): Fault {
  const source = sourceOf(merged, path);
  return {
    code: 'E_CONFIG',
    message: source ? `${source.document}: ${message}` : message,
    ...(source && source.layer !== 'muster' && { document: source.document }),
    // What Muster adds itself is in no document, so its path does not begin with `spec`.
    path: pathText(source && source.layer !== 'muster' ? source.path : path),
  };
}
