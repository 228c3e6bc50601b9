/** Runs one command line, from its words to an exit code. */
import { type Command, CommanderError } from 'commander';
import { EXIT, exitCodeOf, type Io, printError } from './io.ts';
import { buildProgram } from './program.ts';

/**
 * Runs the command line `args` and resolves with its exit code. Errors are printed, unless
 * `io.signal` aborted, in which case the user knows the reason.
 */
export async function runCommandLine(args: readonly string[], io: Io): Promise<number> {
  let code: number = EXIT.ok;
  let path = 'muster';
  const program = buildProgram(io, (result) => {
    code = result;
  });
  program.hook('preAction', (_program, action) => {
    path = pathOf(action);
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (io.signal.aborted) return EXIT.failure;
    printError(error, io, path);
    // As with kubectl diff, 1 means that there are differences, so a failure is 2.
    if (args[0] === 'diff') return EXIT.usage;
    return exitCodeOf(error);
  }
}

/** The command with the names of the commands above it: `muster cluster status`. */
function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
