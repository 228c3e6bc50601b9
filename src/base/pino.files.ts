/** The daemon's log: JSON lines for machines, one readable line each on a terminal. */
import pino from 'pino';
import type { Log } from './log.ts';

/** Fields whose values never reach a log, at the top and one level down. */
const SECRET_FIELDS = [
  'password',
  'passwordHash',
  'token',
  'secret',
  'privateKey',
  'authorization',
  'cookie',
  'content',
  'contentBase64',
];

export interface DaemonLog extends Log {
  /**
   * Resolves when what was logged before is written; call before the process ends. Never rejects.
   */
  flush(): Promise<void>;
  /**
   * The same log for lines that carry no secrets by what they are (events): looking for some costs
   * half of such a line.
   */
  readonly unredacted: Log;
}

/**
 * A logger to `fd` (default standard output). `pretty` prints `10:15:02 INFO message key=value`
 * instead of JSON. Lines are written one after the other without waiting for the reader, so a slow
 * journal does not delay an answer.
 */
export function createLog(options: {
  readonly level: string;
  readonly pretty: boolean;
  readonly fd?: number;
}): DaemonLog {
  // With a least length of 0 nothing tells when a write that is under way has ended.
  const destination = pino.destination({ dest: options.fd ?? 1, sync: false, minLength: 1 });
  const stream = options.pretty
    ? { write: (line: string) => void destination.write(prettyLine(line)) }
    : destination;
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: [...SECRET_FIELDS, ...SECRET_FIELDS.map((field) => `*.${field}`)],
        censor: '[redacted]',
      },
    },
    stream,
  );
  // An error means that the reader of the log has gone: there is nobody left to tell.
  const flush = (): Promise<void> => new Promise((resolve) => destination.flush(() => resolve()));
  const unredacted = logger.child({}, { redact: [] });
  return Object.assign(logger, { flush, unredacted }) as unknown as DaemonLog;
}

/** One JSON line of pino as a line for people. Control characters in values stay escaped. */
export function prettyLine(line: string): string {
  const { time, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields).map(([key, value]) => `${key}=${plain(value)}`);
  const clock = String(time).slice(11, 19);
  return `${[clock, String(level).toUpperCase().padEnd(5), msg === undefined ? '' : plain(msg, true), ...rest].join(' ').trimEnd()}\n`;
}

function plain(value: unknown, sentence = false): string {
  const quoted = JSON.stringify(value);
  if (typeof value !== 'string') return quoted;
  const escaped = quoted.slice(1, -1);
  return sentence || (/^[^\s"=]+$/.test(value) && escaped === value) ? escaped : quoted;
}
