/**
 * Reads manifests of add-ons as kubectl does: in go-yaml's YAML 1.1 (`0644` is octal, `on` is true,
 * `1:30` is text), with several documents in a file, and with lists split into their items. A
 * reader with other rules would change what a file means as soon as the file is patched.
 */
import {
  boolYaml11Tag,
  CORE_SCHEMA,
  defineScalarTag,
  loadAll,
  mergeTag,
  NOT_RESOLVED,
  YAMLException,
} from 'js-yaml';
import { MusterError } from '../../../base/errors.ts';
import type { Plain } from '../../../base/yaml-text.ts';
import type { KubeObject } from '../object.ts';

/** Larger files are refused. The largest that publishers offer are about 5 MB. */
export const MAX_MANIFEST_BYTES = 16 * 1024 * 1024;
/**
 * A file with more values is refused. Every use of an anchor counts, so that a file of a few lines
 * cannot expand without bound.
 */
const MAX_VALUES = 2_000_000;
const MAX_DEPTH = 100;

const INTEGER = /^([-+]?)(0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$/;
/** A number that begins with a point: `_` only between two digits, otherwise it is text. */
const AFTER_POINT = /^\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?$/;
const FLOAT = /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/;

/**
 * Reads a number as go-yaml does: `_` is ignored, a leading 0 means octal, and there is no base 60.
 *
 * @throws {RangeError} for a number that Go represents exactly and JavaScript cannot.
 */
function number(source: string): number | typeof NOT_RESOLVED {
  if (source.startsWith('.') && !AFTER_POINT.test(source)) return NOT_RESOLVED;
  const text = source.replaceAll('_', '');
  const [, sign, digits] = INTEGER.exec(text) ?? [];
  if (digits !== undefined) {
    const exact = BigInt(/^0[0-7]+$/.test(digits) ? `0o${digits}` : digits) * (sign === '-' ? -1n : 1n);
    if (Number.isSafeInteger(Number(exact))) return Number(exact);
    if (exact >= -(1n << 63n) && exact < 1n << 64n)
      throw new RangeError(
        `the number ${source} is too large to stay exact; put it in quotes if it is a text`,
      );
  }
  const float = FLOAT.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(float) ? float : NOT_RESOLVED;
}

const numberTag = (name: string) =>
  defineScalarTag(`tag:yaml.org,2002:${name}`, {
    implicit: true,
    implicitFirstChars: ['-', '+', '.', ...'0123456789'],
    resolve: number,
    identify: () => false,
  });

const KUBECTL_SCHEMA = CORE_SCHEMA.withTags(boolYaml11Tag, mergeTag, numberTag('int'), numberTag('float'));

const refused = (what: string, why: string, cause?: unknown): MusterError =>
  new MusterError('E_ADDON', `${what}: ${why}`, cause === undefined ? {} : { cause });

/**
 * Returns the objects of a file, in the order of the file. `what` names the file in errors.
 *
 * @throws {MusterError} E_ADDON when the file is too large, is not YAML, or contains no object.
 */
export function readManifest(octets: Uint8Array, what: string): readonly KubeObject[] {
  if (octets.length > MAX_MANIFEST_BYTES)
    throw refused(what, `${octets.length} octets; at most ${MAX_MANIFEST_BYTES} are read`);
  let documents: readonly unknown[];
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(octets);
    // kubectl takes the last of equal keys
    documents = loadAll(text, { schema: KUBECTL_SCHEMA, json: true, maxDepth: MAX_DEPTH });
  } catch (cause) {
    if (cause instanceof RangeError) throw refused(what, cause.message, cause);
    const why = cause instanceof YAMLException ? cause.message.split('\n')[0]! : 'it is not UTF-8';
    throw refused(what, `not YAML that kubectl would read: ${why}`, cause);
  }
  const budget = { values: MAX_VALUES };
  const objects = documents.flatMap((document, n) => {
    if (document === null || document === undefined) return [];
    return objectsIn(copied(document, budget, what), `${what}, document ${n + 1}`);
  });
  // An empty file, such as a failed download leaves, has a SHA-256 too.
  if (objects.length === 0) throw refused(what, 'there is no object in it');
  return objects;
}

/** A deep copy without shared parts, so that a patch of one place changes no other. */
function copied(value: unknown, budget: { values: number }, what: string): Plain {
  if (--budget.values < 0) throw refused(what, `more than ${MAX_VALUES} values`);
  if (Array.isArray(value)) return value.map((item) => copied(item, budget, what));
  if (typeof value !== 'object' || value === null) return value as Plain;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, copied(inner, budget, what)] as const),
  );
}

/**
 * Returns the object itself, or the items if it is a list.
 *
 * @throws {MusterError} E_ADDON when the value is not a Kubernetes object.
 */
function objectsIn(value: Plain, where: string): readonly KubeObject[] {
  if (!isMapping(value)) throw refused(where, 'not a mapping, so not a Kubernetes object');
  const { apiVersion, kind, items, metadata } = value;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string')
    throw refused(where, 'apiVersion and kind are missing, so it is not a Kubernetes object');
  if (kind.endsWith('List') && Array.isArray(items))
    return (items as readonly Plain[]).flatMap((item, n) => objectsIn(item, `${where}, item ${n + 1}`));
  if (!isMapping(metadata) || typeof metadata.name !== 'string')
    throw refused(where, `${kind} without metadata.name; an object without a name cannot be applied twice`);
  return [value as unknown as KubeObject];
}

export const isMapping = (value: unknown): value is { readonly [key: string]: Plain } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `Deployment kube-system/coredns`, for messages. */
export const objectText = ({ kind, metadata: { namespace, name } }: KubeObject): string =>
  `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
