/**
 * Runs one program of a cluster with values that somebody wrote into a document. Such a value may
 * name any file, socket or number, so the program gets a root of its own with nothing but the files
 * that it is given, no network, no capability, and limits of memory, processor, disk and time.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { projectRoot } from '../../base/paths.ts';

/** What a confined program did. */
export type Outcome =
  | { readonly did: 'end'; readonly output: string }
  /** It waits for others: it used no processor for a while. */
  | { readonly did: 'wait' }
  /** It did neither in time. */
  | { readonly did: 'hang' }
  /** It could not be started so: this host has no user namespaces, or lacks a program. */
  | { readonly did: 'not-start'; readonly why: string };

/** A program that used no processor for so long waits for its peers. */
const IDLE_MS = 400;
const LOOKS_EVERY_MS = 100;
/** A program with more output is ended; the components write some ten lines until they wait. */
const MOST_OUTPUT = 256 * 1024;
/** The user nobody, with the same number on all distributions; used where Muster runs as root. */
const NOBODY = '65534';

const NAMESPACES = ['--mount', '--pid', '--net', '--ipc', '--uts', '--fork', '--kill-child=KILL', '--'];

/**
 * Runs a program until it ends, waits for others, or `signal` is aborted.
 *
 * @param program Absolute path of a program that needs at most the C library.
 * @param files Absolute path inside the root → text; undefined for a directory.
 */
export async function runConfined(
  program: string,
  flags: readonly string[],
  files: ReadonlyMap<string, string | undefined>,
  signal: AbortSignal,
): Promise<Outcome> {
  const scratch = await mkdtemp(path.join(os.tmpdir(), 'muster-judge-'));
  try {
    const [inside, root] = [path.join(scratch, 'files'), path.join(scratch, 'root')];
    await mkdir(root);
    await mkdir(inside);
    // A path that is a file and a directory, or too long, is left out.
    for (const [file, text] of files) await write(path.join(inside, file), text).catch(() => {});
    return await watch([root, inside, program], flags, signal);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function write(file: string, text: string | undefined): Promise<void> {
  await mkdir(text === undefined ? file : path.dirname(file), { recursive: true });
  if (text !== undefined) await writeFile(file, text);
}

async function watch(
  places: readonly string[],
  flags: readonly string[],
  signal: AbortSignal,
): Promise<Outcome> {
  const isRoot = process.getuid?.() === 0;
  const script = path.join(projectRoot(), 'src/cluster/judge/confine.sh');
  const child = spawn(
    'nice',
    [
      ...['-n', '10', 'unshare'],
      ...(isRoot ? [] : ['--user', '--map-root-user']),
      ...NAMESPACES,
      ...['/bin/sh', script, ...places, isRoot ? NOBODY : '', ...flags],
    ],
    {
      // No credential of the service is in the environment of a program.
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/tmp', GOMAXPROCS: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    },
  );
  // The program is the first process of its own namespace, so what it started ends with it. Its
  // parent collects it; without a program the parent itself is ended.
  const stop = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(childOf(child.pid) ?? child.pid, 'SIGKILL');
    } catch {
      // It ended in this moment.
      child.kill('SIGKILL');
    }
  };
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.length > MOST_OUTPUT) stop();
    });
  const ended = new Promise<Outcome>((resolve) => {
    child.once('error', ({ message }) => resolve({ did: 'not-start', why: message }));
    child.once('close', () => resolve(endOf(output.slice(0, MOST_OUTPUT))));
  });
  const over = new AbortController();
  signal.addEventListener('abort', stop, { once: true });
  try {
    const idle = idles(child.pid, over.signal);
    const first = await Promise.race([ended, idle]);
    if (signal.aborted) return { did: 'hang' };
    return first;
  } finally {
    over.abort();
    signal.removeEventListener('abort', stop);
    stop();
    await ended;
  }
}

/** How unshare, mount and setpriv say that the host forbids what they do. */
const NOT_STARTED = /^(unshare|mount|setpriv|prlimit|cp|chown|mkdir|\S*confine\.sh)(\.real)?: (.*)/m;

/** How unshare says that its program was ended by a signal: of the kernel, for a limit. */
const ENDED_BY_SIGNAL = /^unshare: sigprocmask /m;

function endOf(output: string): Outcome {
  if (ENDED_BY_SIGNAL.test(output)) return { did: 'hang' };
  const [, program, , why] = NOT_STARTED.exec(output) ?? [];
  return why === undefined ? { did: 'end', output } : { did: 'not-start', why: `${program}: ${why}` };
}

/** Resolves when the only child of a process has used no processor for a while. */
async function idles(parent: number | undefined, signal: AbortSignal): Promise<Outcome> {
  let [last, since] = ['', 0];
  for (;;) {
    await pause(LOOKS_EVERY_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return { did: 'hang' };
    const now = await usedBy(parent).catch(() => undefined);
    since = now !== undefined && now === last ? since + LOOKS_EVERY_MS : 0;
    last = now ?? '';
    if (since >= IDLE_MS) return { did: 'wait' };
  }
}

/** The only child of a process; undefined when it has none, or is gone. */
function childOf(parent: number): number | undefined {
  try {
    const [child = ''] = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ');
    return child === '' ? undefined : Number(child);
  } catch {
    return undefined;
  }
}

/** The processor time of the child of `unshare`; undefined while it runs, or is not the program. */
async function usedBy(parent: number | undefined): Promise<string | undefined> {
  const child = parent === undefined ? undefined : childOf(parent);
  if (child === undefined) return undefined;
  const threads = await readdir(`/proc/${child}/task`);
  const stats = await Promise.all(threads.map((one) => readFile(`/proc/${child}/task/${one}/stat`, 'utf8')));
  // After the name in brackets: state, and with the numbers 12 and 13 the ticks as user and system.
  const fields = stats.map((text) => text.slice(text.lastIndexOf(')') + 2).split(' '));
  const isProgram = stats[0]?.includes('(program)') ?? false;
  return isProgram && fields.every(([state]) => state === 'S')
    ? fields.map((words) => `${words[11]} ${words[12]}`).join()
    : undefined;
}
