/** Handlers for the documents of all kinds: list, get, put, delete, apply. */
import { createHash } from 'node:crypto';
import { type Fault, MusterError } from '../base/errors.ts';
import { beforeChange } from '../base/rehearsal.ts';
import { didYouMean } from '../base/suggest.ts';
import { checkDeletion } from '../cluster/spec/deletion-guard.ts';
import type { KnownMachine } from '../machines/machine.ts';
import type { Member } from '../machines/roster.ts';
import { selectionOf } from '../pxe/decide/selection.ts';
import type { ApplyResult, ChangeOptions, Entry, Origin, Target } from '../resources/catalog.ts';
import { checkNumber } from '../resources/change-limit.ts';
import {
  API_VERSION,
  type ClusterSpec,
  type Document,
  type ImageSpec,
  KINDS,
  type Kind,
  type MachineSpec,
  PLURAL,
  type WebhookSpec,
} from '../resources/kinds.ts';
import { checkWithin, covers } from './access.ts';
import { consequencesOf } from './consequences.ts';
import type { ApiDeps, DocumentSource } from './deps.ts';
import { type ApiRequest, type ApiResponse, flag, type Handler, json, readText } from './handler.ts';
import { checkImagesInUse } from './in-use.ts';
import { lackingVersions } from './lacking.ts';
import { listText, wantedOf } from './listing.ts';
import { briefOutlook, clusterOutlook, imageOutlook, machineOutlook, type Outlook } from './outlook.ts';
import { profileChanges } from './profile-changes.ts';
import { briefStatus, type StatusView, statusView } from './times.ts';

type H = Handler<ApiDeps>;

/** A machine's status as the API shows it; `profile` is the named or selected one. */
type MachineShown = StatusView & { readonly profile?: string };

/**
 * A document as the API shows it: the operator's text, and under `status` what the server knows of
 * it.
 */
export interface Shown {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: Kind;
  readonly metadata: Document['metadata'];
  /** Absent for a machine that was only seen. */
  readonly spec?: Document['spec'];
  readonly status: Partial<MachineShown> & Outlook & { readonly origin?: Origin };
}

const KIND_OF: ReadonlyMap<string, Kind> = new Map(
  (Object.entries(PLURAL) as [Kind, string][]).map(([kind, plural]) => [plural, kind]),
);

/**
 * The kind that the path names.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown kind
 */
function kindOf(request: ApiRequest): Kind {
  const plural = request.params.kind ?? '';
  const kind = KIND_OF.get(plural);
  if (!kind)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no kind "${plural}"; the kinds are ${[...KIND_OF.keys()].join(', ')}`,
    );
  return kind;
}

/**
 * An entity tag that changes with the document: the store's revision, or a hash of the content if a
 * file holds the document.
 */
function etagOf(entry: Entry): string {
  if (entry.origin.from === 'api') return `"r${entry.origin.revision}"`;
  return `"f${createHash('sha256').update(JSON.stringify(entry.document)).digest('base64url').slice(0, 22)}"`;
}

/**
 * Returns a function from a machine to the name of its profile: the one that its document names, or
 * the one that selects it. Profiles are listed only once.
 */
function selection({ catalog, inventories }: ApiDeps): (member: Member) => string | undefined {
  const profiles = catalog
    .list('Profile')
    .map(({ document }) => ({ name: document.metadata.name, spec: document.spec }));
  return (member) => {
    const found = selectionOf({ profiles: () => profiles, inventories }, member, member.status.seen.network);
    return found.kind === 'selected' ? found.profile.name : undefined;
  };
}

function statusOf(
  name: string,
  { roster }: ApiDeps,
  selected: (member: Member) => string | undefined,
): MachineShown | undefined {
  const member = roster.get(name);
  if (member === undefined) return undefined;
  const profile = selected(member);
  return { ...statusView(roster.view(member).status), ...(profile === undefined ? {} : { profile }) };
}

function shown(entry: Entry, deps: ApiDeps, selected = selection(deps)): Shown {
  const status =
    entry.document.kind === 'Machine' ? statusOf(entry.document.metadata.name, deps, selected) : {};
  const more = outlookOf(entry.document, deps);
  return { ...entry.document, status: { ...status, ...more, origin: entry.origin } };
}

/** What of a document those see who may not change it. Others see all of it. */
const visibleTo =
  ({ principal }: ApiRequest) =>
  (document: Shown): Shown => {
    const mayChange = principal === undefined || principal.grants.some(({ role }) => covers(role, 'admin'));
    return mayChange ? document : { ...document, ...withoutPaths(document) };
  };

/** Addresses of Webhooks and hooks without path and query, which often are their only secret. */
function withoutPaths({ kind, spec }: Shown): Pick<Shown, 'spec'> {
  if (kind === 'Webhook') return { spec: withoutPath(spec as WebhookSpec) };
  const { hooks, ...rest } = (spec ?? {}) as ClusterSpec;
  return kind === 'Cluster' && hooks ? { spec: { ...rest, hooks: hooks.map(withoutPath) } } : {};
}

function withoutPath<T extends { readonly url: string }>(spec: T): T {
  const { origin, pathname, search } = new URL(spec.url);
  return pathname === '/' && search === '' ? spec : { ...spec, url: `${origin}/…` };
}

function outlookOf(document: Document, deps: ApiDeps): Outlook {
  switch (document.kind) {
    case 'Machine':
      return machineOutlook(document.metadata.name, deps);
    case 'Image':
      return imageOutlook(document.spec as ImageSpec, deps);
    case 'Cluster':
      return clusterOutlook(document.metadata.name, deps);
    default:
      return {};
  }
}

function shownUnwritten({ name, status }: KnownMachine, deps: ApiDeps): Shown {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name },
    status: { ...statusView(status), ...machineOutlook(name, deps) },
  };
}

/** Sorted names of all documents of a kind, and of machines without a document. */
function namesOf(kind: Kind, { catalog, roster }: ApiDeps): string[] {
  const written = catalog.list(kind).map(({ document }) => document.metadata.name);
  if (kind !== 'Machine') return written;
  const seen = roster.list().flatMap(({ name, spec }) => (spec === undefined ? [name] : []));
  return seen.length === 0 ? written : [...written, ...seen].sort();
}

/** Returns a function from a name to the document or the machine that was seen, as it is shown. */
function showing(kind: Kind, deps: ApiDeps): (name: string) => Shown | undefined {
  const selected = selection(deps);
  return (name) => {
    const entry = deps.catalog.get(kind, name);
    if (entry) return shown(entry, deps, selected);
    const member = kind === 'Machine' ? deps.roster.get(name) : undefined;
    return member && shownUnwritten(deps.roster.view(member), deps);
  };
}

/**
 * Returns a function from a name to what a table of machines shows of one, which takes half of the
 * time and of the octets. A machine without a document is shown whole: a form that accepts it needs
 * the rest.
 */
function showingBriefly(deps: ApiDeps): (name: string) => Shown | undefined {
  const whole = showing('Machine', deps);
  const selected = selection(deps);
  return (name) => {
    const member = deps.roster.get(name);
    if (member?.entry === undefined) return whole(name);
    const { metadata, spec } = member.entry.document;
    const profile = selected(member);
    return {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata,
      spec: briefSpec(spec),
      status: {
        ...briefStatus(member.status),
        ...(profile !== undefined && { profile }),
        ...briefOutlook(name, deps),
      },
    };
  };
}

const briefSpec = ({ macs, profile, cluster, addresses }: MachineSpec): MachineSpec => ({
  ...(macs && { macs }),
  ...(profile !== undefined && { profile }),
  ...(cluster !== undefined && { cluster }),
  ...(addresses && { addresses }),
});

/** A part of a list for an operator whose roles are for certain clusters. */
function belongs(kind: Kind, { within }: ApiRequest, { agents }: ApiDeps): (name: string) => boolean {
  if (within === undefined) return () => true;
  if (kind === 'Cluster') return (name) => within.has(name);
  if (kind === 'Machine') return (name) => within.has(agents.agentCluster(name) ?? '');
  checkWithin(within, undefined);
  return () => false;
}

export const listDocuments: H = (request, deps) => {
  const kind = kindOf(request);
  const names = namesOf(kind, deps).filter(belongs(kind, request, deps));
  const brief = kind === 'Machine' && flag(request.query, 'brief');
  const visible = visibleTo(request);
  const all = brief ? showingBriefly(deps) : showing(kind, deps);
  const show = (name: string): Shown | undefined => {
    const found = all(name);
    return found && visible(found);
  };
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: listText(kind, names, show, wantedOf<Shown>(request.query)),
    // Whole documents may hold password hashes, and machines choose other parts of the same answer.
    compressible: brief,
  };
};

export const getDocument: H = (request, deps) => {
  const kind = kindOf(request);
  const name = request.params.name ?? '';
  checkWithin(request.within, undefined);
  const entry = deps.catalog.get(kind, name);
  if (entry) return json(visibleTo(request)(shown(entry, deps)), 200, { etag: etagOf(entry) });
  const seen = kind === 'Machine' ? deps.roster.get(name) : undefined;
  if (!seen)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no ${kind} "${name}"${didYouMean(name, namesOf(kind, deps))}; \`muster get ${PLURAL[kind]}\` lists them`,
    );
  return json(shownUnwritten(deps.roster.view(seen), deps));
};

/**
 * Checks If-Match and If-None-Match against the current document. The returned revision is for the
 * store, which compares it again when it commits.
 *
 * @throws {MusterError} E_CONFLICT (answered with status 412) when they do not match
 */
function expectation(request: ApiRequest, entry: Entry | undefined): Pick<ChangeOptions, 'expectRevision'> {
  const match = request.headers['if-match'];
  if (match !== undefined) {
    const tags = match.split(',').map((tag) => tag.trim());
    if (!entry || (match !== '*' && !tags.includes(etagOf(entry))))
      throw new MusterError(
        'E_CONFLICT',
        `If-Match: ${match} does not match ${entry ? etagOf(entry) : 'an absent document'}`,
      );
    return entry.origin.from === 'api' ? { expectRevision: entry.origin.revision } : {};
  }
  if (request.headers['if-none-match'] === '*') {
    if (entry) throw new MusterError('E_CONFLICT', 'If-None-Match: * but the document exists');
    return { expectRevision: 'absent' };
  }
  return {};
}

/** The file name in the faults of a body; the client may send its own. */
const sourceName = (request: ApiRequest): string => request.headers['x-muster-file'] ?? 'request';

/** The clusters whose names the query `confirm` repeats, separated by commas. */
const confirmed = (request: ApiRequest): readonly string[] =>
  (request.query.get('confirm') ?? '').split(',').filter((name) => name !== '');

export const putDocument: H = async (request, deps) => {
  const kind = kindOf(request);
  const name = request.params.name ?? '';
  const source = { file: sourceName(request), text: await readText(request) };
  const expect = expectation(request, deps.catalog.get(kind, name));
  // A dry run finds out which documents the body holds: it must be the one of the path.
  const confirm = confirmed(request);
  const looked = await deps.catalog.applyTexts([source], { ...expect, confirm, dryRun: true });
  const only = looked.results[0];
  if (looked.results.length !== 1 || only?.kind !== kind || only.name !== name)
    throw new MusterError('E_USAGE', `the body must be one document, ${kind} "${name}", as the path says`);
  const dryRun = flag(request.query, 'dryRun');
  const done = dryRun ? looked : await deps.catalog.applyTexts([source], { ...expect, confirm, dryRun });
  const entry = deps.catalog.get(kind, name);
  const result = { ...done.results[0], warnings: done.warnings };
  return json(
    result,
    only.action === 'created' && !dryRun ? 201 : 200,
    entry && !dryRun ? { etag: etagOf(entry) } : {},
  );
};

export const deleteDocument: H = async (request, deps) => {
  const kind = kindOf(request);
  const name = request.params.name ?? '';
  const dryRun = flag(request.query, 'dryRun');
  const entry = deps.catalog.get(kind, name);
  const warnings: Fault[] = [...checkDeletion([{ kind, name }], deps.catalog)];
  if (!flag(request.query, 'force')) checkImagesInUse([{ kind, name }], deps.catalog);
  if (!entry && kind === 'Machine' && deps.roster.get(name)) {
    if (!dryRun) deps.roster.forget(name);
  } else {
    if (!entry) throw new MusterError('E_NOT_FOUND', `there is no ${kind} "${name}"`);
    const done = await deps.catalog.delete(kind, name, { ...expectation(request, entry), dryRun });
    warnings.push(...done.warnings);
  }
  return json({ kind, name, action: 'deleted', dryRun, warnings });
};

/**
 * Deletes several documents. Body: JSON `{"documents": [{"kind", "name"}, …]}`. They are checked as
 * one change and deleted in batches that fit into one commit; documents that name others are
 * deleted before those. Machines without a document are forgotten.
 */
export const deleteDocuments: H = async (request, { catalog, roster }) => {
  const dryRun = flag(request.query, 'dryRun');
  const wanted = targetsOf(await readText(request)).filter(
    ({ kind, name }) =>
      !flag(request.query, 'ignoreNotFound') ||
      catalog.get(kind, name) !== undefined ||
      (kind === 'Machine' && roster.get(name) !== undefined),
  );
  const onlySeen = ({ kind, name }: Target) =>
    kind === 'Machine' && !catalog.get(kind, name) && roster.get(name) !== undefined;
  const documents = wanted.filter((one) => !onlySeen(one));
  const lossWarnings = checkDeletion(documents, catalog);
  if (!flag(request.query, 'force')) checkImagesInUse(documents, catalog);
  const checked = await catalog.deleteAll(documents, { dryRun: true });
  if (!dryRun) {
    const order = Object.keys(KINDS);
    const inOrder = [...documents].sort((a, b) => order.indexOf(b.kind) - order.indexOf(a.kind));
    for (let from = 0; from < inOrder.length; from += COMMIT_BATCH)
      await catalog.deleteAll(inOrder.slice(from, from + COMMIT_BATCH));
    for (const { name } of wanted.filter(onlySeen)) roster.forget(name);
  }
  const results = wanted.map((one) => ({ ...one, action: 'deleted' }));
  return json({ dryRun, results, warnings: [...lossWarnings, ...checked.warnings] });
};

/**
 * Reads the list of documents to delete.
 *
 * @throws {MusterError} E_USAGE when the body is not a list of kinds and names
 */
function targetsOf(body: string): readonly Target[] {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw new MusterError('E_USAGE', `the body is not JSON: ${(cause as Error).message}`, { cause });
  }
  const list = (value as { documents?: unknown } | null)?.documents;
  if (Array.isArray(list)) checkNumber(list.length, MAX_DOCUMENTS);
  const fits = (item: unknown): item is Target =>
    Object.hasOwn(KINDS, (item as Target | null)?.kind ?? '') && typeof (item as Target).name === 'string';
  if (!Array.isArray(list) || !list.every(fits))
    throw new MusterError('E_USAGE', 'documents must be a list of {"kind": "Machine", "name": "…"}');
  return list.map(({ kind, name }) => ({ kind, name }));
}

/**
 * Applies documents. Body: YAML or JSON documents; or JSON `{"sources": [{"file", "text"}, …]}`, so
 * that faults name the client's files.
 */
export const applyDocuments: H = async (request, deps) => {
  const body = await readText(request);
  const dryRun = flag(request.query, 'dryRun');
  const sources = sourcesOf(body, request);
  const options = { dryRun, confirm: confirmed(request), most: MAX_DOCUMENTS };
  const { results, warnings } = await applyAll(sources, options, deps);
  return json({
    dryRun,
    results,
    warnings: [...warnings, ...(dryRun ? [] : lackingVersions(results, deps))],
    ...(dryRun && {
      consequences: consequencesOf(results, deps),
      profiles: profileChanges(results, deps),
    }),
  });
};

/**
 * How many documents one request may apply or delete. Checking so many against each other takes
 * seconds, and the process answers machines with the same thread.
 */
export const MAX_DOCUMENTS = 20_000;

/** Documents per commit; the store accepts at most 128 writes in one commit. */
const COMMIT_BATCH = 100;

/**
 * Applies all documents in one commit if they fit. More documents (thousands of machines) are
 * checked together, then stored in batches, in the order in which kinds refer to each other. If the
 * store fails between two batches, the earlier ones stay applied.
 */
async function applyAll(
  sources: readonly DocumentSource[],
  options: Pick<ChangeOptions, 'dryRun' | 'confirm' | 'most'>,
  { catalog }: ApiDeps,
): Promise<ApplyResult> {
  try {
    return await catalog.applyTexts(sources, options);
  } catch (error) {
    if (!(error instanceof MusterError) || error.code !== 'E_STORE_LIMIT') throw error;
  }
  const checked = await catalog.applyTexts(sources, { ...options, dryRun: true });
  const order = Object.keys(KINDS);
  const changed = checked.results
    .filter(({ action }) => action !== 'unchanged')
    .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  for (let from = 0; from < changed.length; from += COMMIT_BATCH)
    await catalog.apply(
      changed.slice(from, from + COMMIT_BATCH).map(({ after }) => after),
      options,
    );
  return checked;
}

function sourcesOf(body: string, request: ApiRequest): readonly DocumentSource[] {
  if (!request.headers['content-type']?.startsWith('application/json'))
    return [{ file: sourceName(request), text: body }];
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw new MusterError('E_USAGE', `the body is not JSON: ${(cause as Error).message}`, { cause });
  }
  const sources = (value as { sources?: unknown } | null)?.sources;
  if (sources === undefined) return [{ file: sourceName(request), text: body }];
  const fits = (item: unknown): item is DocumentSource =>
    typeof (item as DocumentSource | null)?.file === 'string' &&
    typeof (item as DocumentSource).text === 'string';
  if (!Array.isArray(sources) || !sources.every(fits))
    throw new MusterError('E_USAGE', 'sources must be a list of {"file": "…", "text": "…"}');
  return sources;
}

/**
 * Reads the configuration directory again, and everything else that SIGHUP reads. Answers with the
 * faults of the directory.
 */
export const reloadDocuments: H = async (request, deps): Promise<ApiResponse> => {
  beforeChange('read the configuration again');
  await deps.catalog.reload({ confirm: confirmed(request) });
  deps.daemon.reread();
  return json({ faults: deps.catalog.faults(), warnings: deps.catalog.warnings() });
};
