/**
 * The routes of the listener for machines. The HTTP server matches requests against this table,
 * scripts and configurations build their URLs from it, and `make docs` writes docs/ports.md from
 * it. `:session` is the id of a boot session, which only the machine's own script tells; `:boot` is
 * the session's public name, which DHCP broadcasts.
 */
export const MACHINE_ROUTES = {
  /** The same for every machine. For loaders that are configured by hand. */
  entry: {
    method: 'GET',
    path: '/boot.ipxe',
    about: 'Boot script for any machine: sends what iPXE knows about it to `anyScript`.',
  },
  /** The same for every machine, except for the name in its URLs. Takes constant time. */
  start: {
    method: 'GET',
    path: '/boot/:boot/start.ipxe',
    about: 'First script of a session: sends what iPXE knows about the machine to `script`.',
  },
  script: {
    method: 'GET',
    path: '/boot/:boot/script.ipxe',
    about:
      "The machine's own boot script. Query: mac, macs, uuid, serial, manufacturer, product, asset, arch, platform.",
  },
  anyScript: {
    method: 'GET',
    path: '/script.ipxe',
    about: 'As `script`, for a machine that another DHCP server answered: opens a session by what iPXE says.',
  },
  grubScript: {
    method: 'GET',
    path: '/boot.grub',
    about: 'As `anyScript`, for GRUB, which shim starts where Secure Boot is on. Query: mac, arch, platform.',
  },
  grubRefused: {
    method: 'GET',
    path: '/boot/:session/refused/:what',
    about: 'Script for a GRUB that could not load the `kernel` or `initrd`, which counts as its report.',
  },
  userData: { method: 'GET', path: '/boot/:session/user-data', about: 'cloud-init user-data.' },
  metaData: { method: 'GET', path: '/boot/:session/meta-data', about: 'cloud-init meta-data.' },
  vendorData: { method: 'GET', path: '/boot/:session/vendor-data', about: 'cloud-init vendor-data.' },
  networkConfig: {
    method: 'GET',
    path: '/boot/:session/network-config',
    about: 'cloud-init network-config.',
  },
  ignition: { method: 'GET', path: '/boot/:session/ignition', about: 'Ignition config.' },
  report: {
    method: 'POST',
    path: '/boot/:session/report',
    about: 'Report of a machine: form fields step (kernel, configured, ready, failed), detail, log.',
  },
  reportFrom: {
    method: 'POST',
    path: '/boot/:session/from/:disk/report',
    about:
      'As `report`, of a system that was installed: `disk` is the serial number of the disk that it runs from.',
  },
  console: {
    method: 'POST',
    path: '/boot/:session/console',
    about: 'Lines of a machine’s console: form fields boot (the kernel’s boot id), lines.',
  },
  waits: {
    method: 'GET',
    path: '/boot/:session/wait',
    about:
      'What a machine in the discovery system does: wait, report (its inventory), wipe, test, rescue, install, reboot or off, and its name.',
  },
  install: {
    method: 'POST',
    path: '/boot/:session/install',
    about:
      'What a machine says that installs a system on its disk: `pick` and its disks, a step that begins or ends, or why it failed. The answer is what it does next.',
  },
  installList: {
    method: 'GET',
    path: '/boot/:session/install/list',
    about: 'What is written to the disk: offset, octets, SHA-256 and part of each extent, one a line.',
  },
  installExtent: {
    method: 'GET',
    path: '/boot/:session/install/at/:at',
    about: 'The octets of the extent at that offset.',
  },
  inventory: {
    method: 'POST',
    path: '/boot/:session/inventory',
    about: 'What an unknown machine in the discovery system is made of, as lines of text; at most 32 KiB.',
  },
  wipeOrder: {
    method: 'GET',
    path: '/boot/:session/wipe',
    about: 'What a machine in the discovery system wipes, as lines of text: the order, its disks.',
  },
  wipeReport: {
    method: 'POST',
    path: '/boot/:session/wiped',
    about: 'What a machine wiped and read back, as lines of text; at most 32 KiB.',
  },
  testOrder: {
    method: 'GET',
    path: '/boot/:session/test',
    about:
      'What a machine in the discovery system tests, as lines of text: for how long, and a file to fetch.',
  },
  testReport: {
    method: 'POST',
    path: '/boot/:session/tested',
    about: 'What a machine measured in its test, as lines of text; at most 32 KiB.',
  },
  rescue: {
    method: 'POST',
    path: '/boot/:session/rescue',
    about:
      'The public key of the SSH server of a rescue system. The answer: who may log in and for how long, as lines of text.',
  },
  asset: {
    method: 'GET',
    path: '/assets/:sha256/:name',
    about: 'A file of an image, by its hash. HEAD and Range work.',
  },
  loader: {
    method: 'GET',
    path: '/loaders/:name',
    about: 'A boot loader; the same files as by TFTP. HEAD and Range work.',
  },
} as const;

/** Kernel arguments that Muster adds. Images and agents read them from /proc/cmdline. */
export const KERNEL_ARGUMENTS = {
  'muster.url': 'Base URL of this session, e.g. http://10.77.0.1:8080/boot/SESSION',
  'muster.root': 'URL of the root image (squashfs).',
  'muster.root.sha256': 'SHA-256 of the root image; Muster images check it before they mount it.',
  'muster.home':
    'boot: the machine has a boot disk; the initrd of Muster images mounts the root image from there, where it can.',
  'muster.time':
    "The server's time when the script was served, in seconds since 1970; the initrd of Muster images sets the clock forward to it.",
  BOOTIF: 'The interface that booted, as PXELINUX writes it: 01-52-54-00-aa-00-01.',
} as const;

export type MachineRoute = keyof typeof MACHINE_ROUTES;

/** The paths, split at their parameters: `['/boot/', 'session', '/user-data']`. */
const PIECES = new Map(
  Object.entries(MACHINE_ROUTES).map(([route, { path }]) => [route, path.split(/:([a-z0-9]+)/)] as const),
);

/**
 * The path of a route with its parameters filled in and percent-encoded, e.g. `/boot/ID/user-data`.
 *
 * @throws {RangeError} when a parameter is missing.
 */
export function machinePath(route: MachineRoute, params: Readonly<Record<string, string>> = {}): string {
  let path = '';
  for (const [n, piece] of PIECES.get(route)!.entries()) {
    if (n % 2 === 0) {
      path += piece;
      continue;
    }
    const value = params[piece];
    if (value === undefined || value === '') throw new RangeError(`route ${route} needs ${piece}`);
    path += encodeURIComponent(value);
  }
  return path;
}
