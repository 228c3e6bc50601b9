/** The logger interface of all rooms. A pino logger implements it. */

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A logger that adds `fields` to every line. */
  child(fields: object): Log;
  /** Whether lines of this level are written. Check it before building an expensive line. */
  isLevelEnabled(level: string): boolean;
}

/** A logger that writes nothing, for tests and for commands that print by other means. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
  isLevelEnabled: () => false,
};
