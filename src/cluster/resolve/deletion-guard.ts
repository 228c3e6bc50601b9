/**
 * Refuses to delete a Machine document that a Cluster needs. Deleting the document would not remove
 * the machine's member from etcd.
 */
import { type Fault, firstOf, MusterError } from '../../base/errors.ts';
import type { Catalog, Target } from '../../resources/catalog.ts';

/**
 * Checks a deletion.
 *
 * @returns Warnings about workers of Clusters that remain.
 * @throws {MusterError} E_REFERENCE, with every fault, when a Cluster that remains would lose the
 *   document of a control plane or member of etcd: without its address the Cluster has errors, and
 *   its commands fail.
 */
export function checkDeletion(
  targets: readonly Target[],
  catalog: Pick<Catalog, 'get' | 'list'>,
): readonly Fault[] {
  const deleted = new Set(targets.map(({ kind, name }) => `${kind}/${name}`));
  const isDeleted = (machine: string) =>
    deleted.has(`Machine/${machine}`) && catalog.get('Machine', machine) !== undefined;
  const faults: Fault[] = [];
  const warnings: Fault[] = [];
  for (const { document } of catalog.list('Cluster')) {
    const { name } = document.metadata;
    const spec = document.spec.kubernetes;
    if (spec === undefined || deleted.has(`Cluster/${name}`)) continue;
    const about = (machine: string, what: string, how: string): Fault => ({
      code: 'E_REFERENCE',
      message: `Machine/${machine} is ${what} of Cluster/${name}; ${how} \`muster cluster remove-node ${name} ${machine}\``,
    });
    const members = new Map([
      ...(spec.etcd?.machines ?? []).map((machine) => [machine, 'a member of the etcd'] as const),
      ...spec.controlPlanes.map((machine) => [machine, 'a control plane'] as const),
    ]);
    for (const [machine, what] of members)
      if (isDeleted(machine))
        faults.push(
          about(machine, what, 'delete both together, or remove the machine from the cluster first:'),
        );
    for (const machine of spec.workers ?? [])
      if (isDeleted(machine))
        warnings.push(about(machine, 'a worker', 'remove the machine from the cluster as well:'));
  }
  if (faults.length > 0) throw new MusterError('E_REFERENCE', firstOf(faults), { faults });
  return warnings;
}
