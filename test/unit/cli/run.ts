/** Runs command lines in this process, as main.ts does, with what they print. */
import { runCommandLine } from '../../../src/cli/command-line.ts';
import type { Io } from '../../../src/cli/io.ts';

/** scrypt takes a millisecond instead of a second. */
const CHEAP_WORK = 8;

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function run(
  args: readonly string[],
  options: {
    readonly socket?: string;
    readonly color?: boolean;
    /** Width of the terminal; none by default. */
    readonly columns?: number;
    readonly rows?: number;
    readonly env?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
    /** What a person at the terminal types; without it standard input is no terminal. */
    readonly typed?: string;
    /** Told what a verb waits for; it does not wait. */
    readonly onPause?: (milliseconds: number) => unknown;
    /** Told all output so far whenever there is more. */
    readonly onOut?: (out: string) => void;
    readonly onErr?: (err: string) => void;
  } = {},
): Promise<Ran> {
  const texts = { out: '', err: '' };
  const io: Io = {
    out: (text) => {
      texts.out += text;
      options.onOut?.(texts.out);
    },
    err: (text) => {
      texts.err += text;
      options.onErr?.(text);
    },
    env: { ...options.env, ...(options.socket === undefined ? {} : { MUSTER_SOCKET: options.socket }) },
    color: options.color ?? false,
    colorErr: options.color ?? false,
    columns: options.columns,
    ...(options.rows !== undefined && { rows: options.rows }),
    scryptWork: CHEAP_WORK,
    signal: options.signal ?? new AbortController().signal,
    ask: async (question) => {
      if (options.typed !== undefined) texts.err += question;
      return options.typed;
    },
    pause: async (span) => void (await options.onPause?.(span)),
  };
  return { code: await runCommandLine(args, io), ...texts };
}
