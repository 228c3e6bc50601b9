/**
 * The live catalogue: files of a directory and documents of the store, one view, changed all or
 * nothing.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { type Fault, MusterError } from '../base/errors.ts';
import { fieldsOf, parsed } from '../base/foreign-json.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { KEYS } from '../store/keys.ts';
import { MAX_OPERATIONS, type Store, type StoredRecord, type Write } from '../store/store.ts';
import { fileOwned, type Plan, plan, type Wanted, wantedOf } from './apply.ts';
import { type CandidateSet, type CrossFault, type DocumentId, idOf } from './candidate.ts';
import type {
  ApplyResult,
  CatalogChange,
  ChangeOptions,
  ConfigCheck,
  Entry,
  LiveCatalog,
  Origin,
  Target,
} from './catalog.ts';
import { CatalogView, KIND_NAMES } from './catalog-view.ts';
import { checkDocuments } from './check.ts';
import {
  readText,
  type Scan,
  type Stamp,
  sameStamp,
  scan,
  type Watching,
  watchDirectories,
} from './directory.files.ts';
import { parseDocuments, validate } from './document.ts';
import { type FileChanges, type Files, type Placed, reconcile, told } from './file-layer.ts';
import type { Document, Kind } from './kinds.ts';
import type { DocumentEvents } from './ports.ts';

export interface CatalogOptions {
  /** The configuration directory; without it there are only documents of the API. */
  readonly directory?: string;
  readonly store: Store;
  readonly events: DocumentEvents;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Pick<Metrics, 'set'>;
  /** Ends watching. */
  readonly signal?: AbortSignal;
  /** Checks that configurations render; without it only schemas and references are checked. */
  readonly checkConfig?: ConfigCheck;
}

/** Version of a stored document's shape. */
const STORED_VERSION = 1;

/**
 * Opens the catalogue: reads the store and the directory, then watches the directory. Faults of
 * files do not fail this; see {@link LiveCatalog.faults}. Throws E_UNREADABLE when there is no such
 * directory, E_STORE_NEWER.
 */
export async function openCatalog(options: CatalogOptions): Promise<LiveCatalog> {
  const catalog = new FilesAndStore(options);
  await catalog.open();
  return catalog;
}

class FilesAndStore implements LiveCatalog {
  readonly #options: CatalogOptions;
  readonly #view = new CatalogView();
  #files: Files = new Map();
  #stamps = new Map<string, Stamp>();
  /** Faults between documents; undefined after a change, until somebody asks. */
  #cross: readonly CrossFault[] | undefined = [];
  #storeFaults: readonly Fault[] = [];
  #told = new Map<string, string>();
  #queue: Promise<unknown> = Promise.resolve();
  #watching: Watching | undefined;
  /** Why the configuration directory cannot be read, when it cannot. */
  #unreadable: readonly Fault[] = [];

  constructor(options: CatalogOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    const { directory, clock, log, signal } = this.#options;
    await this.#loadStore();
    if (directory === undefined) {
      this.#recheck();
      return;
    }
    const changed = () => void this.#next(async () => this.#readAgain(directory));
    this.#watching = watchDirectories({ directory, clock, log, changed });
    const close = () => this.#watching?.close();
    // Watched before read: a change in between is then seen twice, not never.
    const first = scan(directory);
    this.#watching.set(first);
    this.#readFiles(first, true);
    signal?.addEventListener('abort', close, { once: true });
    if (signal?.aborted) close();
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
    const between = told(this.#faultsBetween(), this.#files)
      .filter((one) => one.severity === 'error')
      .map((one) => one.fault);
    return [...this.#storeFaults, ...this.#unreadable, ...ofFiles, ...between];
  }

  warnings(): readonly Fault[] {
    return told(this.#faultsBetween(), this.#files)
      .filter((one) => one.severity === 'warning')
      .map((one) => one.fault);
  }

  #faultsBetween(): readonly CrossFault[] {
    const set = this.#view.all();
    this.#cross ??= [...checkDocuments(set), ...this.#extra(set)];
    return this.#cross;
  }

  apply(values: readonly unknown[], options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.#next(() => this.#apply(wantedOf(values), options));
  }

  applyText(text: string, file: string, options: ChangeOptions = {}): Promise<ApplyResult> {
    return this.applyTexts([{ text, file }], options);
  }

  applyTexts(
    texts: readonly { readonly text: string; readonly file: string }[],
    options: ChangeOptions = {},
  ): Promise<ApplyResult> {
    return this.#next(() => {
      const parsed = texts.map(({ text, file }) => parseDocuments(text, file));
      const faults = parsed.flatMap((one) => one.faults);
      if (faults.length > 0) throw new MusterError(faults[0]!.code, faults[0]!.message, { faults });
      return this.#apply(
        parsed.flatMap((one) => one.documents),
        options,
      );
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
      const planned = this.#plan({ drop: entries.map(({ document }) => document) });
      const writes = entries.map((entry): Write => {
        const { kind, metadata } = entry.document;
        // a document of the API has a revision
        const expect = this.#expected(entry, options) as number;
        return { key: KEYS.document.key(kind, metadata.name), delete: true, expect };
      });
      return this.#commit(planned, writes, options);
    });
  }

  reload(): Promise<void> {
    return this.#next(async () => {
      if (this.#options.directory !== undefined) this.#readAgain(this.#options.directory);
    });
  }

  async close(): Promise<void> {
    this.#watching?.close();
    await this.#queue;
  }

  /** One change after another: each is checked against what the one before left. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
  }

  /**
   * What the directory says now; while it cannot be read, that is a fault and what it said stays in
   * force.
   */
  #readAgain(directory: string): void {
    let found: Scan;
    try {
      found = scan(directory);
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      this.#watching?.set(undefined);
      const at = { file: directory, line: 1, column: 1 };
      this.#unreadable = [{ code: error.code, message: error.message, at }];
      this.#tellFaults();
      return;
    }
    this.#watching?.set(found);
    const healed = this.#unreadable.length > 0;
    this.#unreadable = [];
    this.#readFiles(found, false);
    if (healed) this.#tellFaults();
  }

  async #apply(wanted: readonly Wanted[], options: ChangeOptions): Promise<ApplyResult> {
    this.#refuseTooMany(wanted.length, options);
    const planned = this.#plan({ put: wanted });
    const writes: Write[] = [];
    for (const { kind, name, action, after } of planned.results) {
      const entry = this.#view.get(kind, name) as Entry | undefined;
      const expect = this.#expected(entry, options);
      if (action === 'unchanged') continue;
      const put = JSON.stringify({ v: STORED_VERSION, document: after });
      writes.push({ key: KEYS.document.key(kind, name), put, expect });
    }
    return this.#commit(planned, writes, options);
  }

  #refuseTooMany(documents: number, { dryRun, alsoWrite }: ChangeOptions): void {
    const most = MAX_OPERATIONS - (alsoWrite?.length ?? 0);
    if (!dryRun && documents > most)
      throw new MusterError('E_STORE_LIMIT', `${documents} documents at once; at most ${most}`);
  }

  #plan(change: Parameters<typeof plan>[1]): Plan {
    return plan(this.#view, change, () => this.#faultsBetween(), this.#options.checkConfig);
  }

  /** What the record must be at; E_CONFLICT at once when the caller expects something else. */
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
        `changed meanwhile: ${committed.conflicts.map((one) => one.key).join(', ')}`,
      );
    const origin: Origin = { from: 'api', revision: committed.revision };
    const changes = results
      .filter((one) => one.action !== 'unchanged')
      .map(({ kind, name, after }) => ({ kind, name, entry: after && { document: after, origin } }));
    this.#view.put(changes);
    this.#cross = undefined;
    this.#announce(changes);
    this.#count();
    // A change may heal what files lack; it never adds a fault.
    if (this.#told.size > 0) this.#tellFaults();
    return { results, warnings, revision: committed.revision };
  }

  async #loadStore(): Promise<void> {
    const { records } = await this.#options.store.list(KEYS.document.prefix());
    const changes: CatalogChange[] = [];
    const faults: Fault[] = [];
    for (const record of records) {
      const read = readStored(record);
      if ('fault' in read) faults.push(read.fault);
      else changes.push(read.change);
    }
    this.#storeFaults = faults;
    for (const fault of faults) this.#options.log.error({ code: fault.code }, fault.message);
    this.#view.put(changes);
  }

  /** Reads what changed since the last time, and what was wrong then. */
  #readFiles(found: Scan, first: boolean): void {
    const changes = new Map<string, { readonly text: string } | { readonly fault: Fault } | 'gone'>();
    for (const [file, stamp] of found.files) {
      const old = this.#stamps.get(file);
      const faulty = (this.#files.get(file)?.faults.length ?? 0) > 0;
      if (faulty || !old || !sameStamp(old, stamp)) changes.set(file, readText(file));
    }
    for (const file of this.#files.keys()) if (!found.files.has(file)) changes.set(file, 'gone');
    this.#stamps = new Map(found.files);
    if (changes.size > 0 || first) this.#take(changes, first);
  }

  #take(changes: FileChanges, first: boolean): void {
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
      extra: (set) => this.#extra(set),
    });
    this.#files = result.files;
    this.#cross = [...result.errors, ...result.warnings];
    const put = differences(before, result.documents);
    this.#view.move(put.filter((one) => !one.fresh).map((one) => one.entry!));
    const fresh = put.filter((one) => one.fresh);
    this.#view.put(fresh);
    if (!first) this.#announce(fresh);
    this.#tellFaults();
    this.#count();
  }

  #extra(set: CandidateSet): readonly CrossFault[] {
    return this.#options.checkConfig?.(set, undefined) ?? [];
  }

  #inForce(): ReadonlyMap<DocumentId, Entry> {
    const found = new Map<DocumentId, Entry>();
    for (const kind of KIND_NAMES)
      for (const entry of this.#view.list(kind) as readonly Entry[])
        if (entry.origin.from === 'file') found.set(idOf(entry.document), entry);
    return found;
  }

  #recheck(): void {
    this.#take(new Map(), true);
  }

  /** One event and one log line when a file becomes invalid, or invalid in another way. */
  #tellFaults(): void {
    const now = new Map<string, string>();
    for (const [subject, faults] of this.#faultsBySubject()) {
      const text = faults
        .map((one) => `${one.at?.line ?? 1}:${one.at?.column ?? 1} ${one.message}`)
        .join('; ');
      now.set(subject, text);
      if (this.#told.get(subject) === text) continue;
      const { code } = faults[0]!;
      this.#options.log.error({ file: subject, faults: faults.length, code }, text.slice(0, 2000));
      this.#options.events.record({
        kind: 'document.invalid',
        subject,
        reason: { code, text: text.slice(0, 500) },
        fields: { faults: faults.length },
      });
    }
    this.#told = now;
    this.#options.metrics?.set('muster_document_faults', {}, now.size);
  }

  /**
   * Faults by the file that they are in; of a document of the API by its kind and name. Those of
   * the store were told.
   */
  #faultsBySubject(): ReadonlyMap<string, readonly Fault[]> {
    const found = new Map<string, Fault[]>();
    const add = (subject: string, fault: Fault) => {
      const faults = found.get(subject);
      if (faults) faults.push(fault);
      else found.set(subject, [fault]);
    };
    for (const fault of this.#unreadable) add(fault.at!.file, fault);
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
      this.#options.metrics?.set('muster_documents', { kind }, this.#view.all()[kind].size);
  }
}

type FileChange = CatalogChange & { readonly fresh: boolean };

/**
 * From what files had in force to what they have now. `fresh`: the document itself changed, not
 * only its line.
 */
function differences(
  before: ReadonlyMap<DocumentId, Entry>,
  now: ReadonlyMap<DocumentId, Placed>,
): readonly FileChange[] {
  const changes: FileChange[] = [];
  for (const [id, { document }] of before)
    if (!now.has(id))
      changes.push({ kind: document.kind, name: document.metadata.name, entry: undefined, fresh: true });
  for (const [id, { document, at, spot }] of now) {
    const old = before.get(id)?.document;
    const same = old !== undefined && (old === document || isDeepStrictEqual(old, document));
    // The old object stays, so that whoever remembers something of it by identity still finds it.
    const entry: Entry = { document: same ? old : document, origin: { from: 'file', at }, spot };
    changes.push({ kind: document.kind, name: document.metadata.name, entry, fresh: !same });
  }
  return changes;
}

/** A document as the store has it, or why it is left out. Throws E_STORE_NEWER. */
export function readStored(
  record: StoredRecord,
): { readonly change: CatalogChange } | { readonly fault: Fault } {
  const value = parsed(record.value);
  if (value === undefined)
    return { fault: { code: 'E_SCHEMA', message: `${record.key} in the store is not JSON; it is left out` } };
  const { v, document: written } = fieldsOf(value);
  if (typeof v === 'number' && v > STORED_VERSION)
    throw new MusterError(
      'E_STORE_NEWER',
      `${record.key} has version ${v}, this version knows ${STORED_VERSION}`,
    );
  const result = validate(written);
  if (!result.ok) {
    const first = result.faults[0]!;
    return {
      fault: {
        ...first,
        message: `${record.key} in the store is left out: ${first.path ?? ''} ${first.message}`,
      },
    };
  }
  const { document } = result;
  const entry: Entry = { document, origin: { from: 'api', revision: record.revision } };
  return { change: { kind: document.kind, name: document.metadata.name, entry } };
}
