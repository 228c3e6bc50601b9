/**
 * Machines as witnesses of the security log: each agent remembers the newest checkpoint that it was
 * sent and shows it in every poll, so that a log that was rolled back or rewritten is noticed by
 * the next machine that reports.
 */
import { createPublicKey } from 'node:crypto';
import type { Log } from '../../base/log.ts';
import { type Checkpoint, checkpointText, isSigned } from '../../events/audit-chain.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import type { SecurityLog } from '../../events/security-log.files.ts';

export interface Witness {
  /**
   * Compares what a machine remembers with the log, and raises an alarm when they differ.
   * @returns the header with the newest checkpoint, for the answer; none if there is no newer one.
   */
  hear(machine: string, seen: Checkpoint | undefined): Readonly<Record<string, string>>;
}

/** What a checkpoint shows that does not belong to the log as it is. */
const ALARMS = {
  later: 'The machine remembers a later checkpoint of the security log: the log was rolled back or cut.',
  other: 'The machine remembers another checkpoint at this place: the security log was rewritten.',
  other_key: "The machine remembers a checkpoint that the security log's key has not signed.",
} as const;

export function createWitness({
  security,
  events,
  log,
}: {
  readonly security: Pick<SecurityLog, 'status' | 'kept' | 'compare'>;
  readonly events: EventSink;
  readonly log: Log;
}): Witness {
  const key = createPublicKey(security.status().key.pem);
  /** A machine raises each alarm once while this process runs. */
  const raised = new Set<string>();
  const judge = (seen: Checkpoint): keyof typeof ALARMS | undefined => {
    const found = security.compare(seen);
    if (found === 'same') return undefined;
    if (!isSigned(seen, key)) return 'other_key';
    return found === 'unknown' ? undefined : found;
  };
  return {
    hear(machine, seen) {
      const newest = security.kept();
      const code = seen && judge(seen);
      if (code !== undefined && !raised.has(`${machine} ${code}`)) {
        raised.add(`${machine} ${code}`);
        const reason: Reason = { code, text: ALARMS[code] };
        const checkpoint = checkpointText(seen!);
        log.error({ code: 'E_AUDIT_LOG', machine, checkpoint }, reason.text);
        events.record({ kind: 'audit.alarm', subject: machine, reason, fields: { checkpoint } });
      }
      const has = newest === undefined || (seen !== undefined && seen.sequence >= newest.sequence);
      return has ? {} : { 'muster-checkpoint': checkpointText(newest) };
    },
  };
}
