/**
 * Merges fragments of configuration, widest first. The narrower wins, and every value of the result
 * knows where it came from.
 *
 * Mappings merge by key. Lists whose items have a key merge by that key; new items are appended. A
 * file's content is one value, whatever its form. A user's SSH keys and groups,
 * kernel modules and packages are united. Every
 * other list and every plain value is replaced.
 */
import { isShared } from '../base/shared.ts';
import { pathText } from '../resources/document.ts';
import { interfaceKey, type NodeInterface } from '../resources/node-network.ts';
import type { NodeConfig, NodeUser } from '../resources/nodeconfig.ts';
import { keysIn } from '../resources/ssh-key.ts';
import type { Path } from '../resources/yaml.ts';
import type { ConfigLayer, Provenance } from './rendered.ts';

/** Where a value came from, with the path as steps. */
export interface Source {
  readonly layer: Provenance['layer'];
  readonly document: string;
  readonly path: Path;
}

export interface Merged {
  readonly config: NodeConfig;
  /** Path of each plain value in `config` → where it came from. */
  readonly sources: ReadonlyMap<string, Source>;
  /**
   * The extra documents of all layers, widest first: they are merged in their own format, not as
   * text.
   */
  readonly extras: readonly {
    readonly kind: 'cloudInit' | 'ignition';
    readonly text: string;
    readonly source: Source;
  }[];
}

/** The key of a list's items, by the list's path without indices. */
const KEYS: Readonly<Record<string, (item: Item) => string>> = {
  files: (item) => String(item.path),
  units: (item) => String(item.name),
  'units.dropins': (item) => String(item.name),
  users: (item) => String(item.name),
  'network.interfaces': (item) => String(interfaceKey(item as NodeInterface)),
  disks: (item) => String(item.device),
  filesystems: (item) => String(item.device),
};
const UNITED = new Set(['users.sshKeys', 'users.groups', 'kernelModules', 'caCertificates', 'packages']);
const CONTENTS = ['content', 'contentBase64', 'source'];

type Item = Readonly<Record<string, unknown>>;
type Node = unknown;

/** A value with its source while it is merged. */
interface Traced {
  readonly value: Node;
  /** For plain values and for lists that are replaced whole. */
  readonly source?: Source;
  readonly fields?: Map<string, Traced>;
  readonly items?: Map<string, Traced>;
  /** Combined from several layers, so `value` holds only a part of it. */
  readonly merged?: true;
}

/** A fragment belongs to one document only, so its traced form is remembered with it. */
const memoTraced = new WeakMap<NodeConfig, { readonly document: string; readonly traced: Traced }>();

const memoMerged = new WeakMap<
  NodeConfig,
  { readonly layers: readonly ConfigLayer[]; readonly merged: Merged }
>();

/**
 * Merges layers, widest first. The result is remembered by the narrowest fragment (documents are
 * immutable), so that machines without a fragment of their own share it.
 */
export function merge(layers: readonly ConfigLayer[]): Merged {
  const narrowest = layers.at(-1)?.config;
  const known = narrowest && memoMerged.get(narrowest);
  if (known && sameLayers(known.layers, layers)) return known.merged;
  const merged = mergeLayers(layers);
  if (narrowest) memoMerged.set(narrowest, { layers: [...layers], merged });
  return merged;
}

function sameLayers(a: readonly ConfigLayer[], b: readonly ConfigLayer[]): boolean {
  return (
    a.length === b.length &&
    a.every((one, n) => one.config === b[n]!.config && one.document === b[n]!.document)
  );
}

function mergeLayers(layers: readonly ConfigLayer[]): Merged {
  let result: Traced = { value: undefined, fields: new Map(), merged: true };
  const extras: Merged['extras'][number][] = [];
  for (const { layer, document, config } of layers) {
    const source: Source = { layer, document, path: ['spec', 'config'] };
    const { extra } = config;
    for (const kind of ['cloudInit', 'ignition'] as const)
      if (extra?.[kind] !== undefined)
        extras.push({
          kind,
          text: extra[kind],
          source: { ...source, path: [...source.path, 'extra', kind] },
        });
    result = combine(result, traceOf(config, source), '');
  }
  let sources: Map<string, Source> | undefined;
  return {
    config: plain(result) as NodeConfig,
    extras,
    // Read only for a fault, or when a person asks.
    get sources() {
      if (!sources) {
        sources = new Map();
        collect(result, [], sources);
      }
      return sources;
    },
  };
}

function traceOf(config: NodeConfig, source: Source): Traced {
  const known = memoTraced.get(config);
  if (known?.document === source.document) return known.traced;
  const { extra: _, users, ...rest } = config;
  const traced = trace(users ? { ...rest, users: users.map(withListedKeys) } : rest, source, '');
  memoTraced.set(config, { document: source.document, traced });
  return traced;
}

/** The user with the keys of `authorizedKeys` in `sshKeys`. */
function withListedKeys({ authorizedKeys, ...user }: NodeUser): NodeUser {
  if (authorizedKeys === undefined) return user;
  return { ...user, sshKeys: [...(user.sshKeys ?? []), ...keysIn(authorizedKeys)] };
}

function trace(value: Node, source: Source, place: string): Traced {
  if (Array.isArray(value)) {
    const key = KEYS[place] ?? (UNITED.has(place) ? String : undefined);
    if (!key) return { value, source };
    const items = new Map<string, Traced>();
    for (const [n, item] of value.entries()) items.set(key(item as Item), traceItem(item, source, n, place));
    return { value, items };
  }
  if (typeof value === 'object' && value !== null) {
    const fields = new Map<string, Traced>();
    for (const [name, inner] of Object.entries(value)) {
      if (inner === undefined) continue;
      const at = place === '' ? name : `${place}.${name}`;
      fields.set(name, trace(inner, { ...source, path: [...source.path, name] }, at));
    }
    return { value, fields };
  }
  return { value, source };
}

/** The traced form of a shared item, at its place in the documents of that name. */
const memoItems = new WeakMap<
  object,
  { readonly document: string; readonly n: number; readonly traced: Traced }
>();

function traceItem(item: Node, source: Source, n: number, place: string): Traced {
  const known = isShared(item) ? memoItems.get(item as object) : undefined;
  if (known?.document === source.document && known.n === n) return known.traced;
  const traced = trace(item, { ...source, path: [...source.path, n] }, place);
  if (isShared(item)) memoItems.set(item as object, { document: source.document, n, traced });
  return traced;
}

function combine(wide: Traced | undefined, narrow: Traced, place: string): Traced {
  if (wide?.items && narrow.items) {
    const items = new Map(wide.items);
    for (const [key, item] of narrow.items) items.set(key, combine(items.get(key), item, place));
    return { value: narrow.value, items, merged: true };
  }
  if (wide?.fields && narrow.fields) {
    const fields = new Map(wide.fields);
    if (place === 'files' && CONTENTS.some((name) => narrow.fields!.has(name)))
      for (const name of CONTENTS) fields.delete(name);
    for (const [name, inner] of narrow.fields)
      fields.set(name, combine(fields.get(name), inner, place === '' ? name : `${place}.${name}`));
    return { value: narrow.value, fields, merged: true };
  }
  return narrow;
}

/** The plain value; a value that only one layer has is that layer's own object. */
function plain(traced: Traced): Node {
  if (!traced.merged) return traced.value;
  if (traced.items) return [...traced.items.values()].map(plain);
  const object: Record<string, Node> = {};
  for (const [name, inner] of traced.fields ?? []) object[name] = plain(inner);
  return object;
}

/** Collects the source of every leaf under its path in the result. */
function collect(traced: Traced, path: (string | number)[], sources: Map<string, Source>): void {
  if (traced.source) {
    sources.set(pathText(path), traced.source);
    return;
  }
  let n = 0;
  for (const [key, inner] of traced.items ?? traced.fields ?? []) {
    path.push(traced.items ? n++ : key);
    collect(inner, path, sources);
    path.pop();
  }
}

/**
 * Where the value at `path` of the merged configuration came from: its own entry, or that of the
 * value it is part of.
 */
export function sourceOf(merged: Merged, path: Path): Source | undefined {
  for (let steps = path.length; steps > 0; steps--) {
    const found = merged.sources.get(pathText(path.slice(0, steps)));
    if (found)
      return steps === path.length ? found : { ...found, path: [...found.path, ...path.slice(steps)] };
  }
  // A container: any value inside it names the document.
  const prefix = pathText(path);
  for (const [place, source] of merged.sources)
    if (place.startsWith(`${prefix}.`) || place.startsWith(`${prefix}[`)) return source;
  return undefined;
}

/** All sources, by path. */
export function provenance(merged: Merged): ReadonlyMap<string, Provenance> {
  const found = new Map<string, Provenance>();
  for (const [path, { layer, document, path: steps }] of merged.sources)
    found.set(path, { layer, document, path: pathText(steps) });
  return found;
}
