/**
 * Builds a resolved specification value by value. An override replaces a value, and the origin of
 * each value is recorded.
 */
import type { Provenance, Value } from '../model/resolved-cluster.ts';

interface BuilderFault {
  readonly message: string;
  readonly path: readonly string[];
}

type Tree = { [key: string]: Value | Tree };

const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const kindOf = (value: unknown): string =>
  Array.isArray(value)
    ? 'a list'
    : value === null
      ? 'null'
      : isMapping(value)
        ? 'a mapping'
        : `a ${typeof value}`;

const misplaced = (override: unknown, kind: string): string =>
  `${kindOf(override)} where ${kind} is expected${override === null ? '; null removes only a flag or a field of kubelet or kube-proxy (serviceProxy: none leaves kube-proxy out)' : ''}`;

/** Whether overrides may add any key at this path. */
export type Open = (path: readonly string[]) => boolean;

/**
 * Collects the values, their origins and the faults of overrides. `open` says below which paths
 * overrides may add keys.
 */
export class Builder {
  readonly #overrides: Readonly<Record<string, unknown>>;
  readonly #open: Open;
  readonly #tree: Tree = Object.create(null) as Tree;
  readonly #used = new Set<string>();
  readonly provenance = new Map<string, Provenance>();
  readonly faults: BuilderFault[] = [];

  constructor(overrides: Readonly<Record<string, unknown>>, open: Open) {
    this.#overrides = overrides;
    this.#open = open;
  }

  /**
   * Sets the value at `path`, and returns the effective value: the override, if there is an
   * override of the same type; otherwise `value`.
   */
  put<T extends Value>(path: readonly string[], value: T, from: Provenance['from'], by: string): T {
    const key = path.join('\0');
    const override = this.#override(path);
    if (override === undefined) {
      this.#set(path, value);
      this.provenance.set(pathText(path), { from, by });
      return value;
    }
    this.#used.add(key);
    const open = this.#open(path);
    const origin: Provenance = { from: 'override', by: `spec.kubernetes.overrides.${pathText(path)}` };
    if (override === null && open) {
      this.mapping(path.slice(0, -1));
      this.provenance.set(pathText(path), origin);
      return value;
    }
    if (kindOf(override) !== kindOf(value) && !(open && isScalarOrList(override))) {
      this.faults.push({ message: misplaced(override, kindOf(value)), path });
      this.#set(path, value);
      return value;
    }
    if (Array.isArray(override) && !open && override.some((item) => typeof item !== 'string')) {
      this.faults.push({ message: 'expected a list of texts', path });
      this.#set(path, value);
      return value;
    }
    const effective = merged(value, override) as T;
    this.#set(path, effective);
    this.provenance.set(pathText(path), origin);
    return effective;
  }

  /** Makes sure that the mapping exists, also when overrides leave out all of its fields. */
  mapping(path: readonly string[]): void {
    this.#inner(path);
  }

  /** Whether overrides have this path, with a value or with null. */
  says(path: readonly string[]): boolean {
    return this.#override(path) !== undefined;
  }

  /**
   * Takes over what overrides add below open paths. Returns the specification, together with the
   * paths of overrides that the specification does not have.
   */
  finish(): { readonly tree: unknown; readonly unknown: readonly (readonly string[])[] } {
    const unknown: (readonly string[])[] = [];
    const walk = (value: unknown, path: readonly string[]): void => {
      if (this.#used.has(path.join('\0'))) return;
      if (this.#open(path)) {
        if (value === null) return;
        this.#set(path, value as Value);
        this.provenance.set(pathText(path), {
          from: 'override',
          by: `spec.kubernetes.overrides.${pathText(path)}`,
        });
      } else if (isMapping(value) && this.#isInner(path))
        for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key]);
      else if (this.#isInner(path)) this.faults.push({ message: misplaced(value, 'a mapping'), path });
      else unknown.push(path);
    };
    for (const [key, value] of Object.entries(this.#overrides)) walk(value, [key]);
    return { tree: this.#tree, unknown };
  }

  #isInner(path: readonly string[]): boolean {
    let here: unknown = this.#tree;
    for (const step of path) {
      if (!isMapping(here) || !Object.hasOwn(here, step)) return false;
      here = here[step];
    }
    return isMapping(here);
  }

  #override(path: readonly string[]): unknown {
    let here: unknown = this.#overrides;
    for (const step of path) {
      if (!isMapping(here) || !Object.hasOwn(here, step)) return undefined;
      here = here[step];
    }
    return here;
  }

  #set(path: readonly string[], value: Value): void {
    this.#inner(path.slice(0, -1))[path.at(-1)!] = value;
  }

  #inner(path: readonly string[]): Tree {
    let here = this.#tree;
    for (const step of path) {
      if (!Object.hasOwn(here, step)) here[step] = Object.create(null) as Tree;
      here = here[step] as Tree;
    }
    return here;
  }
}

/** Mappings are merged field by field; any other value is replaced. */
function merged(value: unknown, override: unknown): unknown {
  if (!isMapping(value) || !isMapping(override)) return override;
  const result: Record<string, unknown> = { ...value };
  for (const [key, inner] of Object.entries(override)) result[key] = merged(value[key], inner);
  return result;
}

const isScalarOrList = (value: unknown): boolean => !isMapping(value) && value !== null;

/** Joins the steps of a path with dots: `flags.kube-apiserver.audit-log-path`. */
export const pathText = (path: readonly string[]): string => path.join('.');
