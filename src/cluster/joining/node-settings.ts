/**
 * Compares the labels and taints that a Cluster gives a node with those of the Node object. Pure.
 */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { type NodeSettings, taintText } from '../components/nodes.ts';
import type { NodeTaint } from '../model/resolved-cluster.ts';

/** Whether two settings are equal; the order does not matter. */
export const sameSettings = (a: NodeSettings, b: NodeSettings): boolean => textOfAll(a) === textOfAll(b);
const textOfAll = ({ labels = {}, taints = [] }: NodeSettings): string =>
  JSON.stringify([Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)), taints.map(taintText).sort()]);

interface NodeChange {
  /**
   * A JSON merge patch (RFC 7396). It has the resourceVersion that was read, so that a concurrent
   * change is not overwritten.
   */
  readonly patch: object;
  /**
   * The changes as texts for operators: `gpu=yes`, `-gpu`, `taint gpu:NoExecute`, `-taint
   * gpu:NoExecute`.
   */
  readonly says: readonly string[];
}

/**
 * The change that the node needs; undefined when it needs none. Labels and taints that the node got
 * `before` and that are no longer wanted are removed, unless somebody has changed them since.
 * Labels and taints that Muster did not set are kept.
 */
export function nodeChange(
  node: unknown,
  before: NodeSettings,
  wanted: NodeSettings,
): NodeChange | undefined {
  const { metadata, spec } = fieldsOf(node);
  const { labels: given, resourceVersion } = fieldsOf(metadata);
  const labels = labelChanges(fieldsOf(given), before.labels ?? {}, wanted.labels ?? {});
  const taints = taintChanges(listOf(fieldsOf(spec).taints), before.taints ?? [], wanted.taints ?? []);
  const says = [
    ...Object.entries(labels).map(([key, value]) => (value === null ? `-${key}` : `${key}=${value}`)),
    ...taints.says,
  ];
  if (says.length === 0) return undefined;
  return {
    patch: {
      metadata: { resourceVersion: textOf(resourceVersion), labels },
      ...(taints.says.length > 0 && { spec: { taints: taints.all } }),
    },
    says,
  };
}

type Labels = Readonly<Record<string, string>>;

function labelChanges(
  there: Readonly<Record<string, unknown>>,
  before: Labels,
  wanted: Labels,
): Readonly<Record<string, string | null>> {
  const gone = Object.entries(before).filter(([key, value]) => !(key in wanted) && there[key] === value);
  const set = Object.entries(wanted).filter(([key, value]) => there[key] !== value);
  return Object.fromEntries([...gone.map(([key]) => [key, null] as const), ...set]);
}

/**
 * A node has one taint per key and effect. `all`: the complete list for the patch, since a merge
 * patch replaces lists.
 */
function taintChanges(
  there: readonly unknown[],
  before: readonly NodeTaint[],
  wanted: readonly NodeTaint[],
): { readonly all: readonly unknown[]; readonly says: readonly string[] } {
  const texts = new Set(there.map((one) => taintText(readTaint(one))));
  const places = new Set(wanted.map(placeOf));
  const gone = before.filter((taint) => !places.has(placeOf(taint)) && texts.has(taintText(taint)));
  const set = wanted.filter((taint) => !texts.has(taintText(taint)));
  const out = new Set([...gone, ...set].map(placeOf));
  return {
    all: [...there.filter((one) => !out.has(placeOf(readTaint(one)))), ...set],
    says: [
      ...gone.map((taint) => `-taint ${taintText(taint)}`),
      ...set.map((taint) => `taint ${taintText(taint)}`),
    ],
  };
}

const placeOf = ({ key, effect }: NodeTaint): string => `${key}:${effect}`;

function readTaint(one: unknown): NodeTaint {
  const { key, value, effect } = fieldsOf(one);
  return { key: textOf(key), ...(textOf(value) !== '' && { value: textOf(value) }), effect: textOf(effect) };
}
