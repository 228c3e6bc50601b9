/** The server's log: JSON lines, or lines for people on a terminal. */
import pino from 'pino';
import type { Log } from './log.ts';
import { openLogSink } from './log-sink.files.ts';

/** Fields whose values are redacted, at the top level and one level below. */
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
   * Resolves when all earlier lines are written or dropped. Call it before the process ends. Never
   * rejects.
   */
  flush(): Promise<void>;
  /**
   * The same log for lines that hold no secrets (events). Searching for secrets takes half of the
   * time that a line costs.
   */
  readonly unredacted: Log;
}

export interface DaemonLogOptions {
  readonly level: string;
  /** Lines like `10:15:02 INFO message key=value` instead of JSON. */
  readonly pretty: boolean;
  /** Default: standard output. */
  readonly fd?: number;
  /** Called with the number of lines that could not be written and were dropped. */
  readonly dropped?: (lines: number) => void;
}

/**
 * Makes a logger that never blocks and never fails. Lines are written asynchronously, so a slow
 * journal delays no answer; lines that cannot be written are dropped and counted
 * (log-sink.files.ts).
 */
export function createLog(options: DaemonLogOptions): DaemonLog {
  const shown = (line: string): string => (options.pretty ? prettyLine(line) : line);
  const sink = openLogSink({
    fd: options.fd ?? 1,
    dropped: options.dropped ?? (() => {}),
    report: (lines, error) => {
      const time = new Date().toISOString();
      const msg = 'lines of this log could not be written and were dropped';
      return shown(`${JSON.stringify({ level: 'warn', time, lines, error, msg })}\n`);
    },
  });
  process.once('exit', sink.writeNow);
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
    { write: (line: string) => sink.write(shown(line)) },
  );
  const unredacted = logger.child({}, { redact: [] });
  return Object.assign(logger, { flush: sink.flush, unredacted }) as unknown as DaemonLog;
}

/** Turns a JSON line of pino into a line for people. Control characters in values stay escaped. */
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
