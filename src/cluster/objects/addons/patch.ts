/**
 * The two kinds of patches for an add-on's objects: JSON Merge Patch (RFC 7386) for fields of
 * mappings, and JSON Patch (RFC 6902) for items of lists. docs/decisions/0034 says why Kubernetes'
 * strategic merge patch is not supported. Pure: arguments are not changed.
 */
import { isDeepStrictEqual } from 'node:util';
import { MusterError } from '../../../base/errors.ts';
import type { Plain } from '../../../base/yaml-text.ts';
import type { PatchOperation } from '../../model/addon.ts';
import { isMapping } from './manifest.ts';

/**
 * Applies a JSON Merge Patch (RFC 7386, section 2): `null` removes a field, mappings are merged,
 * and any other value replaces the old one.
 */
export function mergePatch(target: Plain | undefined, patch: Plain): Plain {
  if (!isMapping(patch)) return patch;
  const fields = new Map<string, Plain>(isMapping(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch))
    if (value === null) fields.delete(key);
    else fields.set(key, mergePatch(fields.get(key), value));
  return Object.fromEntries(fields);
}

type Json = { [key: string]: Json } | Json[] | string | number | boolean | null;

/**
 * Applies all operations of a JSON Patch, in their order.
 *
 * @throws {MusterError} E_ADDON for the first operation that does not fit the object.
 */
export function jsonPatch(target: Plain, operations: readonly PatchOperation[]): Plain {
  let root = structuredClone(target) as Json;
  for (const operation of operations) root = applied(root, operation);
  return root as Plain;
}

function applied(root: Json, { op, path, from, value }: PatchOperation): Json {
  const failed = (why: string) => new MusterError('E_ADDON', `${op} ${path}: ${why}`);
  const given = (): Json => {
    if (value === undefined) throw failed('value is missing');
    return structuredClone(value) as Json;
  };
  const source = (): string => {
    if (from === undefined) throw failed('from is missing');
    return from;
  };
  switch (op) {
    case 'add':
      return put(root, path, given(), failed);
    case 'replace':
      return path === '' ? given() : put(taken(root, path, failed), path, given(), failed);
    case 'remove':
      return taken(root, path, failed);
    case 'copy':
      return put(root, path, structuredClone(at(root, source(), failed)), failed);
    case 'move': {
      // RFC 6902, section 4.4: a value cannot be moved into itself.
      if (`${path}/`.startsWith(`${source()}/`) && path !== from) throw failed(`it is inside ${from}`);
      const moved = at(root, source(), failed);
      return put(taken(root, source(), failed), path, moved, failed);
    }
    case 'test':
      if (!isDeepStrictEqual(at(root, path, failed), given()))
        throw failed('the value at this path is a different one');
      return root;
  }
}

type Failed = (why: string) => MusterError;

/** The steps of a JSON Pointer (RFC 6901): `~1` is a slash, `~0` a tilde. */
function steps(path: string, failed: Failed): readonly string[] {
  if (path === '') return [];
  if (!path.startsWith('/')) throw failed(`"${path}" is not a JSON Pointer, which begins with a slash`);
  return path
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The index of an existing item; with `end`, also the index after the last item. */
function indexOf(list: readonly Json[], step: string, failed: Failed, end = false): number {
  if (end && step === '-') return list.length;
  const index = /^(0|[1-9][0-9]{0,8})$/.test(step) ? Number(step) : -1;
  if (index < 0 || index > list.length - (end ? 0 : 1))
    throw failed(`the list has ${list.length} items, and none at "${step}"`);
  return index;
}

function at(root: Json, path: string, failed: Failed): Json {
  let here = root;
  for (const step of steps(path, failed)) {
    if (Array.isArray(here)) here = here[indexOf(here, step, failed)]!;
    else if (isMapping(here) && Object.hasOwn(here, step)) here = (here as { [key: string]: Json })[step]!;
    else throw failed(`there is no "${step}"`);
  }
  return here;
}

function parent(
  root: Json,
  path: string,
  failed: Failed,
): readonly [{ [key: string]: Json } | Json[], string] {
  const all = steps(path, failed);
  const above = all.slice(0, -1).map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  const found = at(root, above.join(''), failed);
  if (typeof found !== 'object' || found === null) throw failed('its parent is not a mapping or list');
  return [found, all.at(-1)!];
}

function put(root: Json, path: string, value: Json, failed: Failed): Json {
  if (path === '') return value;
  const [above, step] = parent(root, path, failed);
  if (Array.isArray(above)) above.splice(indexOf(above, step, failed, true), 0, value);
  else Object.defineProperty(above, step, { value, enumerable: true, configurable: true, writable: true });
  return root;
}

function taken(root: Json, path: string, failed: Failed): Json {
  if (path === '') throw failed('the whole object cannot be removed; use remove of the patch');
  const [above, step] = parent(root, path, failed);
  if (Array.isArray(above)) above.splice(indexOf(above, step, failed), 1);
  else if (Object.hasOwn(above, step)) delete above[step];
  else throw failed(`there is no "${step}"`);
  return root;
}
