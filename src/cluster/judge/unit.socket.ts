/**
 * Runs programs of clusters by the unit muster-judge.socket, which may do what the packaged service
 * may not: make namespaces. Where there is no such unit, the server runs them itself.
 */
import { createConnection } from 'node:net';
import path from 'node:path';
import { JUDGE_SOCKET } from '../../base/paths.ts';
import { type Outcome, runConfined } from './confine.files.ts';

/** What the server sends in one line; the answer is an {@link Outcome} in one line. */
export interface Asked {
  /** The name of a file in the directory of programs. */
  readonly program: string;
  readonly flags: readonly string[];
  /** Null for a directory. */
  readonly files: readonly (readonly [path: string, text: string | null])[];
}

/** Runs a program as {@link runConfined} does, by the unit if it can. */
export const runByUnit =
  (socket = JUDGE_SOCKET): typeof runConfined =>
  async (program, flags, files, signal) => {
    const asked: Asked = {
      program: path.basename(program),
      flags,
      files: [...files].map(([file, text]) => [file, text ?? null]),
    };
    const outcome = await ask(socket, asked, signal);
    if (outcome.did !== 'not-start' || signal.aborted) return outcome;
    const own = await runConfined(program, flags, files, signal);
    return own.did === 'not-start' ? outcome : own;
  };

/** The program ends when the connection does. */
function ask(socket: string, asked: Asked, signal: AbortSignal): Promise<Outcome> {
  return new Promise((resolve) => {
    const connection = createConnection(socket);
    const end = (outcome: Outcome): void => {
      signal.removeEventListener('abort', stop);
      connection.destroy();
      resolve(outcome);
    };
    const stop = (): void => end({ did: 'hang' });
    signal.addEventListener('abort', stop, { once: true });
    let answer = '';
    connection.setEncoding('utf8').on('data', (text: string) => (answer += text));
    connection.once('error', ({ message }) => end({ did: 'not-start', why: message }));
    connection.once('end', () => end(readOutcome(answer)));
    connection.write(`${JSON.stringify(asked)}\n`);
    if (signal.aborted) stop();
  });
}

function readOutcome(text: string): Outcome {
  try {
    return JSON.parse(text) as Outcome;
  } catch {
    return { did: 'not-start', why: 'muster-judge.socket gave no answer; see its journal' };
  }
}
