/** What the maintenance windows of a Cluster decide (maintenance.ts). */

/** Machines that an upgrade changes, as windows tell them apart. Members of etcd are servers. */
export type Upgraded = 'workers' | 'servers';

/**
 * Why something has to wait for a window of a Cluster; undefined when it may begin. `now`: it was
 * ordered for any time, and waits only while the host's clock is in doubt.
 */
export interface Windows {
  /** A machine that is to reboot in a roll, or keys that rotate by themselves. */
  readonly closed: (cluster: string, now?: boolean) => string | undefined;
  /** Machines that are to be changed in an upgrade of Kubernetes. */
  readonly closedForUpgrades: (cluster: string, who: Upgraded, now?: boolean) => string | undefined;
}
