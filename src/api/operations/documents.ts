/** Documents of all kinds: list, get, put, delete, apply. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type Fault, MusterError } from '../../base/errors.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { didYouMean } from '../../base/suggest.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
import { checkDeletion } from '../../cluster/resolve/deletion-guard.ts';
import { NEXT_BOOT } from '../../cluster/resolve/next-boot.ts';
import type { Running } from '../../cluster/resolve/release.ts';
import type { Inventories } from '../../machines/inventories.ts';
import type { Roster } from '../../machines/roster.ts';
import type { ApplyResult, ChangeOptions, Entry, LiveCatalog, Target } from '../../resources/catalog.ts';
import { checkNumber } from '../../resources/change-limit.ts';
import { API_VERSION, KINDS, type Kind, PLURAL } from '../../resources/kinds.ts';
import { checkWithin } from '../access.ts';
import { consequencesOf } from '../consequences.ts';
import { dryRun, fault, itemsOf, labelledPart, on, raw as rawType, word } from '../contract/contract.ts';
import { anyShown, applied, target } from '../contract/documents.ts';
import type { Daemon } from '../daemon.ts';
import { placing } from '../find-machine.ts';
import { type ApiRequest, json, readText } from '../handler.ts';
import { checkImagesInUse } from '../in-use.ts';
import { lackingVersions } from '../lacking.ts';
import { listText, wantedOf } from '../listing.ts';
import { operation, raw, reply } from '../operation.ts';
import { profileChanges } from '../profile-changes.ts';
import type { ServedAgents } from '../served-agents.ts';
import {
  namesOf,
  type ShownDeps,
  type ShownDocument,
  showing,
  showingBriefly,
  shown,
  shownUnwritten,
  visibleTo,
} from '../shown.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  readonly inventories: Inventories;
  /** The versions of kubelet that this boot host has for machines. */
  readonly kubelets: () => readonly string[];
  /** What founded clusters run. */
  readonly running: Pick<Running, 'of'>;
  /** The machines of a cluster with their roles; undefined while its document is incomplete. */
  readonly resolved: (cluster: string) => Pick<ResolvedCluster, 'keys' | 'machines' | 'versions'> | undefined;
  readonly agents: ServedAgents;
  readonly daemon: Daemon;
}

type CatalogDeps = Pick<Deps, 'catalog'>;

const warnings = z.array(fault);

const consequences = z
  .strictObject({
    cluster: z.string(),
    differences: z.array(
      z.strictObject({
        machines: z.array(z.string()),
        files: z.array(z.string()),
        restarts: z.array(z.string()),
        inTurn: z.array(z.string()).meta({ description: 'What restarts on one machine after the other.' }),
      }),
    ),
    nextBoot: z
      .array(
        z.strictObject({
          machines: z.array(z.string()),
          changes: z.array(z.enum(NEXT_BOOT)),
          installed: z.literal(true).optional().meta({
            description: 'These machines change when their system is installed anew, and not before.',
          }),
          image: z.strictObject({ from: z.string().optional(), to: z.string().optional() }).optional(),
        }),
      )
      .meta({ description: 'What running machines get with their next boot, and not before.' }),
    upgrade: z.strictObject({ from: z.string(), to: z.string() }).optional(),
  })
  .meta({ id: 'Consequences', description: 'What changes in one cluster.' });

const source = z.strictObject({ file: z.string(), text: z.string() });
/** A text with documents, and the file name that its faults carry. */
export type DocumentSource = Readonly<z.output<typeof source>>;
const YAML = rawType('application/yaml', 'One or more documents, in YAML or JSON.');

/** Names of clusters in a query, and the clusters that they name. */
const confirm = word('Names of clusters, repeated to accept what changes in them; with commas.');
const confirmed = ({ confirm = '' }: { readonly confirm?: string }): readonly string[] =>
  confirm.split(',').filter((name) => name !== '');

const KIND_OF: ReadonlyMap<string, Kind> = new Map(
  (Object.entries(PLURAL) as [Kind, string][]).map(([kind, plural]) => [plural, kind]),
);

/**
 * The kind that the path names.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown kind
 */
function kindOf({ kind: plural }: { readonly kind: string }): Kind {
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

/** A part of a list for an operator whose roles are for certain clusters and pools. */
function belongs(
  kind: Kind,
  { within }: Pick<ApiRequest, 'within'>,
  deps: Pick<Deps, 'agents' | 'roster'>,
): (name: string) => boolean {
  if (within === undefined) return () => true;
  const placeOf = placing(deps);
  if (kind === 'Cluster') return (name) => within.has(name);
  if (kind === 'Machine') return (name) => within.has(placeOf(name) ?? '');
  checkWithin(within, undefined);
  return () => false;
}

/**
 * Checks If-Match and If-None-Match against the current document. The returned revision is for the
 * store, which compares it again when it commits.
 *
 * @throws {MusterError} E_CONFLICT (answered with status 412) when they do not match
 */
function expectation(
  request: Pick<ApiRequest, 'headers'>,
  entry: Entry | undefined,
): Pick<ChangeOptions, 'expectRevision'> {
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
const sourceName = ({ headers }: Pick<ApiRequest, 'headers'>): string =>
  headers['x-muster-file'] ?? 'request';

/**
 * How many documents one request may apply or delete. Checking so many against each other takes
 * seconds, and the process answers machines with the same thread.
 */
export const MAX_DOCUMENTS = 20_000;

/** Documents per commit; the store accepts at most 120 writes in one commit. */
const COMMIT_BATCH = 100;

/**
 * Applies all documents in one commit if they fit. More documents (thousands of machines) are
 * checked together, then stored in batches, in the order in which kinds refer to each other. If the
 * store fails between two batches, the earlier ones stay applied.
 */
async function applyAll(
  sources: readonly DocumentSource[],
  options: Pick<ChangeOptions, 'dryRun' | 'confirm' | 'most'>,
  { catalog }: CatalogDeps,
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

export const DOCUMENTS = [
  operation(
    'POST /v1/apply',
    {
      access: 'administer',
      costly: 'preview',
      takes: 'role',
      summary: 'Applies documents, all or nothing. With dryRun it also answers what changes in clusters.',
      query: z.strictObject({ dryRun, confirm }),
      body: z.strictObject({
        sources: z.array(source).meta({ description: 'Texts with the file names that faults carry.' }),
      }),
      rawBody: YAML,
      answer: z.strictObject({
        dryRun: z.boolean(),
        results: z.array(applied),
        warnings,
        consequences: z.array(consequences).optional(),
        profiles: z
          .array(
            z.strictObject({
              from: z.string().optional(),
              to: z.string().optional(),
              machines: z.array(z.string()),
            }),
          )
          .optional()
          .meta({ description: 'Machines that get another profile at their next boot; for a dry run.' }),
      }),
    },
    async (
      { query, body, headers },
      deps: Pick<Deps, 'catalog' | 'running' | 'roster' | 'inventories' | 'resolved' | 'kubelets'>,
    ) => {
      const sources =
        'json' in body ? body.json.sources : [{ file: sourceName({ headers }), text: body.text }];
      const rehearsal = query.dryRun ?? false;
      const options = { dryRun: rehearsal, confirm: confirmed(query), most: MAX_DOCUMENTS };
      const { results, warnings } = await applyAll(sources, options, deps);
      return {
        dryRun: rehearsal,
        results,
        warnings: [...warnings, ...(rehearsal ? [] : lackingVersions(results, deps))],
        ...(rehearsal && {
          consequences: consequencesOf(results, deps),
          profiles: profileChanges(results, deps),
        }),
      };
    },
  ),
  operation(
    'POST /v1/delete',
    {
      access: 'administer',
      costly: 'preview',
      takes: 'role',
      summary:
        'Deletes documents as one change: checked together, deleted in batches, those that name others first. Machines without a document are forgotten.',
      query: z.strictObject({
        dryRun,
        force: on('Also Images that a Profile names.'),
        ignoreNotFound: on('Documents that do not exist are no error.'),
      }),
      body: z.strictObject({ documents: z.array(z.strictObject(target)) }),
      answer: z.strictObject({
        dryRun: z.boolean(),
        results: z.array(z.strictObject({ ...target, action: z.literal('deleted') })),
        warnings,
      }),
    },
    async ({ query, body }, { catalog, roster }: Pick<Deps, 'catalog' | 'roster'>) => {
      const rehearsal = query.dryRun ?? false;
      checkNumber(body.documents.length, MAX_DOCUMENTS);
      const wanted = body.documents.filter(
        ({ kind, name }) =>
          !query.ignoreNotFound ||
          catalog.get(kind, name) !== undefined ||
          (kind === 'Machine' && roster.get(name) !== undefined),
      );
      const onlySeen = ({ kind, name }: Target) =>
        kind === 'Machine' && !catalog.get(kind, name) && roster.get(name) !== undefined;
      const documents = wanted.filter((one) => !onlySeen(one));
      const lossWarnings = checkDeletion(documents, catalog);
      if (!query.force) checkImagesInUse(documents, catalog);
      const checked = await catalog.deleteAll(documents, { dryRun: true });
      if (!rehearsal) {
        const order = Object.keys(KINDS);
        const inOrder = [...documents].sort((a, b) => order.indexOf(b.kind) - order.indexOf(a.kind));
        for (let from = 0; from < inOrder.length; from += COMMIT_BATCH)
          await catalog.deleteAll(inOrder.slice(from, from + COMMIT_BATCH));
        for (const { name } of wanted.filter(onlySeen)) roster.forget(name);
      }
      const results = wanted.map((one) => ({ ...one, action: 'deleted' as const }));
      return { dryRun: rehearsal, results, warnings: [...lossWarnings, ...checked.warnings] };
    },
  ),
  operation(
    'POST /v1/reload',
    {
      access: 'operate',
      takes: 'role',
      summary:
        'Reads the configuration directory, the loader directories and the host’s addresses again; answers with the faults of the configuration directory.',
      query: z.strictObject({ confirm }),
      answer: z.strictObject({ faults: z.array(fault), warnings }),
    },
    async ({ query }, { catalog, daemon }: Pick<Deps, 'catalog' | 'daemon'>) => {
      beforeChange('read the configuration again');
      await catalog.reload({ confirm: confirmed(query) });
      daemon.reread();
      return { faults: catalog.faults(), warnings: catalog.warnings() };
    },
  ),
] as const;

/** Paths with the kind as a parameter: they match last. */
/** The type leaves open which kind it is: a path names it. */
const anyDocument = anyShown as unknown as z.ZodType<ShownDocument>;
export const DOCUMENTS_BY_KIND = [
  operation(
    'GET /v1/:kind',
    {
      access: 'view',
      costly: true,
      within: true,
      summary:
        'Lists documents of a kind by name: networks, images, clusters, profiles, machines (with status).',
      query: z.strictObject({
        ...labelledPart,
        brief: on(
          'Machines with a document: only what a table of them shows; labels and fields see only that.',
        ),
      }),
      answer: z.strictObject({
        apiVersion: z.literal(API_VERSION),
        kind: z.string().meta({ description: '`MachineList`, `ClusterList` …' }),
        ...itemsOf(anyDocument),
      }),
    },
    (asked, deps: ShownDeps) => {
      const kind = kindOf(asked.params);
      const names = namesOf(kind, deps).filter(belongs(kind, asked, deps));
      const brief = kind === 'Machine' && (asked.query.brief ?? false);
      const visible = visibleTo(asked.principal, deps);
      const all = brief ? showingBriefly(deps) : showing(kind, deps);
      const show = (name: string): ShownDocument | undefined => {
        const found = all(name);
        return found && visible(found);
      };
      return raw({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: listText(kind, names, show, wantedOf<ShownDocument>(asked.query)),
        // Whole documents may hold password hashes, and machines choose other parts of the answer.
        compressible: brief,
      });
    },
  ),
  operation(
    'GET /v1/:kind/:name',
    {
      access: 'view',
      within: true,
      summary: 'Shows a document, with its ETag.',
      answer: anyDocument,
    },
    ({ params, within, principal }, deps: ShownDeps) => {
      const kind = kindOf(params);
      const { name } = params;
      checkWithin(within, undefined);
      const entry = deps.catalog.get(kind, name);
      if (entry)
        return raw(json(visibleTo(principal, deps)(shown(entry, deps)), 200, { etag: etagOf(entry) }));
      const seen = kind === 'Machine' ? deps.roster.get(name) : undefined;
      if (!seen)
        throw new MusterError(
          'E_NOT_FOUND',
          `there is no ${kind} "${name}"${didYouMean(name, namesOf(kind, deps))}; \`muster get ${PLURAL[kind]}\` lists them`,
        );
      return raw(json(shownUnwritten(deps.roster.view(seen), deps)));
    },
  ),
  operation(
    'PUT /v1/:kind/:name',
    {
      access: 'administer',
      costly: 'preview',
      takes: 'role',
      summary: 'Applies one document.',
      query: z.strictObject({ dryRun, confirm }),
      rawBody: YAML,
      answer: applied.extend({ warnings }),
      statuses: [200, 201],
      conditional: true,
    },
    async (asked, { catalog }: CatalogDeps) => {
      const kind = kindOf(asked.params);
      const { name } = asked.params;
      const source = { file: sourceName(asked), text: await readText(asked) };
      const expect = expectation(asked, catalog.get(kind, name));
      const confirm = confirmed(asked.query);
      // A dry run finds out which documents the body holds: it must be the one of the path.
      const looked = await catalog.applyTexts([source], { ...expect, confirm, dryRun: true });
      const only = looked.results[0];
      if (looked.results.length !== 1 || only?.kind !== kind || only.name !== name)
        throw new MusterError(
          'E_USAGE',
          `the body must be one document, ${kind} "${name}", as the path says`,
        );
      const rehearsal = asked.query.dryRun ?? false;
      const done = rehearsal
        ? looked
        : await catalog.applyTexts([source], { ...expect, confirm, dryRun: false });
      const entry = catalog.get(kind, name);
      return reply(
        { ...(done.results[0] ?? only), warnings: done.warnings },
        only.action === 'created' && !rehearsal ? 201 : 200,
        entry && !rehearsal ? { etag: etagOf(entry) } : {},
      );
    },
  ),
  operation(
    'DELETE /v1/:kind/:name',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Deletes a document, or forgets a machine that was only seen.',
      query: z.strictObject({ dryRun, force: on('Also an Image that a Profile names.') }),
      answer: z.strictObject({ ...target, action: z.literal('deleted'), dryRun: z.boolean(), warnings }),
      conditional: true,
    },
    async (asked, { catalog, roster }: Pick<Deps, 'catalog' | 'roster'>) => {
      const kind = kindOf(asked.params);
      const { name } = asked.params;
      const rehearsal = asked.query.dryRun ?? false;
      const entry = catalog.get(kind, name);
      const warnings: Fault[] = [...checkDeletion([{ kind, name }], catalog)];
      if (!asked.query.force) checkImagesInUse([{ kind, name }], catalog);
      if (!entry && kind === 'Machine' && roster.get(name)) {
        if (!rehearsal) roster.forget(name);
      } else {
        if (!entry) throw new MusterError('E_NOT_FOUND', `there is no ${kind} "${name}"`);
        const done = await catalog.delete(kind, name, { ...expectation(asked, entry), dryRun: rehearsal });
        warnings.push(...done.warnings);
      }
      return { kind, name, action: 'deleted' as const, dryRun: rehearsal, warnings };
    },
  ),
] as const;
