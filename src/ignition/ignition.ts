/** Writes a NodeConfig as an Ignition configuration. */
import type { Mac } from '../base/mac.ts';
import type { NodeDisk, NodeFilesystem, NodeUnit } from '../resources/nodeconfig.ts';
import type {
  IgnitionConfig,
  IgnitionDisk,
  IgnitionFile,
  IgnitionFilesystem,
  IgnitionUnit,
  IgnitionUser,
  IgnitionVersion,
  Resource,
} from './ignition-types.ts';
import { kernelFiles } from './kernel-settings.ts';
import { networkFiles } from './keyfiles.ts';
import type { PlainConfig, PlainFile, PlainUser } from './secrets.ts';
import { authorityFiles, authorityUnits } from './site-authorities.ts';

interface IgnitionInput {
  readonly config: PlainConfig;
  readonly hostname: string;
  readonly os: string;
  readonly bootMac: Mac;
  readonly version: IgnitionVersion;
  /** Base URL of the boot session. */
  readonly url: string;
  /** Ignition configurations merged over ours by Ignition itself, widest first. */
  readonly extras: readonly object[];
}

/** Returns the configuration; empty lists are left out. */
export function ignitionConfig(input: IgnitionInput): IgnitionConfig {
  const { config } = input;
  const files = allFiles(input);
  const users = (config.users ?? []).map(user);
  const units = (config.units ?? []).map(unit);
  const disks = (config.disks ?? []).map(disk);
  const own = config.filesystems ?? [];
  const filesystems = [...(config.disks ?? []).flatMap(filesystemsOf), ...own.flatMap(filesystemOf)];
  const links = config.timezone ? [timezone(config.timezone)] : [];
  const swaps = [...(config.disks ?? []).flatMap(swapUnits), ...own.filter(isSwap).map(swapUnit)];
  const mounts = [...(config.disks ?? []).flatMap(mountUnits), ...own.flatMap(mountUnit)];
  const merge = input.extras.map((extra) => ({ source: dataUrl(JSON.stringify(extra)) }));
  const allUnits = [...units, ...swaps, ...mounts, ...newUnits(authorityUnits(config), config)];
  const authorities = (config.caCertificates ?? []).map((text) => ({ source: dataUrl(text) }));
  return {
    ignition: {
      version: input.version,
      ...(merge.length > 0 && { config: { merge } }),
      ...(authorities.length > 0 && { security: { tls: { certificateAuthorities: authorities } } }),
    },
    ...(users.length > 0 && { passwd: { users } }),
    storage: {
      ...(disks.length > 0 && { disks }),
      ...(filesystems.length > 0 && { filesystems }),
      files,
      ...(links.length > 0 && { links }),
    },
    ...(allUnits.length > 0 && { systemd: { units: allUnits } }),
  };
}

/**
 * Kernel arguments that make `os` fetch its configuration from `url`. Flatcar has its own names.
 */
export function ignitionArguments(os: string, url: string): readonly string[] {
  return os === 'flatcar'
    ? ['flatcar.first_boot=yes', `flatcar.config.url=${url}/ignition`]
    : ['ignition.firstboot', 'ignition.platform.id=metal', `ignition.config.url=${url}/ignition`];
}

function allFiles({ config, hostname, os, bootMac }: IgnitionInput): IgnitionFile[] {
  const own = config.files ?? [];
  const paths = new Set(own.map((one) => one.path));
  // A file of the document wins over one that we derive for the same path.
  const derived: PlainFile[] = [
    { path: '/etc/hostname', content: `${hostname}\n` },
    ...networkFiles(config.network?.interfaces ?? [], os, bootMac),
    ...(config.users ?? []).filter((one) => one.sudo).map(sudoers),
    ...kernelFiles(config),
    ...authorityFiles(config, os),
  ].filter((one) => !paths.has(one.path));
  return [...derived, ...own].map(file);
}

const sudoers = (one: PlainUser): PlainFile => ({
  path: `/etc/sudoers.d/90-muster-${one.name}`,
  mode: '0440',
  content: `${one.name} ALL=(ALL) NOPASSWD:ALL\n`,
});

function file(one: PlainFile): IgnitionFile {
  return {
    path: one.path,
    overwrite: true,
    mode: Number.parseInt(one.mode ?? '0644', 8),
    ...(one.owner !== undefined && { user: nameOrId(one.owner) }),
    ...(one.group !== undefined && { group: nameOrId(one.group) }),
    contents: contents(one),
  };
}

const nameOrId = (text: string): { readonly name: string } | { readonly id: number } =>
  /^\d/.test(text) ? { id: Number(text) } : { name: text };

function contents(one: PlainFile): Resource {
  if (one.source) return { source: one.source.url, verification: { hash: `sha256-${one.source.sha256}` } };
  if (one.contentBase64 !== undefined) return { source: `data:;base64,${one.contentBase64}` };
  return { source: dataUrl(one.content ?? '') };
}

/**
 * A data URL: percent-encoded where that is not much longer than base64, because it is readable.
 */
function dataUrl(content: string): string {
  const text = content.toWellFormed();
  if (/^[\n\t\x20-\x7e]*$/.test(text)) {
    const encoded = encodeURIComponent(text);
    if (encoded.length <= text.length * 1.6) return `data:,${encoded}`;
  }
  return `data:;base64,${Buffer.from(text).toString('base64')}`;
}

function user(one: PlainUser): IgnitionUser {
  return {
    name: one.name,
    ...(one.passwordHash !== undefined && { passwordHash: one.passwordHash }),
    ...(one.sshKeys && { sshAuthorizedKeys: [...new Set(one.sshKeys)] }),
    ...(one.uid !== undefined && { uid: one.uid }),
    ...(one.groups && { groups: [...new Set(one.groups)] }),
    ...(one.primaryGroup && { primaryGroup: one.primaryGroup }),
    ...(one.gecos && { gecos: one.gecos }),
    ...(one.home && { homeDir: one.home }),
    ...(one.shell && { shell: one.shell }),
    ...(one.system && { system: true }),
  };
}

function unit(one: NodeUnit): IgnitionUnit {
  return {
    name: one.name,
    ...(one.enabled !== undefined && { enabled: one.enabled }),
    ...(one.mask !== undefined && { mask: one.mask }),
    ...(one.contents !== undefined && { contents: one.contents }),
    ...(one.dropins && { dropins: one.dropins }),
  };
}

/** Units of ours whose names the document does not use: the document wins. */
const newUnits = (ours: readonly IgnitionUnit[], { units = [] }: PlainConfig): readonly IgnitionUnit[] =>
  ours.filter(({ name }) => !units.some((one) => one.name === name));

const SWAP_TYPE = '0657FD6D-A4AB-43C4-84E5-0933C84B4F4F';
const EFI_TYPE = 'C12A7328-F81F-11D2-BA4B-00A0C93EC93B';

/**
 * Numbers the partitions: without numbers, each boot of a system that runs from memory would add
 * new ones.
 */
function disk(one: NodeDisk): IgnitionDisk {
  return {
    device: one.device,
    ...(one.wipeTable && { wipeTable: true }),
    ...(one.partitions && {
      partitions: one.partitions.map((partition, n) => ({
        number: n + 1,
        label: partition.label,
        sizeMiB: partition.sizeMiB ?? 0,
        ...(partition.filesystem === 'swap' && { typeGuid: SWAP_TYPE }),
        ...(partition.filesystem === 'vfat' && { typeGuid: EFI_TYPE }),
      })),
    }),
  };
}

const deviceOf = (label: string): string => `/dev/disk/by-partlabel/${label}`;

function filesystemsOf(one: NodeDisk): IgnitionFilesystem[] {
  return (one.partitions ?? [])
    .filter((partition) => partition.filesystem !== undefined)
    .map((partition) => ({
      device: deviceOf(partition.label),
      format: partition.filesystem!,
      wipeFilesystem: false,
      ...(partition.mount && partition.filesystem !== 'swap' && { path: partition.mount }),
    }));
}

/**
 * A device that must have a file system already is none of Ignition's: it would need to know the
 * format, and would make one.
 */
const filesystemOf = ({ device, format, mount, options }: NodeFilesystem): readonly IgnitionFilesystem[] =>
  format === undefined
    ? []
    : [
        {
          device,
          format,
          wipeFilesystem: false,
          ...(mount && { path: mount }),
          ...(mount && options && options.length > 0 && { mountOptions: options }),
        },
      ];

/** Files below a mount point that Ignition does not mount, as paths into the configuration. */
export const belowLateMounts = ({
  files = [],
  filesystems = [],
}: PlainConfig): readonly (readonly (string | number)[])[] =>
  files.flatMap(({ path }, n) =>
    filesystems.some(({ format, mount }) => format === undefined && path.startsWith(`${mount}/`))
      ? [['files', n, 'path']]
      : [],
  );

const mountUnits = (one: NodeDisk): readonly IgnitionUnit[] =>
  (one.partitions ?? [])
    .filter((partition) => partition.filesystem !== undefined && partition.filesystem !== 'swap')
    .flatMap(({ label, mount, filesystem }) =>
      mountUnit({ device: deviceOf(label), format: filesystem, mount }),
    );

const mountUnit = ({ device, format, mount, options = [] }: NodeFilesystem): readonly IgnitionUnit[] =>
  mount === undefined
    ? []
    : [
        {
          name: `${unitPath(mount)}.mount`,
          enabled: true,
          contents: `[Mount]\nWhat=${device}\nWhere=${mount}\n${format ? `Type=${format}\n` : ''}${options.length > 0 ? `Options=${options.join(',')}\n` : ''}\n[Install]\nRequiredBy=local-fs.target\n`,
        },
      ];

const swapUnits = (one: NodeDisk): readonly IgnitionUnit[] =>
  (one.partitions ?? [])
    .filter((partition) => partition.filesystem === 'swap')
    .map(({ label }) => swapUnit({ device: deviceOf(label) }));

const isSwap = ({ format }: NodeFilesystem): boolean => format === 'swap';

const swapUnit = ({ device, options = [] }: NodeFilesystem): IgnitionUnit => ({
  name: `${unitPath(device)}.swap`,
  enabled: true,
  contents: `[Swap]\nWhat=${device}\n${options.length > 0 ? `Options=${options.join(',')}\n` : ''}\n[Install]\nRequiredBy=swap.target\n`,
});

/** A path as systemd writes it in unit names (systemd-escape --path). */
export function unitPath(path: string): string {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length === 0) return '-';
  const escaped = [...Buffer.from(parts.join('/'))].map((byte) => {
    const char = String.fromCharCode(byte);
    if (char === '/') return '-';
    return /[A-Za-z0-9:_.]/.test(char) ? char : `\\x${byte.toString(16).padStart(2, '0')}`;
  });
  return escaped.join('').replace(/^\./, '\\x2e');
}

const timezone = (zone: string) => ({
  path: '/etc/localtime',
  overwrite: true,
  target: `../usr/share/zoneinfo/${zone}`,
});
