/** Writes a NodeConfig as the four documents of cloud-init's NoCloud data source. */
import type { Mac } from '../base/mac.ts';
import { isShared, shared } from '../base/shared.ts';
import { type Plain, yamlText } from '../base/yaml-text.ts';
import type { NodeUnit } from '../resources/nodeconfig.ts';
import {
  bootNetwork,
  fitsArgument,
  needsOwnFiles,
  networkArgument,
  networkConfig,
} from './cloudinit-network.ts';
import { diskScript, fetchScript, shellWord } from './cloudinit-scripts.ts';
import { behaviourOf } from './cloudinit-versions.ts';
import { kernelCommands, kernelFiles } from './kernel-settings.ts';
import { usesNetworkManager } from './keyfiles.ts';
import { networkdFiles } from './networkd.ts';
import type { PlainConfig, PlainFile, PlainUser } from './secrets.ts';

interface CloudInitInput {
  readonly config: PlainConfig;
  readonly hostname: string;
  readonly domain?: string;
  readonly instanceId: string;
  readonly bootMac: Mac;
  /** Operating system family of the image. */
  readonly os: string;
  /** Base URL of the boot session, without a slash at its end. */
  readonly url: string;
  readonly version: string | undefined;
  /** `#cloud-config` documents that are merged over ours, widest first. */
  readonly extras: readonly Mapping[];
}

export type Mapping = { readonly [key: string]: Plain | undefined };

/**
 * Where cloud-init mounts nothing, because it runs on the system whose directories these are: its
 * own state would be hidden while it works. Ignition mounts before the system starts.
 */
const IN_USE = new Set(['/var', '/var/lib', '/var/lib/cloud']);

/** Mount points that hide what cloud-init uses, as paths into the configuration. */
export const hiddenByMounts = ({
  disks = [],
  filesystems = [],
}: Pick<PlainConfig, 'disks' | 'filesystems'>): readonly (readonly (string | number)[])[] => {
  const hides = (mount: string | undefined) => mount !== undefined && IN_USE.has(mount);
  return [
    ...disks.flatMap(({ partitions = [] }, n) =>
      partitions.flatMap(({ mount }, k) => (hides(mount) ? [['disks', n, 'partitions', k, 'mount']] : [])),
    ),
    ...filesystems.flatMap(({ mount }, n) => (hides(mount) ? [['filesystems', n, 'mount']] : [])),
  ];
};

interface CloudInitDocuments {
  readonly files: Readonly<Record<'user-data' | 'meta-data' | 'vendor-data' | 'network-config', string>>;
  readonly kernelArguments: readonly string[];
  /** What this version of cloud-init cannot do, if anything. */
  readonly fault?: string;
}

/**
 * Returns the four documents; all of them are always served, see cloudinit-versions.ts. Each is
 * written when it is first read, so that checking ten thousand machines does not write forty
 * thousand documents; faults are known without that.
 */
export function cloudInit(input: CloudInitInput): CloudInitDocuments {
  const behaviour = behaviourOf(input.version);
  const interfaces = input.config.network?.interfaces;
  const own = interfaces !== undefined && needsOwnFiles(interfaces, behaviour);
  const network = networkConfig(
    own ? bootNetwork(interfaces, input.bootMac) : interfaces,
    input.bootMac,
    behaviour,
  );
  const networkd = own ? networkdFiles(interfaces, { prefix: '05', bootMac: input.bootMac }) : [];
  const fits = fitsArgument(network);
  return {
    files: {
      // A machine reads it once per boot, and it has the agent's scripts: it is not kept.
      get 'user-data'() {
        return `#cloud-config\n${yamlText(input.extras.reduce(mergeCloudConfig, cloudConfig(input, networkd)))}`;
      },
      get 'meta-data'() {
        return yamlText({ 'instance-id': input.instanceId, 'local-hostname': input.hostname });
      },
      'vendor-data': '#cloud-config\n{}\n',
      get 'network-config'() {
        return yamlText(network);
      },
    },
    // Read once per boot, by the script: compressing costs more than everything else here.
    get kernelArguments() {
      const argument = fits ? networkArgument(network) : undefined;
      return [`ds=${behaviour.source};s=${input.url}/`, ...(argument ? [argument] : [])];
    },
    ...(own && usesNetworkManager(input.os) && { fault: NETWORKD_ONLY }),
    ...(!fits &&
      !behaviour.fetchesNetworkConfig && {
        fault: `cloud-init before 24.3 takes the network configuration only from the kernel command line, and it is too long for that; give fewer interfaces, routes or name servers`,
      }),
  };
}

/**
 * networkd makes what is new, and reconfigures each interface whose first fitting file is another
 * one now.
 */
const NETWORKD_RELOAD =
  'networkctl reload || { echo "the network of this configuration needs systemd-networkd" | tee /run/muster-failed >&2; exit 1; }';

const NETWORKD_ONLY =
  "Muster writes bonds, VLANs, bridges, policy routes and metrics for systemd-networkd, but the image's operating system uses NetworkManager; use an image with Ignition, or one with systemd-networkd";

function cloudConfig(input: CloudInitInput, networkd: readonly PlainFile[]): Mapping {
  const { config } = input;
  const { hostname, fqdn } = names(input.hostname, input.domain);
  const paths = new Set(config.files?.map((file) => file.path));
  const files = [
    ...[...networkd, ...kernelFiles(config)].filter((file) => !paths.has(file.path)),
    ...(config.files ?? []).filter((file) => file.source === undefined),
  ];
  const fetched = (config.files ?? []).filter((file) => file.source !== undefined);
  const homes = (config.users ?? []).map((user) => `${user.home ?? `/home/${user.name}`}/`);
  const written = [
    ...files.map((file) => writeFile(file, homes)),
    ...(config.units ?? []).flatMap(unitFiles),
  ];
  const commands = [
    ...(networkd.length > 0 ? [NETWORKD_RELOAD] : []),
    ...kernelCommands(config),
    ...files.flatMap(chownCommand),
    ...(fetched.length > 0 ? [fetchScript(fetched)] : []),
    ...unitCommands(config.units ?? []),
  ];
  const rootKeys = config.users?.some((user) => user.name === 'root' && (user.sshKeys ?? []).length > 0);
  return {
    hostname,
    ...(fqdn && { fqdn }),
    preserve_hostname: false,
    // sudo and others look up the machine's name. An /etc/hosts of the document wins.
    manage_etc_hosts: config.files?.some((file) => file.path === '/etc/hosts') ? false : 'localhost',
    ...(config.timezone && { timezone: config.timezone }),
    // An empty list is invalid; without a list, the image's default user stays, locked.
    ...((config.users ?? []).length > 0 && { users: config.users!.map(user) }),
    ...(rootKeys && { disable_root: false }),
    ...(written.length > 0 && { write_files: written }),
    ...((config.caCertificates ?? []).length > 0 && { ca_certs: { trusted: config.caCertificates! } }),
    ...((config.packages ?? []).length > 0 && { package_update: true, packages: config.packages! }),
    ...disks(config),
    // All commands are one shell script: the first that fails ends it, and cloud-init reports it.
    ...(commands.length > 0 && { runcmd: ['set -e', ...commands, 'set +e'] }),
  };
}

/** cloud-init's host name is one label; the rest after the first dot is the domain. */
function names(
  name: string,
  domain: string | undefined,
): { readonly hostname: string; readonly fqdn?: string } {
  const dot = name.indexOf('.');
  if (dot > 0) return { hostname: name.slice(0, dot), fqdn: name };
  return domain === undefined ? { hostname: name } : { hostname: name, fqdn: `${name}.${domain}` };
}

const ownerOf = ({ owner = 'root', group = 'root' }: PlainFile): string => `${owner}:${group}`;
const isNumeric = ({ owner = '', group = '' }: PlainFile): boolean => /^\d/.test(owner) || /^\d/.test(group);

/** cloud-init looks owners up by name only, so numbers are set afterwards. */
const chownCommand = (file: PlainFile): readonly string[] =>
  isNumeric(file) ? [`chown ${ownerOf(file)} ${shellWord(file.path)}`] : [];

/** Entries of `write_files` for shared files. */
const memoWritten = new WeakMap<PlainFile, Mapping>();

function writeFile(file: PlainFile, homes: readonly string[]): Mapping {
  if (!isShared(file) || homes.some((home) => file.path.startsWith(home))) return entryOf(file, homes);
  let entry = memoWritten.get(file);
  if (entry === undefined) {
    entry = shared(entryOf(file, []));
    memoWritten.set(file, entry);
  }
  return entry;
}

function entryOf(file: PlainFile, homes: readonly string[]): Mapping {
  const owner = isNumeric(file) ? 'root:root' : ownerOf(file);
  return {
    path: file.path,
    permissions: fourDigits(file.mode),
    ...(owner !== 'root:root' && { owner }),
    ...contentOf(file),
    // Users are created after files are written; files that need one are written in the last stage.
    ...((owner !== 'root:root' || homes.some((home) => file.path.startsWith(home))) && { defer: true }),
  };
}

/** `644`, `0644`, `04755` as `0644`, `4755`. */
const fourDigits = (mode: string | undefined): string => (mode ?? '0644').padStart(4, '0').slice(-4);

function contentOf(file: PlainFile): Mapping {
  if (file.contentBase64 !== undefined) return { encoding: 'b64', content: file.contentBase64 };
  return { content: file.content ?? '' };
}

const UNITS = '/etc/systemd/system';

/**
 * A masked unit is written without its contents: `systemctl mask` fails where a file exists, and
 * the boot with it.
 */
function unitFiles(unit: NodeUnit): Mapping[] {
  const files: Mapping[] = [];
  if (unit.contents !== undefined && !unit.mask)
    files.push({ path: `${UNITS}/${unit.name}`, permissions: '0644', content: unit.contents });
  for (const dropin of unit.dropins ?? [])
    files.push({
      path: `${UNITS}/${unit.name}.d/${dropin.name}`,
      permissions: '0644',
      content: dropin.contents,
    });
  return files;
}

/**
 * Does not wait for units to start: one may be ordered after cloud-init itself. systemd reloads its
 * units once for all of them: on an emulated machine each reload takes a twentieth of the boot.
 */
function unitCommands(units: readonly NodeUnit[]): string[] {
  if (units.length === 0) return [];
  const masked = units.filter((unit) => unit.mask);
  const enabled = units.filter((unit) => unit.enabled === true && !unit.mask);
  const disabled = units.filter((unit) => unit.enabled === false && !unit.mask);
  const on = (list: readonly NodeUnit[], verb: string) =>
    list.length === 0 ? [] : [`systemctl ${verb} ${list.map((unit) => shellWord(unit.name)).join(' ')}`];
  return [
    ...on(masked, 'mask --no-reload'),
    ...on(disabled, 'disable --no-reload'),
    ...on(enabled, 'enable --no-reload'),
    'systemctl daemon-reload',
    ...on([...masked, ...disabled], 'stop'),
    ...on(enabled, 'start --no-block'),
  ];
}

function user(one: PlainUser): Mapping {
  return {
    name: one.name,
    ...(one.uid !== undefined && { uid: one.uid }),
    ...(one.system && { system: true }),
    ...(one.gecos && { gecos: one.gecos }),
    ...(one.primaryGroup && { primary_group: one.primaryGroup }),
    ...((one.groups ?? []).length > 0 && { groups: one.groups!.join(', ') }),
    ...(one.shell ? { shell: one.shell } : one.system || one.name === 'root' ? {} : { shell: '/bin/bash' }),
    ...(one.home && { homedir: one.home }),
    lock_passwd: one.passwordHash === undefined,
    ...(one.passwordHash !== undefined && { hashed_passwd: one.passwordHash }),
    ...(one.sudo && { sudo: 'ALL=(ALL) NOPASSWD:ALL' }),
    ...((one.sshKeys ?? []).length > 0 && { ssh_authorized_keys: one.sshKeys! }),
  };
}

function disks(config: PlainConfig): Mapping {
  const { disks: all = [], filesystems = [] } = config;
  if (all.length === 0 && filesystems.length === 0) return {};
  const mounts: Plain[] = [];
  for (const one of all.flatMap((disk) => disk.partitions ?? [])) {
    const device = `/dev/disk/by-partlabel/${one.label}`;
    if (one.filesystem === 'swap') mounts.push([device, 'none', 'swap', 'sw', '0', '0']);
    else if (one.mount && one.filesystem)
      mounts.push([device, one.mount, one.filesystem, 'defaults,nofail', '0', '2']);
  }
  for (const { device, format = 'auto', mount, options = [] } of filesystems)
    if (format === 'swap') mounts.push([device, 'none', 'swap', ['sw', ...options].join(','), '0', '0']);
    else if (mount)
      mounts.push([device, mount, format, ['defaults', 'nofail', ...options].join(','), '0', '2']);
  return { bootcmd: [`(\n${diskScript(all, filesystems)}) || exit 1`], ...(mounts.length > 0 && { mounts }) };
}

/**
 * The keys that we write as lists. An extra document with another type there would replace ours,
 * reporting included.
 */
export const LISTS: readonly string[] = ['users', 'write_files', 'bootcmd', 'runcmd', 'mounts', 'packages'];

/** Why an extra document may not be merged over ours. */
export function mergeFaults(theirs: Mapping): readonly string[] {
  return LISTS.filter((key) => Object.hasOwn(theirs, key) && !Array.isArray(theirs[key])).map(
    (key) => `${key} must be a list: it is appended to Muster's own`,
  );
}

/** Merges an extra document over ours: mappings merge, lists are appended, plain values replace. */
function mergeCloudConfig(ours: Mapping, theirs: Mapping): Mapping {
  const result: { [key: string]: Plain | undefined } = { ...ours };
  for (const [key, value] of Object.entries(theirs)) {
    const mine = Object.hasOwn(ours, key) ? ours[key] : undefined;
    if (Array.isArray(mine) && Array.isArray(value)) result[key] = [...mine, ...value];
    else if (isMapping(mine) && isMapping(value)) result[key] = mergeCloudConfig(mine, value);
    else result[key] = value;
  }
  return result;
}

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
