/** What machines report of their parts, and the leases of their addresses. */
import { z } from 'zod';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Inventories, KnownInventory } from '../../machines/inventories.ts';
import { inventoryParts } from '../../machines/inventory.ts';
import type { Roster } from '../../machines/roster.ts';
import type { LeaseBook } from '../../pxe/dhcp/leases.ts';
import { labelledPart, listOf, type Parsed, time, word } from '../contract/contract.ts';
import { checkMine, findMachine, labelsOf, ofClusters } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { timestamp } from '../times.ts';

interface InventoryDeps {
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
  readonly inventories: Pick<Inventories, 'get' | 'list'>;
  readonly leases: Pick<LeaseBook, 'list'>;
  readonly agents: {
    agentCluster(machine: string): string | undefined;
  };
}

const inventory = z
  .strictObject({
    machine: z.string(),
    changedAt: time,
    from: z.enum(['agent', 'discovery']).meta({
      description:
        '`agent`: sent with the certificate of the machine. `discovery`: sent from the discovery system over plain HTTP, so that anybody on the segment may have written it.',
    }),
    ...inventoryParts.shape,
  })
  .meta({ id: 'Inventory', description: 'What a machine reports of itself. It is the machine’s claim.' });

export type InventoryView = Parsed<z.output<typeof inventory>>;
const inventoryList = listOf('InventoryList', inventory);
export type InventoryList = Parsed<z.output<typeof inventoryList>>;

const lease = z
  .strictObject({
    network: z.string(),
    address: z.string(),
    mac: z.string(),
    state: z.string(),
    machine: z.string().optional(),
    hostname: z.string().optional(),
    expiresAt: time,
  })
  .meta({ id: 'Lease' });
export type LeaseView = Parsed<z.output<typeof lease>>;

const inventoryView = ({ machine, at, inventory, claimed }: KnownInventory) => ({
  machine,
  changedAt: timestamp(at),
  from: claimed ? ('discovery' as const) : ('agent' as const),
  ...inventory,
});

export const INVENTORY = [
  operation(
    'GET /v1/inventory',
    {
      access: 'view',
      costly: true,
      within: true,
      summary: 'Lists what machines report of their parts: processors, memory, disks, cards.',
      query: z.strictObject({
        machine: word('Only this one: a name or hardware address.'),
        ...labelledPart,
      }),
      answer: inventoryList,
    },
    (asked, deps: Omit<InventoryDeps, 'leases'>) => {
      const { machine } = asked.query;
      if (machine !== undefined) checkMine(machine, asked, deps);
      const known =
        machine === undefined
          ? deps.inventories.list().filter((one) => deps.roster.get(one.machine) !== undefined)
          : [deps.inventories.get(findMachine(machine, deps).name)].filter((one) => one !== undefined);
      const mine = ofClusters(asked, deps);
      const labels = labelsOf(deps);
      const part = partOf(
        asked.query,
        known.filter((one) => mine(one.machine)).map(inventoryView),
        (item) => item.machine,
        (item) => labels(item.machine),
      );
      return { kind: 'InventoryList' as const, ...part };
    },
  ),
  operation(
    'GET /v1/leases',
    {
      access: 'view',
      costly: true,
      within: true,
      summary: 'Lists leases.',
      query: z.strictObject({ network: word('Only of this Network.'), ...labelledPart }),
      answer: listOf('LeaseList', lease),
    },
    (asked, deps: Omit<InventoryDeps, 'inventories'>) => {
      const mine = ofClusters(asked, deps);
      const items = deps.leases.list(asked.query.network).map((view) => ({
        network: view.network,
        address: formatIpv4(view.address),
        mac: view.mac,
        state: view.state,
        ...(view.lease?.machine === undefined ? {} : { machine: view.lease.machine }),
        ...(view.lease?.hostname === undefined ? {} : { hostname: view.lease.hostname }),
        expiresAt: timestamp(view.expires),
      }));
      const labels = labelsOf(deps);
      const part = partOf(
        asked.query,
        items.filter((one) => mine(one.machine)),
        (one) => `${one.network}/${one.address}`,
        (one) => labels(one.machine),
      );
      return { kind: 'LeaseList' as const, ...part };
    },
  ),
] as const;
