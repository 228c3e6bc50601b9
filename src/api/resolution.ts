/** A Cluster with all its values, made from its document. */
import { type Resolution, resolveCluster } from '../cluster/resolve/resolve.ts';
import { machinesOf, noCluster } from '../cluster/resolve/resolved-clusters.ts';
import type { LiveCatalog } from '../resources/catalog.ts';

/** @throws {MusterError} E_NOT_FOUND without a Cluster of that name with Kubernetes */
export function resolutionOf(
  { catalog }: { readonly catalog: Pick<LiveCatalog, 'get'> },
  name: string,
): Resolution {
  const spec = catalog.get('Cluster', name)?.document.spec.kubernetes;
  if (spec === undefined) throw noCluster(name);
  const addressesOf = (machine: string) => {
    const found = catalog.get('Machine', machine)?.document.spec;
    return found && (found.addresses ?? []);
  };
  return resolveCluster(name, spec, machinesOf(spec, addressesOf));
}
