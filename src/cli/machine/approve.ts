/** The verbs `muster machine waiting` and `muster machine approve`. */
import { createHash } from 'node:crypto';
import type { Waiting } from '../../api/operations/machines.ts';
import { systemClock } from '../../base/clock.ts';
import { spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { millisSince } from '../times.ts';

interface WaitingOptions extends ServerOptions {
  readonly cluster?: string;
  readonly output?: string;
}

/** What tells one key from another: two of one machine mean that somebody else asks in its name. */
const COLUMNS: readonly Column<Waiting>[] = [
  { heading: 'MACHINE', cell: ({ machine }) => machine },
  { heading: 'CLUSTER', cell: ({ cluster }) => cluster },
  { heading: 'SINCE', cell: ({ since }) => spanText(millisSince(since, systemClock.now())) },
  { heading: 'ADDRESS', cell: ({ address, known }) => (known ? address : `${address} (unknown)`) },
  { heading: 'TRUST', cell: ({ trust }) => `${trust.tier} (${trust.from})` },
  { heading: 'KEY', cell: ({ key, replaces }) => `${key.slice(0, 12)}${replaces ? ' (new)' : ''}` },
  { heading: 'SERIAL', cell: ({ serial }) => serial },
  {
    heading: 'HARDWARE',
    cuts: true,
    cell: ({ manufacturer, product }) => [manufacturer, product].filter(Boolean).join(' '),
  },
  { heading: 'MACS', wide: true, cuts: true, cell: ({ macs }) => macs.join(',') },
];
const CODE_COLUMNS: readonly Column<Waiting>[] = [
  COLUMNS[0]!,
  { heading: 'CODE', cell: ({ code }) => code },
  ...COLUMNS.slice(2),
];

async function waitingOf(options: WaitingOptions, codes: boolean, io: Io): Promise<readonly Waiting[]> {
  const { items } = await openClient(options, io).ask('GET /v1/waiting', {
    query: { cluster: options.cluster, ...(codes && { codes }) },
  });
  return items;
}

/** `muster machine waiting`: lists the machines whose keys wait for an approval. */
export async function waiting(options: WaitingOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const items = await waitingOf(options, false, io);
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err('No machine waits for an approval.\n');
  else io.out(tableText(COLUMNS, items, lookOf(io, format === 'wide')));
  return EXIT.ok;
}

interface ApproveOptions extends ServerOptions {
  readonly all?: boolean;
  readonly fromConsole?: boolean;
  readonly cluster?: string;
  /** What the command printed without it: it stands for exactly these codes. */
  readonly confirm?: string;
}

/**
 * `muster machine approve`: approves machines by the codes on their consoles: MACHINE CODE, any
 * number of times, or all that wait, after they were listed with their codes.
 *
 * @throws {MusterError} E_USAGE for an odd number of words, or without `--confirm` for all.
 */
export async function approve(words: readonly string[], options: ApproveOptions, io: Io): Promise<number> {
  if (options.fromConsole) return approveFromConsoles(words, options, io);
  if (options.all) {
    if (words.length > 0) throw new MusterError('E_USAGE', 'name machines with their codes, or use --all');
    return approveAll(options, io);
  }
  if (words.length === 0 || words.length % 2 === 1)
    throw new MusterError('E_USAGE', 'write each machine with its code: muster machine approve cp1 7QK-3FD');
  const pairs = words.flatMap((machine, n) => (n % 2 === 0 ? [{ machine, code: words[n + 1]! }] : []));
  return approveEach(pairs, options, io);
}

interface Pair {
  readonly machine: string;
  /** Undefined: as its BMC shows it. */
  readonly code: string | undefined;
}

/** Approves machines by the codes that their BMCs carry. */
async function approveFromConsoles(
  words: readonly string[],
  options: ApproveOptions,
  io: Io,
): Promise<number> {
  if (words.length > 0 === (options.all === true))
    throw new MusterError('E_USAGE', 'name machines without codes, or use --all');
  const waiting = options.all ? await waitingOf(options, false, io) : [];
  const named = options.all ? waiting.map(({ machine }) => machine) : words;
  if (named.length === 0) io.err('No machine waits for an approval.\n');
  return approveEach(
    [...new Set(named)].map((machine) => ({ machine, code: undefined })),
    options,
    io,
  );
}

/** Approves one machine after the other. The failure of one does not keep the others from it. */
async function approveEach(pairs: readonly Pair[], options: ServerOptions, io: Io): Promise<number> {
  const client = openClient(options, io);
  const failed: MusterError[] = [];
  for (const { machine, code } of pairs)
    try {
      const body = code === undefined ? { console: 'bmc' as const } : { code };
      await client.ask('POST /v1/machines/:name/approve', { params: { name: machine }, body });
      io.out(`machine/${machine} approved\n`);
    } catch (error) {
      if (!(error instanceof MusterError) || pairs.length === 1) throw error;
      io.err(`machine/${machine} not approved: ${error.message} (${error.code})\n`);
      failed.push(error);
    }
  return failed.length === 0 ? EXIT.ok : EXIT.failure;
}

/**
 * Approves all that wait, once a person at the terminal says that the codes are those of the
 * consoles, or if `--confirm` stands for exactly the codes that wait now: a key that came after the
 * operator compared is not approved.
 */
async function approveAll(options: ApproveOptions, io: Io): Promise<number> {
  const items = await waitingOf(options, true, io);
  if (items.length === 0) {
    io.err('No machine waits for an approval.\n');
    return EXIT.ok;
  }
  const pairs = items.map(({ machine, code = '' }) => ({ machine, code }));
  const names = new Set(pairs.map(({ machine }) => machine));
  io.out(tableText(CODE_COLUMNS, items, lookOf(io, false)));
  if (names.size < pairs.length)
    throw new MusterError(
      'E_APPROVAL',
      'several keys wait for one machine: somebody else asks in its name; approve it by itself, with the code on its console',
    );
  const confirm = digestOf(pairs);
  if (options.confirm === undefined) {
    const typed = await io.ask(`Does the console of each machine show its code? Type yes to approve: `);
    if (typed?.trim().toLowerCase() === 'yes') return approveEach(pairs, options, io);
    if (typed !== undefined) {
      io.err('Nothing was approved.\n');
      return EXIT.failure;
    }
  }
  if (options.confirm !== confirm)
    throw new MusterError(
      'E_USAGE',
      `${options.confirm === undefined ? '' : 'other codes wait now than those that you confirmed; '}compare each code with the console of its machine; if all are the same, add --confirm ${confirm}`,
    );
  return approveEach(pairs, options, io);
}

const digestOf = (pairs: readonly Pair[]): string =>
  createHash('sha256')
    .update(pairs.map(({ machine, code }) => `${machine} ${code}\n`).join(''))
    .digest('hex')
    .slice(0, 8);
