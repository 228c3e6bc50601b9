/** The verbs `muster apply -f` and `muster delete`. */

import type { Consequences } from '../../api/consequences.ts';
import type { ProfileChange } from '../../api/profile-changes.ts';
import { MusterError } from '../../base/errors.ts';
import type { ApplyResult, Target } from '../../resources/catalog.ts';
import { parseDocuments } from '../../resources/document.ts';
import { KINDS, PLURAL } from '../../resources/kinds.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';
import { kindAndNames, kindOf } from '../names.ts';
import { consequencesText, profilesText } from './consequences.ts';
import { fetchItems, selected } from './get.ts';
import { readTexts } from './sources.files.ts';

interface Common extends ServerOptions {
  readonly dryRun?: boolean;
}

/** The word that is printed for each action, as kubectl prints it. */
const SAID = {
  created: 'created',
  changed: 'configured',
  unchanged: 'unchanged',
  deleted: 'deleted',
} as const;

/** What the server answers. */
interface ApplyAnswer extends ApplyResult {
  /** What would change in clusters; only for a dry run. */
  readonly consequences?: readonly Consequences[];
  /** Machines that would get another profile; only for a dry run. */
  readonly profiles?: readonly ProfileChange[];
}

/**
 * Sends documents to be applied. The result says what happened or, with `dryRun`, what would
 * happen.
 */
export async function applyThrough(
  client: ApiClient,
  paths: readonly string[],
  dryRun: boolean,
  signal: AbortSignal,
  confirm?: readonly string[],
): Promise<ApplyAnswer> {
  const answer = await client.ask(
    'POST /v1/apply',
    {
      query: { dryRun: dryRun || undefined, confirm: confirm?.join(',') },
      body: { sources: await readTexts(paths, signal) },
    },
    { signal },
  );
  // The contract leaves open what a document has.
  return answer as unknown as ApplyAnswer;
}

/**
 * `muster apply`: applies all documents of the files, or none.
 *
 * @throws {MusterError} E_YAML when there is no document, and the server's errors with every fault.
 */
export async function apply(
  options: Common & { readonly filename: readonly string[]; readonly confirm?: readonly string[] },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const {
    results,
    warnings,
    consequences = [],
    profiles = [],
  } = await applyThrough(client, options.filename, options.dryRun ?? false, io.signal, options.confirm);
  if (results.length === 0)
    throw new MusterError(
      'E_YAML',
      `${options.filename.join(', ')}: no document in it; nothing was applied. A document begins with "apiVersion: muster/v1"`,
    );
  for (const { kind, name, action } of results)
    io.out(`${kind.toLowerCase()}/${name} ${SAID[action]}${options.dryRun ? ' (dry run)' : ''}\n`);
  io.out(profilesText(profiles) + consequencesText(consequences));
  printWarnings(warnings, io);
  return EXIT.ok;
}

interface RemoveOptions extends Common {
  readonly filename?: readonly string[];
  readonly ignoreNotFound?: boolean;
  /** Deletes all documents of a kind. */
  readonly all?: boolean;
  /** Deletes those documents of a kind that have these labels. */
  readonly selector?: string;
  /** Also deletes Images that a Profile names. */
  readonly force?: boolean;
}

/**
 * `muster delete`: deletes `KIND NAME…`, `KIND/NAME…`, a kind with --all or -l, or the documents of
 * files: all of them, or none when one cannot be deleted.
 *
 * @throws {MusterError} E_USAGE unless documents are named in exactly one of these ways; and what
 *   the server answers.
 */
export async function remove(words: readonly string[], options: RemoveOptions, io: Io): Promise<number> {
  const { filename, ignoreNotFound, all, selector } = options;
  const byLabel = all || selector !== undefined;
  if (words.length > 0 === (filename !== undefined) || (byLabel && words.length !== 1))
    throw new MusterError(
      'E_USAGE',
      'name what to delete: muster delete KIND NAME…, KIND/NAME…, KIND --all, KIND -l LABELS or -f FILE',
    );
  const client = openClient(options, io);
  const targets = byLabel
    ? await targetsWith(client, words[0]!, selector)
    : filename === undefined
      ? targetsOf(words)
      : await targetsIn(filename, io.signal);
  if (byLabel && targets.length === 0) {
    io.err(`No ${PLURAL[kindOf(words[0]!)]} found.\n`);
    return EXIT.ok;
  }
  const query = {
    dryRun: options.dryRun || undefined,
    ignoreNotFound: ignoreNotFound || undefined,
    force: options.force || undefined,
  };
  const body = { documents: targets };
  const { results, warnings } = await client.ask('POST /v1/delete', { query, body }, { signal: io.signal });
  for (const { kind, name } of results)
    io.out(`${kind.toLowerCase()} "${name}" deleted${options.dryRun ? ' (dry run)' : ''}\n`);
  printWarnings(warnings, io);
  return EXIT.ok;
}

/**
 * The documents of a kind: all, or those whose labels match.
 *
 * @throws {MusterError} E_USAGE when the kind is unknown or the selector is malformed.
 */
async function targetsWith(
  client: ApiClient,
  word: string,
  selector: string | undefined,
): Promise<readonly Target[]> {
  const kind = kindOf(word);
  const { items } = await fetchItems(client, kind);
  return items.filter(selected(selector)).map(({ metadata }) => ({ kind, name: metadata.name }));
}

/**
 * The documents that the words name: of one kind or, written as KIND/NAME, of several.
 *
 * @throws {MusterError} E_USAGE when a kind has no name.
 */
function targetsOf(words: readonly string[]): readonly Target[] {
  const groups = words[0]!.includes('/') ? words.map((word) => [word]) : [words];
  return groups.flatMap((group) => {
    const { kind: word, names } = kindAndNames(group);
    const kind = kindOf(word);
    if (names.length === 0)
      throw new MusterError('E_USAGE', `name what to delete: muster delete ${word} NAME`);
    return names.map((name) => ({ kind, name }));
  });
}

/** The documents of files, each before the documents that it names. Throws every fault. */
async function targetsIn(paths: readonly string[], signal: AbortSignal): Promise<readonly Target[]> {
  const parsed = (await readTexts(paths, signal)).map(({ file, text }) => parseDocuments(text, file));
  const faults = parsed.flatMap((one) => one.faults);
  if (faults.length > 0) throw new MusterError(faults[0]!.code, faults[0]!.message, { faults });
  const order = Object.keys(KINDS);
  return parsed
    .flatMap((one) => one.documents)
    .map(({ document: { kind, metadata } }) => ({ kind, name: metadata.name }))
    .sort((a, b) => order.indexOf(b.kind) - order.indexOf(a.kind));
}
