/**
 * The condition of a cluster: one word for what is so now, from its document, the record of its
 * founding and the last look at its health. Pure.
 */
import type { ConditionTone } from '../../machines/condition.ts';
import type { FoundingRecord } from '../etcd/founding.ts';
import type { ClusterHealth } from './finding.ts';

/** The words, the worst first. */
export const CLUSTER_CONDITIONS = {
  failing: { tone: 'bad', about: 'A check of its health fails.' },
  held: { tone: 'warn', about: 'Its change waits for an operator; all else is well.' },
  incomplete: { tone: 'warn', about: 'Its document has faults, so nothing new is planned for it.' },
  reset: { tone: 'warn', about: 'An operator reset it: its machines hold until it is founded again.' },
  restoring: { tone: 'busy', about: 'Its etcd is being restored from a snapshot or from one member.' },
  'not-founded': { tone: 'calm', about: 'Its members of etcd have not all asked yet.' },
  founding: { tone: 'busy', about: 'Its etcd is being founded.' },
  changing: {
    tone: 'busy',
    about: 'A change, a departure or a replacement is under way, and all checks pass.',
  },
  unchecked: { tone: 'calm', about: 'It is founded, and was not checked within three minutes.' },
  ready: { tone: 'good', about: 'It is founded, and all checks of its health passed within three minutes.' },
} as const satisfies Readonly<Record<string, { readonly tone: ConditionTone; readonly about: string }>>;
export type ClusterWord = keyof typeof CLUSTER_CONDITIONS;

export interface ClusterCondition {
  readonly word: ClusterWord;
  /** What is wrong, or what is under way; absent where the word says all. */
  readonly text?: string;
  /** When its health was checked, RFC 3339; absent where it was not. */
  readonly checkedAt?: string | undefined;
}

/**
 * The condition of a cluster. `complete`: whether its document can be planned. `health`: the last
 * look, if it is recent.
 */
export function clusterConditionOf(
  complete: boolean,
  record: FoundingRecord | undefined,
  health: ClusterHealth | undefined,
): ClusterCondition {
  if (record === undefined) return { word: complete ? 'not-founded' : 'incomplete' };
  if (record.reset) return { word: 'reset' };
  if (record.restoring) return { word: 'restoring' };
  if (!record.founded) return { word: 'founding' };
  const checkedAt = health?.at;
  const wrong = health?.findings.filter(({ ok }) => !ok) ?? [];
  const [worst] = wrong.filter(({ check }) => check !== 'change');
  if (worst) return { word: 'failing', text: `${worst.check} ${worst.subject}: ${worst.says}`, checkedAt };
  const [held] = wrong;
  if (held) return { word: 'held', text: held.says, checkedAt };
  if (!complete) return { word: 'incomplete' };
  if (health === undefined) return { word: 'unchecked' };
  const change = health.findings.find(({ check }) => check === 'change');
  const isChanging = record.replacing !== undefined || Object.keys(record.leaving ?? {}).length > 0;
  if (change) return { word: 'changing', text: change.says, checkedAt };
  return { word: isChanging ? 'changing' : 'ready', checkedAt };
}
