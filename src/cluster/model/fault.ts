/** A fault of a Cluster document, as `resolveCluster` and the checks report it. */
import type { Fault } from '../../base/errors.ts';
import { withoutSecrets } from '../../base/without-secrets.ts';

export interface ClusterFault {
  /** `path` begins with `spec.kubernetes`. */
  readonly fault: Fault;
  /** An error prevents the Cluster from being resolved; a warning does not. */
  readonly severity: 'error' | 'warning';
  /** The machine that the fault is about, if there is one. */
  readonly machine?: string;
}

/** Makes a fault. `path` is below `spec.kubernetes`; it is empty for `spec.kubernetes` itself. */
export const clusterFault = (
  severity: ClusterFault['severity'],
  path: string,
  message: string,
  machine?: string,
): ClusterFault => ({
  severity,
  fault: {
    code: 'E_CLUSTER',
    message: withoutSecrets(message, path.slice(path.lastIndexOf('.') + 1)),
    path: `spec.kubernetes${path === '' ? '' : `.${path}`}`,
  },
  ...(machine !== undefined && { machine }),
});

/**
 * Makes a fault that prevents the Cluster from being resolved. `path` as for {@link clusterFault}.
 */
export const clusterError = (path: string, message: string, machine?: string): ClusterFault =>
  clusterFault('error', path, message, machine);
