/**
 * The entry point of the command line: connects the command tree to the process's streams and
 * signals.
 */
import { MusterError } from '../base/errors.ts';
import { colouredText, plainText } from '../base/plain-text.ts';
import { runCommandLine } from './command-line.ts';
import { EXIT, errorText, type Io } from './io.ts';

/**
 * Ends the process when its output can no longer be written. It ends without an error when the
 * reader closed its end, as `head -1` does, otherwise with an error.
 */
function endWhenReaderLeaves(stream: NodeJS.WriteStream): void {
  stream.on('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EPIPE') process.exit(EXIT.ok);
    // When standard error fails, only the exit code can report it.
    if (stream === process.stdout)
      process.stderr.write(
        errorText(new MusterError('E_OUTPUT', `standard output: ${cause.message}`, { cause })),
      );
    process.exit(EXIT.failure);
  });
}

/** NO_COLOR (no-color.org) and FORCE_COLOR override what the terminal supports. */
function mayColor(stream: NodeJS.WriteStream): boolean {
  if (process.env.NO_COLOR) return false;
  return Boolean(process.env.FORCE_COLOR) || (stream.isTTY === true && process.env.TERM !== 'dumb');
}

/**
 * Writes to a stream. What reaches a terminal cannot steer it, whoever it came from: a machine, an
 * inventory, a document. Programs get all octets.
 */
function writer(stream: NodeJS.WriteStream): (text: string) => void {
  const safe = mayColor(stream) ? colouredText : plainText;
  return (text) => void stream.write(stream.isTTY ? safe(text) : text);
}

/** See {@link Io.ask}. */
async function ask(question: string, signal: AbortSignal): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined;
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(question, { signal });
  } finally {
    lines.close();
  }
}

function processIo(): Io {
  const stop = new AbortController();
  // The server handles its signals itself. For every other verb the first signal aborts its
  // requests and waits, which ends it; a second one ends the process at once.
  if (process.argv[2] !== 'serve')
    for (const name of ['SIGINT', 'SIGTERM'] as const)
      process.once(name, () => {
        stop.abort();
        process.exitCode = name === 'SIGINT' ? 130 : 143;
      });
  return {
    out: writer(process.stdout),
    err: writer(process.stderr),
    env: process.env,
    color: mayColor(process.stdout),
    colorErr: mayColor(process.stderr),
    get columns() {
      return process.stdout.isTTY ? process.stdout.columns : undefined;
    },
    get rows() {
      return process.stdout.isTTY ? process.stdout.rows : undefined;
    },
    scryptWork: undefined,
    signal: stop.signal,
    ask: (question) => ask(question, stop.signal),
    pause: async (span) => (await import('./client.socket.ts')).pause(span, stop.signal),
  };
}

endWhenReaderLeaves(process.stdout);
endWhenReaderLeaves(process.stderr);
const io = processIo();
const code = await runCommandLine(process.argv.slice(2), io);
// A command that a signal ended exits with the code of that signal, unless it had completed its
// work.
if (!io.signal.aborted || code === EXIT.ok) process.exitCode = code;
// A server that failed during its start may have listeners and timers, which would keep the process
// alive although it answers nobody.
if (process.argv[2] === 'serve') process.exit();
