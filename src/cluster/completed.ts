/** The full specification of every Cluster in force, completed once for each state of the documents. */
import type { Catalog } from '../resources/catalog.ts';
import type { KubernetesSpec } from '../resources/kinds.ts';
import { type Completed, complete, type MachineFacts } from './complete.ts';

export interface Completions {
  /** Undefined when there is no such Cluster, or it is none of Kubernetes. */
  get(cluster: string): Completed | undefined;
  /** Stops following the documents. */
  close(): void;
}

/** The machines that a Cluster names, as far as their documents are there. */
export function machinesOf(
  spec: KubernetesSpec,
  addressesOf: (name: string) => readonly string[] | undefined,
): readonly MachineFacts[] {
  const names = [...spec.controlPlanes, ...(spec.workers ?? []), ...(spec.etcd?.machines ?? [])];
  return [...new Set(names)].flatMap((name) => {
    const addresses = addressesOf(name);
    return addresses === undefined ? [] : [{ name, addresses }];
  });
}

export function followClusters(catalog: Catalog): Completions {
  const known = new Map<string, Completed>();
  const close = catalog.subscribe((changes) => {
    if (changes.some(({ kind }) => kind === 'Cluster' || kind === 'Machine')) known.clear();
  });
  return {
    close,
    get(cluster) {
      const spec = catalog.get('Cluster', cluster)?.document.spec.kubernetes;
      if (spec === undefined) return undefined;
      let completed = known.get(cluster);
      if (completed === undefined) {
        const machines = machinesOf(spec, (name) => {
          const machine = catalog.get('Machine', name)?.document.spec;
          return machine && (machine.addresses ?? []);
        });
        completed = complete(cluster, spec, machines);
        known.set(cluster, completed);
      }
      return completed;
    },
  };
}
