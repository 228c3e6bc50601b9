/** `muster validate`: checks documents as the server would, without a server. */
import { counted } from '../../base/counted.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { checkAll } from '../../cluster/resolve/check-documents.ts';
import { faultKey, idOf } from '../../resources/candidate.ts';
import { byPlace } from '../../resources/document.ts';
import { reconcile } from '../../resources/file-layer.ts';
import { EXIT, faultsText, type Io, printWarnings } from '../io.ts';
import { readSources } from './sources.files.ts';

/**
 * `muster validate`: checks documents without a server. Prints one fault per line to standard
 * error; the exit code is 1 when there are faults.
 *
 * @throws {MusterError} E_USAGE when neither a directory nor a file is named; E_FILE_READ when a
 *   file cannot be read.
 */
export async function validate(
  directory: string | undefined,
  options: { readonly filename?: readonly string[] },
  io: Io,
): Promise<number> {
  const paths = [...(directory === undefined ? [] : [directory]), ...(options.filename ?? [])];
  if (paths.length === 0)
    throw new MusterError('E_USAGE', 'name what to check: muster validate DIRECTORY, or -f FILE');
  const sources = await readSources(paths, io.signal);
  const result = reconcile({
    before: new Map(),
    changes: new Map(sources.map((source) => [source.file, source])),
    api: new Map(),
    known: [],
    extra: (set) => checkAll(set, undefined),
  });
  const faults = allFaults(result);
  io.err(faultsText(faults));
  printWarnings(
    result.first.filter((one) => one.severity === 'warning').map((one) => one.fault),
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
