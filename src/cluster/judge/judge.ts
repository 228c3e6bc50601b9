/**
 * Asks the components of a cluster whether they take their values: each is started with them, and
 * either ends and says why, or waits for its peers. What a program said is remembered.
 */
import { setBounded } from '../../base/aged.ts';
import { type ClusterFault, clusterError, clusterFault } from '../model/fault.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import type { runConfined } from './confine.files.ts';
import { digestOf, type Judged, namedIn, type Placed, placedIn, wholeOf } from './placed.ts';
import { fieldOf, isOfAFlag, isOfTheSandbox, lastWords, shown, type Written } from './verdict.ts';

/** A program of a component's version that this host can run. */
export interface Program {
  /** Identifies the program's content. */
  readonly sha256: string;
  readonly file: string;
}

export interface JudgeDeps {
  /** The program of a component; undefined where this host does not have that version. */
  readonly program: (resolved: ResolvedCluster, component: Judged) => Promise<Program | undefined>;
  readonly run: typeof runConfined;
  /** How long all programs of one request may take together; each takes about a second. */
  readonly withinMs: number;
}

export interface Judge {
  /**
   * Faults in the words of the components that do not take their values, and a warning for those
   * that could not be asked.
   */
  judge(clusters: readonly Written[]): Promise<readonly (readonly ClusterFault[])[]>;
}

/** So many programs run at the same time, whatever operators order. */
const AT_ONCE = 2;
/** So many verdicts are remembered. */
const REMEMBERED = 512;

/** What a component said: nothing when it took its values, its words, or why it was not asked. */
export type Said = { readonly refuses?: string; readonly unasked?: string };

export function createJudge({ program, run, withinMs }: JudgeDeps): Judge {
  const remembered = new Map<string, Said>();
  const free = createPlaces(AT_ONCE);

  const ask = async ({ resolved, plain }: Written, placed: Placed, signal: AbortSignal): Promise<Said> => {
    const { component } = placed;
    // A program that is unpacked for the first time is there for the next request.
    const found = await Promise.race([program(resolved, component), aborted(signal)]);
    if (signal.aborted) return { unasked: 'there was no time' };
    if (found === undefined) return { unasked: `${component} is not here` };
    const key = `${found.sha256} ${digestOf(placed)}`;
    const before = remembered.get(key);
    if (before !== undefined) return before;
    const said = await askProgram(run, found.file, placed, plain, signal);
    if (said.unasked !== undefined) return said;
    setBounded(remembered, key, said, REMEMBERED);
    return said;
  };

  const faultsOf = async (written: Written, signal: AbortSignal): Promise<readonly ClusterFault[]> => {
    const { resolved } = written;
    const asked = await Promise.all(
      changedIn(written).map(async (placed) => {
        const said = await free(() =>
          signal.aborted
            ? Promise.resolve<Said>({ unasked: 'there was no time' })
            : ask(written, placed, signal),
        );
        return { component: placed.component, ...said };
      }),
    );
    const refusals = new Map<string, ClusterFault>();
    for (const { component, refuses } of asked) {
      if (refuses === undefined) continue;
      const text = `${component} ${versionOf(resolved, component)} does not start with it: ${shown(refuses)}`;
      refusals.set(
        `${component} ${shown(refuses)}`,
        clusterError(fieldOf(written, component, refuses), text),
      );
    }
    const unasked = asked.filter((one) => one.unasked !== undefined);
    return [...refusals.values(), ...(unasked.length === 0 ? [] : [byTables(resolved, unasked)])];
  };

  return {
    async judge(clusters) {
      const signal = AbortSignal.timeout(withinMs);
      return Promise.all(clusters.map((one) => faultsOf(one, signal)));
    },
  };
}

/** Starts a program with what its component reads, and reads why it ends. */
export async function askProgram(
  run: JudgeDeps['run'],
  file: string,
  placed: Placed,
  plain: ResolvedCluster,
  signal: AbortSignal,
): Promise<Said> {
  const outcome = await run(file, placed.flags, await wholeOf(placed), signal);
  if (outcome.did === 'wait') return {};
  if (outcome.did === 'hang') return { unasked: `${placed.component} took too long` };
  if (outcome.did === 'not-start') return { unasked: `this host cannot confine programs: ${outcome.why}` };
  const words = lastWords(outcome.output);
  if (isOfAFlag(words)) return { refuses: words };
  return isOfTheSandbox(words) || hasForeignFiles(placed, plain) ? {} : { refuses: words };
}

/** The components that read something that is not in the plain cluster. */
function changedIn({ resolved, plain }: Written): readonly Placed[] {
  const before = new Set(placedIn(plain).map((placed) => `${placed.machine} ${digestOf(placed)}`));
  return placedIn(resolved).filter((placed) => !before.has(`${placed.machine} ${digestOf(placed)}`));
}

/** Whether values name files that Muster does not bring: here they are missing or made up. */
function hasForeignFiles(placed: Placed, plain: ResolvedCluster): boolean {
  const own = new Set(placedIn(plain).flatMap((one) => [...namedIn(one), ...one.files.keys()]));
  return [...namedIn(placed)].some((file) => !own.has(file));
}

const versionOf = ({ versions }: ResolvedCluster, component: Judged): string => versions[component];

function byTables(
  resolved: ResolvedCluster,
  unasked: readonly { readonly component: Judged; readonly unasked?: string }[],
): ClusterFault {
  const why = [...new Set(unasked.map((one) => one.unasked))].join('; ');
  const names = [...new Set(unasked.map((one) => one.component))].join(', ');
  return clusterFault(
    'warning',
    'overrides',
    `the values of ${names} are judged by Muster's tables of Kubernetes ${resolved.kubernetes.minor}, not by the programs: ${why}`,
  );
}

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });

/** Runs work when one of `count` places is free, in the order of the calls. */
function createPlaces(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  let taken = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (taken >= count) await new Promise<void>((resolve) => waiting.push(resolve));
    else taken++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) taken--;
      else next();
    }
  };
}
