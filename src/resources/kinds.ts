/**
 * The five kinds of document. One schema each: types, validation, JSON Schema for editors and the
 * reference come from it. What is true between fields or documents (a pool inside its subnet, a
 * profile that exists) is in `check.ts`.
 */
import { z } from 'zod';
import { addon } from './addons.ts';
import {
  absolutePath,
  cidrText,
  domainName,
  duration,
  ipText,
  ipv4Text,
  kernelArgument,
  loaderName,
  mac,
  metadata,
  name,
  nameOrAddress,
  networkText,
  sha256,
  uuid,
} from './fields.ts';
import { nodeConfig } from './nodeconfig.ts';

export const API_VERSION = 'muster/v1';

/** How a reply to PXE firmware is shaped (docs/decisions/0010). */
const pxeOptions = z.strictObject({
  style: z.enum(['bypass', 'binl']).optional().meta({
    description:
      'bypass (default): the offer names the file (option 43 discovery control 8). binl: no option 43, the firmware asks port 4011.',
  }),
  loader: loaderName.optional().meta({
    description:
      'Name of the first loader instead of the one the architecture selects, e.g. "snponly.efi": a file in a loader directory, no path.',
  }),
});

const networkSpec = z.strictObject({
  subnet: cidrText,
  interface: z.string().optional().meta({
    description: 'The interface on this segment. Default: the one that has an address inside the subnet.',
  }),
  address: ipv4Text.optional().meta({
    description: "Muster's own address on this network. Default: the interface's address inside the subnet.",
  }),
  dhcp: z.strictObject({
    mode: z.enum(['server', 'reservations', 'proxy', 'off']).meta({
      description:
        'server: pools and reservations. reservations: only machines with an address of their own. proxy: another server gives addresses, Muster adds the boot file (ports 67 and 4011). off: nothing.',
    }),
    pools: z
      .array(z.strictObject({ start: ipv4Text, end: ipv4Text }))
      .optional()
      .meta({ description: 'Ranges of addresses to give, both ends included; mode server only.' }),
    leaseTime: duration.optional().meta({ description: 'Default 1h.' }),
    bootLeaseTime: duration.optional().meta({ description: 'While firmware or loader runs. Default 2m.' }),
    probe: z.enum(['on', 'off']).optional().meta({
      description: 'Ask the segment whether a free address is really free, ahead of time. Default on.',
    }),
    authoritative: z.boolean().optional().meta({
      description: 'NAK clients that ask for addresses of another network or of nobody. Default true.',
    }),
    relays: z.array(ipv4Text).optional().meta({
      description:
        'Relay agents (giaddr) that may speak for this subnet, besides those with an address inside it.',
    }),
  }),
  gateway: ipv4Text.optional().meta({ description: 'Default route of the machines.' }),
  dns: z.array(ipv4Text).optional().meta({ description: 'DNS servers.' }),
  ntp: z.array(ipv4Text).optional().meta({ description: 'Time servers.' }),
  domain: domainName.optional(),
  mtu: z.int().min(576).max(9216).optional().meta({ description: 'MTU of the segment, octets.' }),
  pxe: pxeOptions.optional().meta({ description: 'How replies to PXE firmware are shaped here.' }),
  vendorClasses: z
    .array(z.strictObject({ prefix: z.string().min(1), pxe: pxeOptions }))
    .optional()
    .meta({
      description: 'Overrides by vendor class (option 60 begins with `prefix`); the longest prefix wins.',
    }),
});

/**
 * A file that machines fetch. `path` is relative to the document's file and is taken into the asset
 * store on load.
 */
export const asset = z.strictObject({
  url: z.string().optional().meta({
    description: 'Where it came from: http(s):// or file://; for `muster image add` and the record.',
  }),
  sha256: sha256,
  size: z.int().min(0).max(1e15).optional().meta({ description: 'Octets.' }),
  name: z
    .string()
    .regex(/^[A-Za-z0-9._+-]+$/)
    .optional()
    .meta({ description: 'File name shown in URLs.' }),
});

const CONFIG_FORMATS = ['cloud-init', 'ignition', 'none'] as const;

const imageSpec = z.strictObject({
  os: z
    .string()
    .meta({ description: 'Operating system family: debian, ubuntu, flatcar, fedora-coreos, probe …' }),
  version: z.string().optional().meta({ description: 'Version of the operating system; for display.' }),
  arch: z.enum(['x86_64', 'aarch64']).meta({ description: 'Machines of another architecture are held.' }),
  kernel: asset.meta({ description: 'The kernel.' }),
  initrds: z.array(asset).optional().meta({ description: 'Initial RAM disks, loaded in this order.' }),
  root: asset.optional().meta({
    description:
      'The root image (squashfs). Its SHA-256 goes onto the kernel command line and our images check it before mounting.',
  }),
  configFormat: z.enum(CONFIG_FORMATS).meta({
    description: 'What the image reads on first boot. none: no `config` of any document reaches it.',
  }),
  cloudInitVersion: z.string().optional().meta({
    description:
      'cloud-init\'s version in the image, e.g. "22.4": its behaviour differs by version (src/ignition/cloudinit-versions.ts).',
  }),
  ignitionVersion: z
    .string()
    .optional()
    .meta({ description: 'Ignition spec version to render, e.g. "3.3.0" (default) or newer.' }),
  kernelArguments: z.array(kernelArgument).optional().meta({ description: 'What the image always needs.' }),
  programs: z
    .array(z.string().regex(/^[A-Za-z0-9._+-]+$/, 'not the name of a program'))
    .optional()
    .meta({
      description:
        'The programs in the image that a machine of a cluster may need, such as haproxy. `muster apply` warns when a Cluster needs one that is not listed. Absent: unknown, and nothing is warned of. Our recipes fill it in.',
    }),
  reports: z.boolean().optional().meta({
    description:
      'The image carries /etc/muster/muster-report.sh and its units itself, so that its configuration need not. Default false. With configFormat none nothing else reports: its machines then never get ready.',
  }),
});

export const selector = z
  .strictObject({
    arch: z.enum(['x86_64', 'aarch64']),
    firmware: z.enum(['bios', 'uefi']),
    network: name,
    mac: z.string().meta({ description: 'Prefix with *, e.g. "52:54:00:*".' }),
    manufacturer: z.string(),
    product: z.string(),
    serial: z.string(),
    labels: z.record(z.string(), z.string()),
  })
  .partial();

/** One disk of a machine: it must be one that fits, and only one. */
const diskSelector = z
  .strictObject({
    path: absolutePath.optional().meta({ description: 'A stable path, e.g. /dev/disk/by-id/…' }),
    serial: z
      .string()
      .regex(/^[A-Za-z0-9._:@+-]{1,64}$/, 'not a serial number: letters, digits and "._:@+-", at most 64')
      .optional()
      .meta({ description: "The disk's serial number, as `lsblk -o SERIAL` shows it." }),
    sizeMiB: z.int().min(64).max(1e9).optional().meta({ description: 'Its size in MiB, rounded down.' }),
  })
  .refine((disk) => Object.keys(disk).length > 0, { message: 'say which disk: path, serial or sizeMiB' });

export const dataDisk = diskSelector.meta({
  description:
    'The disk that keeps what outlives a boot: the data of etcd, containerd and kubelet. Made once, if it is blank; never reformatted. The narrowest of Cluster, Profile and Machine counts.',
});

export const bootDisk = diskSelector.meta({
  description:
    'The disk from which a machine of a cluster starts while the boot server does not answer: it keeps what the machine booted from the network last. Made if it is blank; 2 GiB or more. Needs a dataDisk; the same words as there make two partitions of one disk. The narrowest of Cluster, Profile and Machine counts.',
});

const profileSpec = z.strictObject({
  image: name
    .optional()
    .meta({ description: 'The Image to boot. Absent: the machine is held (or boots its disk, see boot).' }),
  boot: z.enum(['image', 'disk', 'hold', 'ignore']).optional().meta({ description: 'Default image.' }),
  run: z
    .enum(['ram'])
    .optional()
    .meta({ description: 'ram: runs live from memory (installing to disk comes later).' }),
  kernelArguments: z.array(kernelArgument).optional().meta({ description: "Appended to the image's." }),
  selector: selector.optional().meta({
    description:
      'Accepted machines without a profile of their own get the profile with most matching selectors, ties by name.',
  }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
  config: nodeConfig.optional().meta({ description: 'For all machines of the profile.' }),
});

const machineSpec = z.strictObject({
  macs: z.array(mac).min(1).meta({ description: 'All hardware addresses of the machine.' }),
  uuid: uuid.optional(),
  serial: z
    .string()
    .max(256)
    .optional()
    .meta({ description: "The machine's serial number, as its firmware tells it." }),
  profile: name
    .optional()
    .meta({ description: 'The Profile; without one, the one that selects the machine.' }),
  cluster: name.optional().meta({ description: 'The Cluster that the machine is of.' }),
  addresses: z.array(ipText).optional().meta({
    description:
      'Its own addresses: IPv4 ones are reserved, at most one a network, and configured without a lease where it is of a cluster of Kubernetes; IPv6 ones are those that its config gives it.',
  }),
  pxe: pxeOptions.optional().meta({ description: "How replies to this machine's firmware are shaped." }),
  delivery: z.enum(['agent', 'inline']).optional().meta({
    description:
      'How secrets of its cluster come to it. agent (default): over TLS, to the agent. inline: in its first configuration, served once by plain HTTP; for workers on an isolated segment only (docs/security.md).',
  }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
  config: nodeConfig.optional().meta({ description: 'For this machine.' }),
});

const machineNames = (description: string) => z.array(name).optional().meta({ description });
const networks = (description: string) => z.array(networkText).optional().meta({ description });

const CNIS = ['flannel', 'kube-router', 'none'] as const;

/** Other networks are add-ons: what to write instead of their names. */
const cniError = ({ input }: { readonly input?: unknown }): string =>
  `"${String(input).slice(0, 40)}" is none of ${CNIS.join(', ')}; for another network write "cni: none" and add it as an add-on: \`muster addon ls\``;

/** The few facts that a person decides; src/cluster/spec/values.ts derives the rest. */
export const kubernetesSpec = z.strictObject({
  version: z
    .string()
    .regex(
      /^v?1\.[0-9]{1,3}(\.[0-9]{1,4})?$/,
      'not a version of Kubernetes; write it like "1.36.3" or "1.36", quoted',
    )
    .meta({
      description: 'Version of Kubernetes, quoted: "1.36.3", or "1.36" for the patch that Muster knows.',
    }),
  endpoint: z.string().meta({
    description:
      'How people reach the API: a name or address, with a port unless it is 6443. At another port of a virtual address of keepalived haproxy answers on every control plane, for all apiservers.',
  }),
  virtualAddress: z
    .strictObject({
      addresses: z.array(z.string()).min(1).optional().meta({
        description:
          "At most one a family. Default: the endpoint's, when that is an address. They go into the certificates.",
      }),
      by: z.enum(['keepalived', 'kube-vip']).optional().meta({
        description:
          'keepalived (default): VRRP, a service of the host. kube-vip: a lock in etcd, a static pod; its image is an artifact.',
      }),
      interface: z
        .string()
        .regex(/^[a-zA-Z0-9._-]{1,15}$/, 'not the name of a network device')
        .meta({ description: "The control planes' network device, e.g. eth0." }),
      routerId: z.int().min(1).max(255).optional().meta({
        description:
          "VRRP's number of the group, one a segment (keepalived). Default: the address's last octet, or 51.",
      }),
    })
    .optional()
    .meta({
      description: 'One control plane at a time has these addresses. Absent: you bring a balancer or names.',
    }),
  controlPlanes: z.array(name).min(1).meta({ description: 'Machines that are control planes.' }),
  workers: machineNames('Machines that are workers.'),
  nodes: z
    .array(
      z.strictObject({
        machines: z.array(name).min(1).meta({ description: 'Control planes and workers of this cluster.' }),
        labels: z.record(z.string(), z.string()).optional().meta({ description: 'Labels of their nodes.' }),
        taints: z.array(z.string()).optional().meta({
          description: 'Taints of their nodes, e.g. "gpu=yes:NoSchedule" or "gpu:NoExecute".',
        }),
      }),
    )
    .optional()
    .meta({
      description:
        'Labels and taints of nodes, by groups; a machine may be in several. Nodes that are there get them within half a minute, and what is taken out here goes; what kubectl changes stays until the document changes.',
    }),
  etcd: z
    .strictObject({
      topology: z.enum(['stacked', 'external']).optional().meta({
        description:
          'stacked (default): a member on every control plane. external: on the machines named here.',
      }),
      machines: machineNames('External: the machines that are members.'),
      runs: z.enum(['pod', 'service']).optional().meta({
        description:
          'As a static pod (default of stacked), or as a service of the host, muster-etcd.service (external members always).',
      }),
    })
    .optional(),
  networks: z
    .strictObject({
      machines: networks('Where the machines have their addresses; an address outside is refused.'),
      pods: networks('Default 10.244.0.0/16. One a family.'),
      services: networks('Default 10.96.0.0/16. One a family.'),
    })
    .optional(),
  dnsDomain: domainName.optional().meta({ description: 'Default cluster.local.' }),
  sans: z.array(nameOrAddress).optional().meta({ description: 'Further names and addresses of the API.' }),
  keys: z.enum(['ECDSA-P256', 'RSA-2048', 'RSA-3072', 'RSA-4096']).optional().meta({
    description: 'Algorithm of all keys. Default ECDSA-P256.',
  }),
  encryptSecrets: z.boolean().optional().meta({
    description:
      'Secrets are encrypted before they reach etcd. Default true. Turned off, those that are encrypted can still be read.',
  }),
  joining: z.enum(['certificate', 'token']).optional().meta({
    description:
      "How workers' kubelets come to their first client certificate. certificate (default): Muster signs it for a key of the machine. token: the cluster does, for a bootstrap token that is the machine's own; Muster approves what the inventory says.",
  }),
  podSecurity: z.enum(['privileged', 'baseline', 'restricted']).optional().meta({
    description:
      "The Pod Security Standard of namespaces that name none themselves, enforced. Default baseline; privileged is Kubernetes' own.",
  }),
  registry: z.string().optional().meta({ description: 'Where images come from. Default registry.k8s.io.' }),
  cni: z.enum(CNIS, { error: cniError }).optional().meta({
    description: 'The network between pods. Default flannel; none: an add-on or you bring one.',
  }),
  networkPolicy: z
    .strictObject({
      enforce: z.enum(['kube-router', 'addon']).optional().meta({
        description:
          'Who enforces NetworkPolicy objects. kube-router: its firewall, beside another network. addon: one of yours. Default: the network itself where it does (kube-router, the add-ons calico and cilium); flannel does not.',
      }),
      isolate: z.array(name).optional().meta({
        description:
          'Namespaces whose pods are reached from their own namespace only, until a NetworkPolicy of yours says more. Made when they are not there. Default none.',
      }),
    })
    .optional()
    .meta({ description: 'Network policies: who enforces them, and namespaces that begin isolated.' }),
  runtime: z.enum(['containerd', 'cri-o']).optional().meta({
    description: 'What runs containers, on all machines. Default containerd.',
  }),
  addons: z.array(addon).optional().meta({
    description: 'Applied after the objects of Muster, in this order (docs/addons.md).',
  }),
  timeServers: z
    .array(z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9.:-]{0,252}$/, 'not a name or address'))
    .optional()
    .meta({
      description:
        'Names or addresses that systemd-timesyncd of every machine asks for the time. Absent: as the network or the image says.',
    }),
  mirrors: z
    .array(z.url({ protocol: /^https?$/, error: 'not an http:// or https:// URL' }))
    .optional()
    .meta({
      description:
        "Registries (URLs) that are asked before the one in an image's name. By https they show a certificate of Muster's CA.",
    }),
  overrides: z.record(z.string(), z.unknown()).optional().meta({
    description: 'Any value of the full specification instead of the derived one; null leaves a flag out.',
  }),
});

const clusterSpec = z.strictObject({
  kubernetes: kubernetesSpec.optional().meta({ description: 'Makes the machines a Kubernetes cluster.' }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
  config: nodeConfig.optional().meta({ description: 'For all machines of the cluster.' }),
});

const document = <K extends string, S extends z.ZodType>(kind: K, spec: S, description: string) =>
  z
    .strictObject({ apiVersion: z.literal(API_VERSION), kind: z.literal(kind), metadata, spec })
    .meta({ title: kind, description });

/** Kinds in the order in which they are applied, so that references exist. */
export const KINDS = {
  Network: document('Network', networkSpec, 'A subnet and how DHCP behaves on it.'),
  Image: document('Image', imageSpec, 'An operating system to boot.'),
  Cluster: document('Cluster', clusterSpec, 'What all machines of a cluster share.'),
  Profile: document('Profile', profileSpec, 'A role: image, kernel arguments, configuration, selectors.'),
  Machine: document('Machine', machineSpec, 'A machine: its addresses, its profile, its own configuration.'),
} as const;

export type Kind = keyof typeof KINDS;
export type NetworkSpec = z.output<typeof networkSpec>;
export type ImageSpec = z.output<typeof imageSpec>;
export type ProfileSpec = z.output<typeof profileSpec>;
export type MachineSpec = z.output<typeof machineSpec>;
export type KubernetesSpec = z.output<typeof kubernetesSpec>;
export type ClusterSpec = z.output<typeof clusterSpec>;
export type DiskSelector = z.output<typeof diskSelector>;
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
  }[K];
}

/** Lower-case plural, as in kubectl: `networks`, `images` … */
export const PLURAL: Readonly<Record<Kind, string>> = {
  Network: 'networks',
  Image: 'images',
  Cluster: 'clusters',
  Profile: 'profiles',
  Machine: 'machines',
};
