/**
 * Which machine is of which cluster with Kubernetes, by the Clusters' own lists. Constant time;
 * follows the documents.
 */
import type { Catalog } from '../resources/catalog.ts';
import { clustersByMachine } from '../resources/membership.ts';

export interface Memberships {
  /** Machines of clusters, all together. */
  readonly size: number;
  /** The Cluster that names this machine; the first by name when several do. */
  of(machine: string): string | undefined;
  /** Calls `listener` when Clusters changed; the returned function ends that. */
  subscribe(listener: () => void): () => void;
  close(): void;
}

export function followMemberships(catalog: Catalog): Memberships {
  const listeners = new Set<() => void>();
  const read = () => clustersByMachine(catalog.list('Cluster').map(({ document }) => document));
  let clusters = read();
  const close = catalog.subscribe((changes) => {
    if (changes.every(({ kind }) => kind !== 'Cluster')) return;
    clusters = read();
    for (const listener of listeners) listener();
  });
  return {
    get size() {
      return clusters.size;
    },
    of: (machine) => clusters.get(machine),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close,
  };
}
