/** Members of clusters: founding, machines that come and go, reset, restore, adoption. */

import { z } from 'zod';
import type { Agents } from '../../agent/serve/agents.ts';
import { names, truth } from '../../base/body.ts';
import { duration, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { trustKeysOf } from '../../cluster/backup/readers.ts';
import type { Snapshots } from '../../cluster/backup/snapshots.ts';
import { type Membership, membershipChange } from '../../cluster/change/membership.ts';
import type { FoundingOrders } from '../../cluster/etcd/commands.ts';
import { type FoundingRecord, foundingForm } from '../../cluster/etcd/record.ts';
import { foundingStatus } from '../../cluster/etcd/status.ts';
import type { Roster } from '../../machines/roster.ts';
import type { AdoptedKeys } from '../../pki/adopted.ts';
import { ADOPTED, type AdoptedKeyset } from '../../pki/keysets.ts';
import type { Pki } from '../../pki/pki.ts';
import { checkMachines } from '../access.ts';
import { confirmed } from '../confirmed.ts';
import { confirm, texts, time } from '../contract/contract.ts';
import { placing } from '../find-machine.ts';
import { operation } from '../operation.ts';
import { foundingView } from '../times.ts';

interface Deps {
  readonly founding: FoundingOrders;
  readonly snapshots: Pick<Snapshots, 'order' | 'list' | 'get' | 'verify' | 'read'>;
  readonly membership: Membership;
  readonly roster: Pick<Roster, 'get'>;
  readonly agents: Pick<Agents, 'agentCluster'>;
  /** Machine that is being removed from a cluster → what its removal waits for. */
  readonly waiting: (cluster: string) => Readonly<Record<string, string>>;
  readonly pki: Pki;
}

type FoundingDeps = Pick<Deps, 'founding'>;
type MembershipDeps = Pick<Deps, 'membership' | 'roster' | 'agents'>;

const foundingRecord = foundingForm(time).meta({ id: 'FoundingRecord' });
const ordered = z.strictObject({ record: foundingRecord });

const founding = foundingStatus(foundingRecord)
  .extend({
    leaving: texts.meta({ description: 'Machine that is being removed → what its removal waits for.' }),
  })
  .meta({ id: 'Founding' });

const member = z.string().min(1);
const machines = z
  .array(z.string().min(1))
  .min(1)
  .refine((all) => new Set(all).size === all.length, 'names one twice');
const pair = z.strictObject({
  key: z.string().meta({ description: 'PEM.' }),
  certificate: z.string().optional().meta({ description: 'PEM.' }),
});
/** The keys of a cluster that kubeadm made. */
const adoptedPairs = Object.fromEntries(ADOPTED.map((name) => [name, pair])) as Record<
  AdoptedKeyset,
  typeof pair
>;

const shown = (record: FoundingRecord) => ({ record: foundingView(record) });

/** How long a drain takes by default. */
const DRAIN = duration('5m');

export const MEMBERS = [
  operation(
    'GET /v1/clusters/:name/founding',
    {
      access: 'view',
      summary: "Shows the state of the founding of a cluster's etcd, and the last decision for each member.",
      answer: founding,
    },
    async ({ params: { name } }, deps: Pick<Deps, 'founding' | 'waiting'>) => {
      const { record, ...status } = await deps.founding.status(name);
      return {
        ...status,
        ...(record && { record: foundingView(record) }),
        leaving: deps.waiting(name),
      };
    },
  ),
  operation(
    'POST /v1/clusters/:name/found',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Opens the founding with the members that have polled.',
      body: z.strictObject({ confirm }),
      answer: foundingRecord,
    },
    async ({ params: { name }, body }, deps: FoundingDeps) => {
      confirmed(name, body, 'found the etcd of');
      return foundingView(await deps.founding.order(name));
    },
  ),
  operation(
    'POST /v1/clusters/:name/add-node',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Adds machines to a Cluster.',
      body: z.strictObject({
        machines,
        role: z.enum(['worker', 'control-plane', 'etcd']).default('worker'),
      }),
      answer: membershipChange,
    },
    ({ params, body, principal }, deps: MembershipDeps) => {
      checkMachines('operate', body.machines, principal, placing(deps));
      return deps.membership.add(params.name, body);
    },
  ),
  operation(
    'POST /v1/clusters/:name/remove-node',
    {
      access: 'administer',
      takes: { second: 'clear' },
      summary: 'Removes machines from a Cluster.',
      body: z.strictObject({
        machines,
        replacements: names('Machines that take their roles, in the same order.'),
        clear: truth('Their data filesystems are cleared.'),
        drain: z
          .string()
          .optional()
          .meta({ description: 'How long the drain may take, such as 5m (default), or `no`.' }),
      }),
      answer: membershipChange,
    },
    ({ params, body, principal }, deps: MembershipDeps) => {
      const { drain, ...order } = body;
      checkMachines('administer', [...order.machines, ...order.replacements], principal, placing(deps));
      if (order.replacements.length > order.machines.length)
        throw new MusterError(
          'E_USAGE',
          'more replacements than machines; `muster cluster add-node` adds more',
        );
      const drainFor = drain === undefined ? DRAIN : drain === 'no' ? undefined : parseDuration(drain);
      if (drain !== undefined && drain !== 'no' && drainFor === undefined)
        throw new MusterError('E_USAGE', `"${drain}" is not a duration; write it like 5m, or no`);
      return deps.membership.remove(params.name, { ...order, drainFor });
    },
  ),
  operation(
    'POST /v1/clusters/:name/reset',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Clears all machines of a cluster.',
      body: z.strictObject({ confirm }),
      answer: ordered,
    },
    async ({ params: { name }, body }, deps: FoundingDeps) => {
      confirmed(name, body, 'reset');
      return shown(await deps.founding.reset(name));
    },
  ),
  operation(
    'POST /v1/clusters/:name/restore',
    {
      access: 'administer',
      takes: 'both',
      summary:
        'Restores etcd when the quorum is lost for good: from the data of a member, or from a snapshot on that member or the first that can.',
      body: z.strictObject({
        confirm,
        member: member.optional(),
        backup: z.string().min(1).optional().meta({ description: 'The id of a snapshot.' }),
        without: names('Abandoned members.'),
      }),
      answer: ordered.extend({
        readers: z
          .array(z.string())
          .optional()
          .meta({ description: 'Encryption keys that API servers read with because of the snapshot.' }),
      }),
    },
    async ({ params: { name }, body }, deps: Pick<Deps, 'founding' | 'snapshots' | 'pki'>) => {
      confirmed(name, body, 'restore');
      const { member: from, backup, without } = body;
      if (backup === undefined) {
        if (from === undefined) throw new MusterError('E_USAGE', 'name the member: {"member": "NAME"}');
        return shown(await deps.founding.restore(name, from, without));
      }
      const snapshot = await deps.snapshots.get(name, backup);
      await deps.snapshots.verify(snapshot);
      const encryption = await deps.pki.encryption(name);
      const keys = encryption ? [...encryption.trusted, ...encryption.distrusted].map(({ id }) => id) : [];
      const record = await deps.founding.restoreSnapshot(name, { snapshot, member: from, without, keys });
      const readers = await trustKeysOf(deps.pki, snapshot);
      return { record: foundingView(record), readers };
    },
  ),
  operation(
    'POST /v1/clusters/:name/adopt-kubeadm',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Takes over the keys of a cluster that kubeadm made, which counts as founded then.',
      body: z.strictObject({ confirm, ...adoptedPairs }).meta({ description: 'It is secret.' }),
      answer: ordered,
    },
    async ({ params: { name }, body }, { founding, pki }: Pick<Deps, 'founding' | 'pki'>) => {
      confirmed(name, body, 'take over');
      const { confirm: _, ...keys } = body;
      return shown(
        await founding.adoptForeign(name, (write) => pki.adopt(name, keys satisfies AdoptedKeys, [write])),
      );
    },
  ),
  operation(
    'POST /v1/clusters/:name/adopt',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Accepts the present disk of a member as its own, after a store was rolled back.',
      body: z.strictObject({ confirm, member }),
      answer: ordered,
    },
    async ({ params: { name }, body }, deps: FoundingDeps) => {
      confirmed(name, body, 'accept the present disk of a member of');
      return shown(await deps.founding.adopt(name, body.member));
    },
  ),
  operation(
    'POST /v1/clusters/:name/call-off',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Cancels the replacement of a member, or a restore from its data.',
      body: z.strictObject({ member }),
      answer: ordered,
    },
    async ({ params, body }, deps: FoundingDeps) =>
      shown(await deps.founding.callOff(params.name, body.member)),
  ),
] as const;
