/**
 * The five kinds of document, one schema each. TypeScript types, validation, the JSON Schemas for
 * editors and the reference pages are derived from it. `check.ts` checks what involves several
 * fields or documents (a pool inside its subnet, a profile that exists).
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

/** How a reply to PXE firmware is built (docs/decisions/0010). */
const pxeOptions = z.strictObject({
  style: z.enum(['bypass', 'binl']).optional().meta({
    description:
      'bypass (default): the offer names the boot file (option 43, discovery control 8). binl: no option 43; the firmware asks port 4011 for the boot file.',
  }),
  loader: loaderName.optional().meta({
    description:
      'File name of the first loader, replacing the one that the architecture selects, e.g. "snponly.efi". The file is in a loader directory; write no path.',
  }),
});

const networkSpec = z.strictObject({
  subnet: cidrText.meta({ description: 'The IPv4 subnet, host bits zero, e.g. "10.77.0.0/24".' }),
  interface: z.string().optional().meta({
    description:
      'The network interface of the boot host on this segment. Default: the one that has an address inside the subnet.',
  }),
  address: ipv4Text.optional().meta({
    description: "Muster's own address on this network. Default: the interface's address inside the subnet.",
  }),
  dhcp: z
    .strictObject({
      mode: z.enum(['server', 'reservations', 'proxy', 'off']).meta({
        description:
          'server: gives addresses from pools and reservations. reservations: gives addresses only to machines whose document names one. proxy: another server gives addresses, Muster adds the boot file (ports 67 and 4011). off: no DHCP.',
      }),
      pools: z
        .array(
          z.strictObject({
            start: ipv4Text.meta({ description: 'First address of the range.' }),
            end: ipv4Text.meta({ description: 'Last address of the range.' }),
          }),
        )
        .optional()
        .meta({ description: 'Ranges of addresses to lease, both ends included. Only in mode server.' }),
      leaseTime: duration.optional().meta({ description: 'Lease time of a running system. Default 1h.' }),
      bootLeaseTime: duration
        .optional()
        .meta({ description: 'Lease time while firmware or a boot loader runs. Default 2m.' }),
      probe: z.enum(['on', 'off']).optional().meta({
        description:
          'Check in advance by ARP that no host uses the addresses that will be offered next. Default on.',
      }),
      authoritative: z.boolean().optional().meta({
        description:
          'Answer with a DHCPNAK when a client asks for an address that belongs to another network or that it does not hold. Default true.',
      }),
      relays: z.array(ipv4Text).optional().meta({
        description:
          'Addresses of relay agents (giaddr) outside the subnet that may relay for it. Relay agents with an address inside the subnet are always accepted.',
      }),
    })
    .meta({ description: 'How Muster answers DHCP on this network.' }),
  gateway: ipv4Text.optional().meta({ description: 'Address of the default gateway of the machines.' }),
  dns: z.array(ipv4Text).optional().meta({ description: 'Addresses of the DNS servers.' }),
  ntp: z.array(ipv4Text).optional().meta({ description: 'Addresses of the NTP servers.' }),
  domain: domainName.optional().meta({ description: 'DNS domain of the machines.' }),
  mtu: z.int().min(576).max(9216).optional().meta({ description: 'MTU of the segment in octets.' }),
  pxe: pxeOptions
    .optional()
    .meta({ description: 'How Muster builds replies to PXE firmware on this network.' }),
  vendorClasses: z
    .array(
      z.strictObject({
        prefix: z
          .string()
          .min(1)
          .meta({ description: 'Beginning of the vendor class, e.g. "PXEClient:Arch:00007".' }),
        pxe: pxeOptions.meta({ description: 'Replaces the `pxe` of the network for these clients.' }),
      }),
    )
    .optional()
    .meta({
      description:
        'Overrides of `pxe` for clients whose vendor class (option 60) begins with `prefix`; the longest prefix wins.',
    }),
});

/**
 * A file that machines fetch, identified by its hash. The file is in the asset store.
 */
export const asset = z.strictObject({
  url: z.string().optional().meta({
    description:
      'Where the file came from: http://, https:// or file://. `muster image add` fetches it from there.',
  }),
  sha256: sha256,
  size: z.int().min(0).max(1e15).optional().meta({ description: 'Octets.' }),
  name: z
    .string()
    .regex(/^[A-Za-z0-9._+-]+$/)
    .optional()
    .meta({ description: 'File name in URLs.' }),
});

const CONFIG_FORMATS = ['cloud-init', 'ignition', 'none'] as const;

const imageSpec = z.strictObject({
  os: z
    .string()
    .meta({ description: 'Operating system family: debian, ubuntu, flatcar, fedora-coreos, probe …' }),
  version: z.string().optional().meta({ description: 'Version of the operating system, for display only.' }),
  arch: z
    .enum(['x86_64', 'aarch64'])
    .meta({ description: 'Architecture of the image. A machine of another architecture is held.' }),
  kernel: asset.meta({ description: 'The kernel.' }),
  initrds: z.array(asset).optional().meta({ description: 'Initial RAM disks, loaded in this order.' }),
  root: asset.optional().meta({
    description:
      "The root image (squashfs). Muster puts its SHA-256 on the kernel command line; the initrd of Muster's images verifies it before mounting.",
  }),
  configFormat: z.enum(CONFIG_FORMATS).meta({
    description:
      'The format of the configuration that the image reads on first boot. none: the image gets no configuration, and the `config` of all documents has no effect.',
  }),
  cloudInitVersion: z.string().optional().meta({
    description:
      'Version of cloud-init in the image, e.g. "22.4". Muster renders for it, because its behaviour differs between versions.',
  }),
  ignitionVersion: z
    .string()
    .optional()
    .meta({ description: 'Ignition spec version to render, e.g. "3.3.0" (default) or newer.' }),
  kernelArguments: z
    .array(kernelArgument)
    .optional()
    .meta({ description: 'Kernel arguments that every boot of the image gets.' }),
  programs: z
    .array(z.string().regex(/^[A-Za-z0-9._+-]+$/, 'not the name of a program'))
    .optional()
    .meta({
      description:
        'Programs in the image that a machine of a cluster may need, such as haproxy. `muster apply` warns when a Cluster needs one that is not listed. Absent: unknown, and Muster does not warn. The recipes of `muster image build` fill it in.',
    }),
  reports: z.boolean().optional().meta({
    description:
      'true: the image contains /etc/muster/muster-report.sh and its systemd units, so that the configuration need not bring them. Default false. With configFormat none, machines can report only this way; without it they never become ready.',
  }),
});

export const selector = z
  .strictObject({
    arch: z.enum(['x86_64', 'aarch64']).meta({ description: 'Architecture of the machine.' }),
    firmware: z.enum(['bios', 'uefi']).meta({ description: 'Firmware of the machine.' }),
    network: name.meta({ description: 'Name of the Network from which the machine boots.' }),
    mac: z
      .string()
      .meta({ description: 'A MAC address, or the beginning of one followed by *, e.g. "52:54:00:*".' }),
    manufacturer: z.string().meta({ description: 'Manufacturer, as the firmware reports it (SMBIOS).' }),
    product: z.string().meta({ description: 'Product name, as the firmware reports it (SMBIOS).' }),
    serial: z.string().meta({ description: 'Serial number of the machine.' }),
    labels: z
      .record(z.string(), z.string())
      .meta({ description: 'Labels that the Machine document must have.' }),
  })
  .partial();

/** Selects one disk of a machine. Exactly one disk must match. */
const diskSelector = z
  .strictObject({
    path: absolutePath
      .optional()
      .meta({ description: 'A path of the disk that does not change, e.g. /dev/disk/by-id/…' }),
    serial: z
      .string()
      .regex(/^[A-Za-z0-9._:@+-]{1,64}$/, 'not a serial number: letters, digits and "._:@+-", at most 64')
      .optional()
      .meta({ description: 'Serial number of the disk, as `lsblk -o SERIAL` shows it.' }),
    sizeMiB: z
      .int()
      .min(64)
      .max(1e9)
      .optional()
      .meta({ description: 'Size of the disk in MiB, rounded down.' }),
  })
  .refine((disk) => Object.keys(disk).length > 0, { message: 'say which disk: path, serial or sizeMiB' });

export const dataDisk = diskSelector.meta({
  description:
    'The disk that keeps the data of etcd, containerd and kubelet across reboots. Muster formats it once, if it is blank, and never again. If several of Cluster, Profile and Machine name one, Machine wins over Profile, and Profile over Cluster.',
});

export const bootDisk = diskSelector.meta({
  description:
    'The disk from which a machine of a cluster boots while the boot server does not answer. It keeps the system that the machine last booted from the network. Muster formats it if it is blank; it needs 2 GiB or more. Requires a dataDisk; if both select the same disk, Muster makes two partitions. Machine wins over Profile, and Profile over Cluster.',
});

const profileSpec = z.strictObject({
  image: name.optional().meta({
    description: 'Name of the Image to boot. Absent: the machine is held, or boots from its disk (see boot).',
  }),
  boot: z.enum(['image', 'disk', 'hold', 'ignore']).optional().meta({
    description:
      'image (default): boot the image. disk: boot from the local disk. hold: wait. ignore: do not answer the machine.',
  }),
  run: z
    .enum(['ram'])
    .optional()
    .meta({ description: 'ram: the system runs from memory. Installing to disk is not supported yet.' }),
  kernelArguments: z
    .array(kernelArgument)
    .optional()
    .meta({ description: 'Kernel arguments, appended to those of the image.' }),
  selector: selector.optional().meta({
    description:
      'Which accepted machines without `profile` get this profile. If several profiles match, the one with the most fields in its selector wins; of these, the first by name.',
  }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
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
  addresses: z.array(ipText).optional().meta({
    description:
      'Fixed addresses of the machine. IPv4: reserved in DHCP, at most one per Network; a machine of a Kubernetes cluster configures them statically, without a lease. IPv6: addresses that its `config` sets.',
  }),
  pxe: pxeOptions
    .optional()
    .meta({ description: "How Muster builds replies to this machine's PXE firmware." }),
  delivery: z.enum(['agent', 'inline']).optional().meta({
    description:
      'How the machine gets the secrets of its cluster. agent (default): its agent fetches them over mutual TLS. inline: its first configuration contains them, served once over plain HTTP; only for workers on an isolated segment (docs/security.md).',
  }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
  config: nodeConfig.optional().meta({ description: 'Configuration of this machine.' }),
});

const machineNames = (description: string) => z.array(name).optional().meta({ description });
const networks = (description: string) => z.array(networkText).optional().meta({ description });

const CNIS = ['flannel', 'kube-router', 'none'] as const;

/** All other pod networks are add-ons, so the fault says how to write them. */
const cniError = ({ input }: { readonly input?: unknown }): string =>
  `"${String(input).slice(0, 40)}" is none of ${CNIS.join(', ')}; for another network write "cni: none" and add it as an add-on: \`muster addon ls\``;

/** The settings that an operator decides; src/cluster/spec/values.ts derives all others. */
export const kubernetesSpec = z.strictObject({
  version: z
    .string()
    .regex(
      /^v?1\.[0-9]{1,3}(\.[0-9]{1,4})?$/,
      'not a version of Kubernetes; write it like "1.36.3" or "1.36", quoted',
    )
    .meta({
      description:
        'Version of Kubernetes, quoted: "1.36.3", or "1.36" for the newest patch release that this version of Muster knows.',
    }),
  endpoint: z.string().meta({
    description:
      'Where clients reach the Kubernetes API: a name or address, with a port unless it is 6443. With a virtual address by keepalived and another port than 6443, haproxy listens there on every control plane and balances over all API servers.',
  }),
  virtualAddress: z
    .strictObject({
      addresses: z.array(z.string()).min(1).optional().meta({
        description:
          'The virtual addresses, at most one per address family. Default: the address in `endpoint`. They are added to the certificates of the API server.',
      }),
      by: z.enum(['keepalived', 'kube-vip']).optional().meta({
        description:
          'keepalived (default): VRRP, run as a service of the host. kube-vip: leader election by a lock in etcd, run as a static pod; its image is an artifact that must be pulled or imported.',
      }),
      interface: z
        .string()
        .regex(/^[a-zA-Z0-9._-]{1,15}$/, 'not the name of a network device')
        .meta({ description: 'Network device of the control planes that gets the addresses, e.g. eth0.' }),
      routerId: z.int().min(1).max(255).optional().meta({
        description:
          'VRRP virtual router ID (keepalived), unique on the segment. Default: the last octet of the address; 51 if that is not possible.',
      }),
    })
    .optional()
    .meta({
      description:
        'Addresses that one control plane holds at a time. Absent: you provide a load balancer or DNS names.',
    }),
  controlPlanes: z.array(name).min(1).meta({ description: 'Names of the Machines that are control planes.' }),
  workers: machineNames('Names of the Machines that are workers.'),
  nodes: z
    .array(
      z.strictObject({
        machines: z
          .array(name)
          .min(1)
          .meta({ description: 'Names of control planes and workers of this cluster.' }),
        labels: z.record(z.string(), z.string()).optional().meta({ description: 'Labels of their Nodes.' }),
        taints: z.array(z.string()).optional().meta({
          description: 'Taints of their Nodes, e.g. "gpu=yes:NoSchedule" or "gpu:NoExecute".',
        }),
      }),
    )
    .optional()
    .meta({
      description:
        'Labels and taints of Nodes, by groups of machines; a machine may be in several groups. Registered Nodes get a change within half a minute; labels and taints that are removed here are removed from the Nodes. A change by kubectl stays until the document changes.',
    }),
  etcd: z
    .strictObject({
      topology: z.enum(['stacked', 'external']).optional().meta({
        description:
          'stacked (default): every control plane is a member of etcd. external: the machines named in `machines` are the members.',
      }),
      machines: machineNames('Names of the Machines that are members (topology external).'),
      runs: z.enum(['pod', 'service']).optional().meta({
        description:
          'pod: a static pod (default of topology stacked). service: a service of the host, muster-etcd.service (topology external always).',
      }),
    })
    .optional()
    .meta({ description: 'Where etcd runs.' }),
  networks: z
    .strictObject({
      machines: networks('Networks of the machines. A machine with an address outside is refused.'),
      pods: networks('Networks of the pods, one per address family. Default 10.244.0.0/16.'),
      services: networks('Networks of the Services, one per address family. Default 10.96.0.0/16.'),
    })
    .optional()
    .meta({ description: 'Address ranges of machines, pods and Services.' }),
  dnsDomain: domainName.optional().meta({ description: 'DNS domain of the cluster. Default cluster.local.' }),
  sans: z
    .array(nameOrAddress)
    .optional()
    .meta({ description: 'Further names and addresses in the certificate of the API server.' }),
  keys: z.enum(['ECDSA-P256', 'RSA-2048', 'RSA-3072', 'RSA-4096']).optional().meta({
    description: 'Algorithm of all keys of the cluster. Default ECDSA-P256.',
  }),
  encryptSecrets: z.boolean().optional().meta({
    description:
      'Whether the API server encrypts Secrets before it writes them to etcd. Default true. With false, Secrets that are already encrypted can still be read.',
  }),
  joining: z.enum(['certificate', 'token']).optional().meta({
    description:
      'How the kubelets of workers get their first client certificate. certificate (default): Muster signs it, for a key that the machine made. token: the cluster signs it; the machine requests it with its own bootstrap token, and Muster approves the request if it agrees with the documents.',
  }),
  podSecurity: z.enum(['privileged', 'baseline', 'restricted']).optional().meta({
    description:
      'The Pod Security Standard that is enforced in namespaces that set none themselves. Default baseline; privileged is the default of Kubernetes.',
  }),
  registry: z
    .string()
    .optional()
    .meta({ description: 'Registry of the Kubernetes images. Default registry.k8s.io.' }),
  cni: z.enum(CNIS, { error: cniError }).optional().meta({
    description: 'The pod network. Default flannel. none: an add-on provides it, or you do.',
  }),
  networkPolicy: z
    .strictObject({
      enforce: z.enum(['kube-router', 'addon']).optional().meta({
        description:
          'What enforces NetworkPolicy objects. kube-router: the firewall of kube-router, in addition to another pod network. addon: an add-on of yours. Default: the pod network, if it can (kube-router, the add-ons calico and cilium); flannel cannot.',
      }),
      isolate: z.array(name).optional().meta({
        description:
          'Namespaces whose pods accept connections only from their own namespace, unless a NetworkPolicy of yours allows more. Muster creates namespaces that do not exist. Default none.',
      }),
    })
    .optional()
    .meta({
      description: 'What enforces network policies, and which namespaces are isolated from the start.',
    }),
  runtime: z.enum(['containerd', 'cri-o']).optional().meta({
    description: 'Container runtime of all machines. Default containerd.',
  }),
  addons: z.array(addon).optional().meta({
    description: "Add-ons, applied in this order after Muster's own objects (docs/addons.md).",
  }),
  timeServers: z
    .array(z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9.:-]{0,252}$/, 'not a name or address'))
    .optional()
    .meta({
      description:
        'Names or addresses of the time servers that systemd-timesyncd asks on every machine. Absent: those of DHCP or of the image.',
    }),
  mirrors: z
    .array(z.url({ protocol: /^https?$/, error: 'not an http:// or https:// URL' }))
    .optional()
    .meta({
      description:
        "URLs of registries that are asked before the one in an image's name. An https registry needs a certificate of Muster's CA.",
    }),
  overrides: z.record(z.string(), z.unknown()).optional().meta({
    description:
      'Replaces any derived value of the resolved Cluster, by its path; null leaves a flag out. `muster get cluster NAME --full` lists the values.',
  }),
});

const clusterSpec = z.strictObject({
  kubernetes: kubernetesSpec.optional().meta({
    description:
      'Makes the machines a Kubernetes cluster. Absent: the machines only share `config` and disks.',
  }),
  dataDisk: dataDisk.optional(),
  bootDisk: bootDisk.optional(),
  config: nodeConfig.optional().meta({ description: 'Configuration of all machines of the cluster.' }),
});

const document = <K extends string, S extends z.ZodType>(kind: K, spec: S, description: string) =>
  z
    .strictObject({
      apiVersion: z.literal(API_VERSION).meta({ description: 'Version of the format of documents.' }),
      kind: z.literal(kind).meta({ description: 'Kind of the document.' }),
      metadata: metadata.meta({ description: 'Name, labels and annotations of the document.' }),
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
