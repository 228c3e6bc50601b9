/**
 * Renders the add-ons of clusters from files in the asset store. Every file's hash is checked again
 * before it is used. Nothing is downloaded here.
 */

import { createHash } from 'node:crypto';
import { MusterError } from '../../../base/errors.ts';
import type { Addon } from '../../model/addon.ts';
import type { ResolvedCluster } from '../../model/resolved-cluster.ts';
import { type RenderedAddon, renderAddon } from './addon.ts';
import { MAX_MANIFEST_BYTES } from './manifest.ts';

export type AddonState =
  | { readonly state: 'ready'; readonly addon: Addon; readonly rendered: RenderedAddon }
  /** `missing`: hashes of files that the boot host does not have. */
  | { readonly state: 'missing'; readonly addon: Addon; readonly missing: readonly string[] }
  | { readonly state: 'faulty'; readonly addon: Addon; readonly fault: string };

export interface AddonLibrary {
  /** The states of a Cluster's add-ons, in the order of the Cluster. */
  of(resolved: Pick<ResolvedCluster, 'addons'>): Promise<readonly AddonState[]>;
}

/** How many rendered add-ons are kept in memory: several clusters with a dozen each. */
const KEPT = 64;

/**
 * Opens the library. `read` reads the file with that hash, at most `limit` octets, and resolves
 * with undefined when the boot host does not have the file.
 */
export function openAddons(
  read: (sha256: string, limit: number) => Promise<Uint8Array | undefined>,
): AddonLibrary {
  /** Rendered add-ons by a digest of their entry in the Cluster, oldest first. */
  const kept = new Map<string, RenderedAddon>();

  const stateOf = async (addon: Addon): Promise<AddonState> => {
    const files = new Map<string, Uint8Array>();
    const missing: string[] = [];
    const key = createHash('sha256').update(JSON.stringify(addon)).digest('hex');
    const known = kept.get(key);
    if (known !== undefined) return { state: 'ready', addon, rendered: known };
    try {
      for (const { sha256 } of addon.manifests) {
        const octets = await read(sha256, MAX_MANIFEST_BYTES);
        if (octets === undefined) missing.push(sha256);
        else files.set(sha256, checked(octets, sha256));
      }
      if (missing.length > 0) return { state: 'missing', addon, missing };
      const rendered = renderAddon(addon, (sha256) => files.get(sha256)!);
      kept.set(key, rendered);
      for (const oldest of [...kept.keys()].slice(0, -KEPT)) kept.delete(oldest);
      return { state: 'ready', addon, rendered };
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      return { state: 'faulty', addon, fault: error.message };
    }
  };

  return { of: ({ addons }) => Promise.all(addons.map(stateOf)) };
}

/**
 * Returns the octets after checking their hash again, because a disk may have changed them.
 *
 * @throws {MusterError} E_ADDON when the octets do not have that hash.
 */
function checked(octets: Uint8Array, sha256: string): Uint8Array {
  const found = createHash('sha256').update(octets).digest('hex');
  if (found === sha256) return octets;
  throw new MusterError('E_ADDON', `the file ${sha256} has changed on the boot host's disk; add it again`);
}

/** The add-ons of a cluster that its control planes can apply now. */
export interface AddonsPart {
  /** All add-ons before the first that cannot be applied: an add-on may need those before it. */
  readonly ready: readonly RenderedAddon[];
  /** Why some add-ons cannot be applied; absent when all can. */
  readonly hold?: { readonly code: 'addon-missing' | 'addon-faulty'; readonly text: string };
}

export const NO_ADDONS: AddonsPart = { ready: [] };

/** Splits the add-ons of the Cluster `cluster` at the first that cannot be applied. */
export function addonsPart(cluster: string, states: readonly AddonState[]): AddonsPart {
  const stops = states.findIndex(({ state }) => state !== 'ready');
  const before = stops < 0 ? states : states.slice(0, stops);
  const ready = before.flatMap((one) => (one.state === 'ready' ? [one.rendered] : []));
  const first = states[stops];
  if (first?.state === 'missing')
    return {
      ready,
      hold: {
        code: 'addon-missing',
        text: `The add-on ${first.addon.name} is not applied, nor are those after it: ${first.missing.join(', ')} is not on the boot host. Bring it with muster artifacts pull ${cluster}.`,
      },
    };
  if (first?.state === 'faulty')
    return {
      ready,
      hold: {
        code: 'addon-faulty',
        text: `The add-on ${first.addon.name} is not applied, nor are those after it: ${first.fault}`,
      },
    };
  return { ready };
}
