/**
 * The condition of an etcd as its members report it: alarms, the size of the database against its
 * quota, and how far each member has come. A member can answer every read and be full or corrupt.
 * Pure.
 */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import type { MemberAddress } from './founding.ts';

/** An alarm of etcd, which stays until it is disarmed. */
export interface Alarm {
  /** etcd's id of the member that raised it. */
  readonly member: string;
  /** NOSPACE or CORRUPT, or what a later etcd calls it. */
  readonly name: string;
}

/** What one member answers to `/v3/maintenance/status`. */
export interface MemberCondition {
  readonly name: string;
  readonly address: string;
  readonly id: string;
  /** etcd's id of the leader that it follows; absent: it knows none. */
  readonly leader?: string;
  readonly learner: boolean;
  /** The size of its database file, with the pages that are free in it. */
  readonly octets: number;
  /** What of it is in use; a defragmentation gives the rest back. */
  readonly inUse: number;
  /** The quota, which etcd 3.6 and later report. */
  readonly quota?: number;
  /** The last entry of the log that it has applied. */
  readonly applied: number;
  readonly revision: string;
  readonly alarms: readonly Alarm[];
  /** Whether it has just answered a linearizable read. */
  readonly reads: boolean;
}

export interface EtcdCondition {
  readonly members: readonly MemberCondition[];
  /** Names of members that did not answer. */
  readonly silent: readonly string[];
  /** The quota of the database, as etcd reports it or the Cluster sets it. */
  readonly quota: number;
}

/** The quota of an etcd that is started without `quota-backend-bytes`. */
const DEFAULT_QUOTA = 2 * 2 ** 30;

/**
 * The quota by the flag `quota-backend-bytes`: 0 means the default, and a negative one that there
 * is none.
 */
export function quotaOf(flag: unknown): number {
  const value = Number(typeof flag === 'string' && flag !== '' ? flag : 0);
  if (value < 0) return Number.POSITIVE_INFINITY;
  return value > 0 ? value : DEFAULT_QUOTA;
}

/**
 * Reads a member's answer. The gateway writes 64-bit numbers as texts and leaves out what is zero.
 * Alarms are in `errors` as `memberID:123 alarm:NOSPACE`, also of a member without a quorum.
 */
export function readCondition(
  { name, address }: MemberAddress,
  answer: unknown,
  reads: boolean,
): MemberCondition {
  const { header, leader, isLearner, dbSize, dbSizeInUse, dbSizeQuota, raftAppliedIndex, errors } =
    fieldsOf(answer);
  const { member_id, revision } = fieldsOf(header);
  const number = (value: unknown): number => Number(textOf(value) || 0);
  const known = textOf(leader);
  const quota = number(dbSizeQuota);
  return {
    name,
    address,
    id: textOf(member_id),
    ...(known !== '' && known !== '0' && { leader: known }),
    learner: isLearner === true,
    octets: number(dbSize),
    inUse: number(dbSizeInUse),
    ...(quota > 0 && { quota }),
    applied: number(raftAppliedIndex),
    revision: textOf(revision) || '0',
    alarms: listOf(errors).flatMap((error) => {
      const [, member, alarm] = /memberID:(\d+)\s+alarm:(\w+)/.exec(textOf(error)) ?? [];
      return member === undefined || alarm === undefined ? [] : [{ member, name: alarm }];
    }),
    reads,
  };
}

/** All alarms that any member knows, each once. */
export function alarmsOf({ members }: EtcdCondition): readonly Alarm[] {
  const all = new Map(
    members.flatMap(({ alarms }) => alarms.map((one) => [`${one.member} ${one.name}`, one])),
  );
  return [...all.values()];
}

export const TROUBLES = ['nospace', 'corrupt', 'other_alarm', 'near_quota', 'behind', 'no_leader'] as const;

/** Something wrong with an etcd whose members answer. */
export interface Trouble {
  readonly code: (typeof TROUBLES)[number];
  /** The member; the cluster when it is about all of them. */
  readonly subject: string;
  readonly says: string;
  readonly fix: string;
}

/** A database that is larger than this part of its quota is near it. */
const NEAR = 0.8;
/**
 * A member that has applied so many entries fewer than another one is behind. etcd itself refuses
 * requests when it is this far behind its own log (maxGapBetweenApplyAndCommitIndex).
 */
const BEHIND = 5000;

const mebibytes = (octets: number): string =>
  octets === Number.POSITIVE_INFINITY ? 'no limit' : `${Math.ceil(octets / 2 ** 20)} MiB`;

/** `25 MiB of 2048 MiB, 20 MiB in use`, of the member with the largest database. */
export function spaceText({ members, quota }: EtcdCondition): string {
  const octets = Math.max(0, ...members.map((one) => one.octets));
  const inUse = Math.max(0, ...members.map((one) => one.inUse));
  return `${mebibytes(octets)} of ${mebibytes(quota)}, ${mebibytes(inUse)} in use`;
}

/** What is wrong, the worst first. */
export function troublesIn(cluster: string, condition: EtcdCondition): readonly Trouble[] {
  return [
    ...alarmsOf(condition).map((alarm) => alarmTrouble(cluster, condition, alarm)),
    ...nearQuota(cluster, condition),
    ...condition.members.flatMap((one) => lagOf(cluster, condition, one)),
  ];
}

function alarmTrouble(cluster: string, condition: EtcdCondition, { member, name }: Alarm): Trouble {
  const who = condition.members.find(({ id }) => id === member)?.name ?? `member ${member}`;
  if (name === 'NOSPACE')
    return {
      code: 'nospace',
      subject: who,
      says: `alarm NOSPACE: etcd refuses every write but deletions, because a database reached its quota (${spaceText(condition)})`,
      fix: `muster cluster reclaim-space ${cluster} shows what it would do and ends it; if the space in use is near the quota, delete objects or raise quota-backend-bytes first`,
    };
  if (name === 'CORRUPT')
    return {
      code: 'corrupt',
      subject: who,
      says: 'alarm CORRUPT: its data differ from those of other members, and etcd refuses writes',
      fix: `take it out with \`muster cluster remove-node ${cluster} ${who} --clear\` and add it again; then \`etcdctl alarm disarm\` with \`muster cluster etcd-client ${cluster}\``,
    };
  return {
    code: 'other_alarm',
    subject: who,
    says: `alarm ${name} of etcd`,
    fix: `see the log of etcd on ${who}`,
  };
}

function nearQuota(cluster: string, condition: EtcdCondition): readonly Trouble[] {
  const { members, quota } = condition;
  if (alarmsOf(condition).some(({ name }) => name === 'NOSPACE')) return [];
  if (!members.some(({ octets }) => octets >= NEAR * quota)) return [];
  return [
    {
      code: 'near_quota',
      subject: cluster,
      says: `a database is near its quota: ${spaceText(condition)}; at the quota etcd refuses every write`,
      fix: `muster cluster reclaim-space ${cluster} shows what can be given back; if most of it is in use, delete objects or raise quota-backend-bytes`,
    },
  ];
}

function lagOf(cluster: string, { members }: EtcdCondition, one: MemberCondition): readonly Trouble[] {
  const { name: subject, leader, applied, learner } = one;
  const see = `see the log of etcd on ${subject}, its disk and its network; \`muster cluster founding ${cluster}\``;
  if (leader === undefined)
    return [{ code: 'no_leader', subject, says: 'it answers, and knows no leader', fix: see }];
  const ahead = Math.max(...members.map((other) => other.applied)) - applied;
  if (learner || ahead < BEHIND) return [];
  return [{ code: 'behind', subject, says: `it is ${ahead} entries of the log behind`, fix: see }];
}

/** Why no change of the cluster may begin or go on; undefined: no alarm is raised. */
export function whyAlarmed(cluster: string, condition: EtcdCondition): string | undefined {
  const found = troublesIn(cluster, condition).find(({ code }) => ALARMS.has(code));
  return found && `etcd, ${found.subject}: ${found.says}; ${found.fix}`;
}

const ALARMS: ReadonlySet<Trouble['code']> = new Set(['nospace', 'corrupt', 'other_alarm']);

/**
 * The member that the routine defragments now: of a database of at least 100 MiB, 45 % are free (as
 * in OpenShift's cluster-etcd-operator), or a fifth near the quota. All members answer and nothing
 * else is wrong, so that the others serve meanwhile; therefore a single member is never chosen. The
 * leader is the last. `mayNot`: members that had their turn lately.
 */
export function dueForDefragmentation(
  cluster: string,
  condition: EtcdCondition,
  mayNot: (member: string) => boolean,
): MemberCondition | undefined {
  const { members, silent, quota } = condition;
  if (silent.length > 0 || members.filter(({ learner }) => !learner).length < 3) return undefined;
  if (members.some(({ reads, learner }) => !reads || learner)) return undefined;
  if (troublesIn(cluster, condition).some(({ code }) => code !== 'near_quota')) return undefined;
  const due = members.filter(({ name, octets, inUse }) => {
    const free = octets > 0 ? (octets - inUse) / octets : 0;
    const fragmented = octets >= 100 * 2 ** 20 && free >= 0.45;
    return !mayNot(name) && (fragmented || (octets >= NEAR * quota && free >= 0.2));
  });
  return leaderLast(due)[0];
}

/** The members in the order in which they are defragmented. */
export const leaderLast = (members: readonly MemberCondition[]): readonly MemberCondition[] =>
  members.toSorted((a, b) => Number(a.id === a.leader) - Number(b.id === b.leader));
