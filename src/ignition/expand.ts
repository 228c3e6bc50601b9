/** A merged configuration with every template of it replaced, each fault at the line of the document that it came from. */
import type { Fault } from '../base/errors.ts';
import { pathText } from '../resources/document.ts';
import { type NodeConfig, nodeConfig } from '../resources/nodeconfig.ts';
import { schemaAt } from '../resources/walk.ts';
import type { Path } from '../resources/yaml.ts';
import { type Merged, sourceOf } from './merge.ts';
import { expand, isTemplate, type TemplateScope } from './template.ts';

/** Fields that are taken as they are. */
const VERBATIM = new Set(['contentBase64', 'passwordHash']);

/** What all texts of a configuration may be together, after expansion. */
export const MAX_CONFIG_LENGTH = 4 * 1024 * 1024;

export type ExpandedConfig =
  | { readonly ok: true; readonly config: NodeConfig; readonly scope: TemplateScope }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/**
 * Expands the templates of `merged`. Variables (`${var.x}`) come from the merged configuration itself; they may use every
 * other name, but not each other. A field with a rule of its own (an address, a host name) is held to it afterwards.
 */
export function expandConfig(merged: Merged, scope: TemplateScope): ExpandedConfig {
  const work = new Expansion(merged, scope);
  const { variables, ...rest } = merged.config;
  const values = (variables && work.walk(variables, ['variables'])) as NodeConfig['variables'];
  work.scope = { ...scope, var: values ?? {} };
  const config = { ...(work.walk(rest, []) as NodeConfig), ...(values && { variables: values }) };
  return work.faults.length > 0
    ? { ok: false, faults: work.faults }
    : { ok: true, config, scope: work.scope };
}

/** A fault of a machine's configuration, told at the document that the value came from. */
export function configFault(merged: Merged, path: Path, message: string): Fault {
  const source = sourceOf(merged, path);
  return {
    code: 'E_CONFIG',
    message: source ? `${source.document}: ${message}` : message,
    path: source ? pathText(source.path) : pathText(path),
  };
}

class Expansion {
  readonly faults: Fault[] = [];
  scope: TemplateScope;
  readonly #merged: Merged;
  #left = MAX_CONFIG_LENGTH;

  constructor(merged: Merged, scope: TemplateScope) {
    this.#merged = merged;
    this.scope = scope;
  }

  /** The value with templates replaced; the same object where there is none. */
  walk(value: unknown, path: (string | number)[]): unknown {
    if (typeof value === 'string') return this.#text(value, path);
    if (typeof value !== 'object' || value === null) return value;
    let changed: Record<string | number, unknown> | unknown[] | undefined;
    const visit = (key: string | number, inner: unknown) => {
      path.push(key);
      const next = VERBATIM.has(String(key)) ? inner : this.walk(inner, path);
      path.pop();
      if (next === inner) return;
      changed ??= Array.isArray(value) ? [...value] : { ...value };
      (changed as Record<string | number, unknown>)[key] = next;
    };
    if (Array.isArray(value)) for (const [n, inner] of value.entries()) visit(n, inner);
    else for (const [key, inner] of Object.entries(value)) visit(key, inner);
    return changed ?? value;
  }

  #text(text: string, path: (string | number)[]): string {
    this.#left -= text.length;
    if (this.#left < 0) {
      if (this.faults.length === 0)
        this.#fault(path, `all texts together are longer than ${MAX_CONFIG_LENGTH}`);
      return text;
    }
    if (!isTemplate(text)) return text;
    const result = expand(text, this.scope);
    if (!result.ok) {
      this.#fault(
        path,
        text.includes('\n') ? `line ${result.line} of the text: ${result.message}` : result.message,
      );
      return text;
    }
    this.#left -= Math.max(0, result.text.length - text.length);
    const rule = path[0] === 'variables' ? undefined : schemaAt(nodeConfig, path);
    const checked = rule?.safeParse(result.text);
    if (checked && !checked.success)
      this.#fault(path, `expands to "${result.text.slice(0, 80)}": ${checked.error.issues[0]?.message}`);
    return checked?.success ? (checked.data as string) : result.text;
  }

  #fault(path: Path, message: string): void {
    if (this.faults.length < 20) this.faults.push(configFault(this.#merged, path, message));
  }
}
