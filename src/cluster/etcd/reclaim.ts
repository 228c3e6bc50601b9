/**
 * The cure of an etcd that is full: it compacts to the current revision, defragments one member
 * after the other with the leader last, disarms NOSPACE, and looks whether a write is accepted.
 * Every step can be repeated, so an order that was cut off is given again.
 */

import { type Clock, pause } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { messageOf } from '../../base/error-text.ts';
import {
  alarmsOf,
  type EtcdCondition,
  leaderLast,
  type MemberCondition,
  spaceText,
  troublesIn,
} from './condition.ts';
import type { MemberAddress } from './founding.ts';
import type { EtcdMaintenance } from './views.ts';

/** Why an etcd cannot be reclaimed now; undefined when it can. */
export function whyNotReclaimed(cluster: string, condition: EtcdCondition): string | undefined {
  const { members, silent } = condition;
  const mute = [...silent, ...members.filter(({ reads }) => !reads).map(({ name }) => name)];
  if (mute.length > 0)
    return `${mute.join(', ')} ${mute.length === 1 ? 'does' : 'do'} not answer a read, and every member has to be defragmented: power ${mute.length === 1 ? 'it' : 'them'} on, or take ${mute.length === 1 ? 'it' : 'them'} out with \`muster cluster remove-node\``;
  const corrupt = troublesIn(cluster, condition).find(({ code }) => code === 'corrupt');
  return corrupt && `${corrupt.subject}: ${corrupt.says}; ${corrupt.fix}`;
}

const RECLAIM_STEPS = {
  compacted: 'etcd was compacted to revision {revision}: watches from before it list their objects again.',
  defragmented: '{member} was defragmented: {before} MiB became {after} MiB.',
  disarmed: 'Alarm NOSPACE of {member} was disarmed.',
  reclaimed: 'A write was accepted; {space}.',
  failed: 'The order to reclaim the space of etcd ended without success: {why}',
} as const;

export interface ReclaimStep {
  readonly code: keyof typeof RECLAIM_STEPS;
  readonly text: string;
}

/** Makes a step; `fields` are the values for the braces in its text. */
export const reclaimStep = (
  code: ReclaimStep['code'],
  fields: Readonly<Record<string, string>>,
): ReclaimStep => ({
  code,
  text: RECLAIM_STEPS[code].replace(/\{(\w+)\}/g, (braces, name: string) => fields[name] ?? braces),
});

interface Reclaiming {
  readonly cluster: string;
  readonly members: readonly MemberAddress[];
  readonly quota: number;
  readonly etcd: EtcdMaintenance;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly note: (step: ReclaimStep) => void;
  /** The machines that may go down at any moment. */
  readonly goingDown: () => readonly string[];
  /** Has the name of the member that answers nothing, because it is being defragmented. */
  readonly mute: Set<string>;
}

/** Why no member may be defragmented, because another one may go down; undefined when it may. */
export function whyDefragmentationWaits(
  members: readonly MemberAddress[],
  goingDown: readonly string[],
): string | undefined {
  const names = members.map(({ name }) => name).filter((name) => goingDown.includes(name));
  return names.length === 0
    ? undefined
    : `${names.join(', ')} may restart at any moment, and a member that is defragmented does not answer`;
}

const LOOK_EVERY = duration('1s');
/** A compaction goes on in other members for a while after one has answered. */
const COMPACTION_TAKES = duration('1m');
/** How long a member may take after a defragmentation until it reads again. */
const BACK_WITHIN = duration('1m');
/** How long an order waits for a member that may restart. */
const WAITS_FOR_RESTARTS = duration('15m');

/** Carries the order out. Rejects with the reason when it does not end with an accepted write. */
export async function reclaim(of: Reclaiming): Promise<void> {
  const { cluster, members, quota, etcd, note } = of;
  const before = await etcd.condition(members, quota);
  const why = whyNotReclaimed(cluster, before);
  if (why !== undefined) throw new Error(why);
  const revision = before.members
    .map((one) => BigInt(one.revision))
    .reduce((a, b) => (a > b ? a : b))
    .toString();
  await etcd.compact(members, revision);
  note(reclaimStep('compacted', { revision }));
  for (const { name } of leaderLast((await settled(of)).members)) {
    await othersStay(of);
    await defragmentOne(of, name);
  }
  const after = await etcd.condition(members, quota);
  if (after.members.some(({ octets }) => octets >= after.quota))
    throw new Error(
      `the database is still at its quota, ${spaceText(after)}, and the alarm stays: delete objects, which etcd accepts under the alarm, or raise quota-backend-bytes, and order this again`,
    );
  for (const alarm of alarmsOf(after).filter(({ name }) => name === 'NOSPACE')) {
    await etcd.disarm(members, alarm);
    const member = after.members.find(({ id }) => id === alarm.member)?.name ?? alarm.member;
    note(reclaimStep('disarmed', { member }));
  }
  try {
    await etcd.write(members);
  } catch (error) {
    throw new Error(`etcd refuses a write all the same: ${messageOf(error)}`, { cause: error });
  }
  note(reclaimStep('reclaimed', { space: spaceText(after) }));
}

/** Waits until no member may go down. */
async function othersStay({ members, goingDown, clock, signal }: Reclaiming): Promise<void> {
  const end = clock.monotonic() + WAITS_FOR_RESTARTS;
  while (
    !signal.aborted &&
    clock.monotonic() < end &&
    whyDefragmentationWaits(members, goingDown()) !== undefined
  )
    await pause(clock, LOOK_EVERY, signal);
}

/** Waits until what is in use no longer shrinks in any member. Resolves with the last condition. */
async function settled({ members, quota, etcd, clock, signal }: Reclaiming): Promise<EtcdCondition> {
  const end = clock.monotonic() + COMPACTION_TAKES;
  let before = await etcd.condition(members, quota);
  while (!signal.aborted) {
    await pause(clock, LOOK_EVERY, signal);
    const now = await etcd.condition(members, quota);
    const shrinks = now.members.some(({ name, inUse }) => {
      const old = before.members.find((one) => one.name === name);
      return old === undefined || inUse < old.inUse;
    });
    if (!shrinks || clock.monotonic() > end) return now;
    before = now;
  }
  return before;
}

const mebibytes = (octets: number): string => String(Math.ceil(octets / 2 ** 20));

/**
 * Defragments a member and waits until it reads again, so that the next one is not begun earlier.
 * Rejects when another member does not read now, or may go down at any moment.
 */
export async function defragmentOne(of: Omit<Reclaiming, 'cluster'>, name: string): Promise<void> {
  const { members, quota, etcd, goingDown } = of;
  const before = await etcd.condition(members, quota);
  const mute = members.filter(({ name: other }) => !before.members.find((m) => m.name === other)?.reads);
  if (mute.length > 0)
    throw new Error(
      `${name} is not defragmented, because ${mute.map((m) => m.name).join(', ')} does not answer`,
    );
  const waits = whyDefragmentationWaits(members, goingDown());
  if (waits !== undefined) throw new Error(`${name} is not defragmented: ${waits}`);
  of.mute.add(name);
  try {
    await etcd.defragment(members.find((member) => member.name === name)!);
    await isBack(of, before.members.find((member) => member.name === name)!);
  } finally {
    of.mute.delete(name);
  }
}

/** Waits until a member reads again after its defragmentation. */
async function isBack(
  { members, quota, etcd, clock, signal, note }: Omit<Reclaiming, 'cluster'>,
  { name, octets }: MemberCondition,
): Promise<void> {
  const end = clock.monotonic() + BACK_WITHIN;
  for (;;) {
    const { members: found } = await etcd.condition(members, quota);
    const after = found.find((member) => member.name === name);
    if (after?.reads) {
      const sizes = { before: mebibytes(octets), after: mebibytes(after.octets) };
      note(reclaimStep('defragmented', { member: name, ...sizes }));
      return;
    }
    if (clock.monotonic() > end || signal.aborted)
      throw new Error(`${name} does not answer a read after its defragmentation; see the log of etcd on it`);
    await pause(clock, LOOK_EVERY, signal);
  }
}
