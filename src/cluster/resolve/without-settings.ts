/** Leaves faulty settings out of a Cluster's specification, so that others can be checked. Pure. */
import type { KubernetesSpec } from '../../resources/kinds.ts';
import type { ClusterFault } from '../model/fault.ts';

const PREFIX = 'spec.kubernetes.';

/** Settings without which no Cluster can be resolved. */
const NEEDED = /^(version|endpoint|controlPlanes)\b/;

/** The specification without the settings of the errors; undefined if none can be left out. */
export function withoutSettings(
  spec: KubernetesSpec,
  faults: readonly ClusterFault[],
): KubernetesSpec | undefined {
  const left = structuredClone(spec);
  let isChanged = false;
  for (const { severity, fault } of faults) {
    const path = fault.path?.startsWith(PREFIX) ? fault.path.slice(PREFIX.length) : '';
    if (severity === 'error' && path !== '' && !NEEDED.test(path))
      isChanged = removeAt(left, path) || isChanged;
  }
  return isChanged ? left : undefined;
}

/**
 * Removes the value at a path with dots, whose keys may contain dots themselves. Lists are removed
 * as a whole, so that the places of their items stay right.
 */
function removeAt(value: object, path: string): boolean {
  const here = value as Record<string, unknown>;
  for (const key of Object.keys(here)) {
    const rest = path.startsWith(key) ? path.slice(key.length) : undefined;
    if (rest === undefined || !/^($|[.[])/.test(rest)) continue;
    const inner = here[key];
    const isMapping = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
    if (rest.startsWith('.') && isMapping && removeAt(inner, rest.slice(1))) return true;
    delete here[key];
    return true;
  }
  return false;
}
