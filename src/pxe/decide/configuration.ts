/**
 * First-boot configuration of a boot session: rendered once, and kept while nothing that it depends
 * on changes.
 */

import type { AgentBoot } from '../../agent/serve/agents.ts';
import { deliveryOf, disksOf, getsAgent, layerRequest } from '../../agent/serve/machine-layer.ts';
import type { Plan } from '../../agent/wire/plan.ts';
import { AgedMap } from '../../base/aged.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import type { Mac } from '../../base/mac.ts';
import { type Parts, renderInput } from '../../ignition/input.ts';
import type { ConfigLayer, Render, Rendered } from '../../ignition/rendered.ts';
import type { Member } from '../../machines/member.ts';
import type { Memberships } from '../../machines/membership.ts';
import { bootDiskFault, dataDiskFault, etcdDiskFault } from '../../resources/boot-disk.ts';
import type { Catalog, Entry } from '../../resources/catalog.ts';
import type { Kind } from '../../resources/kinds.ts';
import type { ServedNetwork } from '../network.ts';
import { assetUrl } from '../script/script.ts';
import type { DataDisk, MachineDisks } from './data-disk.ts';

/**
 * How many sessions' rendered configurations are kept. A machine fetches its four documents within
 * seconds of each other.
 */
const KEPT = 4096;

/** Which configuration is wanted. */
interface ConfigurationOf {
  readonly member: Member;
  readonly profile: string;
  readonly image: string;
  readonly mac: Mac;
  /** The session's id, or PREVIEW_SESSION. */
  readonly session: string;
  readonly baseUrl: string;
  readonly network: ServedNetwork | undefined;
  /** The machine's address as far as known. */
  readonly address: string | undefined;
  /** The configuration carries a ticket: Muster gives the machine its address. */
  readonly ticketed: boolean;
  /** The plan with the machine's secrets (`delivery: inline`). The result is then not kept. */
  readonly plan?: Plan | undefined;
}

export type ConfigurationResult =
  | { readonly ok: true; readonly value: Rendered }
  | { readonly ok: false; readonly faults: readonly Fault[] };

export interface Configurations {
  /** Renders the configuration, or takes it from memory when nothing changed since. */
  of(wanted: ConfigurationOf): ConfigurationResult;
  /** Forgets what is kept; to be called when any document but a Machine's changed. */
  documentsChanged(): void;
}

interface ConfigurationDeps {
  readonly catalog: Catalog;
  readonly memberships: Memberships;
  readonly render: Render;
  readonly agents: AgentBoot;
  /** The data disk that the inventory of a machine decides. */
  readonly chosenDataDisk: (machine: string, disks: MachineDisks) => DataDisk | undefined;
  /** The inventory that counts for a machine, the same object as long as it is the same. */
  readonly inventory: (machine: string) => object | undefined;
}

interface Kept {
  readonly entry: Entry<'Machine'> | undefined;
  readonly inventory: object | undefined;
  readonly result: ConfigurationResult;
}

/** Opens the configurations of boot sessions; keeps the last {@link KEPT} results. */
export function createConfigurations(deps: ConfigurationDeps): Configurations {
  let kept = new AgedMap<string, Kept>();
  return {
    of(wanted) {
      if (wanted.plan !== undefined) return rendered(deps, wanted);
      const { session, baseUrl, profile, image, address = '', ticketed } = wanted;
      const key = `${session} ${baseUrl} ${profile} ${image} ${address} ${ticketed} ${deps.agents.version}`;
      const found = kept.get(key);
      const inventory = deps.inventory(wanted.member.name);
      if (found && found.entry === wanted.member.entry && found.inventory === inventory) return found.result;
      const result = rendered(deps, wanted);
      kept.set(key, { entry: wanted.member.entry, inventory, result });
      if (kept.size > KEPT) kept.delete(kept.oldest()!.key);
      return result;
    },
    documentsChanged() {
      kept = new AgedMap();
    },
  };
}

function rendered(deps: ConfigurationDeps, wanted: ConfigurationOf): ConfigurationResult {
  const { member, mac, session, baseUrl, address } = wanted;
  const parts = partsOf(deps, wanted);
  const image = parts.image?.spec;
  if (image === undefined)
    return reference(
      `Image "${wanted.image}" does not exist; \`muster image build\` or \`muster image add\` makes one`,
    );
  const agentLayer = agentLayerOf(deps, parts, wanted);
  if (agentLayer !== undefined && 'ok' in agentLayer) return agentLayer;
  const { seen } = member.status;
  const facts = { name: member.name, mac, seen, address, session, baseUrl, agentLayer };
  return deps.render(renderInput(parts, facts, image));
}

const reference = (message: string): ConfigurationResult => ({
  ok: false,
  faults: [{ code: 'E_REFERENCE', message }],
});

/** The current documents that the configuration is made from. */
function partsOf({ catalog, memberships, agents }: ConfigurationDeps, wanted: ConfigurationOf): Parts {
  const { member, profile, image, network } = wanted;
  const documentOf = <K extends Kind>(kind: K, name: string | undefined) =>
    name === undefined ? undefined : catalog.get(kind, name)?.document;
  return {
    machine: member.entry?.document,
    profile: documentOf('Profile', profile),
    cluster: documentOf('Cluster', memberships.clusterOf(member.name)),
    agentCluster: documentOf('Cluster', agents.agentCluster(member.name)),
    image: documentOf('Image', image),
    network: documentOf('Network', network?.name),
  };
}

/** The layer that puts the agent on a machine that gets one, or why there is none yet. */
function agentLayerOf(
  { agents, chosenDataDisk }: ConfigurationDeps,
  parts: Parts,
  { member, session, baseUrl, ticketed, plan }: ConfigurationOf,
): ConfigLayer | ConfigurationResult | undefined {
  const home = parts.profile?.spec.home;
  if (home === 'boot' && disksOf(parts).boot === undefined)
    return reference(
      'the profile has `home: boot`, and the machine has no bootDisk, or is of no cluster; name its bootDisk, or write `home: ram`',
    );
  if (home === 'disk' && (parts.machine?.spec.installDisk ?? parts.profile?.spec.installDisk) === undefined)
    return reference('the profile has `home: disk`, and neither it nor the machine names an installDisk');
  if (!getsAgent(parts)) return undefined;
  // Its keys would stay on the disk, in a volume that every system there can read.
  if (home === 'disk' && deliveryOf(parts.machine) === 'inline')
    return reference('`delivery: inline` cannot be had with `home: disk`; leave `delivery` out');
  const disks = disksOf(parts);
  const { data, etcd, boot } = disks;
  const { image } = parts;
  const fault =
    (boot && bootDiskFault(boot, data, image?.spec)) ??
    (image && dataDiskFault(data, { name: image.metadata.name, ...image.spec })) ??
    (etcd && etcdDiskFault(etcd, { data, boot })) ??
    (image && dataDiskFault(etcd, { name: image.metadata.name, ...image.spec }, 'etcdDisk'));
  if (fault !== undefined) return reference(fault);
  const decided = chosenDataDisk(member.name, disks);
  const chosen = decided?.ok ? decided.selector : undefined;
  try {
    return agents.layer(
      layerRequest(parts, { name: member.name, session, baseUrl, ticketed, plan, chosen }, assetUrl),
    );
  } catch (error) {
    if (error instanceof MusterError) return { ok: false, faults: error.faults };
    throw error;
  }
}
