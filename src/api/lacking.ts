/** Warnings about Clusters that were just applied, by what this boot host has. */
import type { Fault } from '../base/errors.ts';
import type { ResolvedCluster } from '../cluster/model/resolved-cluster.ts';

interface Deps {
  /** The versions of kubelet that this boot host has for machines. */
  readonly kubelets: () => readonly string[];
  /** The machines of a cluster with their roles; undefined while its document is incomplete. */
  readonly resolved: (cluster: string) => Pick<ResolvedCluster, 'keys' | 'machines' | 'versions'> | undefined;
}

/**
 * Warns of a Cluster whose version of kubelet this boot host does not have, although it has others.
 * Without any, the machines' images have the programs, or a first `muster artifacts pull` follows.
 *
 * @param applied The documents that were applied.
 */
export function lackingVersions(
  applied: readonly { readonly kind: string; readonly name: string }[],
  { resolved, kubelets }: Pick<Deps, 'resolved' | 'kubelets'>,
): readonly Fault[] {
  const have = new Set(kubelets());
  if (have.size === 0) return [];
  return applied.flatMap(({ kind, name }): readonly Fault[] => {
    const wanted = kind === 'Cluster' ? resolved(name)?.versions.kubelet : undefined;
    if (wanted === undefined || have.has(wanted)) return [];
    return [
      {
        code: 'E_CLUSTER',
        message: `Cluster/${name}: this boot host has kubelet ${[...have].sort().join(', ')}, and not ${wanted}; \`muster artifacts pull ${name}\` fetches it, unless the images of the machines have it`,
        path: 'spec.kubernetes.version',
        document: `Cluster/${name}`,
      },
    ];
  });
}
