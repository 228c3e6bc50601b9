/** The command line's entry: the process's streams and signals around the command tree. */
import { CommanderError } from 'commander';
import { MusterError } from '../base/errors.ts';
import { registerAddons } from './addon/addon.ts';
import { registerArtifacts } from './artifacts/artifacts.ts';
import { registerImage } from './image/image.ts';
import { EXIT, errorText, exitCodeOf, type Io } from './io.ts';
import { registerLab } from './lab.ts';
import { buildProgram } from './program.ts';

/**
 * A reader that closed its end (`muster get … | head -1`) is no failure, and nobody is left to
 * tell.
 */
function endWhenReaderLeaves(stream: NodeJS.WriteStream): void {
  stream.on('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EPIPE') process.exit(EXIT.ok);
    // Where messages go nowhere either, the exit code is all that is left to say.
    if (stream === process.stdout)
      process.stderr.write(
        errorText(new MusterError('E_OUTPUT', `standard output: ${cause.message}`, { cause })),
      );
    process.exit(EXIT.failure);
  });
}

/** NO_COLOR (no-color.org) and FORCE_COLOR beat what the terminal can do. */
function mayColor(): boolean {
  if (process.env.NO_COLOR) return false;
  return Boolean(process.env.FORCE_COLOR) || (process.stdout.isTTY === true && process.env.TERM !== 'dumb');
}

function processIo(): Io {
  const stop = new AbortController();
  // The server handles its signals itself; for everything else the first one ends waiting, the
  // second the process.
  if (process.argv[2] !== 'serve')
    for (const name of ['SIGINT', 'SIGTERM'] as const)
      process.once(name, () => {
        stop.abort();
        process.exitCode = name === 'SIGINT' ? 130 : 143;
      });
  return {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    env: process.env,
    color: mayColor(),
    signal: stop.signal,
    pause: async (span) => (await import('./client.socket.ts')).pause(span, stop.signal),
  };
}

/** Runs one command line; the exit code. */
async function run(args: readonly string[], io: Io): Promise<number> {
  let code: number = EXIT.ok;
  const finish = (result: number): void => {
    code = result;
  };
  const program = buildProgram(io, finish, [registerAddons, registerImage, registerArtifacts, registerLab]);
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (io.signal.aborted) return Number(process.exitCode ?? EXIT.failure);
    io.err(errorText(error));
    // kubectl's diff: 1 says "different", so a failure is more than that.
    return args[0] === 'diff' ? EXIT.usage : exitCodeOf(error);
  }
}

endWhenReaderLeaves(process.stdout);
endWhenReaderLeaves(process.stderr);
process.exitCode = await run(process.argv.slice(2), processIo());
// A server that failed half-way has listeners and timers that would keep it alive, answering
// nobody.
if (process.argv[2] === 'serve') process.exit();
