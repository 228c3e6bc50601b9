/** Which data disk a machine has whose documents choose it by the inventory. */
import type { AgentBoot } from '../../agent/serve/agents.ts';
import { type DataSelector, parseSelector } from '../../agent/serve/layer.ts';
import { disksOf } from '../../agent/serve/machine-layer.ts';
import { chooseDisk } from '../../machines/data-disk.ts';
import type { Member } from '../../machines/roster.ts';
import type { Selection } from '../../machines/select.ts';
import type { Catalog } from '../../resources/catalog.ts';
import { isByInventory } from '../../resources/disk-spec.ts';
import type { SelectedBy } from './selection.ts';

/** What the disks of a machine depend on. */
export interface DisksBy extends Pick<SelectedBy, 'inventories'> {
  readonly catalog: Pick<Catalog, 'get'>;
  readonly agents: Pick<AgentBoot, 'agentCluster'>;
  /** The selector by which a machine of a running cluster found the disk that has its data. */
  readonly dataDiskOf: (machine: string) => string | undefined;
}
export type MachineDisks = ReturnType<typeof disksOf>;

export type DataDisk =
  /** `because`: why it is this one, for people. */
  | { readonly ok: true; readonly selector: DataSelector; readonly because: string }
  | { readonly ok: false; readonly text: string };

/** The disks that the documents give a machine with the profile that is selected. */
export function disksFor(context: DisksBy, member: Member, selection: Selection): MachineDisks {
  const named = <K extends 'Profile' | 'Cluster'>(kind: K, name: string | undefined) =>
    name === undefined ? undefined : context.catalog.get(kind, name)?.document;
  return disksOf({
    machine: member.entry?.document,
    profile: named('Profile', selection.kind === 'selected' ? selection.profile.name : undefined),
    agentCluster: named('Cluster', context.agents.agentCluster(member.name)),
    ...{ cluster: undefined, image: undefined, network: undefined },
  });
}

/**
 * Finds the data disk that the inventory decides; undefined where documents name it. A machine of a
 * running cluster stays on the disk that has its data, whatever it reports now.
 */
export function chosenDataDisk(
  { inventories, dataDiskOf }: Pick<DisksBy, 'inventories' | 'dataDiskOf'>,
  machine: string,
  { data, etcd, boot }: MachineDisks,
): DataDisk | undefined {
  if (data === undefined || !isByInventory(data)) return undefined;
  const kept = dataDiskOf(machine);
  const selector = kept === undefined ? undefined : parseSelector(kept);
  if (selector !== undefined) return { ok: true, selector, because: 'it has the data of the machine' };
  const known = inventories.counting(machine);
  if (known === undefined) return { ok: false, text: 'the machine has not reported its inventory yet' };
  const at = new Date(known.at).toISOString();
  const choice = chooseDisk(known.inventory, data, [etcd, boot]);
  return choice.ok
    ? {
        ok: true,
        selector: { serial: choice.serial },
        because: `chosen from the inventory of ${at}, where it is ${choice.disk.name}`,
      }
    : {
        ok: false,
        text: `${choice.text}. That is the inventory of ${at}; \`muster machine accept ${machine}\` takes a later one`,
      };
}
