/** The logger that rooms take; pino's shape, so that pino fits it as it is. */

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A logger that adds `fields` to every line. */
  child(fields: object): Log;
  /** Whether debug lines are wanted: ask before building an expensive one. */
  isLevelEnabled(level: string): boolean;
}

/** A logger that says nothing; for tests and for commands that print by other means. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
  isLevelEnabled: () => false,
};
