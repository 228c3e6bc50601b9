/** Starts, watches and ends the rack's programs by their process handles, never by name. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { MusterError } from '../base/errors.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Running {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the program has ended; never rejects. */
  readonly ended: Promise<Exit>;
  readonly running: boolean;
  /** Sends SIGTERM, and SIGKILL after five seconds. */
  stop(): Promise<Exit>;
  /** Sends SIGKILL. */
  kill(): Promise<Exit>;
}

interface StartOptions {
  /** Standard output and error are appended to this file. */
  readonly log?: string;
  /** Called with each line of standard output; standard output then does not go to the log. */
  readonly onLine?: (line: string) => void;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const GRACE_MS = 5000;

/**
 * Starts a program.
 *
 * @throws {MusterError} E_LAB_TOOL when there is no program of that name.
 */
export async function start(
  name: string,
  words: readonly string[],
  options: StartOptions = {},
): Promise<Running> {
  const log = options.log === undefined ? undefined : openSync(options.log, 'a');
  const child = spawn(words[0]!, words.slice(1), {
    stdio: ['ignore', options.onLine ? 'pipe' : (log ?? 'ignore'), log ?? 'ignore'],
    env: { ...process.env, ...options.env },
  });
  if (log !== undefined) closeSync(log);
  if (options.onLine) eachLine(child, options.onLine);
  let exit: Exit | undefined;
  const ended = new Promise<Exit>((resolve) => {
    child.once('close', (code, signal) => {
      exit = { code, signal };
      resolve(exit);
    });
    child.once('error', () => resolve({ code: 127, signal: null }));
  });
  await started(child, words[0]!);
  return {
    name,
    pid: child.pid!,
    ended,
    get running() {
      return exit === undefined;
    },
    async stop() {
      if (exit) return exit;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
      const result = await ended;
      clearTimeout(timer);
      return result;
    },
    async kill() {
      if (!exit) child.kill('SIGKILL');
      return await ended;
    },
  };
}

function started(child: ChildProcess, program: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (cause) =>
      reject(new MusterError('E_LAB_TOOL', `${program}: ${cause.message}`, { cause })),
    );
  });
}

function eachLine(child: ChildProcess, onLine: (line: string) => void): void {
  let rest = '';
  child.stdout!.setEncoding('utf8').on('data', (piece: string) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop()!;
    for (const line of lines) onLine(line);
  });
}

export interface Output {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/**
 * Runs a program to its end, and kills it after `limitMs` milliseconds.
 *
 * @throws {MusterError} E_LAB_TOOL when there is no program of that name.
 */
export async function run(
  words: readonly string[],
  options: { readonly limitMs?: number; readonly env?: StartOptions['env']; readonly input?: string } = {},
): Promise<Output> {
  const child = spawn(words[0]!, words.slice(1), {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    timeout: options.limitMs ?? 30_000,
    killSignal: 'SIGKILL',
  });
  const text = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text.out += piece;
  });
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    text.err += piece;
  });
  // A program that does not read its input closes it early.
  child.stdin.on('error', () => {});
  const closed = new Promise<number>((resolve) => {
    child.once('close', (code) => resolve(code ?? 1));
  });
  await started(child, words[0]!);
  child.stdin.end(options.input ?? '');
  return { code: await closed, ...text };
}

/**
 * Runs a program that must succeed; resolves with its output.
 *
 * @throws {MusterError} E_LAB_TOOL with its error output when it fails.
 */
export async function must(...words: string[]): Promise<string> {
  const { code, out, err } = await run(words);
  if (code !== 0)
    throw new MusterError('E_LAB_TOOL', `${words.join(' ')}: exit code ${code}: ${(err || out).trim()}`);
  return out;
}

/** Waits until the signal aborts, and keeps the process alive meanwhile. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  const alive = setInterval(() => {}, 60_000);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  clearInterval(alive);
}
