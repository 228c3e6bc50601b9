/** What a cluster's machine gets with its first configuration: the agent, whom it believes, and where to ask. Pure. */
import type { ConfigLayer } from '../ignition/rendered.ts';
import { templateLiteral } from '../ignition/template.ts';
import { AGENT_PATHS } from './plan.ts';
import { AGENT_SCRIPT, AGENT_UNIT, CHECK_SCRIPT, DISK_SCRIPT, PLAN_SCRIPT } from './texts.ts';

/** Which disk a machine keeps its data on; it must be the only one that fits all that is given. */
export interface DataSelector {
  /** A link below /dev/disk, or the disk's own path. */
  readonly path?: string;
  readonly serial?: string;
  /** Inclusive. */
  readonly minMiB?: number;
  readonly maxMiB?: number;
}

export interface AgentSettings {
  /** URL of the agents' listener, without a path. */
  readonly server: string;
  readonly machine: string;
  /** Id of the boot session. */
  readonly session: string;
  /** Good for minutes, for this machine, session and address. */
  readonly ticket: string;
  /** PEM of every trusted generation of Muster's CA. */
  readonly authority: string;
  /** Absent: the machine keeps nothing. */
  readonly data?: DataSelector;
  /** Whether the agent may set the machine's clock (forward by more than a minute; at first start in both directions). */
  readonly setsClock: boolean;
  /** The server's time, ms since 1970. */
  readonly now: number;
}

const FILES = {
  'muster-agent.sh': AGENT_SCRIPT,
  'muster-plan.sh': PLAN_SCRIPT,
  'muster-disk.sh': DISK_SCRIPT,
  'muster-check.sh': CHECK_SCRIPT,
} as const;

/** As muster-disk.sh reads it. Throws RangeError for what cannot be said there. */
export function selectorText({ path, serial, minMiB, maxMiB }: DataSelector): string {
  const terms = [
    ...(path === undefined ? [] : [`path=${path}`]),
    ...(serial === undefined ? [] : [`serial=${serial}`]),
    ...(minMiB === undefined && maxMiB === undefined ? [] : [`size=${minMiB ?? ''}-${maxMiB ?? ''}`]),
  ];
  if (terms.length === 0) throw new RangeError('a selector that selects every disk');
  const text = terms.join(' ');
  if (!/^[A-Za-z0-9@%+=:,._/ -]+$/.test(text) || terms.some((term) => term.includes(' ')))
    throw new RangeError(`not a selector for a disk: ${text}`);
  return text;
}

/** The text of AGENT_PATHS.settings. Throws RangeError for a value with a line break. */
export function settingsText(settings: AgentSettings): string {
  const lines = {
    server: settings.server,
    machine: settings.machine,
    session: settings.session,
    ticket: settings.ticket,
    ...(settings.data && { data: selectorText(settings.data) }),
    ...(settings.setsClock && { clock: 'set' }),
    time: String(Math.floor(settings.now / 1000)),
  };
  return Object.entries(lines)
    .map(([name, value]) => {
      if (/[\r\n]/.test(value)) throw new RangeError(`a line break in ${name}`);
      return `${name}=${value}\n`;
    })
    .join('');
}

/** The scripts as files of a configuration. */
export const AGENT_SCRIPTS = Object.entries(FILES).map(([name, text]) => ({
  path: `/etc/muster/${name}`,
  mode: '0755',
  content: templateLiteral(text),
}));

/** The lowest layer of a machine of a cluster, beside MUSTER_LAYER. Holds the ticket: it is rendered for one session and not kept. */
export function agentLayer(settings: AgentSettings): ConfigLayer {
  return {
    layer: 'muster',
    document: 'muster',
    config: {
      files: [
        ...AGENT_SCRIPTS,
        { path: AGENT_PATHS.authority, mode: '0644', content: templateLiteral(settings.authority) },
        { path: AGENT_PATHS.settings, mode: '0600', content: templateLiteral(settingsText(settings)) },
      ],
      units: [{ name: 'muster-agent.service', enabled: true, contents: templateLiteral(AGENT_UNIT) }],
    },
  };
}
