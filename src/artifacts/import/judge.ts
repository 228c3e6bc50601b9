/** What an imported image is, and what of it will not work, as its operator is told. */
import {
  AGENT_PROGRAMS,
  CLUSTER_PROGRAMS,
  type Equipment,
  type KernelPlace,
  type NetworkBackend,
} from './system.ts';

/** What was read from an image. */
export interface Findings {
  readonly release: Readonly<Record<string, string>>;
  readonly arch: 'x86_64' | 'aarch64';
  readonly kernel: KernelPlace;
  readonly equipment: Equipment;
  readonly cloudInitVersion: string | undefined;
  /** SELINUX= of etc/selinux/config. */
  readonly selinux: string | undefined;
  /** Whether the kernel reads extended attributes of a squashfs; undefined when it does not say. */
  readonly xattrs: boolean | undefined;
}

/** What is written to image.json, apart from the files. */
export interface ImageFacts {
  readonly name: string;
  readonly os: string;
  readonly version?: string;
  readonly arch: string;
  readonly configFormat: 'cloud-init' | 'none';
  readonly cloudInitVersion?: string;
  readonly kernelVersion: string;
  readonly kernelArguments: readonly string[];
  readonly programs: readonly string[];
  readonly reports: false;
}

/** The operating system's family, as Image documents name it. */
export function familyOf({ ID = 'linux', VARIANT_ID = '' }: Readonly<Record<string, string>>): string {
  return ID === 'fedora' && VARIANT_ID === 'coreos' ? 'fedora-coreos' : ID;
}

/** The facts of an image; `name` is what the operator calls it, if he does. */
export function imageFacts(found: Findings, name: string | undefined): ImageFacts {
  const { release, arch, kernel, equipment, cloudInitVersion, selinux } = found;
  const os = familyOf(release);
  const version = release.VERSION_ID;
  return {
    name:
      name ??
      [os, version]
        .filter(Boolean)
        .join('-')
        .replace(/[^a-z0-9-]+/g, '-'),
    os,
    ...(version && { version }),
    arch,
    configFormat: cloudInitVersion === undefined ? 'none' : 'cloud-init',
    ...(cloudInitVersion !== undefined && { cloudInitVersion }),
    kernelVersion: kernel.version,
    kernelArguments: [
      'console=tty0',
      arch === 'aarch64' ? 'console=ttyAMA0,115200n8' : 'console=ttyS0,115200n8',
      ...(selinux === 'enforcing' ? ['enforcing=0'] : []),
    ],
    programs: CLUSTER_PROGRAMS.filter((program) => equipment.programs.has(program)),
    reports: false,
  };
}

const NETWORKS: Readonly<Record<NetworkBackend, string>> = {
  networkd: 'systemd-networkd',
  NetworkManager: 'NetworkManager',
  ifupdown: 'ifupdown',
  none: 'none',
};

/** One line about what was found. */
export function summary({ release, kernel, arch, equipment, cloudInitVersion }: Findings): string {
  return [
    release.PRETTY_NAME ?? familyOf(release),
    arch,
    `kernel ${kernel.version}`,
    cloudInitVersion === undefined ? 'no cloud-init' : `cloud-init ${cloudInitVersion}`,
    `network by ${NETWORKS[equipment.network]}`,
  ].join(', ');
}

/** What the initrd changes in the system, which the image itself keeps as it is. */
export const CHANGES: readonly string[] = [
  '/etc/fstab is empty, because the disks of the publisher are not there',
  '/etc/cloud/cloud.cfg.d/20-muster.cfg: cloud-init takes its configuration only from Muster, and grows no disk',
];

/** What will not work, or not as in the publisher's image. */
export function warnings(found: Findings): readonly string[] {
  const { equipment, cloudInitVersion, selinux, xattrs } = found;
  const missing = AGENT_PROGRAMS.filter((program) => !equipment.programs.has(program));
  return [
    ...(equipment.systemd ? [] : ['it has no systemd: Muster has not booted such a system']),
    ...(cloudInitVersion === undefined
      ? [
          `it has no cloud-init${equipment.ignition ? ', and Ignition runs only in an initrd of its publisher: use `muster image add` with that initrd' : ''}: machines boot it without configuration, and never report ready`,
        ]
      : []),
    ...(equipment.network === 'none' ? ['nothing in it configures a network'] : []),
    ...(equipment.network === 'ifupdown'
      ? ['its network is configured by ifupdown: bonds, VLANs and bridges of documents do not work']
      : []),
    ...(selinux === 'enforcing'
      ? [
          'SELinux only logs (kernel argument enforcing=0): files that are written before its policy is loaded have no labels',
        ]
      : []),
    ...(xattrs === false
      ? ["its kernel cannot read a squashfs's extended attributes: programs lose their file capabilities"]
      : []),
    ...(missing.length > 0
      ? [`machines of clusters cannot use it: the agent needs ${missing.join(', ')}`]
      : []),
  ];
}
