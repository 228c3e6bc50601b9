/** Which machines a change of documents gives another profile: shown by a dry run and by `diff`. */

import type { Inventories } from '../machines/inventories.ts';
import type { Roster } from '../machines/roster.ts';
import { selectionFor } from '../pxe/decide/selection.ts';
import type { Applied, LiveCatalog } from '../resources/catalog.ts';
import type { Document } from '../resources/kinds.ts';

interface Needed {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly inventories: Inventories;
}

/** Machines that get another profile at their next boot. Absent names stand for no profile. */
export interface ProfileChange {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** Ordered by name. */
  readonly machines: readonly string[];
}

type Deps = Pick<Needed, 'catalog' | 'roster' | 'inventories'>;

/**
 * Finds machines that a selector gives another profile, by what was seen of each and by the
 * inventory that counts for it.
 */
export function profileChanges(results: readonly Applied[], deps: Deps): readonly ProfileChange[] {
  const { catalog, roster, inventories } = deps;
  const changed = results.filter(({ action }) => action !== 'unchanged');
  const after = <K extends 'Profile' | 'Machine'>(kind: K): readonly Document<K>[] => {
    const documents = new Map(catalog.list(kind).map((one) => [one.document.metadata.name, one.document]));
    for (const one of changed)
      if (one.kind === kind && one.after !== undefined) documents.set(one.name, one.after as Document<K>);
    return [...documents.values()];
  };
  if (!changed.some(({ kind }) => kind === 'Profile' || kind === 'Machine')) return [];
  const [was, will] = [catalog.list('Profile').map(({ document }) => document), after('Profile')].map(
    (documents) => {
      const profiles = documents.map(({ metadata, spec }) => ({ name: metadata.name, spec }));
      return { profiles: () => profiles, inventories };
    },
  );
  const found = new Map<string, ProfileChange & { readonly machines: string[] }>();
  for (const document of after('Machine')) {
    // What a document names is seen there.
    if (document.spec.profile !== undefined) continue;
    const { name } = document.metadata;
    const member = roster.get(name);
    const profileOf = (by: typeof was, of: Document<'Machine'> | undefined): string | undefined => {
      if (of === undefined || by === undefined) return undefined;
      const seen = member?.status.seen ?? { macs: [] };
      const selection = selectionFor(by, { name, document: of, seen }, seen.network);
      return selection.kind === 'selected' ? selection.profile.name : undefined;
    };
    const from = profileOf(was, member?.entry?.document);
    const to = profileOf(will, document);
    if (from === to) continue;
    const key = JSON.stringify([from, to]);
    const alike = found.get(key) ?? { from, to, machines: [] };
    alike.machines.push(name);
    found.set(key, alike);
  }
  return [...found.values()].map((one) => ({ ...one, machines: one.machines.toSorted() }));
}
