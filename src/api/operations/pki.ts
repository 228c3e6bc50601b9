/** Keys and certificates: status, export, import, renewal, and the vault that seals them. */

import { z } from 'zod';
import { pkiStandings } from '../../agent/serve/pki-standings.ts';
import { truth } from '../../base/body.ts';
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import type { ChangeOrders } from '../../cluster/change/change-orders.ts';
import type { LaterKeys } from '../../cluster/change/later-keys.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
import { actorText } from '../../events/actor.ts';
import type { EventLog } from '../../events/event.ts';
import type { Exports } from '../../pki/exported.ts';
import { exportScope } from '../../pki/exported.ts';
import { isOfMachines, isProbe, LEAF_NAMES } from '../../pki/hierarchy.ts';
import { readImported } from '../../pki/imported.ts';
import { IMPORTED_KEYSETS } from '../../pki/keysets.ts';
import type { Pki } from '../../pki/pki.ts';
import { takeAuthority } from '../../pki/take-authority.ts';
import { pkiStatusView, type TicketSecrets } from '../../pki/views.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { BMC_SCOPE, MUSTER_SCOPE } from '../../store/keys.ts';
import type { Actions } from '../actions.ts';
import { fault, listOf, on, type Parsed, type Part, part, time, word } from '../contract/contract.ts';
import type { Daemon } from '../daemon.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import type { ServedAgents } from '../served-agents.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly changes: Pick<ChangeOrders, 'record'>;
  readonly laterKeys: Pick<LaterKeys, 'accept'>;
  readonly actions: Pick<Actions, 'actor'>;
  /** The machines of a cluster with their roles; undefined while its document is incomplete. */
  readonly resolved: (cluster: string) => Pick<ResolvedCluster, 'keys' | 'machines' | 'versions'> | undefined;
  readonly pki: Pki;
  /** Seals the keys of snapshots of etcd with the vault's first key; returns how many. */
  readonly resealSnapshots: () => Promise<number>;
  /** Which keys operators have a copy of. */
  readonly exports: Exports;
  readonly agents: ServedAgents;
  readonly power: {
    /** Whether Muster's CA signs the certificate of a machine's BMC. */
    readonly certifies: (machine: string) => boolean;
  };
  readonly events: EventLog;
  readonly daemon: Daemon;
  readonly clock: Clock;
}

type PkiDeps = Pick<Deps, 'pki' | 'agents' | 'power' | 'clock' | 'changes' | 'catalog'>;

/** The name of Muster's own keys in lists of clusters. */
const OWN = 'muster';

const renewer = z.enum(['agent', 'kubelet', 'muster', 'demand', 'person', 'nobody']);
const alarm = z.enum(['urgent', 'soon']).optional();

const generation = z.strictObject({
  id: z.string(),
  createdAt: time.optional(),
  pin: z.string().optional(),
  state: z.enum(['primary', 'made', 'trusted', 'distrusted']),
  notAfter: time.optional(),
  bridgesFrom: z.array(z.string()).optional(),
  dependents: z.record(z.string(), z.array(z.string())).optional(),
  dependentsUntil: time.optional(),
});
const by = z.enum([...renewer.options, 'rotation']);
const ending = { what: z.string(), of: z.string(), by, ends: time, alarm };

const scope = z
  .strictObject({
    scope: z.string(),
    of: z.enum(['cluster', 'muster', 'bmcs']),
    keysets: z.array(
      z.strictObject({ name: z.string(), about: z.string(), generations: z.array(generation) }),
    ),
    certificates: z.array(
      z.strictObject({
        serial: z.string(),
        leaf: z.string(),
        subject: z.string(),
        to: z.string(),
        issuer: z.string(),
        notBefore: time,
        notAfter: time,
        state: z.enum(['valid', 'not yet valid', 'expiring', 'expired', 'superseded', 'revoked', 'removed']),
        renewedBy: renewer,
        renewsAt: time.optional(),
      }),
    ),
    forecast: z.array(z.strictObject({ at: time, does: z.enum(['renewed', 'ends']), ...ending })),
    rotation: z
      .strictObject({ step: z.string(), state: z.enum(['running', 'paused', 'held']) })
      .optional()
      .meta({ description: 'The rotation that is under way.' }),
    withoutBootHost: z
      .strictObject({ ...ending, leftSeconds: z.int() })
      .optional()
      .meta({ description: 'What ends first if the boot host stays away.' }),
  })
  .meta({ id: 'PkiScope' });
/** Keys and certificates of one cluster, or of Muster itself. */
export type ScopeStatus = Parsed<z.output<typeof scope>>;
const status = listOf('PkiStatus', scope);
const within = word('How far to look ahead, such as 90d.');

const exported = z.strictObject({
  kind: z.literal('PkiExport'),
  version: z.string(),
  scopes: z.array(
    z.strictObject({
      scope: z.string(),
      keysets: z.array(
        z.strictObject({
          name: z.string(),
          primary: z.string(),
          distrusted: z.array(z.string()),
          generations: z.array(
            z.strictObject({
              id: z.string(),
              createdAt: z.int(),
              key: z.string(),
              certificate: z.string().optional(),
            }),
          ),
        }),
      ),
    }),
  ),
});

/** How far `muster pki status` looks ahead by default. */
const WITHIN = duration('90d');

async function statusOf(scope: string, within: Millis, deps: PkiDeps): Promise<ScopeStatus> {
  const { pki, agents, power, clock } = deps;
  const [own, ofBmcs] = [scope === MUSTER_SCOPE, scope === BMC_SCOPE];
  const issued = await pki.issued(scope);
  const rotation = rotationOf(scope, deps);
  return {
    scope: own ? OWN : ofBmcs ? 'bmcs' : scope,
    of: own ? 'muster' : ofBmcs ? 'bmcs' : 'cluster',
    ...(rotation && { rotation }),
    ...pkiStatusView(
      {
        keysets: (await pki.keysets(scope)).values(),
        encryption: await pki.encryption(scope),
        tickets: own ? await ticketSecrets(agents) : undefined,
        issued,
        standing: pkiStandings(
          {
            certificateState: (...of) => agents.certificateState(...of),
            agentCluster: (machine) => agents.agentCluster(machine),
            certifies: power.certifies,
          },
          scope,
          issued,
        ),
        ofCluster: !own && !ofBmcs,
      },
      clock.now(),
      within,
    ),
  };
}

async function ticketSecrets(agents: PkiDeps['agents']): Promise<TicketSecrets> {
  const keys = await agents.ticketKeys();
  return { id: keys.id(), before: keys.before() };
}

function rotationOf(scope: string, { changes }: PkiDeps): ScopeStatus['rotation'] {
  const { kind, ended, step, paused, holding } = changes.record(scope) ?? {};
  if (step === undefined || ended || !kind?.endsWith('rotation')) return undefined;
  return { step, state: paused ? 'paused' : holding ? 'held' : 'running' };
}

/**
 * All scopes that have keys, or the one of `cluster`.
 *
 * @throws {MusterError} E_NO_KEYS or E_NOT_FOUND when the cluster has no keys
 */
async function scopesOf(
  cluster: string | undefined,
  deps: Pick<Deps, 'pki' | 'catalog'>,
): Promise<readonly string[]> {
  const scopes = await deps.pki.scopes();
  if (cluster === undefined) return scopes;
  if (!cluster.startsWith('_') && scopes.includes(cluster)) return [cluster];
  throw deps.catalog.get('Cluster', cluster)
    ? new MusterError('E_NO_KEYS', `${cluster} has no keys yet`)
    : new MusterError(
        'E_NOT_FOUND',
        `there is no Cluster "${cluster}", and it has no keys; \`muster pki status\` lists all keys`,
      );
}

/** The status of some scopes, as a list. */
async function statuses(
  query: Part & { readonly within?: string },
  scopes: readonly string[],
  deps: PkiDeps,
): Promise<{ readonly kind: 'PkiStatus'; readonly items: readonly ScopeStatus[] }> {
  const within = query.within === undefined ? WITHIN : parseDuration(query.within);
  if (within === undefined)
    throw new MusterError('E_USAGE', `within=${query.within} is no duration, e.g. 90d`);
  const items = await Promise.all(scopes.map((one) => statusOf(one, within, deps)));
  return { kind: 'PkiStatus', ...partOf(query, items, (one) => one.scope) };
}

export const PKI = [
  operation(
    'GET /v1/pki',
    {
      access: 'view',
      costly: true,
      within: true,
      summary: 'Lists keysets and issued certificates with their holders, ends and renewals.',
      query: z.strictObject({ within, ...part }),
      answer: status,
    },
    async (asked, deps: PkiDeps) => {
      const all = await scopesOf(undefined, deps);
      const wanted = all.filter((one) => asked.within?.has(one) ?? true);
      return statuses(asked.query, wanted, deps);
    },
  ),
  operation(
    'POST /v1/pki/export',
    {
      access: 'administer',
      takes: 'socket',
      summary: 'Answers with all private keys in the clear, for `muster pki export`; secret.',
      query: z.strictObject({ cluster: word('Only of this cluster.') }),
      answer: exported,
    },
    async ({ query }, deps: Pick<Deps, 'pki' | 'catalog' | 'daemon'>) => {
      const scopes = await scopesOf(query.cluster, deps);
      beforeChange(...scopes.map((one) => `give out the keys of ${one}`));
      const all = await Promise.all(scopes.map((one) => exportScope(deps.pki, one)));
      return { kind: 'PkiExport' as const, version: deps.daemon.version, scopes: all };
    },
  ),
  operation(
    'POST /v1/pki/exported',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Notes which keys an operator has a copy of.',
      body: z.strictObject({
        scopes: z.array(z.strictObject({ scope: z.string(), generations: z.array(z.string()) })),
      }),
      answer: z.strictObject({ warnings: z.array(fault) }),
    },
    async ({ body }, { exports }: Pick<Deps, 'exports'>) => {
      await exports.copied(body.scopes);
      return { warnings: await exports.warnings() };
    },
  ),
  operation(
    'POST /v1/pki/reseal',
    {
      access: 'administer',
      takes: 'proof',
      summary: "Seals the store with the vault's first key, and says which keys nothing needs.",
      query: z.strictObject({ dryRun: on('Only counts.') }),
      answer: z.strictObject({
        primary: z.string(),
        records: z.record(z.string(), z.int()),
        written: z.int(),
        unneeded: z.array(z.string()),
      }),
    },
    async ({ query }, { pki, resealSnapshots, events }: Pick<Deps, 'pki' | 'resealSnapshots' | 'events'>) => {
      const written = query.dryRun ? 0 : (await pki.rewrap()) + (await resealSnapshots());
      const keys = await pki.vaultKeys();
      const unneeded = query.dryRun
        ? []
        : Object.entries(keys.records).flatMap(([id, records]) =>
            records === 0 && id !== keys.primary ? [id] : [],
          );
      if (written > 0) events.record({ kind: 'pki.resealed', subject: 'muster', fields: { written } });
      return { ...keys, written, unneeded };
    },
  ),
  operation(
    'GET /v1/pki/:cluster',
    {
      access: 'view',
      costly: true,
      summary: 'The same as `GET /v1/pki`, for one cluster.',
      query: z.strictObject({ within, ...part }),
      answer: status,
    },
    async ({ params, query }, deps: PkiDeps) => statuses(query, await scopesOf(params.cluster, deps), deps),
  ),
  operation(
    'POST /v1/pki/:cluster/import',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Takes a CA of an operator, for a cluster whose other keys are made now if it has none.',
      body: z
        .strictObject({
          keyset: z.enum(IMPORTED_KEYSETS),
          certificate: z.string().meta({ description: 'PEM.' }),
          key: z.string().meta({ description: 'PEM.' }),
        })
        .meta({ description: 'It is secret.' }),
      answer: z.strictObject({
        cluster: z.string(),
        keyset: z.string(),
        generation: z.string(),
        signs: z.boolean().meta({ description: 'It signs at once: the keyset had signed nothing yet.' }),
        notes: z.array(z.string()),
      }),
    },
    async (
      { params: { cluster }, body },
      deps: Pick<Deps, 'pki' | 'catalog' | 'resolved' | 'events' | 'clock'>,
    ) => {
      if (deps.catalog.get('Cluster', cluster) === undefined)
        throw new MusterError(
          'E_NOT_FOUND',
          `there is no Cluster "${cluster}"; \`muster get clusters\` lists them`,
        );
      const { generation, notes } = readImported(body.certificate, body.key, deps.clock.now());
      await deps.pki.found(cluster, deps.resolved(cluster)?.keys);
      const { signs } = await takeAuthority(deps, cluster, { name: body.keyset, authority: generation });
      const fields = { keyset: body.keyset, generation: generation.id, signs };
      deps.events.record({ kind: 'pki.imported', subject: `Cluster/${cluster}`, fields });
      return { cluster, ...fields, notes };
    },
  ),
  operation(
    'POST /v1/pki/:cluster/accept',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Lets the keys of a restored store count, although machines have later ones.',
      body: z.strictObject({
        confirm: z.string().meta({ description: 'The cluster’s name, repeated.' }),
      }),
      answer: z.strictObject({ cluster: z.string(), accepted: z.literal(true) }),
    },
    async (asked, deps: Pick<Deps, 'laterKeys' | 'actions'>) => {
      const { cluster } = asked.params;
      if (asked.body.confirm !== cluster)
        throw new MusterError(
          'E_USAGE',
          `this puts the keys of this store back on the machines of ${cluster}, which interrupts it; repeat its name: {"confirm"}`,
        );
      await deps.laterKeys.accept(cluster, actorText(deps.actions.actor(asked.peer, asked.principal)));
      return { cluster, accepted: true as const };
    },
  ),
  operation(
    'POST /v1/pki/:cluster/renew',
    {
      access: 'administer',
      takes: 'role',
      summary:
        "Orders that certificates of the cluster's machines, and their keys, are replaced at their next polls.",
      body: z.strictObject({
        machine: z.string().optional(),
        leaf: z.enum(LEAF_NAMES).optional().meta({ description: 'One certificate; default: all.' }),
        newKeys: truth('The machines make new keys as well.'),
      }),
      answer: z.strictObject({
        cluster: z.string(),
        machine: z.string().optional(),
        leaf: z.string().optional(),
        newKeys: z.boolean(),
      }),
    },
    async ({ params, body }, deps: Pick<Deps, 'pki' | 'catalog' | 'agents' | 'events'>) => {
      const { machine, leaf, newKeys } = body;
      const [cluster] = (await scopesOf(params.cluster, deps)) as [string];
      const ofPlans = leaf === undefined || (isOfMachines(leaf) && !isProbe(leaf) && leaf !== 'agent');
      if (!ofPlans)
        throw new MusterError('E_USAGE', `"${leaf}" is no certificate that machines get by their plan`);
      if (machine !== undefined && deps.agents.agentCluster(machine) !== cluster)
        throw new MusterError('E_NOT_FOUND', `${machine} is no machine of cluster ${cluster}`);
      await deps.pki.renew(cluster, { machine, leaf, newKeys });
      deps.events.record({
        kind: 'pki.renewal',
        subject: machine ?? `Cluster/${cluster}`,
        fields: { cluster, ...(leaf && { leaf }), newKeys },
      });
      return { cluster, machine, leaf, newKeys };
    },
  ),
] as const;
