/**
 * The types that a bench file exports, and the comparison of its figures. Pure; run.ts runs the
 * suites.
 */

/** One thing that is measured. */
export interface Figure {
  /** Unique over all suites, e.g. `DHCP exchanges, durable leases`. */
  readonly name: string;
  /** As printed: `1/s`, `ms`, `MB/s`. */
  readonly unit: string;
  readonly better: 'more' | 'less';
  /** The value that ours must reach: at least when more is better, at most when less is. */
  readonly aim?: number;
  /**
   * By peer: the ratio ours / peer that must be reached: at least when more is better, at most when
   * less is.
   */
  readonly aimRatio?: Readonly<Record<string, number>>;
  /** What the profile shows and why, printed only when an aim is missed. */
  readonly ifMissed?: string;
}

/**
 * Runs once a round for Muster and once for each peer, and yields figures by their key.
 */
export interface BenchCase {
  readonly figures: Readonly<Record<string, Figure>>;
  ours(): Promise<Readonly<Record<string, number>>>;
  /** By the peer's name. A peer may leave out figures that mean nothing for it. */
  readonly peers?: Readonly<Record<string, () => Promise<Readonly<Record<string, number>>>>>;
  /** Default 5. */
  readonly rounds?: number;
}

/** What `bench/NAME.bench.ts` exports as `suite`. */
export interface BenchSuite {
  /** What is measured, and the conditions that are the same for all. Shown in RESULTS.md. */
  readonly about: string;
  /**
   * What this host lacks to run the suite, if anything: the suite is then left out and its earlier
   * results stay.
   */
  needs?(): string | undefined;
  /**
   * Makes the servers, files and namespaces that the cases need. Nothing happens at import time.
   */
  open(): Promise<{ readonly cases: readonly BenchCase[]; close(): Promise<void> }>;
}

/** A line of bench/results.json. */
export interface Result {
  readonly name: string;
  readonly unit: string;
  /** Median of the rounds. */
  readonly ours: number;
  readonly peer: number | null;
  readonly peerName: string | null;
  /** ours / peer. */
  readonly ratio: number | null;
  readonly better: 'more' | 'less';
  /** The aim as a sentence, null when there is none. */
  readonly aim: string | null;
  readonly met: boolean | null;
  readonly ifMissed: string | null;
  readonly rounds: { readonly ours: readonly number[]; readonly peer: readonly number[] | null };
  /** Set where the host was busy before the run: such a row is never met. */
  readonly busy?: true;
  /** How the figure fell against the last record, with both commits; absent where it did not. */
  readonly worse?: string;
  /** The commit that was measured; absent in older records. */
  readonly commit?: string;
  readonly suite: string;
  /** When and on what machine it was measured. */
  readonly at: string;
  readonly machine: string;
}

/** Where, when and in what state something was measured. */
type Measured = Pick<Result, 'suite' | 'at' | 'machine' | 'busy' | 'commit'>;

/** The values of each round, by figure. */
export interface Rounds {
  readonly ours: readonly Readonly<Record<string, number>>[];
  readonly peers: Readonly<Record<string, readonly Readonly<Record<string, number>>[]>>;
}

/** The middle value, or the mean of the two middle ones. NaN for none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** How far the values lie apart: the range of all as a share of their median. */
export const spread = (values: readonly number[]): number =>
  values.length < 2 ? 0 : (Math.max(...values) - Math.min(...values)) / Math.abs(median(values));

/** A figure that lost more than this share against its last record is marked. */
const WORSE = 0.1;

/** The result, marked where it is worse than `former` by more than a tenth. */
export function marked(result: Result, former: Result | undefined): Result {
  if (former === undefined || former.busy || result.busy) return result;
  // Hosts differ: where there is a peer, the ratio says more.
  const [now, before] =
    result.ratio !== null && former.ratio !== null
      ? [result.ratio, former.ratio]
      : [result.ours, former.ours];
  const lost = result.better === 'more' ? 1 - now / before : now / before - 1;
  if (!(lost > WORSE)) return result;
  const range = `${former.commit ?? former.at}..${result.commit ?? result.at}`;
  return { ...result, worse: `${Math.round(lost * 100)} % worse, ${range}` };
}

/** The value below which `share` (0 to 1) of the values lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * Returns one result for each figure and peer; a figure that no peer has gets one without a peer.
 */
export function compare(bench: BenchCase, rounds: Rounds, where: Measured): Result[] {
  return Object.entries(bench.figures).flatMap(([key, figure]) => {
    const ours = rounds.ours.map((round) => round[key]!);
    const peers = Object.entries(rounds.peers)
      .map(([name, list]) => ({
        name,
        values: list.map((round) => round[key]).filter((v) => v !== undefined),
      }))
      .filter(({ values }) => values.length > 0);
    if (peers.length === 0) return [result(figure, ours, undefined, where)];
    return peers.map((peer) => result(figure, ours, peer, where));
  });
}

function result(
  figure: Figure,
  ours: readonly number[],
  peer: { readonly name: string; readonly values: readonly number[] } | undefined,
  where: Measured,
): Result {
  const mine = round(median(ours));
  const theirs = peer ? round(median(peer.values)) : null;
  const ratio = theirs === null ? null : round(mine / theirs);
  const { aim, met } = judge(figure, mine, peer?.name, ratio);
  return {
    name: figure.name,
    unit: figure.unit,
    ours: mine,
    peer: theirs,
    peerName: peer?.name ?? null,
    ratio,
    better: figure.better,
    aim,
    met: where.busy && met !== null ? false : met,
    ifMissed: figure.ifMissed ?? null,
    rounds: { ours: ours.map(round), peer: peer ? peer.values.map(round) : null },
    ...where,
  };
}

function judge(
  figure: Figure,
  ours: number,
  peer: string | undefined,
  ratio: number | null,
): { readonly aim: string | null; readonly met: boolean | null } {
  const bound = figure.better === 'more' ? 'at least' : 'at most';
  const reaches = (value: number, aim: number) => (figure.better === 'more' ? value >= aim : value <= aim);
  const aimRatio = peer === undefined ? undefined : figure.aimRatio?.[peer];
  if (aimRatio !== undefined && ratio !== null)
    return { aim: `${bound} ${aimRatio} of ${peer}`, met: reaches(ratio, aimRatio) };
  if (figure.aim !== undefined)
    return { aim: `${bound} ${figure.aim} ${figure.unit}`, met: reaches(ours, figure.aim) };
  return { aim: null, met: null };
}

/** To four significant digits. */
function round(value: number): number {
  return Number.isFinite(value) ? Number(value.toPrecision(4)) : value;
}

/**
 * Replaces the results of `suites` with the newer ones; sorts by the suite's name. `partial`: only
 * some figures of the suites were measured, and the others stay.
 */
export function merge(
  older: readonly Result[],
  newer: readonly Result[],
  suites: readonly string[],
  { partial }: { readonly partial: boolean } = { partial: false },
): Result[] {
  const measured = new Set(newer.map((result) => result.name));
  const kept = older.filter(({ suite, name }) => (partial ? !measured.has(name) : !suites.includes(suite)));
  return [...kept, ...newer].sort((a, b) => a.suite.localeCompare(b.suite, 'en'));
}

/**
 * Renders bench/RESULTS.md: all ratios in one table, then a section for each suite.
 * @param about the `about` of each suite, by the suite's name.
 */
export function resultsPage(results: readonly Result[], about: Readonly<Record<string, string>>): string {
  const reasons = reasonsOf(results);
  const lines = [
    '# Results',
    '',
    ...paragraph(
      'Written by `make bench`; see [README](README.md) for how it measures. Every figure is the median of the rounds; ' +
        'Muster and the peers run in turn within each round. The ratio is Muster / peer.',
    ),
    ...ratioTable(
      results.filter((row) => row.ratio !== null),
      reasons,
    ),
  ];
  for (const [suite, rows] of Object.entries(Object.groupBy(results, (row) => row.suite))) {
    const first = rows![0]!;
    lines.push('', `## ${suite}`, '', ...(about[suite] ? [...paragraph(about[suite]), ''] : []));
    lines.push(`${first.at}, ${first.machine}`, '');
    lines.push('| | unit | Muster | peer | | ratio | aim | |', '|---|---|---:|---:|---|---:|---|---|');
    for (const row of rows!) lines.push(tableRow(row, reasons));
  }
  lines.push(...missedParagraphs(reasons));
  return `${lines.join('\n')}\n`;
}

/** The reasons why aims are missed, each once, with its number; in the order of the results. */
type Reasons = ReadonlyMap<string, number>;

const UNWRITTEN = 'Profile and reason: not written yet (`ifMissed` of the figure).';

function reasonsOf(results: readonly Result[]): Reasons {
  const missed = results
    .filter((row) => row.met === false && !row.busy)
    .map((row) => row.ifMissed || UNWRITTEN);
  return new Map([...new Set(missed)].map((reason, n) => [reason, n + 1]));
}

/** All comparisons with a peer, in the order of suites. */
function ratioTable(rows: readonly Result[], reasons: Reasons): string[] {
  if (rows.length === 0) return [];
  return [
    '',
    '## All ratios',
    '',
    '| suite | figure | peer | ratio | better is | aim | |',
    '|---|---|---|---:|---|---|---|',
    ...rows.map((row) => {
      const cells = [
        row.suite,
        row.name,
        row.peerName,
        row.ratio,
        row.better,
        row.aim ?? '',
        verdict(row, reasons),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  ];
}

function verdict(row: Result, reasons: Reasons): string {
  const marks = [row.busy ? '*busy*' : '', row.worse ? `**${row.worse}**` : ''];
  if (row.met !== null && !row.busy)
    marks.unshift(row.met ? 'met' : `**missed** (${reasons.get(row.ifMissed || UNWRITTEN)})`);
  return marks.filter(Boolean).join('; ');
}

function tableRow(row: Result, reasons: Reasons): string {
  const cells = [
    row.name,
    row.unit,
    row.ours,
    row.peer ?? '',
    row.peerName ?? '',
    row.ratio ?? '',
    row.aim ?? '',
    verdict(row, reasons),
  ];
  return `| ${cells.join(' | ')} |`;
}

/** The reasons, numbered as the tables refer to them. */
function missedParagraphs(reasons: Reasons): string[] {
  if (reasons.size === 0) return [];
  const paragraphs = [...reasons].flatMap(([reason, number]) => ['', ...paragraph(`(${number}) ${reason}`)]);
  return ['', '## Why aims are missed', ...paragraphs];
}

const PAGE_COLUMNS = 120;

/** The lines of a text, wrapped. */
function paragraph(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= PAGE_COLUMNS)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
