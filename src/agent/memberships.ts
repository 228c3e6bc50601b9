/** Which machine is of which cluster with Kubernetes, by the Clusters' own lists. Constant time; follows the documents. */
import type { Catalog } from '../resources/catalog.ts';

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
  let clusters = read(catalog);
  const close = catalog.subscribe((changes) => {
    if (changes.every(({ kind }) => kind !== 'Cluster')) return;
    clusters = read(catalog);
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

function read(catalog: Catalog): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { document } of catalog.list('Cluster')) {
    const spec = document.spec.kubernetes;
    if (spec === undefined) continue;
    for (const name of [...spec.controlPlanes, ...(spec.workers ?? []), ...(spec.etcd?.machines ?? [])])
      if (!found.has(name)) found.set(name, document.metadata.name);
  }
  return found;
}
