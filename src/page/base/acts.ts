/**
 * Commands that texts of the server name and that the page can carry out or show: where, and under
 * which words. The table is this one; `parts/note.tsx` makes links of it.
 */
import type { Access } from '../../api/access.ts';

/** What the page offers in place of a command. */
export interface Act {
  /** What the link says, for example `Accept worker-3`. */
  readonly label: string;
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  /** Who may do it. */
  readonly access: Access;
}

/** The orders about one machine, as their buttons say them. */
export const MACHINE_ACTS = {
  accept: 'Accept',
  rearm: 'End the alarm',
  quarantine: 'Quarantine',
  release: 'End the quarantine',
  'take-out': 'Take out',
  'bring-back': 'Bring back',
  rescue: 'Rescue',
  replace: 'Replace',
  wipe: 'Wipe',
  test: 'Test',
  'call-off': 'Call off',
  retire: 'Retire',
} as const;

/**
 * Returns a command with its options. Empty and false ones are left out; true ones are bare.
 *
 * @param words for example `machine`, `accept`, `worker-3`
 */
export const commandOf = (
  words: readonly string[],
  options: Readonly<Record<string, string | boolean>> = {},
): string =>
  [
    'muster',
    ...words.filter((word) => word !== '').map(quoted),
    ...Object.entries(options).flatMap(([flag, value]) =>
      value === '' || value === false ? [] : value === true ? [flag] : [flag, quoted(value)],
    ),
  ].join(' ');

/** As a POSIX shell reads it. */
const quoted = (value: string): string =>
  /^[\w./:@,=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;

/** Orders that an operator gives; an administrator gives the others. */
const OPERATORS_GIVE: readonly string[] = ['accept', 'rearm'];

/** What shows a machine, by the words of the command: the tab, and the label before its name. */
const MACHINE_TABS: Readonly<Record<string, readonly [string, string]>> = {
  explain: ['why', 'Why'],
  render: ['configuration', 'Configuration of'],
  events: ['events', 'Events of'],
  'power status': ['power', 'Power of'],
  'machine timeline': ['timeline', 'Timeline of'],
  'machine console': ['console', 'Console of'],
  'get machine': ['facts', 'Facts of'],
  'get inventory': ['facts', 'Inventory of'],
  'machine life': ['facts', 'State of'],
  'machine wipes': ['facts', 'Wipes of'],
};

/** What shows a cluster: the tab of its view, and the label before its name. */
const CLUSTER_TABS: Readonly<Record<string, readonly [string, string]>> = {
  'cluster status': ['health', 'Health of'],
  'cluster founding': ['members', 'Members of'],
  'cluster backups': ['snapshots', 'Snapshots of'],
  'cluster restore': ['snapshots', 'Restore'],
  change: ['change', 'Change of'],
};

type View = readonly [string, string, Access];
const WAITING: View = ['overview', 'Orders that wait', 'view'];
/** Views of many things. */
const VIEWS: Readonly<Record<string, View>> = {
  status: ['overview', 'see the Overview', 'view'],
  'get machines': ['fleet', 'see the fleet', 'view'],
  'get clusters': ['clusters', 'see the clusters', 'view'],
  'machine waiting': ['register', 'see what waits', 'view'],
  'operator ls': ['operators', 'see the operators', 'administer'],
  'image ls': ['images', 'see the images', 'view'],
  'artifacts ls': ['images', 'see the artifacts', 'view'],
  'pending ls': WAITING,
  'pki status': ['keys', 'see the keys', 'view'],
  events: ['events', 'see the events', 'view'],
};

/** A command of the tables with a name, in a text that does not set it between backquotes. */
const BARE = new RegExp(
  `\\bmuster (?:(?:machine|power) [a-z-]+|${[...Object.keys(MACHINE_TABS), ...Object.keys(CLUSTER_TABS)]
    .filter((words) => !/^(machine|power) /.test(words))
    .join('|')}) [a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?: --profile PROFILE)?`,
  'g',
);

/** Splits a text: commands are at odd places. */
export const splitCommands = (text: string): readonly string[] =>
  text.includes('`') ? text.split('`') : text.replace(BARE, '`$&`').split('`');

/**
 * Returns what the page has in place of a command; undefined: nothing, the command is shown.
 *
 * @param command for example `muster machine accept worker-3`
 * @param here the words of the place where the text stands, which say who NAME is
 */
export function actFor(command: string, here: readonly string[] = []): Act | undefined {
  const [, words = ''] = /^muster ([^`]+)$/.exec(command.trim()) ?? [];
  const view = words.startsWith('pending ') ? WAITING : VIEWS[words];
  if (view) return { label: view[1], path: [view[0]], query: {}, access: view[2] };
  return orderIn(words, here) ?? tabIn(words, here);
}

function orderIn(words: string, here: readonly string[]): Act | undefined {
  const [, of, verb = '', rest = ''] = /^(machine|power) ([a-z-]+) (.+)$/.exec(words) ?? [];
  const name = nameIn(rest, here, 'machines');
  if (name === undefined) return undefined;
  const path = ['machines', name];
  if (of === 'machine' && verb === 'approve')
    return { label: `Approve: ${name}`, path: ['register'], query: {}, access: 'operate' };
  if (of === 'machine' && verb in MACHINE_ACTS) {
    const label = `${MACHINE_ACTS[verb as keyof typeof MACHINE_ACTS]}: ${name}`;
    const access = OPERATORS_GIVE.includes(verb) ? 'operate' : 'administer';
    return { label, path, query: { do: `machine ${verb}` }, access };
  }
  if (of === 'power' && verb !== 'status')
    return {
      label: `Power of ${name}`,
      path,
      query: { tab: 'power', do: `power ${verb}` },
      access: 'operate',
    };
  return undefined;
}

function tabIn(words: string, here: readonly string[]): Act | undefined {
  for (const [view, table] of [
    ['machines', MACHINE_TABS],
    ['clusters', CLUSTER_TABS],
  ] as const)
    for (const [begin, [tab, label]] of Object.entries(table)) {
      if (!words.startsWith(`${begin} `)) continue;
      const named = nameIn(words.slice(begin.length + 1), here, view);
      // A change is named by its cluster, or by its cluster and what of it changes, after a dot.
      const name = view === 'clusters' ? named?.split('.')[0] : named;
      if (name === undefined) continue;
      return { label: `${label} ${name}`, path: [view, name], query: { tab }, access: 'view' };
    }
  return undefined;
}

/** The name that a command is about; a placeholder such as NAME is what is on the screen. */
function nameIn(rest: string, here: readonly string[], view: string): string | undefined {
  const [name = ''] = rest.split(' ');
  if (/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name)) return name;
  return /^[A-Z]+$/.test(name) && here[0] === view ? here[1] : undefined;
}
