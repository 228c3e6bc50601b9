/**
 * First-boot configuration of a session: layers joined, rendered once, kept while nothing it
 * depends on changes.
 */
import type { AgentBoot } from '../../agent/agents.ts';
import type { Plan } from '../../agent/plan.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { formatCidr, formatIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import type { ConfigLayer, Render, Rendered } from '../../ignition/rendered.ts';
import type { Memberships } from '../../machines/membership.ts';
import type { Member } from '../../machines/roster.ts';
import { bootDiskFault, narrowestDisk } from '../../resources/boot-disk.ts';
import type { Catalog, Entry } from '../../resources/catalog.ts';
import type { Asset, ImageSpec } from '../../resources/kinds.ts';
import type { ServedNetwork } from '../network.ts';
import { assetUrl } from '../script/script.ts';
import { staticNetworkLayer } from './static-network.ts';

/** Stands where a session's id will be. */
export const PREVIEW_SESSION = 'PREVIEW';

/**
 * Sessions whose rendered configuration is kept. A machine fetches its four documents within
 * seconds of each other.
 */
const KEPT = 1024;
const HOSTS_KEPT = 64;

export interface ConfigurationOf {
  readonly member: Member;
  readonly profile: string;
  readonly image: string;
  readonly mac: Mac;
  /** The session's id, or a visible stand-in for previews. */
  readonly session: string;
  readonly baseUrl: string;
  readonly network: ServedNetwork | undefined;
  /** The machine's address as far as known. */
  readonly address: string | undefined;
  /** With its secrets (`delivery: inline`): rendered for one answer, and not kept. */
  readonly plan?: Plan | undefined;
}

export type ConfigurationResult =
  | { readonly ok: true; readonly value: Rendered }
  | { readonly ok: false; readonly faults: readonly Fault[] };

export interface Configurations {
  /** Rendered, from memory when nothing changed since. */
  of(wanted: ConfigurationOf): ConfigurationResult;
  /** To be called when any document but a Machine's changed. */
  documentsChanged(): void;
}

export function createConfigurations(deps: {
  readonly catalog: Catalog;
  readonly memberships: Memberships;
  readonly render: Render;
  readonly agents?: AgentBoot;
}): Configurations {
  const { catalog, memberships, render, agents } = deps;
  const kept = new Map<
    string,
    { readonly entry: Entry<'Machine'> | undefined; readonly result: ConfigurationResult }
  >();

  /** By profile, cluster and, where it has a configuration of its own, machine. */
  let joined = new Map<
    string,
    { readonly entry: Entry<'Machine'> | undefined; readonly layers: readonly ConfigLayer[] }
  >();

  /** Host names by base URL: a network has one. */
  const hosts = new Map<string, string>();
  const hostOf = (baseUrl: string): string => {
    let host = hosts.get(baseUrl);
    if (host === undefined) {
      if (hosts.size >= HOSTS_KEPT) hosts.clear();
      host = new URL(baseUrl).hostname;
      hosts.set(baseUrl, host);
    }
    return host;
  };

  /** The same list for as long as it says the same: rendering keeps what it merged of it. */
  const layers = (member: Member, profile: string): readonly ConfigLayer[] => {
    const entry = member.entry?.document.spec.config ? member.entry : undefined;
    const cluster = memberships.clusterOf(member.name);
    const key = `${profile}/${cluster ?? ''}/${entry ? member.name : ''}`;
    const found = joined.get(key);
    if (found && found.entry === entry) return found.layers;
    const made = layersOf(catalog, member, profile, cluster);
    joined.set(key, { entry, layers: made });
    return made;
  };

  /** What puts the agent on a machine of a cluster. */
  const agentLayer = (
    wanted: ConfigurationOf,
    image: ImageSpec,
  ): ConfigLayer | ConfigurationResult | undefined => {
    const machine = wanted.member.name;
    const cluster = agents?.agentCluster(machine);
    if (agents === undefined || cluster === undefined) return undefined;
    const layersOfDisks = [
      wanted.member.entry?.document.spec,
      catalog.get('Profile', wanted.profile)?.document.spec,
      catalog.get('Cluster', cluster)?.document.spec,
    ];
    const data = narrowestDisk('dataDisk', layersOfDisks);
    const inline = agents.deliveryOf(machine) === 'inline';
    const disk = inline ? undefined : narrowestDisk('bootDisk', layersOfDisks);
    const fault = disk && bootDiskFault(data, image);
    if (fault !== undefined) return { ok: false, faults: [{ code: 'E_REFERENCE', message: fault }] };
    const boot = disk && { disk, ...bootFiles(wanted.baseUrl, image) };
    const session = wanted.session === PREVIEW_SESSION ? undefined : wanted.session;
    try {
      const { plan } = wanted;
      const host = hostOf(wanted.baseUrl);
      return agents.layer({ machine, session, host, data, ...(boot && { boot }), plan });
    } catch (error) {
      if (error instanceof MusterError) return { ok: false, faults: error.faults };
      throw error;
    }
  };

  /**
   * Its own address instead of a lease, for a machine of Kubernetes whose documents name no
   * interfaces.
   */
  const standing = (
    { member, network, mac }: ConfigurationOf,
    others: readonly ConfigLayer[],
  ): ConfigLayer | undefined => {
    const cluster = agents?.agentCluster(member.name);
    if (cluster === undefined) return undefined;
    if (others.some(({ config }) => config.network?.interfaces !== undefined)) return undefined;
    const { networks } = catalog.get('Cluster', cluster)?.document.spec.kubernetes ?? {};
    return staticNetworkLayer(
      member.entry?.document.spec.addresses ?? [],
      network,
      mac,
      networks?.machines ?? [],
    );
  };

  const compute = (wanted: ConfigurationOf): ConfigurationResult => {
    const image = catalog.get('Image', wanted.image)?.document.spec;
    if (!image)
      return {
        ok: false,
        faults: [{ code: 'E_REFERENCE', message: `Image "${wanted.image}" does not exist` }],
      };
    const spec = wanted.member.entry?.document.spec;
    const seen = wanted.member.status.seen;
    const uuid = spec?.uuid ?? seen.uuid;
    const serial = spec?.serial ?? seen.serial;
    const address6 = spec?.addresses?.find((text) => text.includes(':'));
    const { network, session, baseUrl } = wanted;
    const cluster = memberships.clusterOf(wanted.member.name);
    const agent = agentLayer(wanted, image);
    if (agent !== undefined && 'ok' in agent) return agent;
    const others = layers(wanted.member, wanted.profile);
    const below = [agent, standing(wanted, others)].filter((layer) => layer !== undefined);
    return render({
      layers: below.length === 0 ? others : [...below, ...others],
      context: {
        machine: {
          name: wanted.member.name,
          mac: wanted.mac,
          ...(uuid ? { uuid } : {}),
          ...(serial ? { serial } : {}),
          ...(wanted.address ? { address: wanted.address } : {}),
          ...(address6 ? { address6 } : {}),
        },
        ...(network
          ? {
              network: {
                name: network.name,
                subnet: formatCidr(network.subnet),
                ...(network.gateway ? { gateway: formatIpv4(network.gateway) } : {}),
                ...(network.domain ? { domain: network.domain } : {}),
              },
            }
          : {}),
        profile: { name: wanted.profile },
        ...(cluster ? { cluster: { name: cluster } } : {}),
        boot: { url: `${baseUrl}/boot/${session}`, session, server: hostOf(baseUrl) },
      },
      image,
      // A system that runs from memory is born anew with every boot: cloud-init must take it for a
      // new instance.
      instanceId: `${wanted.member.name}-${session}`,
    });
  };

  return {
    of(wanted) {
      if (wanted.plan !== undefined) return compute(wanted);
      const key = `${wanted.session} ${wanted.baseUrl} ${wanted.profile} ${wanted.image} ${wanted.address ?? ''} ${agents?.version ?? 0}`;
      const found = kept.get(key);
      if (found && found.entry === wanted.member.entry) return found.result;
      const result = compute(wanted);
      kept.delete(key);
      if (kept.size >= KEPT) kept.delete(kept.keys().next().value!);
      kept.set(key, { entry: wanted.member.entry, result });
      return result;
    },
    documentsChanged() {
      kept.clear();
      joined = new Map();
    },
  };
}

/** What a boot disk needs besides what the machine runs. */
const bootFiles = (baseUrl: string, { kernel, initrds = [] }: ImageSpec) => {
  const file = (asset: Asset, name: string) => ({
    url: assetUrl(baseUrl, asset, name),
    sha256: asset.sha256,
  });
  return { kernel: file(kernel, 'kernel'), initrds: initrds.map((initrd) => file(initrd, 'initrd')) };
};

/** Cluster → profile → machine, widest first; the narrower wins. */
function layersOf(
  catalog: Catalog,
  member: Member,
  profile: string,
  of: string | undefined,
): readonly ConfigLayer[] {
  const layers: ConfigLayer[] = [];
  const spec = member.entry?.document.spec;
  const cluster = of === undefined ? undefined : catalog.get('Cluster', of);
  if (cluster?.document.spec.config)
    layers.push({
      layer: 'cluster',
      document: `Cluster/${cluster.document.metadata.name}`,
      config: cluster.document.spec.config,
    });
  const config = catalog.get('Profile', profile)?.document.spec.config;
  if (config) layers.push({ layer: 'profile', document: `Profile/${profile}`, config });
  if (spec?.config)
    layers.push({ layer: 'machine', document: `Machine/${member.name}`, config: spec.config });
  return layers;
}
