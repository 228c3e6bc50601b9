/**
 * Renders an add-on: turns its entry in a Cluster and its files into the objects to apply. Pure.
 */

import { MusterError } from '../../../base/errors.ts';
import { type Plain, yamlText } from '../../../base/yaml-text.ts';
import type { Addon, AddonPatch, PatchTarget } from '../../model/addon.ts';
import { asPlain, type KubeObject } from '../object.ts';
import { isMapping, objectText, readManifest } from './manifest.ts';
import { jsonPatch, mergePatch } from './patch.ts';

export interface RenderedAddon {
  readonly name: string;
  /**
   * CustomResourceDefinitions, which are applied before objects of the kinds that they define.
   * YAML, empty when there is none.
   */
  readonly definitions: string;
  readonly objects: string;
  /** Number of objects in `definitions` and `objects`. */
  readonly count: number;
  /** Image references as the objects spell them, each once. */
  readonly images: readonly string[];
}

/**
 * The label by which operators find an add-on's objects when they want to remove them. Muster
 * itself removes nothing from a cluster.
 */
export const ADDON_LABEL = 'muster/addon';

/**
 * Renders an add-on.
 *
 * @param octetsOf Returns the file with that hash; it must exist.
 * @throws {MusterError} E_ADDON when a file is not a manifest or a patch does not fit.
 */
export function renderAddon(addon: Addon, octetsOf: (sha256: string) => Uint8Array): RenderedAddon {
  const objects = [
    ...addon.manifests.flatMap(({ url, file, sha256 }) =>
      readManifest(octetsOf(sha256), `${addon.name}: ${url ?? file ?? sha256}`),
    ),
    ...(addon.objects as readonly KubeObject[]),
  ];
  let patched: readonly KubeObject[] = objects;
  for (const [n, patch] of addon.patches.entries())
    patched = patchedBy(patched, patch, `${addon.name}: patches[${n}]`);
  const marked = patched.map((object) => labelled(object, addon.name));
  return {
    name: addon.name,
    definitions: textOf(marked.filter(isDefinition)),
    objects: textOf(inOrder(marked.filter((object) => !isDefinition(object)))),
    count: marked.length,
    images: [...new Set([...marked.filter((one) => !isDefinition(one)).flatMap(imagesOf), ...addon.images])],
  };
}

/**
 * Applies a patch to the objects that it selects.
 *
 * @throws {MusterError} E_ADDON when the patch selects no object, or does not fit an object.
 *   Without the first check, nobody would notice that a newer version of the add-on renamed an
 *   object.
 */
function patchedBy(
  objects: readonly KubeObject[],
  { target, merge, json, remove }: AddonPatch,
  where: string,
): readonly KubeObject[] {
  let fitting = 0;
  const result = objects.flatMap((object) => {
    if (!fits(object, target)) return [object];
    fitting++;
    if (remove) return [];
    try {
      const merged = merge === undefined ? asPlain(object) : mergePatch(asPlain(object), merge as Plain);
      const changed = json === undefined ? merged : jsonPatch(merged, json);
      return [changed as unknown as KubeObject];
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      throw new MusterError('E_ADDON', `${where}, ${objectText(object)}: ${error.message}`, { cause: error });
    }
  });
  if (fitting > 0) return result;
  const said = Object.entries(target).map(([key, value]) => `${key} ${value}`);
  throw new MusterError('E_ADDON', `${where}: no object of the add-on has ${said.join(', ')}`);
}

const fits = ({ apiVersion, kind, metadata }: KubeObject, target: PatchTarget): boolean =>
  (target.apiVersion === undefined || target.apiVersion === apiVersion) &&
  (target.kind === undefined || target.kind === kind) &&
  (target.namespace === undefined || target.namespace === metadata.namespace) &&
  (target.name === undefined || target.name === metadata.name);

const labelled = (object: KubeObject, name: string): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...object.metadata.labels, [ADDON_LABEL]: name } },
});

const isDefinition = ({ apiVersion, kind }: KubeObject): boolean =>
  kind === 'CustomResourceDefinition' && apiVersion.startsWith('apiextensions.k8s.io/');

/** The objects in the publisher's order, except that namespaces come first. */
const inOrder = (objects: readonly KubeObject[]): readonly KubeObject[] => [
  ...objects.filter(({ kind }) => kind === 'Namespace'),
  ...objects.filter(({ kind }) => kind !== 'Namespace'),
];

const textOf = (objects: readonly KubeObject[]): string =>
  objects.map((object) => yamlText(asPlain(object))).join('---\n');

const CONTAINERS = new Set(['containers', 'initContainers', 'ephemeralContainers']);

/** Images of containers and of image volumes, wherever a value describes pods. */
function imagesOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(imagesOf);
  if (!isMapping(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (!Array.isArray(inner)) return imagesOf(inner);
    const named = (inner as readonly unknown[]).flatMap((item) => {
      if (!isMapping(item)) return [];
      const image = key === 'volumes' && isMapping(item.image) ? item.image.reference : item.image;
      return (CONTAINERS.has(key) || key === 'volumes') && typeof image === 'string' ? [image] : [];
    });
    return [...named, ...imagesOf(inner)];
  });
}
