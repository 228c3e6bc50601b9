/** What the root file system of an image has: its system, its kernel, and what Muster needs. */
import { MusterError } from '../../base/errors.ts';
import type { Entry } from './entries.ts';

/** Where the kernel of an image and its modules are. */
export interface KernelPlace {
  readonly version: string;
  /** Path of the kernel; undefined when only its modules are there. */
  readonly kernel: string | undefined;
  /** Directory of its modules. */
  readonly modules: string;
}

/**
 * The newest kernel whose modules are in the image.
 *
 * @throws {MusterError} E_IMPORT_KERNEL when there are none.
 */
export function kernelOf(entries: readonly Entry[]): KernelPlace {
  const files = new Set(entries.flatMap(({ type, path }) => (type === 'file' ? [path] : [])));
  const places = [...files].flatMap((path): readonly KernelPlace[] => {
    const [, modules, version] =
      /^((?:usr\/)?lib\/modules\/([A-Za-z0-9._+~-]+))\/modules\.dep$/.exec(path) ?? [];
    if (modules === undefined || version === undefined) return [];
    const kernel = [
      `boot/vmlinuz-${version}`,
      `${modules}/vmlinuz`,
      `boot/vmlinux-${version}`,
      `boot/Image-${version}`,
      `boot/Image.gz-${version}`,
      `${modules}/Image`,
    ].find((name) => files.has(name));
    return [{ version, kernel, modules }];
  });
  const withKernel = places.filter(({ kernel }) => kernel !== undefined);
  const [newest] = (withKernel.length > 0 ? withKernel : places).sort((a, b) =>
    b.version.localeCompare(a.version, 'en', { numeric: true }),
  );
  if (!newest)
    throw new MusterError(
      'E_IMPORT_KERNEL',
      'it has no kernel modules (lib/modules/VERSION/modules.dep), so it is for containers and starts no machine',
    );
  return newest;
}

/** Modules of buses, file systems and consoles that the initrd needs besides network drivers. */
const WANTED: ReadonlySet<string> = new Set(
  `squashfs overlay loop af_packet virtio_pci virtio_mmio virtio_net virtio_rng virtio_console
  usbhid hid_generic xhci_pci ehci_pci uhci_hcd ohci_pci i8042 atkbd
  crc32c_generic crc32c_intel hv_netvsc vmxnet3 xen_netfront`.split(/\s+/),
);
/** Without these no root image can be fetched and mounted. */
const NEEDED = ['squashfs', 'overlay', 'loop', 'af_packet'];
const NETWORK_DRIVER = /^kernel\/drivers\/net\/(?!wireless\/|wwan\/|hamradio\/|can\/|ieee802154\/)/;

/** The kernel's name of a module's file: `kernel/fs/squashfs/squashfs.ko.xz` is squashfs. */
export const moduleName = (file: string): string =>
  file
    .replace(/^.*\//, '')
    .replace(/\.ko(\.(xz|zst|gz))?$/, '')
    .replaceAll('-', '_');

/** The modules that go into the initrd, and what its modprobe reads. */
export interface ModuleChoice {
  /** Paths below the directory of modules. */
  readonly files: readonly string[];
  /** modules.dep and modules.alias, about these files alone, uncompressed. */
  readonly dep: string;
  readonly alias: string;
}

/**
 * Chooses the modules of the initrd: all network drivers, what a root image in memory needs, and
 * what these depend on.
 *
 * @throws {MusterError} E_IMPORT_KERNEL when the kernel lacks what a root image in memory needs.
 */
export function chooseModules(texts: {
  readonly dep: string;
  readonly alias: string;
  readonly builtin: string;
}): ModuleChoice {
  const needs = new Map<string, readonly string[]>();
  for (const line of texts.dep.split('\n')) {
    const [file, rest = ''] = line.split(':');
    if (file)
      needs.set(
        file,
        rest
          .trim()
          .split(/\s+/)
          .filter((name) => name !== ''),
      );
  }
  const chosen = new Set<string>();
  const take = (file: string) => {
    if (chosen.has(file)) return;
    chosen.add(file);
    for (const other of needs.get(file) ?? []) take(other);
  };
  for (const file of needs.keys()) if (NETWORK_DRIVER.test(file) || WANTED.has(moduleName(file))) take(file);
  const names = new Set([...chosen].map(moduleName));
  const builtin = new Set(texts.builtin.split('\n').map(moduleName));
  const missing = NEEDED.filter((name) => !names.has(name) && !builtin.has(name));
  if (missing.length > 0)
    throw new MusterError(
      'E_IMPORT_KERNEL',
      `its kernel has no ${missing.join(', ')}, without which a root image in memory cannot be mounted`,
    );
  const files = [...chosen].sort();
  const plain = (file: string) => file.replace(/\.ko\.(xz|zst|gz)$/, '.ko');
  return {
    files,
    dep: files
      .map((file) => `${plain(file)}: ${needs.get(file)!.map(plain).join(' ')}`.trimEnd())
      .join('\n')
      .concat('\n'),
    alias: texts.alias
      .split('\n')
      .filter((line) => names.has((/^alias \S+ (\S+)$/.exec(line)?.[1] ?? '').replaceAll('-', '_')))
      .join('\n')
      .concat('\n'),
  };
}

/** The values of os-release, without their quotation marks. */
export function osRelease(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split('\n').flatMap((line) => {
      const [, name, value] = /^([A-Z0-9_]+)=["']?(.*?)["']?\s*$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, value ?? '']];
    }),
  );
}

/** The settings of a kernel's config file that are on: `y` or `m`. */
export function kernelConfig(text: string): ReadonlyMap<string, string> {
  return new Map(
    [...text.matchAll(/^CONFIG_([A-Z0-9_]+)=([ym])$/gm)].map(([, name, value]) => [name!, value!]),
  );
}

/** How the files of an image are compressed, so that its kernel can read them. */
export function compressionOf(config: ReadonlyMap<string, string> | undefined): {
  readonly root: 'zstd' | 'xz' | 'gzip';
  readonly initrd: 'zstd' | 'gzip';
} {
  const on = (name: string) => config?.has(name) === true;
  return {
    root: on('SQUASHFS_ZSTD') ? 'zstd' : on('SQUASHFS_XZ') ? 'xz' : 'gzip',
    initrd: on('RD_ZSTD') ? 'zstd' : 'gzip',
  };
}

/** The processor of a kernel, from its first 1 KiB; undefined for a form that is not known. */
export function archOf(head: Uint8Array): 'x86_64' | 'aarch64' | undefined {
  const at = (offset: number, text: string) =>
    Buffer.from(head.subarray(offset, offset + text.length)).toString('latin1') === text;
  if (at(0x202, 'HdrS')) return 'x86_64';
  if (at(0x38, 'ARM\x64')) return 'aarch64';
  return undefined;
}

/** The version of a bzImage as it names itself, such as 6.12.0-1-amd64. */
export function bzImageVersion(kernel: Uint8Array): string | undefined {
  const bytes = Buffer.from(kernel.buffer, kernel.byteOffset, kernel.byteLength);
  if (archOf(bytes) !== 'x86_64' || bytes.length < 0x210) return undefined;
  const at = bytes.readUInt16LE(0x20e) + 0x200;
  return /^[\x21-\x7e]+/.exec(bytes.subarray(at, at + 128).toString('latin1'))?.[0];
}

/** Which program configures the network of an image. */
export type NetworkBackend = 'networkd' | 'NetworkManager' | 'ifupdown' | 'none';

/** The file that has cloud-init's version, which is the same in all families. */
export const CLOUD_INIT_VERSION = /^usr\/lib\/python3[^/]*\/(?:dist|site)-packages\/cloudinit\/version\.py$/;

/** Programs that machines of clusters may need (`spec.programs` of an Image). */
export const CLUSTER_PROGRAMS = [
  'curl',
  'haproxy',
  'keepalived',
  'iptables',
  'conntrack',
  'tpm2',
  'cryptsetup',
];

/** Programs without which the agent does not work. */
export const AGENT_PROGRAMS = ['curl', 'openssl', 'tar', 'sfdisk', 'mkfs.ext4'];

/** What an image has, from the names of its files alone. */
export interface Equipment {
  readonly network: NetworkBackend;
  readonly programs: ReadonlySet<string>;
  readonly systemd: boolean;
  readonly ignition: boolean;
  readonly cloudInit: string | undefined;
}

/** Reads from the names of files what an image has. */
export function equipmentOf(entries: readonly Entry[]): Equipment {
  const paths = new Set(entries.map(({ path }) => path));
  const has = (...names: readonly string[]) => names.some((name) => paths.has(name));
  const enabled = (unit: string) =>
    entries.some(({ path }) => path.startsWith('etc/systemd/') && path.endsWith(`.wants/${unit}`));
  const program = (name: string) =>
    has(...['usr/bin', 'usr/sbin', 'bin', 'sbin'].map((directory) => `${directory}/${name}`));
  const network: NetworkBackend = enabled('NetworkManager.service')
    ? 'NetworkManager'
    : enabled('systemd-networkd.service') || program('netplan')
      ? 'networkd'
      : program('NetworkManager')
        ? 'NetworkManager'
        : program('ifup')
          ? 'ifupdown'
          : has('usr/lib/systemd/systemd-networkd', 'lib/systemd/systemd-networkd')
            ? 'networkd'
            : 'none';
  return {
    network,
    programs: new Set([...CLUSTER_PROGRAMS, ...AGENT_PROGRAMS].filter(program)),
    systemd: has('usr/lib/systemd/systemd', 'lib/systemd/systemd'),
    ignition: entries.some(({ path }) => /(^|\/)ignition$/.test(path)),
    cloudInit: entries.find(({ path }) => CLOUD_INIT_VERSION.test(path))?.path,
  };
}
