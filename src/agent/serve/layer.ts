/**
 * The layer of configuration that puts the agent on a cluster's machine, with the CA that it trusts
 * and the server that it polls. Pure.
 */
import { MusterError } from '../../base/errors.ts';
import { shared } from '../../base/shared.ts';
import type { ConfigLayer } from '../../ignition/rendered.ts';
import { templateLiteral } from '../../ignition/template.ts';
import { type DataEncryption, serialWord } from '../../resources/disk-spec.ts';
import type { NodeUnit } from '../../resources/nodeconfig.ts';
import { AGENT_BUNDLE } from '../scripts/bundle.ts';
import { AGENT_SCRIPTS, AGENT_UNIT, BOOT_SCRIPT, START_SCRIPT } from '../scripts/scripts.files.ts';
import { AGENT_PATHS } from '../wire/plan.ts';

/** Selects the disk for a machine's data; exactly one disk must match all the fields. */
export interface DataSelector {
  /** A link below /dev/disk, or the disk's own path. */
  readonly path?: string;
  readonly serial?: string;
  /** The size, both ends inclusive. */
  readonly minMiB?: number;
  readonly maxMiB?: number;
}

/**
 * The boot disk, and the files for it that the machine does not have already (it has root image and
 * configuration).
 */
export interface BootDisk {
  readonly disk: DataSelector;
  readonly kernel: BootFile;
  readonly initrds: readonly BootFile[];
}

/** A file as the machine fetches it. */
interface BootFile {
  readonly url: string;
  readonly sha256: string;
  /** Octets, if the Image names them. */
  readonly size?: number | undefined;
}

export interface AgentSettings {
  /** URL of the agents' listener, without a path. */
  readonly server: string;
  /** The same of hosts that may become the boot host. Absent: none. */
  readonly standby?: readonly string[];
  readonly machine: string;
  /** Id of the boot session. */
  readonly session: string;
  /**
   * Valid for minutes, for this machine, session and address. Absent where another server gives the
   * machine its address.
   */
  readonly ticket?: string;
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  /** Absent: the machine keeps nothing. */
  readonly data?: DataSelector;
  /** How a new data filesystem is encrypted; absent: not at all. */
  readonly encrypt?: DataEncryption;
  /** The disk for etcd's data alone; absent: they are on the data disk. */
  readonly etcdDisk?: DataSelector;
  readonly etcdEncrypt?: DataEncryption;
  /** Absent: the machine boots from the network alone. */
  readonly boot?: BootDisk;
  /** The system is installed on a disk, so files of its last boot are still there. */
  readonly installed?: true;
  /**
   * Whether the agent may set the machine's clock: forward by more than a minute, and at its first
   * start in both directions.
   */
  readonly setsClock: boolean;
  /** The server's time, ms since 1970; undefined while it is in doubt. */
  readonly now: number | undefined;
}

/**
 * A disk selector in the form that muster-disk.sh reads.
 *
 * @throws {MusterError} E_CONFIG when the script could not read it, e.g. a path with a blank.
 */
export function selectorText({ path, serial, minMiB, maxMiB }: DataSelector): string {
  const terms = [
    ...(path === undefined ? [] : [`path=${path}`]),
    ...(serial === undefined ? [] : [`serial=${serialWord(serial)}`]),
    ...(minMiB === undefined && maxMiB === undefined ? [] : [`size=${minMiB ?? ''}-${maxMiB ?? ''}`]),
  ];
  if (terms.length === 0) throw new MusterError('E_CONFIG', 'a disk selector must not select every disk');
  const text = terms.join(' ');
  if (!/^[A-Za-z0-9@%+=:,._/ -]+$/.test(text) || terms.some((term) => term.includes(' ')))
    throw new MusterError(
      'E_CONFIG',
      `the disk "${text}" cannot be passed to the machine; use letters, digits and "@%+=:,._/-" alone`,
    );
  return text;
}

/** Reads {@link selectorText}; undefined for a text that it does not write. */
export function parseSelector(text: string): DataSelector | undefined {
  const term = (name: string, value: string) => `(?: ?${name}=(?<${name}>${value}))?`;
  const form = `^${term('path', '/[^ ]+')}${term('serial', '[^ ]+')}(?: ?size=(?<min>[0-9]{0,10})-(?<max>[0-9]{0,10}))?$`;
  const { path, serial, min, max } = new RegExp(form).exec(text)?.groups ?? {};
  const selector: DataSelector = {
    ...(path && { path }),
    ...(serial && { serial }),
    ...(min && { minMiB: Number(min) }),
    ...(max && { maxMiB: Number(max) }),
  };
  if (Object.keys(selector).length === 0) return undefined;
  try {
    return selectorText(selector) === text ? selector : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The text of a settings file.
 *
 * @throws {RangeError} for a value with a line break
 */
export const linesOf = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => {
      if (/[\r\n]/.test(value)) throw new RangeError(`a line break in ${name}`);
      return `${name}=${value}\n`;
    })
    .join('');

/**
 * The text of the file at AGENT_PATHS.settings.
 *
 * @throws {RangeError} for a value with a line break
 * @throws {MusterError} E_CONFIG for a disk selector that cannot be passed ({@link selectorText})
 */
export const settingsText = (settings: AgentSettings): string =>
  linesOf({
    server: settings.server,
    ...(settings.standby && { standby: settings.standby.join(' ') }),
    machine: settings.machine,
    session: settings.session,
    agent: AGENT_BUNDLE.digest,
    ...(settings.ticket !== undefined && { ticket: settings.ticket }),
    ...(settings.data && { data: selectorText(settings.data) }),
    ...(settings.encrypt && { encrypt: settings.encrypt }),
    ...(settings.etcdDisk && { etcddisk: selectorText(settings.etcdDisk) }),
    ...(settings.etcdEncrypt && { etcdencrypt: settings.etcdEncrypt }),
    ...(settings.boot && {
      boot: selectorText(settings.boot.disk),
      kernel: fileText(settings.boot.kernel),
      initrds: settings.boot.initrds.map(fileText).join(' '),
    }),
    ...(settings.installed && { installed: 'yes' }),
    ...(settings.setsClock && { clock: 'set' }),
    ...(settings.now !== undefined && { time: timeText(settings.now) }),
  });

/** The largest kernel or initrd, in octets, where the Image names no size. */
const MOST_OCTETS = 2 ** 31;

const fileText = ({ url, sha256, size = MOST_OCTETS }: BootFile): string => `${url} ${sha256} ${size}`;

/** A time in the form that the scripts read: seconds since 1970. */
export const timeText = (now: number): string => String(Math.floor(now / 1000));

const scriptFile = (name: string, text: string) =>
  shared({ path: `/etc/muster/${name}`, mode: '0755', content: templateLiteral(text) });

/** The scripts as files of a configuration. */
const SCRIPT_FILES = Object.entries(AGENT_SCRIPTS).map(([name, text]) => scriptFile(name, text));
const START_FILE = scriptFile('muster-start.sh', START_SCRIPT);
/**
 * Sent only to machines with a boot disk, because every machine fetches its first configuration at
 * every boot.
 */
const BOOT_DISK_SCRIPT = scriptFile('muster-boot.sh', BOOT_SCRIPT);

/**
 * A plan makes this unit minutes after the first configuration; operators' own units may be ordered
 * before or after it (docs/clusters.md).
 */
const LATE_UNITS = ['kubelet.service'];

/** The ticket of an installed system counts when that system has reported from its disk. */
const AFTER_REPORT = {
  name: 'installed.conf',
  contents: '[Unit]\nAfter=muster-configured.service\n',
};

/**
 * The agent's layer of a machine, the lowest apart from MUSTER_LAYER. It holds the ticket, so it is
 * rendered for one session and not kept. Throws as {@link settingsText}.
 */
export const agentLayer = (settings: AgentSettings): ConfigLayer =>
  layerOf({
    authority: settings.authority,
    settings: settingsText(settings),
    files: settings.boot ? [START_FILE, BOOT_DISK_SCRIPT] : [START_FILE],
    unit: {
      name: 'muster-agent.service',
      contents: AGENT_UNIT,
      ...(settings.installed && { dropins: [AFTER_REPORT] }),
    },
  });

/** A layer with the scripts, the files that they read and the unit that starts them. */
export function layerOf({
  authority,
  settings,
  files = [],
  unit,
}: {
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  /** The text of AGENT_PATHS.settings. */
  readonly settings: string;
  /** More files. */
  readonly files?: NonNullable<ConfigLayer['config']['files']>;
  readonly unit: Pick<NodeUnit, 'name' | 'dropins'> & { readonly contents: string };
}): ConfigLayer {
  return {
    layer: 'muster',
    document: 'muster',
    lateUnits: LATE_UNITS,
    config: {
      files: [
        ...SCRIPT_FILES,
        { path: AGENT_PATHS.authority, mode: '0644', content: templateLiteral(authority) },
        { path: AGENT_PATHS.settings, mode: '0600', content: templateLiteral(settings) },
        ...files,
      ],
      units: [{ ...unit, enabled: true, contents: templateLiteral(unit.contents) }],
    },
  };
}
