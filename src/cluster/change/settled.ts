/** Whether the members of a cluster's etcd are settled, as changes need it to begin. Pure. */
import type { Fault } from '../../base/errors.ts';
import type { FoundingStatus } from '../etcd/status.ts';

/** Why a change cannot begin, because the members of etcd change. */
export function etcdFaults(status: FoundingStatus, kind: string): readonly Fault[] {
  const why = whyEtcdChanges(status);
  return why === undefined ? [] : [{ code: 'E_CHANGE', message: `${why}; a ${kind} begins after that` }];
}

/** Why the members of etcd are not settled; undefined when they are. */
function whyEtcdChanges({ record, view }: FoundingStatus): string | undefined {
  if (!record?.founded) return 'its etcd is not founded yet';
  if (record.reset) return 'it is being reset';
  if (record.restoring) return `the data of ${record.restoring.member} are being restored`;
  if (record.replacing) return `the member ${record.replacing.member} is being replaced`;
  const [leaving] = Object.keys(record.leaving ?? {});
  if (leaving !== undefined) return `${leaving} is being taken out`;
  const learner = view?.members.find((member) => member.learner);
  return learner && `${learner.name || 'a new member'} is a learner of etcd and does not vote yet`;
}
