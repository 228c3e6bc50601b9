/** Named verdicts about a boot: what is wrong, what shows it, and what ends it. Pure. */
import type { Millis } from '../base/duration.ts';
import type { ObservedBoot } from './observe.ts';
import { RULES, type VerdictCode } from './rules.ts';

export type { VerdictCode } from './rules.ts';

/** One thing that was observed. */
export interface Evidence {
  /** The number of its event. */
  readonly sequence: number;
  readonly at: Millis;
  readonly text: string;
}

export interface Verdict {
  readonly code: VerdictCode;
  readonly title: string;
  /** `likely`: other causes would look the same; the section in docs/diagnosis.md names them. */
  readonly certainty: 'certain' | 'likely';
  /** Oldest first; at most five, the newest. */
  readonly evidence: readonly Evidence[];
  /** What ends it, in one or two sentences. */
  readonly remedy: string;
  /** Where it is explained, from the root of the repository. */
  readonly page: string;
}

const MAX_EVIDENCE = 5;

/** The page that explains all verdicts. */
const DIAGNOSIS_PAGE = 'docs/diagnosis.md';

/**
 * The verdicts that fit a boot; those that are certain come first, and otherwise in the order of
 * the table.
 */
export function diagnose(boot: ObservedBoot): readonly Verdict[] {
  const found = RULES.flatMap((rule): Verdict[] => {
    const shows = rule.find(boot);
    if (shows.length === 0) return [];
    const { code, title, certainty, remedy } = rule;
    return [
      {
        code,
        title,
        certainty,
        evidence: shows.slice(-MAX_EVIDENCE).map(({ event, text }) => ({
          sequence: event.sequence,
          at: event.at,
          text,
        })),
        remedy: remedy.replaceAll('NAME', boot.machine),
        page: `${DIAGNOSIS_PAGE}#${code}`,
      },
    ];
  });
  return found.toSorted((a, b) => Number(a.certainty === 'likely') - Number(b.certainty === 'likely'));
}
