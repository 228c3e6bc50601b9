/**
 * Keeps what machines printed on their consoles, for each machine's last boots, in files of bounded
 * size: `console/MACHINE/BOOT/NNNNNNNN`, where N is the number of the file's first line;
 * `console-bmc/` has what BMCs carry. A boot has at most 512 KiB: its first four files and its last
 * four are kept. All machines together have at most 1 GiB; then the boots that were silent the
 * longest are removed.
 *
 * Nothing is synced: a power cut may lose lines. A machine waits for no disk.
 */
import { appendFile, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { type Millis, seconds, toMillis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { TokenBucket } from '../base/token-bucket.ts';
import { type ConsolePart, isBootId } from './console.ts';
import { Space } from './space.ts';

/** A file is full at this size. */
const FILE_OCTETS = 32 * 1024;
/** How many files are kept from the beginning of a boot, and from its end. */
const KEPT_FIRST = 4;
const KEPT_LAST = 4;
/** How many boots of a machine are kept. */
export const KEPT_BOOTS = 3;
/** What all machines together may have. */
const MOST_OCTETS = 2 ** 30;
/** A machine may send so many requests at once, and then one in this interval. */
const BURST = 32;
const EVERY = toMillis(seconds(5));

export interface ConsoleLine {
  /** Counted from 1 in each boot; numbers are missing where lines were removed. */
  readonly number: number;
  readonly text: string;
}

/** A boot whose console is kept. */
export interface ConsoleBoot {
  readonly id: string;
  /** When its last line arrived. */
  readonly at: Millis;
}

export interface Consoles {
  /**
   * Keeps lines of a machine. Resolves to false when the machine sends too much: it has to come
   * again later. Never rejects; what the disk refuses is logged and lost.
   */
  take(machine: string, part: ConsolePart): Promise<boolean>;
  /** The boots of a machine, the last one first. */
  boots(machine: string): Promise<readonly ConsoleBoot[]>;
  /** The lines of a boot after the one with number `after`. */
  lines(machine: string, boot: string, after: number): Promise<readonly ConsoleLine[]>;
}

/** Opens the consoles, and removes what is left of machines that the roster does not know. */
export async function openConsoles(deps: {
  /** The state directory. */
  readonly state: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'add' | 'set'>;
  readonly roster: { get(machine: string): unknown };
  /** Who brings the lines: the systems of machines (default), or their BMCs, at a line's speed. */
  readonly of?: 'system' | 'bmc';
  /** Default: 1 GiB. */
  readonly mostOctets?: number;
}): Promise<Consoles> {
  const { clock, log, metrics, roster, of = 'system' } = deps;
  const directory = join(deps.state, of === 'bmc' ? 'console-bmc' : 'console');
  const knows = (machine: string): boolean => roster.get(machine) !== undefined;
  for (const name of await entries(directory))
    if (!knows(name)) await rm(join(directory, name), { recursive: true, force: true });
  /** The names are `MACHINE/BOOT`, as those of the directories. */
  const space = new Space(deps.mostOctets ?? MOST_OCTETS);
  for (const { name, octets } of await keptIn(directory)) space.set(name, octets);
  const buckets = new Map<string, TokenBucket>();
  /** The last write of each machine that has one under way. */
  const writing = new Map<string, Promise<void>>();

  const permits = (machine: string): boolean => {
    const bucket = buckets.get(machine) ?? new TokenBucket(BURST, EVERY);
    buckets.set(machine, bucket);
    const now = clock.monotonic();
    if (!bucket.permits(now)) return false;
    bucket.spend(now);
    return true;
  };

  /** Works on the files of a machine when all earlier work on them is done. */
  const inTurn = async (machine: string, work: () => Promise<void>): Promise<void> => {
    const done = (writing.get(machine) ?? Promise.resolve())
      .then(work)
      .catch((error: Error) => log.warn({ machine, cause: error.message }, 'console lines were lost'));
    writing.set(machine, done);
    await done;
    if (writing.get(machine) === done) writing.delete(machine);
  };

  const keep = async (machine: string, part: ConsolePart): Promise<void> => {
    const { boot, lines } = part;
    if (lines.length === 0) return;
    const path = join(directory, machine);
    if ((await mkdir(join(path, boot), { recursive: true, mode: 0o700 })) !== undefined)
      for (const id of await removeOld(path, boot)) space.delete(`${machine}/${id}`);
    await append(join(path, boot), lines);
    space.set(`${machine}/${boot}`, await octetsIn(join(path, boot)));
  };

  /** Removes boots until the rest has room. */
  const makeRoom = async (): Promise<void> => {
    const gone = space.takeTooMuch();
    if (gone.length > 0) metrics.add('muster_console_boots_removed_total', { of }, gone.length);
    metrics.set('muster_console_bytes', { of }, space.octets);
    const remove = (one: string): Promise<void> =>
      inTurn(dirname(one), async () => {
        await rm(join(directory, one), { recursive: true, force: true });
        // Lines may have come while it waited for its turn.
        space.delete(one);
      });
    await Promise.all(gone.map(remove));
  };
  await makeRoom();

  return {
    async take(machine, part) {
      if (!knows(machine) || (of === 'system' && !permits(machine))) return false;
      await inTurn(machine, () => keep(machine, part));
      await makeRoom();
      return true;
    },
    boots: (machine) => bootsIn(join(directory, machine)),
    async lines(machine, boot, after) {
      if (!isBootId(boot)) return [];
      const found: ConsoleLine[] = [];
      for (const first of await numbersIn(join(directory, machine, boot))) {
        const path = join(directory, machine, boot, nameOf(first));
        // A file may be removed meanwhile, because newer lines came.
        const text = await readFile(path, 'utf8').catch(() => '');
        for (const [n, line] of linesOf(text).entries())
          if (first + n > after) found.push({ number: first + n, text: line });
      }
      return found;
    },
  };
}

const nameOf = (first: number): string => String(first).padStart(8, '0');
const linesOf = (text: string): readonly string[] => text.split('\n').slice(0, -1);

/** The names in a directory; none when there is no such directory. */
const entries = (directory: string): Promise<readonly string[]> => readdir(directory).catch(() => []);

/** The numbers of the first lines of a boot's files, in order. */
const numbersIn = async (directory: string): Promise<readonly number[]> =>
  (await entries(directory))
    .filter((name) => /^\d{8,}$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);

async function bootsIn(directory: string): Promise<readonly ConsoleBoot[]> {
  const found: ConsoleBoot[] = [];
  for (const id of (await entries(directory)).filter(isBootId)) {
    const last = (await numbersIn(join(directory, id))).at(-1);
    if (last === undefined) continue;
    const { mtimeMs } = await stat(join(directory, id, nameOf(last)));
    found.push({ id, at: Math.floor(mtimeMs) as Millis });
  }
  return found.sort((a, b) => b.at - a.at);
}

/** What the files of a boot have together. */
async function octetsIn(directory: string): Promise<number> {
  const sizes = (await numbersIn(directory)).map(async (n) => (await stat(join(directory, nameOf(n)))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** All boots that are kept, as `MACHINE/BOOT`; the one that was silent the longest is first. */
async function keptIn(directory: string): Promise<readonly { name: string; octets: number }[]> {
  const found: { name: string; at: Millis; octets: number }[] = [];
  for (const machine of await entries(directory))
    for (const { id, at } of await bootsIn(join(directory, machine)))
      found.push({ name: `${machine}/${id}`, at, octets: await octetsIn(join(directory, machine, id)) });
  return found.sort((a, b) => a.at - b.at);
}

/** Appends lines to the files of a boot, and removes files that are too many. */
async function append(directory: string, lines: readonly string[]): Promise<void> {
  const numbers = await numbersIn(directory);
  let first = numbers.at(-1) ?? 1;
  const last = numbers.length === 0 ? '' : await readFile(join(directory, nameOf(first)), 'utf8');
  if (Buffer.byteLength(last) >= FILE_OCTETS) first += linesOf(last).length;
  await appendFile(join(directory, nameOf(first)), `${lines.join('\n')}\n`, { mode: 0o600 });
  const all = numbers.includes(first) ? numbers : [...numbers, first];
  for (const between of all.slice(KEPT_FIRST, -KEPT_LAST)) await rm(join(directory, nameOf(between)));
}

/** Removes the oldest boots of a machine when another one, `boot`, has begun; returns their ids. */
async function removeOld(machine: string, boot: string): Promise<readonly string[]> {
  const others = (await bootsIn(machine)).filter(({ id }) => id !== boot);
  const gone = others.slice(KEPT_BOOTS - 1).map(({ id }) => id);
  for (const id of gone) await rm(join(machine, id), { recursive: true });
  return gone;
}
