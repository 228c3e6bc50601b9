/**
 * Which cluster each machine belongs to: one index for the whole daemon, which follows the
 * documents. The rule itself is in `src/resources/membership.ts`, which checks of documents use
 * too.
 */
import type { Catalog } from '../resources/catalog.ts';
import { clusterOfMachine, membershipsIn } from '../resources/membership.ts';

export interface Memberships {
  /** How many machines have a role in a Kubernetes cluster, all clusters together. */
  readonly size: number;
  /**
   * The Cluster that gives the machine a role in Kubernetes. Machines without a document count too.
   * Constant time.
   */
  roleGiver(machine: string): string | undefined;
  /**
   * The Cluster whose configuration the machine takes: the one that its own document names, else
   * the one that gives it a role. Constant time.
   */
  clusterOf(machine: string): string | undefined;
  /** Calls `listener` after Clusters changed. Returns a function that unsubscribes it. */
  subscribe(listener: () => void): () => void;
  close(): void;
}

/**
 * Opens the index. Open it before its readers subscribe to the catalogue, so that it is up to date
 * when they handle a change.
 */
export function followMemberships(catalog: Catalog): Memberships {
  const listeners = new Set<() => void>();
  const read = () => membershipsIn(catalog.list('Cluster').map(({ document }) => document));
  let roles = read();
  const unsubscribe = catalog.subscribe((changes) => {
    if (changes.every(({ kind }) => kind !== 'Cluster')) return;
    roles = read();
    for (const listener of listeners) listener();
  });
  return {
    get size() {
      return roles.size;
    },
    roleGiver: (machine) => roles.get(machine)?.cluster,
    clusterOf: (machine) => clusterOfMachine(machine, catalog.get('Machine', machine)?.document, roles),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      unsubscribe();
      listeners.clear();
    },
  };
}
