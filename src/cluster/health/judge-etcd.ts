/**
 * Compares etcd's own list of members with the document: which member is missing, which does not
 * answer, which should not be in the list. Pure.
 */
import { type EtcdCondition, spaceText, troublesIn } from '../etcd/condition.ts';
import type { EtcdMember, EtcdView, MemberAddress } from '../etcd/founding.ts';
import { addressOfUrl, hasQuorum, isMember, majority } from '../etcd/quorum.ts';
import { recordedMembers } from '../etcd/record.ts';
import type { FoundingStatus } from '../etcd/status.ts';
import { bad, type Finding, good } from './finding.ts';
import { remedyOf } from './judge-programs.ts';
import { type Circumstances, lastWords, restartedBy, unlessRestarted } from './under-way.ts';

/**
 * The findings about etcd. `documented`: the members in the document; undefined while the document
 * is incomplete, in which case the members in the record and in etcd's list are used. A member that
 * the change under way restarts is no fault. `condition`: what the members report of themselves;
 * undefined where none was asked.
 */
export function judgeEtcd(
  status: FoundingStatus,
  documented: readonly MemberAddress[] | undefined,
  circumstances: Circumstances = {},
  condition?: EtcdCondition,
): readonly Finding[] {
  const { cluster, record, view } = status;
  const { leaving } = circumstances;
  const members = documented ?? known(status);
  if (!record)
    return [
      bad('etcd', cluster, `not founded: ${heldText(status, members)}`, `muster cluster founding ${cluster}`),
    ];
  if (!record.founded && !view)
    return [bad('etcd', cluster, 'its founding is open, and has no quorum yet', 'power on its members')];
  if (!view && record.restoring)
    return [
      bad(
        'etcd',
        cluster,
        `it is being restored on ${record.restoring.member}`,
        `wait; muster cluster founding ${cluster} shows its progress`,
      ),
    ];
  if (!view) {
    const says = 'no member answers a linearizable read: it has no quorum';
    const fix = `power on its members with their disks; muster cluster founding ${cluster} shows the last decision for each`;
    // The only member may restart.
    const by = members.map(({ name }) => restartedBy(circumstances, name, 'etcd'));
    const restarts = by.length > 0 && by.every((one) => one !== undefined);
    return [
      restarts ? good('etcd', cluster, `${says}; ${by[0]} restarts it`) : bad('etcd', cluster, says, fix),
      ...judgeCondition(cluster, condition),
    ];
  }
  const strangers = view.members.filter((one) => !members.some((who) => isMember(one, who)));
  return [
    quorum(cluster, view, circumstances),
    ...members.map((who) => judgeMember(status, view, who, circumstances)),
    ...judgeCondition(cluster, condition),
    ...strangers.map((one) =>
      leaving?.has(one.name)
        ? good('etcd', one.name, `member ${one.id} is being taken out of the cluster`)
        : stranger(cluster, one),
    ),
    ...replacement(status),
    ...removals(status),
  ];
}

/** What reads do not show: alarms, space, members that lag. */
function judgeCondition(cluster: string, condition: EtcdCondition | undefined): readonly Finding[] {
  if (condition === undefined || condition.members.length === 0) return [];
  const found = troublesIn(cluster, condition);
  const full = found.some(({ code }) => code === 'nospace' || code === 'near_quota');
  return [
    ...found.map(({ subject, says, fix }) => bad('etcd', subject, says, fix)),
    ...(full ? [] : [good('etcd', cluster, `its largest database has ${spaceText(condition)}`)]),
  ];
}

/** The members while the document is incomplete: all members in the record and in etcd's list. */
function known({ record, view }: FoundingStatus): readonly MemberAddress[] {
  const recorded = record ? recordedMembers(record) : [];
  const others = (view?.members ?? []).filter((one) => !recorded.some((who) => isMember(one, who)));
  return [
    ...recorded,
    ...others.map(({ id, name, peerUrls: [url = ''] }) => ({
      name: name || id,
      address: addressOfUrl(url) ?? '',
    })),
  ];
}

const heldText = ({ members }: FoundingStatus, wanted: readonly MemberAddress[]): string => {
  const absent = wanted.filter(({ name }) => !members.find((one) => one.name === name)?.asked);
  if (absent.length > 0)
    return `${absent.map(({ name }) => name).join(', ')} ${absent.length === 1 ? 'has' : 'have'} not asked yet`;
  const held = members.find(({ decision }) => decision?.do === 'hold')?.decision;
  return held?.do === 'hold' ? held.text : 'its members are asking';
};

function quorum(cluster: string, view: EtcdView, circumstances: Circumstances): Finding {
  const voters = view.members.filter(({ learner }) => !learner);
  const healthy = voters.filter((one) => one.healthy).length;
  const spare = Math.max(0, healthy - majority(voters.length));
  const says = `${healthy} of ${voters.length} voters answer; etcd can lose ${spare} more`;
  const lost = voters.filter(
    (one) => !one.healthy && restartedBy(circumstances, one.name, 'etcd') === undefined,
  );
  return hasQuorum(view) && lost.length === 0
    ? good('etcd', cluster, says)
    : bad('etcd', cluster, says, 'see the lines of its members');
}

function judgeMember(
  status: FoundingStatus,
  view: EtcdView,
  who: MemberAddress,
  circumstances: Circumstances,
): Finding {
  const found = view.members.find((one) => isMember(one, who));
  const known = status.members.find(({ name }) => name === who.name);
  const hold = known?.decision?.do === 'hold' ? `; it is held: ${known.decision.text}` : '';
  const fix =
    known?.asked && !known.silent ? `muster cluster founding ${status.cluster}` : `power on ${who.name}`;
  if (!found) return bad('etcd', who.name, `no member of etcd yet${hold}`, fix);
  if (!found.healthy) {
    const words = circumstances.ended?.(who.name);
    const says = `member ${found.id} does not answer${hold}${lastWords(words, 'etcd')}`;
    const silent = bad(
      'etcd',
      who.name,
      says,
      remedyOf(status.cluster, who.name, words, view.members.length === 1) ?? fix,
    );
    return unlessRestarted(circumstances, 'etcd', silent);
  }
  if (found.learner)
    return bad('etcd', who.name, `member ${found.id} is a learner: it is catching up`, 'wait');
  return good('etcd', who.name, `member ${found.id} is a voter and answers`);
}

const stranger = (cluster: string, { id, name, peerUrls }: EtcdMember): Finding =>
  bad(
    'etcd',
    name || id,
    `member ${id} (${peerUrls.join(', ')}) is not in the Cluster's document`,
    name === '' ? `muster cluster founding ${cluster}` : `muster cluster remove-node ${cluster} ${name}`,
  );

/** Why members that are leaving still have to wait. */
const removals = ({ record, waiting }: FoundingStatus): readonly Finding[] =>
  Object.entries(record!.leaving ?? {}).flatMap(([name, { stage }]) =>
    stage === 'etcd' && waiting !== undefined
      ? [good('etcd', name, `it is not taken out of etcd yet: ${waiting}`)]
      : [],
  );

function replacement({ cluster, record, waiting }: FoundingStatus): readonly Finding[] {
  const { replacing } = record!;
  if (!replacing) return [];
  const says = `being replaced, the next step is ${replacing.stage}${waiting === undefined ? '' : `: ${waiting}`}`;
  return [bad('etcd', replacing.member, says, `wait; muster cluster founding ${cluster} shows its progress`)];
}
