/** The record of an etcd that another tool founded. Pure. */
import type { FoundingRecord } from './founding.ts';

/**
 * A record that says that the cluster is founded, so that no machine founds a second etcd. It has
 * no members of its own: etcd's list counts, and machines that boot join it as learners.
 */
export const adoptedFounding = (cluster: string, id: string, now: number): FoundingRecord => ({
  v: 1,
  cluster,
  id,
  openedAt: now,
  openedBy: 'person',
  members: [],
  grants: {},
  founded: { at: now, by: 'adopted from kubeadm' },
  joined: {},
  lists: {},
});
