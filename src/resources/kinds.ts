/**
 * The kinds of document, one schema each. TypeScript types, validation, the JSON Schemas for
 * editors and the reference pages are derived from it. `check.ts` checks what involves several
 * fields or documents (a pool inside its subnet, a profile that exists).
 */
import { z } from 'zod';
import { machineBmc, profileBmc, profilePower } from './bmc-spec.ts';
import { clusterSpec, type kubernetesSpec } from './cluster-spec.ts';
import { dhcpOptions } from './dhcp-options.ts';
import { bootDisk, dataDisk, etcdDisk, installDisk } from './disk-spec.ts';
import { ipText, kernelArgument, mac, machineMetadata, metadata, name, trust, uuid } from './fields.ts';
import { type asset, imageSpec } from './image-spec.ts';
import { inventorySelector } from './inventory-selector.ts';
import { networkSpec, pxeOptions } from './network-spec.ts';
import { nodeConfig } from './nodeconfig.ts';
import { machineTpm } from './tpm-spec.ts';
import { webhookSpec } from './webhook-spec.ts';

export const API_VERSION = 'muster/v1';

const selector = z
  .strictObject({
    arch: z.enum(['x86_64', 'aarch64']).meta({ description: 'Architecture of the machine.' }),
    firmware: z.enum(['bios', 'uefi']).meta({ description: 'Firmware of the machine.' }),
    network: name.meta({ description: 'Name of the Network from which the machine boots.' }),
    mac: z
      .string()
      .meta({ description: 'A MAC address, or the beginning of one followed by *, e.g. "52:54:00:*".' }),
    manufacturer: z.string().meta({
      description:
        'Manufacturer, as the firmware reports it (SMBIOS), or the beginning of one followed by *, e.g. "Dell*".',
    }),
    product: z.string().meta({
      description:
        'Product name, as the firmware reports it (SMBIOS), or the beginning of one followed by *, e.g. "PowerEdge R6*".',
    }),
    serial: z.string().meta({ description: 'Serial number of the machine.' }),
    labels: z
      .record(z.string(), z.string())
      .meta({ description: 'Labels that the Machine document must have.' }),
    inventory: inventorySelector,
  })
  .partial();

const profileSpec = z.strictObject({
  image: name.optional().meta({
    description: 'Name of the Image to boot. Absent: the machine is held, or boots from its disk (see boot).',
  }),
  boot: z.enum(['image', 'disk', 'hold', 'ignore']).optional().meta({
    description:
      'image (default): boot the image. disk: boot from the local disk. hold: wait. ignore: do not answer the machine.',
  }),
  home: z.enum(['ram', 'boot', 'disk']).optional().meta({
    description:
      'Where the system of its machines lives. ram: in memory, and a bootDisk is not used. boot: its root image is read from the bootDisk, which is then required and also keeps what was booted. disk: an image of a whole disk is installed once on the installDisk and boots from there (docs/life.md). Default: boot for machines that have a bootDisk, else ram.',
  }),
  run: z
    .enum(['ram'])
    .optional()
    .meta({ description: 'Has no effect; accepted in documents of earlier versions. Write `home`.' }),
  kernelArguments: z
    .array(kernelArgument)
    .optional()
    .meta({ description: 'Kernel arguments, appended to those of the image.' }),
  selector: selector.optional().meta({
    description:
      'Which accepted machines without `profile` get this profile. If several profiles match, the one with the most fields in its selector wins; of these, the first by name.',
  }),
  trust: trust.optional(),
  dataDisk: dataDisk.optional(),
  etcdDisk: etcdDisk.optional(),
  bootDisk: bootDisk.optional(),
  installDisk: installDisk.optional(),
  bmc: profileBmc.optional(),
  power: profilePower.optional(),
  config: nodeConfig.optional().meta({ description: 'Configuration of all machines of the profile.' }),
});

const machineSpec = z.strictObject({
  macs: z.array(mac).min(1).meta({ description: 'All MAC addresses of the machine.' }),
  uuid: uuid.optional(),
  serial: z
    .string()
    .max(256)
    .optional()
    .meta({ description: 'Serial number of the machine, as its firmware reports it.' }),
  profile: name
    .optional()
    .meta({ description: 'Name of its Profile. Default: the Profile whose selector matches the machine.' }),
  cluster: name.optional().meta({ description: 'Name of the Cluster that the machine belongs to.' }),
  pool: name.optional().meta({
    description:
      'Name of the pool of spare machines that it belongs to while it is in no cluster: operators whose roles are for that pool see it and may add it to their clusters.',
  }),
  addresses: z.array(ipText).optional().meta({
    description:
      'Fixed addresses of the machine. IPv4: reserved in DHCP, at most one per Network; a machine of a Kubernetes cluster configures them statically, without a lease. IPv6: addresses that its `config` sets.',
  }),
  pxe: pxeOptions
    .optional()
    .meta({ description: "How Muster builds replies to this machine's PXE firmware." }),
  dhcpOptions: dhcpOptions.optional().meta({
    description:
      'DHCP options of your own for this machine, where Muster gives it its address; they win over those of network and pool.',
  }),
  delivery: z.enum(['agent', 'inline']).optional().meta({
    description:
      'How the machine gets the secrets of its cluster. agent (default): its agent fetches them over mutual TLS. inline: its first configuration contains them, served once over plain HTTP; only for workers on an isolated segment (docs/security.md).',
  }),
  trust: trust.optional(),
  tpm: machineTpm.optional(),
  dataDisk: dataDisk.optional(),
  etcdDisk: etcdDisk.optional(),
  bootDisk: bootDisk.optional(),
  installDisk: installDisk.optional(),
  bmc: machineBmc.optional(),
  config: nodeConfig.optional().meta({ description: 'Configuration of this machine.' }),
});

const document = <K extends string, S extends z.ZodType>(
  kind: K,
  spec: S,
  description: string,
  named: typeof metadata = metadata,
) =>
  z
    .strictObject({
      apiVersion: z.literal(API_VERSION).meta({ description: 'Version of the format of documents.' }),
      kind: z.literal(kind).meta({ description: 'Kind of the document.' }),
      metadata: named.meta({ description: 'Name, labels and annotations of the document.' }),
      spec: spec.meta({ description: 'The settings.' }),
    })
    .meta({ title: kind, description });

/** Kinds in the order in which they are applied: a document comes after those that it refers to. */
export const KINDS = {
  Network: document('Network', networkSpec, 'A subnet and how DHCP behaves on it.'),
  Image: document('Image', imageSpec, 'An operating system to boot.'),
  Cluster: document('Cluster', clusterSpec, 'The settings that all machines of a cluster share.'),
  Profile: document(
    'Profile',
    profileSpec,
    'A role of machines: image, kernel arguments, configuration, selector.',
  ),
  Machine: document(
    'Machine',
    machineSpec,
    'A machine: its addresses, its profile, its own configuration.',
    machineMetadata,
  ),
  Webhook: document('Webhook', webhookSpec, 'An HTTP server to which events are sent, signed.'),
} as const;

export type Kind = keyof typeof KINDS;
export type NetworkSpec = z.output<typeof networkSpec>;
export type ImageSpec = z.output<typeof imageSpec>;
export type ProfileSpec = z.output<typeof profileSpec>;
export type MachineSpec = z.output<typeof machineSpec>;
export type WebhookSpec = z.output<typeof webhookSpec>;
export type KubernetesSpec = z.output<typeof kubernetesSpec>;
export type ClusterSpec = z.output<typeof clusterSpec>;
export type DataDiskSpec = z.output<typeof dataDisk>;
export type BootDiskSpec = z.output<typeof bootDisk>;
export type InstallDiskSpec = z.output<typeof installDisk>;
export type Asset = z.output<typeof asset>;
export type PxeOptions = z.output<typeof pxeOptions>;
export type Metadata = z.output<typeof metadata>;

export interface Document<K extends Kind = Kind> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: K;
  readonly metadata: Metadata;
  readonly spec: {
    Network: NetworkSpec;
    Image: ImageSpec;
    Cluster: ClusterSpec;
    Profile: ProfileSpec;
    Machine: MachineSpec;
    Webhook: WebhookSpec;
  }[K];
}

/** Lower-case plural, as in kubectl: `networks`, `images` … */
export const PLURAL: Readonly<Record<Kind, string>> = {
  Network: 'networks',
  Image: 'images',
  Cluster: 'clusters',
  Profile: 'profiles',
  Machine: 'machines',
  Webhook: 'webhooks',
};
