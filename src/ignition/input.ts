/**
 * The input of a rendered configuration, assembled in this one place: what is checked when a
 * document is applied is what a machine gets when it boots. Pure.
 */
import type { Mac } from '../base/mac.ts';
import type { Document } from '../resources/kinds.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import { INSTALLED_LAYER } from './muster-layer.ts';
import type { ConfigLayer, RenderInput } from './rendered.ts';
import { staticNetworkLayer } from './static-network.ts';

/** The session id of a preview, in the place where a boot session's id will be. */
export const PREVIEW_SESSION = 'PREVIEW';

/**
 * The documents that a machine's configuration is made from. Documents are immutable, so the same
 * parts give the same result.
 */
export interface Parts {
  readonly machine: Document<'Machine'> | undefined;
  readonly profile: Document<'Profile'> | undefined;
  /** The Cluster whose `config` the machine takes. */
  readonly cluster: Document<'Cluster'> | undefined;
  /** The Cluster that the machine's agent works for: the one that gives it a role. */
  readonly agentCluster: Document<'Cluster'> | undefined;
  readonly image: Document<'Image'> | undefined;
  /** The network that the machine boots from. */
  readonly network: Document<'Network'> | undefined;
}

/** What a boot adds to the documents. */
export interface BootFacts {
  /** The machine's name. */
  readonly name: string;
  /** The hardware address of the interface that boots. */
  readonly mac: Mac;
  /** What the machine's firmware reported; used where its document does not say. */
  readonly seen?: { readonly uuid?: string | undefined; readonly serial?: string | undefined };
  /** The machine's IPv4 address, as far as it is known. */
  readonly address: string | undefined;
  /** The boot session's id, or {@link PREVIEW_SESSION}. */
  readonly session: string;
  /** URL at which this machine reaches the HTTP listener for machines, without a path. */
  readonly baseUrl: string;
  /** Present on a machine of a cluster: puts the agent there. */
  readonly agentLayer: ConfigLayer | undefined;
}

/**
 * Joins documents and the facts of a boot into the input of `render`. At a boot, `image` is
 * the spec of `parts.image`; a check passes a stand-in where the image is missing.
 */
export function renderInput(parts: Parts, boot: BootFacts, image: RenderInput['image']): RenderInput {
  const { machine, profile, cluster, network } = parts;
  const { name, mac, seen = {}, address, session, baseUrl } = boot;
  const uuid = machine?.spec.uuid ?? seen.uuid;
  const serial = machine?.spec.serial ?? seen.serial;
  const address6 = machine?.spec.addresses?.find((text) => text.includes(':'));
  const { subnet, gateway, domain } = network?.spec ?? {};
  return {
    layers: layersOf(parts, boot),
    image,
    // A system that runs from memory is a new instance at every boot, and cloud-init must treat it
    // as one.
    instanceId: `${name}-${session}`,
    context: {
      machine: {
        name,
        mac,
        ...(uuid !== undefined && { uuid }),
        ...(serial !== undefined && { serial }),
        ...(address !== undefined && { address }),
        ...(address6 !== undefined && { address6 }),
      },
      ...(subnet !== undefined && {
        network: {
          name: network!.metadata.name,
          subnet,
          ...(gateway !== undefined && { gateway }),
          ...(domain !== undefined && { domain }),
        },
      }),
      profile: { name: profile?.metadata.name ?? 'none' },
      ...(cluster && { cluster: { name: cluster.metadata.name } }),
      boot: { url: `${baseUrl}/boot/${session}`, session, server: new URL(baseUrl).hostname },
    },
  };
}

/** Widest first: agent, static network, Cluster, Profile, Machine. A narrower layer wins. */
function layersOf(parts: Parts, boot: BootFacts): readonly ConfigLayer[] {
  const { machine, profile, cluster } = parts;
  const documents: [ConfigLayer['layer'], Document | undefined, NodeConfig | undefined][] = [
    ['cluster', cluster, cluster?.spec.config],
    ['profile', profile, profile?.spec.config],
    ['machine', machine, machine?.spec.config],
  ];
  const layers: ConfigLayer[] = documents.flatMap(([layer, document, config]) =>
    config ? [{ layer, document: `${document!.kind}/${document!.metadata.name}`, config }] : [],
  );
  if (parts.image?.spec.disk !== undefined) layers.unshift(INSTALLED_LAYER);
  if (boot.agentLayer === undefined) return layers;
  const staticNetwork = layers.some(({ config }) => config.network?.interfaces !== undefined)
    ? undefined
    : staticNetworkLayer(
        machine?.spec.addresses ?? [],
        parts.network?.spec,
        boot.mac,
        parts.agentCluster?.spec.kubernetes?.networks?.machines ?? [],
      );
  return [boot.agentLayer, ...(staticNetwork ? [staticNetwork] : []), ...layers];
}
