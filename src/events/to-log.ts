/**
 * Writes events to the log, with the same content that `muster events` shows.
 */
import type { Log } from '../base/log.ts';
import { EVENT_KINDS, type EventKind, type EventLog } from './event.ts';

/**
 * Log level of each kind; `info` unless listed. Events of every packet or file have `debug`, events
 * that an operator should look at have `warn`. `none`: the room that records the event logs it
 * itself with more details.
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
  // Its result is logged: a script, or a machine that is held.
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
 * Logs every event from now on. Returns a function that ends this. Kinds below the level of the log
 * are not formatted.
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
