/** The server as a process of its own, started as the command does, for tests that stop it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

/** The command, as a program for Node. */
export const MUSTER = path.join(import.meta.dirname, '../../src/cli/main.ts');

/** Below the ports that the kernel gives to clients, so that none has it when the server starts. */
let nextPort = 20_000;

/** A TCP port that nothing else in this network namespace uses. */
export const freePort = (): number => nextPort++;

/** What a server writes when it answers, and what one that waits for its turn to act. */
export const READY = '"ready:';
export const STANDS_BY = 'this host stands by';

/** A server that runs; `log` is what it wrote so far. */
export interface ServerProcess {
  readonly child: ChildProcess;
  readonly log: () => string;
  /** Resolves when it has written the text; rejects when it ends instead. */
  readonly wrote: (text: string) => Promise<void>;
  /** Ends it, by SIGTERM unless told otherwise, and waits until it has ended. */
  readonly end: (signal?: NodeJS.Signals) => Promise<void>;
}

/**
 * Starts `muster serve` with the options, and waits until it is ready, or has written `until`.
 * @throws {Error} with what it wrote, when it ends instead.
 */
export async function startServer(
  options: readonly string[],
  command: readonly string[] = [process.execPath, MUSTER],
  until = READY,
): Promise<ServerProcess> {
  const [program, ...words] = [...command, 'serve', ...options];
  const child = spawn(program!, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      log += text;
      for (const look of waiting) look();
    });
  let closed = false;
  child.once('close', () => {
    closed = true;
    for (const look of waiting) look();
  });
  const wrote = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!log.includes(text) && !closed) return;
        waiting.delete(look);
        if (log.includes(text)) resolve();
        else reject(new Error(`the server ended: ${log}`));
      };
      waiting.add(look);
      look();
    });
  await wrote(until);
  return {
    child,
    wrote,
    log: () => log,
    async end(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
}
