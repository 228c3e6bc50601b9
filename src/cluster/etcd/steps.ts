/**
 * The steps of founding: every change of a founding's record has a code from this table, and its
 * event `cluster.founding` carries the code. docs/events.md and docs/founding.md list the codes.
 * Pure.
 */
import type { Reason } from '../../events/event.ts';

/** Code → text of the event; words in braces are replaced by the fields of the step. */
export const FOUNDING_STEPS = {
  opened_by_all: 'All members have asked and none has data: the founding is open.',
  opened_by_operator: 'An operator opened the founding with the members that have asked.',
  bound_late: '{member} asked for the first time and is bound to its filesystem {filesystem}.',
  data_seen: '{member} reported its data; its etcd is {health}.',
  founded_member: '{member} read from etcd with a quorum: the founding has ended.',
  founded_probe: 'The boot host found a quorum of etcd: the founding has ended.',
  replacing_begun: 'Replacing {member}: {cause}.',
  replacing_stage: 'Replacing {member}: the next step is {stage}.',
  replaced: '{member} is a voting member of etcd again.',
  replacing_ended: 'The replacement of {member} was called off and its learner is removed.',
  leaving_ordered: 'An operator ordered these machines out: {machines}.',
  released:
    '{machine} was released from quarantine. If its member had left etcd, it clears its disk and joins again.',
  left_stage: '{machine} is leaving: step {stage} is done.',
  removed: '{member} is no longer a member of etcd.',
  gone: '{machine} has stopped everything that belongs to the cluster.',
  reset: 'An operator reset the cluster: all its machines are cleared.',
  called_off: 'An operator called off the replacement or restore of {member}.',
  adopted: 'An operator declared the present disk of {member} its own.',
  restore_ordered: 'An operator ordered a restore from the data of {member}; abandoned members: {without}.',
  snapshot_ordered:
    'An operator ordered a restore of snapshot {snapshot} on {member}; abandoned members: {without}.',
  restored: 'The data of {member} are restored: they are a new founding.',
} as const;

type FoundingStepCode = keyof typeof FOUNDING_STEPS;

/** One change of a founding's record. */
export interface FoundingStep {
  readonly code: FoundingStepCode;
  /** The values for the braces in the text of the code. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Makes a step; `fields` are the values for the braces in its text. */
export const foundingStep = (code: FoundingStepCode, fields: FoundingStep['fields'] = {}): FoundingStep => ({
  code,
  fields,
});

/**
 * The code and the complete sentence of a step.
 *
 * @example
 * reasonOf(foundingStep('replacing_stage', { member: 'm2', stage: 'add' }));
 * // { code: 'replacing_stage', text: 'Replacing m2: the next step is add.' }
 */
export const reasonOf = ({ code, fields }: FoundingStep): Reason => ({
  code,
  text: FOUNDING_STEPS[code].replace(/\{(\w+)\}/g, (braces, name: string) => fields[name] ?? braces),
});
