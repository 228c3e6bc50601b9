/** Machines, and the programs of clusters on them, as targets of Prometheus (its `http_sd`). */
import { z } from 'zod';
import { ipv4First, urlHost } from '../../base/ip.ts';
import {
  API_PORT,
  CONTROLLER_MANAGER_PORT,
  ETCD_CLIENT_PORT,
  KUBELET_PORT,
  SCHEDULER_PORT,
} from '../../cluster/model/ports.ts';
import type { Roster } from '../../machines/roster.ts';
import type { LeaseBook } from '../../pxe/dhcp/leases.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { etcdMembers, type Membership, membershipsIn } from '../../resources/membership.ts';
import { word } from '../contract/contract.ts';
import { ofClusters } from '../find-machine.ts';
import { operation } from '../operation.ts';
import { leasedAddress } from '../outlook.ts';
import { byLabels } from '../selectors.ts';

interface TargetDeps {
  readonly catalog: Pick<LiveCatalog, 'list'>;
  readonly roster: Pick<Roster, 'get'>;
  readonly leases: LeaseBook;
  readonly agents: { agentCluster(machine: string): string | undefined };
}

/** A machine with its place in a cluster. */
interface Placed {
  readonly member: Membership | undefined;
  readonly runsEtcd: boolean;
}

const controls = ({ member }: Placed): boolean => member?.role === 'control plane';

/** What can be asked for: on which port it answers, and on which machines it runs. */
const SUBJECTS = {
  machine: { port: 9100, on: () => true },
  kubelet: { port: KUBELET_PORT, on: ({ member }: Placed) => member !== undefined && member.role !== 'etcd' },
  apiserver: { port: API_PORT, on: controls },
  'controller-manager': { port: CONTROLLER_MANAGER_PORT, on: controls },
  scheduler: { port: SCHEDULER_PORT, on: controls },
  etcd: { port: ETCD_CLIENT_PORT, on: ({ runsEtcd }: Placed) => runsEtcd },
} as const;

const target = z
  .strictObject({
    targets: z.array(z.string()).meta({ description: 'One address with a port.' }),
    labels: z.record(z.string(), z.string()).meta({
      description: 'All begin with `__meta_muster_`; Prometheus drops them after relabelling.',
    }),
  })
  .meta({ id: 'ScrapeTarget', description: 'What Prometheus expects of `http_sd`.' });

/** A label's name in the letters that Prometheus permits. */
const safe = (name: string): string => name.replace(/[^A-Za-z0-9_]/g, '_');

export const TARGETS = [
  operation(
    'GET /v1/sd/prometheus',
    {
      access: 'view',
      costly: true,
      within: true,
      summary:
        'Lists machines, or a program of clusters on them, as targets for `http_sd` of Prometheus. Machines without a document or an address are left out.',
      query: z.strictObject({
        of: z
          .enum(Object.keys(SUBJECTS) as [keyof typeof SUBJECTS])
          .default('machine')
          .meta({ description: 'What is scraped; it decides the machines and the port.' }),
        port: z.int().min(1).max(65_535).optional().meta({ description: 'Another port.' }),
        labels: word('Only machines with these labels: `rack=a,role!=db`.'),
      }),
      answer: z.array(target),
    },
    (asked, { catalog, roster, leases, ...rest }: TargetDeps) => {
      const { of, port = SUBJECTS[of].port, labels } = asked.query;
      const clusters = catalog.list('Cluster').map(({ document }) => document);
      const memberships = membershipsIn(clusters);
      const withEtcd = new Set(clusters.flatMap(etcdMembers));
      const isMine = ofClusters(asked, { roster, ...rest });
      const fits = byLabels(labels, 'labels');
      return catalog.list('Machine').flatMap(({ document: { metadata, spec } }) => {
        const { name } = metadata;
        if (!isMine(name) || !fits({ metadata })) return [];
        const member = memberships.get(name);
        if (!SUBJECTS[of].on({ member, runsEtcd: withEtcd.has(name) })) return [];
        const known = roster.get(name);
        const address = ipv4First(spec.addresses ?? []) ?? leasedAddress(known, leases);
        if (address === undefined) return [];
        const cluster = member?.cluster ?? spec.cluster;
        const said = {
          machine: name,
          phase: known?.status.phase ?? 'registered',
          ...(spec.profile !== undefined && { profile: spec.profile }),
          ...(spec.pool !== undefined && { pool: spec.pool }),
          ...(cluster !== undefined && { cluster }),
          ...(member && { role: member.role.replace(' ', '-') }),
          ...Object.fromEntries(
            Object.entries(metadata.labels ?? {}).map(([key, value]) => [`label_${safe(key)}`, value]),
          ),
        };
        return [
          {
            targets: [`${urlHost(address)}:${port}`],
            labels: Object.fromEntries(
              Object.entries(said).map(([key, value]) => [`__meta_muster_${key}`, value]),
            ),
          },
        ];
      });
    },
  ),
] as const;
