/** Runs command lines in this process, as main.ts does, with what they print. */
import { CommanderError } from 'commander';
import { registerAddons } from '../../../src/cli/addon/addon.ts';
import { registerArtifacts } from '../../../src/cli/artifacts/artifacts.ts';
import { registerImage } from '../../../src/cli/image/image.ts';
import { EXIT, errorText, exitCodeOf, type Io } from '../../../src/cli/io.ts';
import { buildProgram } from '../../../src/cli/program.ts';

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
    readonly signal?: AbortSignal;
    /** Told what a verb waits for; it does not wait. */
    readonly onPause?: (milliseconds: number) => void;
    /** Told all output so far whenever there is more. */
    readonly onOut?: (out: string) => void;
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
    },
    env: options.socket === undefined ? {} : { MUSTER_SOCKET: options.socket },
    color: options.color ?? false,
    signal: options.signal ?? new AbortController().signal,
    pause: async (span) => options.onPause?.(span),
  };
  let code: number = EXIT.ok;
  try {
    await buildProgram(
      io,
      (result) => {
        code = result;
      },
      [registerAddons, registerImage, registerArtifacts],
    ).parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) code = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    else {
      io.err(errorText(error));
      code = exitCodeOf(error);
    }
  }
  return { code, ...texts };
}
