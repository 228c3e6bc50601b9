/** Asks the components about the values of the Clusters of a change, before it is written. */

import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  idOf,
  spotOf,
} from '../../resources/candidate.ts';
import type { LateCheck } from '../../resources/catalog.ts';
import { parsePath } from '../../resources/document.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { resolveCluster } from '../resolve/resolve.ts';
import { machinesOf } from '../resolve/resolved-clusters.ts';
import type { Judge } from './judge.ts';
import type { Written } from './verdict.ts';

/**
 * Makes the check of the Clusters that a change has. One that is not complete is not judged: its
 * components' flags are not known yet.
 */
export const judgeWith =
  (judge: Judge): LateCheck =>
  async (candidates, changed) => {
    const clusters = [...candidates.Cluster.values()].flatMap((cluster) => {
      const written = changed.has(idOf(cluster.document)) ? writtenIn(cluster, candidates) : undefined;
      return written === undefined ? [] : [{ cluster, written }];
    });
    const found = await judge.judge(clusters.map(({ written }) => written));
    return clusters.flatMap(({ cluster }, n) =>
      found[n]!.map(({ fault, severity }): CrossFault => {
        const document = idOf(cluster.document);
        const at = spotOf(cluster, parsePath(fault.path!));
        const message = `${document}: ${fault.message}`;
        return { fault: { ...fault, message, ...(at && { at }) }, document, severity };
      }),
    );
  };

/** Undefined for a Cluster that has no values for components, or is not complete. */
function writtenIn(cluster: Candidate<'Cluster'>, candidates: CandidateSet): Written | undefined {
  const { metadata, spec } = cluster.document;
  if (spec.kubernetes === undefined || !hasValues(spec.kubernetes)) return undefined;
  const machines = machinesOf(spec.kubernetes, (name) => {
    const machine = candidates.Machine.get(name)?.document.spec;
    return machine && (machine.addresses ?? []);
  });
  const { resolved } = resolveCluster(metadata.name, spec.kubernetes, machines);
  const { resolved: plain } = resolveCluster(metadata.name, withoutValues(spec.kubernetes), machines);
  return resolved && plain && { resolved, plain };
}

const hasValues = ({ overrides = {}, apiServer }: KubernetesSpec): boolean =>
  apiServer !== undefined || VALUES.some((name) => overrides[name] !== undefined);

/** The overrides that components read. */
const VALUES = ['flags', 'kubelet', 'kubeProxy'] as const;

function withoutValues({ apiServer: _, overrides = {}, ...spec }: KubernetesSpec): KubernetesSpec {
  const others = Object.entries(overrides).filter(([name]) => !VALUES.some((value) => value === name));
  return { ...spec, ...(others.length > 0 && { overrides: Object.fromEntries(others) }) };
}
