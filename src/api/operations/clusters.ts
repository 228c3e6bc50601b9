/** What a cluster is and how it is: resolved values, add-ons, versions, health, space of etcd. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { type ImageOf, imagesOfMachine } from '../../cluster/change/roll/images.ts';
import type { EtcdWatch } from '../../cluster/health/etcd-watch.ts';
import { clusterHealth } from '../../cluster/health/finding.ts';
import type { Health } from '../../cluster/health/health.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
import type { AddonLibrary, AddonState } from '../../cluster/objects/addons/library.ts';
import { pkiRoles } from '../../cluster/resolve/certificate-names.ts';
import type { Running } from '../../cluster/resolve/release.ts';
import type { Roster } from '../../machines/roster.ts';
import { heldBy, rotationsFor } from '../../pki/held-by.ts';
import type { Pki } from '../../pki/pki.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { confirmed } from '../confirmed.ts';
import { confirm, fault, itemsOf, on, type Parsed, part, texts, time, word } from '../contract/contract.ts';
import { findMachine } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';
import { resolutionOf } from '../resolution.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  readonly roster: Roster;
  /** Add-ons of clusters, with their files. */
  readonly addons: AddonLibrary;
  /** The alarms and the space of clusters' etcd, and the order to reclaim it. */
  readonly etcdSpace: Pick<EtcdWatch, 'space' | 'reclaim'>;
  /** What founded clusters run. */
  readonly running: Pick<Running, 'of'>;
  readonly imageOf: ImageOf;
  readonly health: Health;
  /** The machines of a cluster with their roles; undefined while its document is incomplete. */
  readonly resolved: (cluster: string) => Pick<ResolvedCluster, 'keys' | 'machines' | 'versions'> | undefined;
  readonly pki: Pki;
  readonly clock: Clock;
}

const addon = z
  .strictObject({
    name: z.string(),
    state: z.enum(['ready', 'missing', 'faulty']),
    detail: z.string().optional(),
    manifests: z.array(
      z.strictObject({ url: z.string().optional(), file: z.string().optional(), sha256: z.string() }),
    ),
    objects: z.int().optional(),
    images: z.array(z.string()).optional(),
  })
  .meta({ id: 'Addon' });

export type AddonView = Parsed<z.output<typeof addon>>;

const space = z
  .strictObject({
    cluster: z.string(),
    quota: z.number().optional().meta({ description: 'In octets; absent: there is none.' }),
    members: z.array(
      z.strictObject({
        name: z.string(),
        leader: z.boolean(),
        octets: z.number(),
        inUse: z.number(),
        reads: z.boolean(),
      }),
    ),
    silent: z.array(z.string()),
    troubles: z.array(
      z.strictObject({ code: z.string(), subject: z.string(), says: z.string(), fix: z.string() }),
    ),
    refused: z.string().optional().meta({ description: 'Why an order would be refused now.' }),
    order: z
      .strictObject({
        steps: z.array(z.strictObject({ code: z.string(), text: z.string() })),
        ended: z.enum(['reclaimed', 'failed']).optional(),
      })
      .optional()
      .meta({ description: 'The last order since the server started; without `ended` it works.' }),
  })
  .meta({ id: 'EtcdSpace' });

const etcdOnly = on('Checks only etcd.');

function viewOf(state: AddonState) {
  const { name, manifests } = state.addon;
  switch (state.state) {
    case 'ready':
      return {
        name,
        state: 'ready' as const,
        manifests,
        objects: state.rendered.count,
        images: state.rendered.images,
      };
    case 'missing':
      return { name, state: 'missing' as const, manifests, detail: `not here: ${state.missing.join(', ')}` };
    case 'faulty':
      return { name, state: 'faulty' as const, manifests, detail: state.fault };
  }
}

export const CLUSTERS = [
  operation(
    'GET /v1/clusters/:name/full',
    {
      access: 'view',
      costly: true,
      summary: "Shows a cluster's resolved specification, with the origin of each value.",
      answer: z.strictObject({
        name: z.string(),
        full: z.looseObject({}).optional().meta({ description: 'Absent when a fault is an error.' }),
        provenance: z.record(z.string(), z.strictObject({ from: z.string(), by: z.string() })),
        faults: z.array(
          z.strictObject({
            fault,
            severity: z.enum(['error', 'warning']),
            machine: z.string().optional(),
          }),
        ),
      }),
    },
    ({ params: { name } }, deps: Pick<Deps, 'catalog'>) => {
      const { resolved, provenance, faults } = resolutionOf(deps, name);
      return {
        name,
        ...(resolved && { full: resolved }),
        provenance: Object.fromEntries(provenance),
        faults,
      };
    },
  ),
  operation(
    'GET /v1/clusters/:name/addons',
    {
      access: 'view',
      costly: true,
      summary:
        'Lists the add-ons of a cluster in the order of its document: whether their files are complete, and which images they need.',
      query: z.strictObject(part),
      answer: z.strictObject(itemsOf(addon)),
    },
    async ({ params: { name }, query }, deps: Pick<Deps, 'catalog' | 'addons'>) => {
      const { resolved, faults } = resolutionOf(deps, name);
      if (resolved === undefined)
        throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is incomplete`, {
          faults: faults.map(({ fault }) => fault),
        });
      return partOf(query, (await deps.addons.of(resolved)).map(viewOf), (one) => one.name);
    },
  ),
  operation(
    'GET /v1/clusters/:name/running',
    {
      access: 'view',
      summary: 'Shows the versions that a founded cluster may run, and those that its machines report.',
      answer: z.strictObject({
        cluster: z.string(),
        version: z.string(),
        versions: texts,
        machines: z.array(
          z.strictObject({
            name: z.string(),
            serves: z.boolean(),
            versions: z.record(z.string(), z.string()),
            image: z.string().optional(),
            dataDisk: z.string().optional(),
            address: z.string().optional().meta({ description: 'The address at which the others know it.' }),
            images: imagesOfMachine,
          }),
        ),
      }),
    },
    ({ params: { name: cluster } }, { running, imageOf }: Pick<Deps, 'running' | 'imageOf'>) => {
      const known = running.of(cluster);
      if (known === undefined)
        throw new MusterError(
          'E_NOT_FOUND',
          `no machine of a founded cluster "${cluster}" has polled yet; \`muster cluster founding ${cluster}\` shows how far it is`,
        );
      const { release, machines } = known;
      return {
        cluster,
        version: release.version,
        versions: release.versions,
        machines: [...machines].map(([name, { member: _member, macs: _macs, ...one }]) => {
          const { machine: _, ...images } = imageOf(name);
          return { name, ...one, images };
        }),
      };
    },
  ),
  operation(
    'GET /v1/clusters/:name/status',
    {
      access: 'view',
      costly: true,
      summary: 'Shows the health of a cluster: etcd, API servers, nodes, leases, certificates, machines.',
      query: z.strictObject({ etcd: etcdOnly }),
      answer: clusterHealth,
    },
    ({ params, query }, deps: Pick<Deps, 'health'>) =>
      deps.health.look(params.name, { etcdOnly: query.etcd ?? false }),
  ),
  operation(
    'POST /v1/clusters/:name/verify',
    {
      access: 'operate',
      costly: true,
      takes: 'role',
      summary: 'The same, and runs probe pods for DNS and Services.',
      query: z.strictObject({ etcd: etcdOnly, image: word('The image of the probes.') }),
      answer: clusterHealth,
    },
    ({ params: { name }, query, signal }, deps: Pick<Deps, 'health' | 'catalog'>) => {
      if (deps.catalog.get('Cluster', name)) beforeChange(`probe cluster/${name}`);
      return deps.health.look(name, { etcdOnly: query.etcd ?? false, probe: { image: query.image, signal } });
    },
  ),
  operation(
    'GET /v1/clusters/:name/space',
    {
      access: 'view',
      summary: "Shows the alarms and the space of a cluster's etcd, and the last order to reclaim it.",
      answer: space,
    },
    async ({ params }, { etcdSpace }: Pick<Deps, 'etcdSpace'>) => {
      const { condition, ...report } = await etcdSpace.space(params.name);
      const { members, silent, quota } = condition;
      return {
        ...report,
        ...(Number.isFinite(quota) && { quota }),
        members: members.map(({ name, id, leader, octets, inUse, reads }) => ({
          ...{ name, octets, inUse, reads },
          leader: id === leader,
        })),
        silent,
      };
    },
  ),
  operation(
    'POST /v1/clusters/:name/reclaim-space',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Compacts and defragments etcd member by member, and disarms its alarm NOSPACE.',
      body: z.strictObject({ confirm }),
      answer: z.strictObject({}),
      statuses: [202],
    },
    async ({ params: { name }, body }, { etcdSpace }: Pick<Deps, 'etcdSpace'>) => {
      confirmed(name, body, 'reclaim the space of the etcd of');
      await etcdSpace.reclaim(name);
      return reply({}, 202);
    },
  ),
  operation(
    'GET /v1/clusters/:name/compromised/:machine',
    {
      access: 'view',
      costly: true,
      summary:
        'Lists the keys and certificates that a machine had, until when, and which rotation ends them.',
      answer: z.strictObject({
        cluster: z.string(),
        machine: z.string(),
        roles: z.array(z.string()),
        had: z.array(
          z.strictObject({
            what: z.string(),
            path: z.string().optional(),
            until: time.optional(),
            ends: z.string(),
          }),
        ),
        rotations: z.array(z.string()).meta({ description: 'The keysets of the cluster to rotate.' }),
        secrets: z
          .array(z.string())
          .meta({ description: 'Secrets that operators gave, which it got: `NAME/KEY`.' }),
        etcd: z.boolean().meta({ description: 'It is in etcd, or was when it was last heard.' }),
      }),
    },
    async ({ params }, deps: Pick<Deps, 'roster' | 'resolved' | 'pki' | 'clock'>) => {
      const cluster = params.name;
      const { name: machine, status } = findMachine(params.machine, deps);
      const found = deps.resolved(cluster);
      if (found === undefined)
        throw new MusterError('E_NOT_FOUND', `there is no Cluster "${cluster}" with Kubernetes`);
      const member = found.machines.find((one) => one.name === machine);
      if (member === undefined)
        throw new MusterError(
          'E_NOT_FOUND',
          `${machine} does not belong to ${cluster}; \`muster machine quarantine ${machine} --reason TEXT\` works for every machine`,
        );
      const of = async (scope: string) => ((await deps.pki.isFounded(scope)) ? deps.pki.issued(scope) : []);
      const roles = pkiRoles(member);
      const issued = [...(await of(cluster)), ...(await of(MUSTER_SCOPE))];
      const had = heldBy(machine, roles, issued, deps.clock.now());
      return {
        cluster,
        machine,
        roles,
        had: had.map(({ until, ...one }) => ({
          ...one,
          ...(until !== undefined && { until: timestamp(until) }),
        })),
        rotations: rotationsFor(had),
        secrets: Object.keys(status.agent?.secrets ?? {}).map((id) => id.replace(':', '/')),
        etcd: member.roles.includes('etcd'),
      };
    },
  ),
] as const;
