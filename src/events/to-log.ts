/**
 * Events as log lines: the same value that `muster events` shows, so that a log says what was
 * decided, and why.
 */
import type { Log } from '../base/log.ts';
import { EVENT_KINDS, type EventKind, type EventLog } from './event.ts';

/**
 * How loud a kind is; `info` unless listed. What comes with every packet or file is `debug`; what
 * somebody should look at is `warn`; `none`: its room logs it itself, with particulars that the
 * event lacks.
 */
const LEVELS: Partial<Readonly<Record<EventKind, 'debug' | 'warn' | 'none'>>> = {
  'dhcp.offer': 'debug',
  'dhcp.ack': 'debug',
  'dhcp.nak': 'debug',
  'dhcp.release': 'debug',
  'dhcp.decline': 'warn',
  'dhcp.exhausted': 'none',
  'dhcp.store': 'none',
  'dhcp.conflict': 'warn',
  'boot.session': 'debug',
  // what follows from it is logged: a script, a machine that is held
  'boot.decision': 'debug',
  'config.served': 'debug',
  'config.refused': 'warn',
  'asset.served': 'debug',
  'tftp.served': 'none',
  'tftp.failed': 'none',
  'report.disbelieved': 'warn',
  'machine.held': 'warn',
  'machine.conflict': 'warn',
  'cluster.request-denied': 'warn',
  'cluster.request-alarm': 'warn',
  'document.invalid': 'none',
};

/**
 * Logs every event from now on; the returned function ends that. Costs nothing for kinds below the
 * log's level.
 */
export function logEvents(events: Pick<EventLog, 'subscribe'>, log: Log): () => void {
  return events.subscribe(({ kind, subject, session, network, reason, fields }) => {
    const level = LEVELS[kind] ?? 'info';
    if (level === 'none' || !log.isLevelEnabled(level)) return;
    const { code, text } = reason ?? {};
    log[level](
      { event: kind, subject, session, network, reason: code, ...fields },
      text ?? EVENT_KINDS[kind],
    );
  });
}
