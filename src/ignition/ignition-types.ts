/**
 * The part of Ignition's configuration, spec 3.3.0 to 3.6.0, that we write. (There is no package
 * with these types.)
 */

export const IGNITION_VERSIONS = ['3.3.0', '3.4.0', '3.5.0', '3.6.0'] as const;
export type IgnitionVersion = (typeof IGNITION_VERSIONS)[number];

export interface Resource {
  readonly source?: string;
  readonly compression?: 'gzip';
  readonly verification?: { readonly hash: string };
}

interface IgnitionNode {
  readonly path: string;
  readonly overwrite?: boolean;
  readonly user?: { readonly name?: string; readonly id?: number };
  readonly group?: { readonly name?: string; readonly id?: number };
}

export interface IgnitionFile extends IgnitionNode {
  readonly mode?: number;
  readonly contents?: Resource;
}

interface IgnitionLink extends IgnitionNode {
  readonly target: string;
  readonly hard?: boolean;
}

export interface IgnitionUnit {
  readonly name: string;
  readonly enabled?: boolean;
  readonly mask?: boolean;
  readonly contents?: string;
  readonly dropins?: readonly { readonly name: string; readonly contents?: string }[];
}

export interface IgnitionUser {
  readonly name: string;
  readonly passwordHash?: string;
  readonly sshAuthorizedKeys?: readonly string[];
  readonly uid?: number;
  readonly groups?: readonly string[];
  readonly primaryGroup?: string;
  readonly gecos?: string;
  readonly homeDir?: string;
  readonly shell?: string;
  readonly system?: boolean;
}

interface IgnitionPartition {
  readonly label?: string;
  readonly number: number;
  readonly sizeMiB?: number;
  readonly startMiB?: number;
  readonly typeGuid?: string;
  readonly wipePartitionEntry?: boolean;
}

export interface IgnitionDisk {
  readonly device: string;
  readonly wipeTable?: boolean;
  readonly partitions?: readonly IgnitionPartition[];
}

export interface IgnitionFilesystem {
  readonly device: string;
  readonly format?: string;
  readonly path?: string;
  readonly label?: string;
  readonly wipeFilesystem?: boolean;
  readonly mountOptions?: readonly string[];
}

export interface IgnitionConfig {
  readonly ignition: {
    readonly version: IgnitionVersion;
    readonly config?: { readonly merge?: readonly Resource[] };
    readonly security?: { readonly tls: { readonly certificateAuthorities: readonly Resource[] } };
  };
  readonly passwd?: { readonly users?: readonly IgnitionUser[] };
  readonly storage?: {
    readonly disks?: readonly IgnitionDisk[];
    readonly filesystems?: readonly IgnitionFilesystem[];
    readonly files?: readonly IgnitionFile[];
    readonly links?: readonly IgnitionLink[];
  };
  readonly systemd?: { readonly units?: readonly IgnitionUnit[] };
}
