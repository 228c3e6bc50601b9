/**
 * What machines fetch, as a table: the HTTP server matches on it, scripts and configs build their
 * URLs from it, `docs/ports.md` is generated from it. `:session` is a boot session's id.
 */
export const MACHINE_ROUTES = {
  /**
   * The same for everybody: asks iPXE who it is and chains to `script`. For loaders configured by
   * hand.
   */
  entry: {
    method: 'GET',
    path: '/boot.ipxe',
    about: 'Boot script for any machine: asks iPXE who it is, chains on.',
  },
  /** The same for everybody, bound to a session by its URL; constant time. */
  start: {
    method: 'GET',
    path: '/boot/:session/start.ipxe',
    about: 'First script of a session: asks iPXE who it is, chains on.',
  },
  script: {
    method: 'GET',
    path: '/boot/:session/script.ipxe',
    about:
      "The machine's own boot script. Query: mac, macs, uuid, serial, manufacturer, product, asset, arch, platform.",
  },
  anyScript: {
    method: 'GET',
    path: '/script.ipxe',
    about: 'As `script`, for a machine whose DHCP answer was not ours: opens a session by what iPXE says.',
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
  asset: {
    method: 'GET',
    path: '/assets/:sha256/:name',
    about: 'A file of an image, by its hash. HEAD, Range.',
  },
  loader: {
    method: 'GET',
    path: '/loaders/:name',
    about: 'A boot loader, the same files as by TFTP. HEAD, Range.',
  },
} as const;

/** Kernel arguments that Muster itself adds; images and agents read them from /proc/cmdline. */
export const KERNEL_ARGUMENTS = {
  'muster.url': 'Base URL of this session, e.g. http://10.77.0.1:8080/boot/SESSION',
  'muster.root': 'URL of the root image (squashfs).',
  'muster.root.sha256': 'Its SHA-256; our images check it before they mount it.',
  'muster.time':
    "The server's time, seconds since 1970, when the script was served; our initrd sets the clock forward to it.",
  BOOTIF: 'The interface that booted, as PXELINUX writes it: 01-52-54-00-aa-00-01.',
} as const;

export type MachineRoute = keyof typeof MACHINE_ROUTES;

/** The routes' paths, cut at their parameters once: `['/boot/', 'session', '/user-data']`. */
const PIECES = new Map(
  Object.entries(MACHINE_ROUTES).map(([route, { path }]) => [route, path.split(/:([a-z0-9]+)/)] as const),
);

/**
 * The path of a route with its parameters filled in, each percent-encoded; `/boot/ID/user-data`.
 * Throws when one is missing.
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
