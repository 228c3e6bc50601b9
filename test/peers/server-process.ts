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

/** A server that runs; `log` is what it wrote so far. */
export interface ServerProcess {
  readonly child: ChildProcess;
  readonly log: () => string;
  /** Ends it, by SIGTERM unless told otherwise, and waits until it has ended. */
  readonly end: (signal?: NodeJS.Signals) => Promise<void>;
}

/**
 * Starts `muster serve` with the options, and waits until it is ready.
 * @throws {Error} with what it wrote, when it ends instead.
 */
export async function startServer(
  options: readonly string[],
  command: readonly string[] = [process.execPath, MUSTER],
): Promise<ServerProcess> {
  const [program, ...words] = [...command, 'serve', ...options];
  const child = spawn(program!, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  const ready = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => {
      log += text;
      if (log.includes('"ready:')) ready.resolve();
    });
  child.once('close', () => ready.reject(new Error(`the server ended: ${log}`)));
  await ready.promise;
  return {
    child,
    log: () => log,
    async end(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
}
