/**
 * The agent's layer of one machine: which disks it uses, how its secrets reach it, and what is put
 * on its boot disk. For a boot the boot host fills in CA and ticket; previews and checks of
 * documents have stand-ins there. Pure.
 */
import { MusterError } from '../../base/errors.ts';
import { type BootFacts, type Parts, PREVIEW_SESSION } from '../../ignition/input.ts';
import type { ConfigLayer } from '../../ignition/rendered.ts';
import { narrowestDisk } from '../../resources/boot-disk.ts';
import { isByInventory } from '../../resources/disk-spec.ts';
import type { Asset, BootDiskSpec, DataDiskSpec, Document, ImageSpec } from '../../resources/kinds.ts';
import { etcdMembers } from '../../resources/membership.ts';
import { secretsOf } from '../../resources/secret-references.ts';
import type { Plan } from '../wire/plan.ts';
import { DEFAULT_AGENT_PORT } from '../wire/protocol.ts';
import { inlineLayer } from './inline.ts';
import { type AgentSettings, agentLayer, type BootDisk, type DataSelector, selectorText } from './layer.ts';

/** What the agent's layer of a machine is made from. */
export interface LayerRequest {
  readonly machine: string;
  /** How the machine's secrets reach it. */
  readonly delivery: 'agent' | 'inline';
  /** Id of the boot session, or {@link PREVIEW_SESSION}, which gets no ticket. */
  readonly session: string;
  /**
   * The configuration carries a ticket. It does not where another server gives the machine its
   * address, because anyone on the segment gets the configuration there.
   */
  readonly ticketed: boolean;
  /** Our address as this machine reaches it. */
  readonly host: string;
  /** The disk that keeps the machine's data. */
  readonly data: DataDiskSpec | undefined;
  /** Where `data` is chosen by inventory: the disk; absent while none is chosen. */
  readonly chosen?: DataSelector | undefined;
  /** The disk that keeps etcd's data alone, on a member of etcd. */
  readonly etcd?: DataDiskSpec | undefined;
  /** The disk that the machine boots from without us, and what is put there. */
  readonly boot?: { readonly disk: BootDiskSpec } & Omit<BootDisk, 'disk'>;
  /** The system is installed on a disk, so files of its last boot are still there. */
  readonly installed?: boolean;
  /** With `delivery: inline`, for one answer: the machine's whole plan, which is secret. */
  readonly plan?: Plan | undefined;
}

/** How the secrets of a machine reach it: over its agent, or in its first configuration. */
export const deliveryOf = (machine: Document<'Machine'> | undefined): LayerRequest['delivery'] =>
  machine?.spec.delivery ?? 'agent';

/** The URL of an image's file for machines. `name` is used where the asset has none. */
type AssetUrl = (baseUrl: string, asset: Asset, name: string) => string;

/** Whether a value of the machine's configuration is in a Secret. */
const usesSecrets = ({ machine, profile, cluster }: Parts): boolean =>
  [machine, profile, cluster].some((document) => secretsOf(document).length > 0);

/**
 * Whether a machine with these documents gets an agent: it has a role in a cluster, or values of
 * Secrets, which only an agent brings.
 */
export const getsAgent = (parts: Parts): boolean => parts.agentCluster !== undefined || usesSecrets(parts);

/** @throws {MusterError} E_CONFIG when no agent can bring a machine the Secrets that it needs */
function checkSecrets(parts: Parts): void {
  if (!usesSecrets(parts)) return;
  const refuse = (why: string): never => {
    throw new MusterError('E_CONFIG', `its configuration takes values from Secrets, and ${why}`);
  };
  if (deliveryOf(parts.machine) === 'inline')
    refuse('`delivery: inline` would put them into the first configuration; leave `delivery` out');
  if (parts.image?.spec.configFormat === 'none')
    refuse(`Image "${parts.image.metadata.name}" takes no configuration, so no agent gets there`);
}

/**
 * The disks that the documents give a machine; the narrowest document wins. Outside of clusters an
 * agent keeps nothing.
 */
export function disksOf({ machine, profile, agentCluster }: Parts): {
  readonly data: DataDiskSpec | undefined;
  readonly etcd: DataDiskSpec | undefined;
  readonly boot: BootDiskSpec | undefined;
} {
  if (agentCluster === undefined) return { data: undefined, etcd: undefined, boot: undefined };
  const layers = [machine?.spec, profile?.spec, agentCluster.spec];
  return {
    data: narrowestDisk('dataDisk', layers),
    etcd: etcdMembers(agentCluster).some((name) => name === machine?.metadata.name)
      ? narrowestDisk('etcdDisk', layers)
      : undefined,
    boot:
      deliveryOf(machine) === 'inline' || (profile?.spec.home ?? 'boot') !== 'boot'
        ? undefined
        : narrowestDisk('bootDisk', layers),
  };
}

/**
 * Reads from the documents what a machine's agent layer needs.
 *
 * @throws {MusterError} E_CONFIG when the machine cannot get the Secrets of its configuration
 */
export function layerRequest(
  parts: Parts,
  boot: Pick<BootFacts, 'name' | 'session' | 'baseUrl'> &
    Partial<Pick<LayerRequest, 'ticketed' | 'plan' | 'chosen'>>,
  assetUrl: AssetUrl,
): LayerRequest {
  checkSecrets(parts);
  const { name, session, baseUrl, ticketed = true, plan, chosen } = boot;
  const { data, etcd, boot: disk } = disksOf(parts);
  const image = parts.image?.spec;
  return {
    machine: name,
    delivery: deliveryOf(parts.machine),
    session,
    ticketed,
    host: new URL(baseUrl).hostname,
    data,
    chosen,
    etcd,
    ...(image?.disk && { installed: true }),
    ...(disk && image && { boot: { disk, ...bootFiles(image, baseUrl, assetUrl) } }),
    plan,
  };
}

/** What a boot disk holds besides root image and configuration, which the machine has already. */
function bootFiles({ kernel, initrds = [] }: ImageSpec, baseUrl: string, assetUrl: AssetUrl) {
  const file = (asset: Asset, name: string) => ({
    url: assetUrl(baseUrl, asset, name),
    sha256: asset.sha256,
    size: asset.size,
  });
  return { kernel: file(kernel, 'kernel'), initrds: initrds.map((initrd) => file(initrd, 'initrd')) };
}

/** What only a boot host knows. */
interface BootHostFacts {
  /** Port of the agents' listener. */
  readonly port: number;
  /** Other hosts that may become the boot host. */
  readonly standby?: readonly string[];
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  readonly ticket: string;
  /** The server's time, ms since 1970; undefined while it is in doubt. */
  readonly now: number | undefined;
}

/** The settings file of a machine's agent, as values. */
export function settingsFor(request: LayerRequest, host: BootHostFacts): AgentSettings {
  const { data, etcd, boot } = request;
  const { port, ticket, standby = [], ...known } = host;
  return {
    ...known,
    ...(request.ticketed && { ticket }),
    server: `https://${request.host}:${port}`,
    ...(standby.length > 0 && { standby: standby.map((one) => `https://${one}:${port}`) }),
    machine: request.machine,
    session: request.session,
    setsClock: true,
    ...(request.installed && { installed: true }),
    ...(data && { data: isByInventory(data) ? (request.chosen ?? NOT_CHOSEN) : selectorOf(data) }),
    ...(data?.encrypt && { encrypt: data.encrypt }),
    ...(data && etcd && { etcdDisk: selectorOf(etcd) }),
    ...(data && etcd?.encrypt && { etcdEncrypt: etcd.encrypt }),
    ...(boot === undefined ? {} : { boot: { ...boot, disk: selectorOf(boot.disk) } }),
  };
}

/**
 * Stands for a data disk that is not chosen yet: no disk fits it. The machine boots without its
 * data, reports its inventory, and boots again with the disk that is chosen by it.
 */
export const NOT_CHOSEN: DataSelector = { serial: 'not-chosen-yet' };

/** A size selects disks of that many whole MiB. */
const selectorOf = ({ path, serial, sizeMiB }: DataDiskSpec | BootDiskSpec): DataSelector => ({
  ...(path === undefined ? {} : { path }),
  ...(serial === undefined ? {} : { serial }),
  ...(sizeMiB === undefined ? {} : { minMiB: sizeMiB, maxMiB: sizeMiB }),
});

/**
 * The selector of a data disk, as agents report the one by which they found theirs.
 *
 * @throws {MusterError} E_CONFIG for a disk selector that cannot be passed ({@link selectorText})
 */
export const dataSelectorText = (disk: DataDiskSpec): string => selectorText(selectorOf(disk));

/** Shown in place of the ticket in previews and checks. */
export const NO_TICKET = '[secret]';
/** Shown in place of Muster's CA, which a directory of documents does not have. */
const NO_AUTHORITY = '[CA of the boot host]\n';

/** The agent's layer made from documents alone, without keys and tickets. `now`: ms since 1970. */
export function previewLayer(request: LayerRequest, now: number): ConfigLayer {
  const authority = NO_AUTHORITY;
  if (request.delivery === 'inline') return inlineLayer({ machine: request.machine, authority, now });
  return agentLayer(settingsFor(request, { port: DEFAULT_AGENT_PORT, authority, ticket: NO_TICKET, now }));
}

/** {@link previewLayer} for a check of documents; undefined for a machine without an agent. */
export const checkedLayer = (
  parts: Parts,
  boot: Pick<BootFacts, 'name' | 'session' | 'baseUrl'>,
): ConfigLayer | undefined =>
  !getsAgent(parts)
    ? undefined
    : previewLayer(
        layerRequest(
          parts,
          boot,
          (baseUrl, { sha256, name }, other) => `${baseUrl}/${sha256}/${name ?? other}`,
        ),
        0,
      );
