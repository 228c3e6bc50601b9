/** `muster validate`: checks documents as the server would, without a server. */
import { counted } from '../../base/counted.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { runConfined } from '../../cluster/judge/confine.files.ts';
import { createJudge } from '../../cluster/judge/judge.ts';
import { judgeWith } from '../../cluster/judge/late-check.ts';
import { programsIn } from '../../cluster/judge/programs.files.ts';
import { checkAll } from '../../cluster/resolve/check-documents.ts';
import { type CandidateSet, type CrossFault, faultKey, idOf } from '../../resources/candidate.ts';
import { byPlace } from '../../resources/document.ts';
import { reconcile } from '../../resources/file-layer.ts';
import { EXIT, faultsText, type Io, printWarnings } from '../io.ts';
import { readSources } from './sources.files.ts';

/**
 * How long the programs of all Clusters may take together. Nobody waits meanwhile, other than at
 * `muster apply`.
 */
const JUDGED_WITHIN_MS = 120_000;

/**
 * `muster validate`: checks documents without a server. Prints one fault per line to standard
 * error; the exit code is 1 when there are faults. With a directory of the clusters' programs,
 * these judge their values as at `muster apply`.
 *
 * @throws {MusterError} E_USAGE when neither a directory nor a file is named; E_FILE_READ when a
 *   file cannot be read.
 */
export async function validate(
  directory: string | undefined,
  options: { readonly filename?: readonly string[]; readonly withBinaries?: string },
  io: Io,
): Promise<number> {
  const { withBinaries } = options;
  const paths = [...(directory === undefined ? [] : [directory]), ...(options.filename ?? [])];
  if (paths.length === 0)
    throw new MusterError('E_USAGE', 'name what to check: muster validate DIRECTORY, or -f FILE');
  const sources = await readSources(paths, io.signal);
  let whole: CandidateSet | undefined;
  const result = reconcile({
    before: new Map(),
    changes: new Map(sources.map((source) => [source.file, source])),
    api: new Map(),
    known: [],
    extra: (set) => {
      whole = set;
      return checkAll(set, undefined);
    },
  });
  const judged =
    withBinaries === undefined || whole === undefined || allFaults(result).length > 0
      ? []
      : await judgedBy(withBinaries, whole);
  const first = [...result.first, ...judged];
  const faults = allFaults({ ...result, first });
  io.err(faultsText(faults));
  printWarnings(
    first.filter((one) => one.severity === 'warning').map((one) => one.fault),
    io,
  );
  const documents = [...result.documents.values()].map(({ document }) => idOf(document));
  if (documents.length === 0 && faults.length === 0)
    throw new MusterError(
      'E_YAML',
      `${paths.join(', ')}: no document in it; a document begins with "apiVersion: muster/v1"`,
    );
  if (faults.length > 0) {
    io.err(`${counted(faults.length, 'fault')} in ${counted(sources.length, 'file')}\n`);
    return EXIT.failure;
  }
  io.out(`valid: ${counted(documents.length, 'document')} in ${counted(sources.length, 'file')}\n`);
  return EXIT.ok;
}

const judgedBy = (directory: string, set: CandidateSet): Promise<readonly CrossFault[]> => {
  const program = programsIn(directory);
  const judge = judgeWith(createJudge({ program, run: runConfined, withinMs: JUDGED_WITHIN_MS }));
  return judge(set, new Set([...set.Cluster.values()].map(({ document }) => idOf(document))));
};

/** Every fault once, by file and place. */
export function allFaults({
  files,
  first,
  errors,
}: Pick<ReturnType<typeof reconcile>, 'files' | 'first' | 'errors'>): readonly Fault[] {
  const wrong = first.filter((one) => one.severity === 'error');
  const known = new Set(wrong.map(faultKey));
  const between = [...wrong, ...errors.filter((one) => !known.has(faultKey(one)))].map((one) => one.fault);
  const all = [...[...files.values()].flatMap((file) => file.faults), ...between];
  const keyOf = ({ at, path, message }: Fault): string =>
    `${at?.file}:${at?.line}:${at?.column} ${path} ${message}`;
  return [...new Map(all.map((one) => [keyOf(one), one])).values()].sort(byFile);
}

const byFile = (a: Fault, b: Fault): number => {
  const [one = '', other = ''] = [a.at?.file, b.at?.file];
  return one < other ? -1 : one > other ? 1 : byPlace(a, b);
};
