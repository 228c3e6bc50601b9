/**
 * The live catalogue merges the files of a directory and the documents in the store into one view.
 * Each change applies as a whole or not at all.
 */
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { EventSink } from '../events/event.ts';
import { MAX_OPERATIONS, type Store, type Write } from '../store/store.ts';
import { fileOwned, type Plan, plan, type Read, readValues, together, withLate } from './apply.ts';
import { type CandidateSet, type CrossFault, type DocumentId, idOf } from './candidate.ts';
import type {
  ApplyResult,
  CatalogChange,
  ChangeOptions,
  ConfigCheck,
  Entry,
  LateCheck,
  LiveCatalog,
  Origin,
  Target,
} from './catalog.ts';
import { CatalogView, KIND_NAMES } from './catalog-view.ts';
import { checkMarkers, checkNumber } from './change-limit.ts';
import { checkDocuments } from './check.ts';
import { ConfigDirectory } from './config-directory.files.ts';
import { parseDocuments } from './document.ts';
import { FaultReporter, type FaultsBySubject } from './fault-reporter.ts';
import {
  changesSince,
  differences,
  type FileChanges,
  type Files,
  faultyIn,
  filesOf,
  reconcile,
} from './file-layer.ts';
import { type KeptFiles, openKeptFiles } from './kept-files.ts';
import type { Document, Kind } from './kinds.ts';
import { deleteDocument, loadDocuments, putDocument } from './stored-documents.ts';

interface CatalogOptions {
  /** The configuration directory. Without it the catalogue contains only documents of the API. */
  readonly directory?: string;
  readonly store: Store;
  readonly events: EventSink;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'set'>;
  /** Stops watching the directory. */
  readonly signal?: AbortSignal;
  /** Checks that configurations render. Without it only schemas and references are checked. */
  readonly checkConfig?: ConfigCheck;
  /** Checks changes of the API once more, as the last check. */
  readonly checkLate?: LateCheck;
}

/**
 * Opens the catalogue: reads the store and the directory, then watches the directory. Faults in
 * files do not fail this; see {@link LiveCatalog.faults}.
 *
 * @throws {MusterError} E_UNREADABLE when there is no such directory, E_STORE_NEWER when a newer
 *   version of Muster wrote to the store.
 */
export async function openCatalog(options: CatalogOptions): Promise<LiveCatalog> {
  const catalog = new MergedCatalog(options);
  await catalog.open();
  return catalog;
}

class MergedCatalog implements LiveCatalog {
  readonly #options: CatalogOptions;
  readonly #view = new CatalogView();
  readonly #reporter: FaultReporter;
  readonly #directory: ConfigDirectory | undefined;
  #files: Files = new Map();
  /** Faults between documents. Undefined after a change until they are computed again. */
  #cross: readonly CrossFault[] | undefined = [];
  #storeFaults: readonly Fault[] = [];
  #queue: Promise<unknown> = Promise.resolve();
  #kept: KeptFiles | undefined;
  #keeping: Promise<unknown> = Promise.resolve();

  constructor(options: CatalogOptions) {
    const { directory, clock, log } = options;
    this.#options = options;
    this.#reporter = new FaultReporter(options);
    if (directory === undefined) return;
    const changed = () => void this.#next(async () => this.#readAgain());
    this.#directory = new ConfigDirectory({ directory, clock, log, changed });
  }

  async open(): Promise<void> {
    const { log, signal } = this.#options;
    const { changes, faults } = await loadDocuments(this.#options.store);
    this.#storeFaults = faults;
    for (const { code, message } of faults) log.error({ code }, message);
    this.#view.put(changes);
    await this.#openFiles();
    if (this.#directory === undefined && changes.length > 0) {
      this.#cross = undefined;
      this.#reportFaults();
    }
    const close = () => this.#directory?.close();
    signal?.addEventListener('abort', close, { once: true });
    if (signal?.aborted) close();
  }

  /**
   * Puts the files into force: first as they were when the server ended, then what changed since,
   * so that a start takes no document away that a reload would keep.
   */
  async #openFiles(): Promise<void> {
    const { directory, store, log } = this.#options;
    if (directory === undefined || this.#directory === undefined) return;
    const found = this.#directory.open();
    const kept = await openKeptFiles({ store, log }, directory);
    this.#kept = kept;
    const before = filesOf(new Map([...kept.texts].map(([path, text]) => [join(directory, path), text])));
    const changes = changesSince(before, found);
    if (before.size > 0) {
      this.#files = before;
      this.#takeFiles(new Map(), { isFirst: true });
    }
    this.#takeFiles(changes, { isFirst: true });
  }

  get<K extends Kind>(kind: K, name: string): Entry<K> | undefined {
    return this.#view.get(kind, name);
  }

  list<K extends Kind>(kind: K): readonly Entry<K>[] {
    return this.#view.list(kind);
  }

  subscribe(listener: (changes: readonly CatalogChange[]) => void): () => void {
    return this.#view.subscribe(listener);
  }

  faults(): readonly Fault[] {
    const ofFiles = [...this.#files.values()].flatMap((file) => file.faults);
    const between = this.#faultsBetween()
      .filter((one) => one.severity === 'error')
      .map((one) => one.fault);
    return [...this.#storeFaults, ...this.#unreadable(), ...ofFiles, ...between];
  }

  warnings(): readonly Fault[] {
    return this.#faultsBetween()
      .filter((one) => one.severity === 'warning')
      .map((one) => one.fault);
  }

  #faultsBetween(): readonly CrossFault[] {
    const set = { ...this.#view.all(), faulty: faultyIn(this.#files) };
    this.#cross ??= [...checkDocuments(set), ...this.#extra(set)];
    return this.#cross;
  }

  apply(values: readonly unknown[], options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.#next(() => this.#apply(readValues(values), options));
  }

  applyText(text: string, file: string, options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.applyTexts([{ text, file }], options);
  }

  applyTexts(
    texts: readonly { readonly text: string; readonly file: string }[],
    options: ChangeOptions = {},
  ): Promise<ApplyResult> {
    return this.#next(() => {
      checkMarkers(
        texts.map(({ text }) => text),
        options.most,
      );
      const read = together(texts.map(({ text, file }) => parseDocuments(text, file)));
      checkNumber(read.documents.length, options.most);
      return this.#apply(read, options);
    });
  }

  delete(kind: Kind, name: string, options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.deleteAll([{ kind, name }], options);
  }

  deleteAll(targets: readonly Target[], options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.#next(async () => {
      const entries = [...new Map(targets.map((one) => [`${one.kind}/${one.name}`, one])).values()].map(
        ({ kind, name }) => {
          const entry = this.#view.get(kind, name) as Entry | undefined;
          if (!entry) throw new MusterError('E_NOT_FOUND', `there is no ${kind} "${name}"`);
          if (entry.origin.from === 'file')
            throw new MusterError('E_FILE_OWNED', fileOwned(idOf(entry.document), entry.origin.at));
          return entry;
        },
      );
      this.#refuseTooMany(entries.length, options);
      const planned = this.#plan({ drop: entries.map(({ document }) => document) }, options);
      // These are documents of the API, which have a revision.
      const writes = entries.map((entry) =>
        deleteDocument(entry.document, this.#expected(entry, options) as number),
      );
      return this.#commit(planned, writes, options);
    });
  }

  recheck(): void {
    this.#cross = undefined;
  }

  reload({ confirm = [] }: Pick<ChangeOptions, 'confirm'> = {}): Promise<void> {
    return this.#next(async () => {
      this.#readAgain(confirm);
    });
  }

  async close(): Promise<void> {
    this.#directory?.close();
    await this.#queue;
    await this.#keeping;
  }

  /**
   * Runs changes one after another, so that each is checked against the result of the one before.
   */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
  }

  /**
   * Reads what changed in the directory. While the directory cannot be read, its documents stay in
   * force.
   */
  #readAgain(confirm: readonly string[] = []): void {
    if (this.#directory === undefined) return;
    const wasUnreadable = this.#unreadable().length > 0;
    const changes = this.#directory.read(this.#files);
    if (changes !== undefined && changes.size > 0) this.#takeFiles(changes, { confirm });
    if (changes === undefined || wasUnreadable) this.#reportFaults();
  }

  #unreadable(): readonly Fault[] {
    return this.#directory?.unreadable ?? [];
  }

  async #apply(put: Read, options: ChangeOptions): Promise<ApplyResult> {
    this.#refuseTooMany(put.documents.length, options);
    const checked = this.#plan({ put }, options);
    const late = await this.#options.checkLate?.(checked.set, checked.touched);
    const planned = withLate(checked, late ?? []);
    const writes: Write[] = [];
    for (const { kind, name, action, after } of planned.results) {
      const entry = this.#view.get(kind, name) as Entry | undefined;
      const expect = this.#expected(entry, options);
      if (action === 'unchanged') continue;
      writes.push(putDocument(after!, expect));
    }
    return this.#commit(planned, writes, options);
  }

  #refuseTooMany(documents: number, { dryRun, alsoWrite }: ChangeOptions): void {
    const most = MAX_OPERATIONS - (alsoWrite?.length ?? 0);
    if (!dryRun && documents > most)
      throw new MusterError(
        'E_STORE_LIMIT',
        `${documents} documents in one change; at most ${most} are allowed`,
      );
  }

  #plan(change: Parameters<typeof plan>[1], options: ChangeOptions): Plan {
    return plan(this.#view, change, () => this.#faultsBetween(), this.#options.checkConfig, options);
  }

  /**
   * The revision that the record must have.
   *
   * @throws {MusterError} E_CONFLICT when the caller expects another one.
   */
  #expected(entry: Entry | undefined, { expectRevision }: ChangeOptions): number | 'absent' {
    const actual = entry?.origin.from === 'api' ? entry.origin.revision : 'absent';
    if (expectRevision !== undefined && expectRevision !== actual)
      throw new MusterError('E_CONFLICT', `expected revision ${expectRevision}, found ${actual}`);
    return actual;
  }

  async #commit(planned: Plan, writes: readonly Write[], options: ChangeOptions): Promise<ApplyResult> {
    const { results, warnings } = planned;
    const all = [...writes, ...(options.alsoWrite ?? [])];
    if (options.dryRun || all.length === 0) return { results, warnings };
    const committed = await this.#options.store.commit(all);
    if (!committed.ok)
      throw new MusterError(
        'E_CONFLICT',
        `changed by someone else in the meantime: ${committed.conflicts.map((one) => one.key).join(', ')}`,
      );
    const origin: Origin = { from: 'api', revision: committed.revision };
    const changes = results
      .filter((one) => one.action !== 'unchanged')
      .map(({ kind, name, after }) => ({ kind, name, entry: after && { document: after, origin } }));
    this.#view.put(changes);
    this.#cross = undefined;
    this.#announce(changes);
    this.#count();
    // A change through the API can only fix faults of files: one that adds a fault is refused.
    if (this.#reporter.reported) this.#reportFaults();
    return { results, warnings, revision: committed.revision };
  }

  /**
   * Puts changed files into force as far as they are valid. With `isFirst` no events are recorded.
   */
  #takeFiles(
    changes: FileChanges,
    { isFirst = false, confirm = [] }: { readonly isFirst?: boolean } & Pick<ChangeOptions, 'confirm'>,
  ): void {
    const api = new Map<DocumentId, Document>();
    for (const kind of KIND_NAMES)
      for (const { document, origin } of this.#view.list(kind) as readonly Entry[])
        if (origin.from === 'api') api.set(idOf(document), document);
    const before = this.#inForce();
    const result = reconcile({
      before: this.#files,
      changes,
      api,
      known: this.#faultsBetween(),
      confirm,
      extra: (set) => this.#extra(set),
    });
    this.#files = result.files;
    this.#cross = [...result.errors, ...result.warnings];
    const put = differences(before, result.documents);
    this.#view.move(put.filter((one) => !one.fresh).map((one) => one.entry!));
    const fresh = put.filter((one) => one.fresh);
    this.#view.put(fresh);
    if (!isFirst) this.#announce(fresh);
    this.#reportFaults();
    this.#count();
    this.#keep();
  }

  /** Notes the versions in force for the next start. A disk that is full does not stop a reload. */
  #keep(): void {
    const files = this.#files;
    this.#keeping = this.#keeping
      .then(() => this.#kept?.keep(files))
      .catch((error: unknown) => this.#options.log.warn({ error: `${error}` }, 'files are not kept'));
  }

  #extra(set: CandidateSet): readonly CrossFault[] {
    return this.#options.checkConfig?.(set, undefined) ?? [];
  }

  /** Documents of files that are in force. */
  #inForce(): ReadonlyMap<DocumentId, Entry> {
    const found = new Map<DocumentId, Entry>();
    for (const kind of KIND_NAMES)
      for (const entry of this.#view.list(kind) as readonly Entry[])
        if (entry.origin.from === 'file') found.set(idOf(entry.document), entry);
    return found;
  }

  #reportFaults(): void {
    this.#reporter.report(this.#faultsBySubject());
  }

  /** All faults except those of stored records, which were logged when the catalogue opened. */
  #faultsBySubject(): FaultsBySubject {
    const found = new Map<string, Fault[]>();
    const add = (subject: string, fault: Fault) => {
      const faults = found.get(subject);
      if (faults) faults.push(fault);
      else found.set(subject, [fault]);
    };
    for (const fault of this.#unreadable()) add(fault.at!.file, fault);
    for (const [file, { faults }] of this.#files) for (const fault of faults) add(file, fault);
    for (const { severity, fault, document } of this.#faultsBetween())
      if (severity === 'error') add(fault.at?.file ?? document, fault);
    return found;
  }

  #announce(changes: readonly CatalogChange[]): void {
    for (const { kind, name, entry } of changes) {
      const from = entry?.origin.from === 'file' ? `${entry.origin.at.file}:${entry.origin.at.line}` : 'api';
      this.#options.events.record({
        kind: entry ? 'document.applied' : 'document.deleted',
        subject: `${kind}/${name}`,
        ...(entry && { fields: { from } }),
      });
    }
  }

  #count(): void {
    for (const kind of KIND_NAMES)
      this.#options.metrics.set('muster_documents', { kind }, this.#view.all()[kind].size);
  }
}
