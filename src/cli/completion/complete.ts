/** Computes the words that may come next on a command line, for all shells. */
import type { Command, Option } from 'commander';
import { CATALOGUE } from '../../cluster/objects/addons/catalogue.ts';
import { PLURAL } from '../../resources/kinds.ts';
import { kindNamed, OTHER_LISTS } from '../names.ts';

/** The server's lists, from which names come. */
export type List = 'machines' | 'clusters' | 'profiles' | 'images' | 'networks' | 'artifacts';

/** Candidates for the last word. `file` means names of files, which the shell completes. */
export type Candidates = readonly string[] | 'file';

/** The source of the words for an argument of a command, or for the value of an option. */
type Source =
  | List
  | 'file'
  | 'kinds'
  | 'named'
  | 'machines and kinds'
  | 'subjects'
  | 'catalogue'
  | 'commands';

const CLUSTER_THEN_MACHINES: readonly Source[] = ['clusters', 'machines'];

/**
 * Sources of the arguments of each command, by position; the last source counts for all further
 * arguments.
 */
const ARGUMENTS: Readonly<Record<string, readonly (Source | readonly string[])[]>> = {
  validate: ['file'],
  get: ['kinds', 'named'],
  delete: ['kinds', 'named'],
  explain: ['machines and kinds'],
  render: ['machines'],
  events: ['subjects'],
  'machine accept': ['machines'],
  'machine timeline': ['machines'],
  'machine approve': ['machines'],
  'machine rearm': ['machines'],
  'network snippet': ['networks'],
  'cluster status': ['clusters'],
  'cluster verify': ['clusters'],
  'cluster plan': ['machines'],
  'cluster founding': ['clusters'],
  'cluster found': ['clusters'],
  'cluster etcd-client': ['clusters', 'file'],
  'cluster add-node': CLUSTER_THEN_MACHINES,
  'cluster remove-node': CLUSTER_THEN_MACHINES,
  'cluster reset': ['clusters'],
  'cluster restore': ['clusters'],
  'cluster call-off': CLUSTER_THEN_MACHINES,
  'cluster adopt': CLUSTER_THEN_MACHINES,
  'cluster upgrade': ['clusters'],
  'cluster roll': ['clusters'],
  'cluster heal': CLUSTER_THEN_MACHINES,
  change: ['clusters', ['pause', 'resume', 'roll-back', 'leave-out', 'watch'], 'machines'],
  kubeconfig: ['clusters'],
  'pki status': ['clusters'],
  'pki accept': ['clusters'],
  'addon ls': ['clusters'],
  'addon show': ['catalogue'],
  'addon pin': ['catalogue'],
  'image build': [['debian', 'discovery', 'probe']],
  'image verify': ['images'],
  'image rm': ['images'],
  'artifacts plan': ['clusters'],
  'artifacts pull': ['clusters'],
  'artifacts import': ['file'],
  'artifacts pack': ['file'],
  'artifacts verify': ['artifacts'],
  'artifacts rm': ['artifacts'],
  'lab run': ['file'],
  completion: [['bash', 'zsh', 'fish']],
  help: ['commands'],
};

/** Sources of the values of options. */
const VALUES: Readonly<Record<string, List>> = {
  '--cluster': 'clusters',
  '--from': 'machines',
  '--network': 'networks',
  '--profile': 'profiles',
  '--replace-with': 'machines',
  '--without': 'machines',
};

/** The position of the last word. */
interface Place {
  readonly command: Command;
  readonly path: string;
  /** The arguments before the last word. */
  readonly given: readonly string[];
  /** The option of which the last word is the value; undefined when it is not a value. */
  readonly option: Option | undefined;
}

/**
 * The candidates for the last of `words`, which is being typed and may be empty. `words` are the
 * words after `muster`. `names` asks the server for a list, and returns no names when the server
 * does not answer.
 */
export async function complete(
  words: readonly string[],
  program: Command,
  names: (list: List) => Promise<readonly string[]>,
): Promise<Candidates> {
  const typed = words.at(-1) ?? '';
  const place = placeOf(words.slice(0, -1), program);
  const found = await candidates(place, typed, program, names);
  return found === 'file' ? found : [...new Set(found)].filter((one) => one.startsWith(typed)).sort();
}

function placeOf(words: readonly string[], program: Command): Place {
  let command = program;
  let path = '';
  let option: Option | undefined;
  const given: string[] = [];
  for (const word of words) {
    // bash splits --option=value into three words.
    if (word === '=') continue;
    if (option !== undefined) {
      option = undefined;
      continue;
    }
    if (word.startsWith('-')) {
      const found = command.options.find(({ short, long }) => word === short || word === long);
      option = found?.required ? found : undefined;
      continue;
    }
    const child = given.length === 0 ? command.commands.find((one) => one.name() === word) : undefined;
    if (child === undefined) given.push(word);
    else {
      command = child;
      path = path === '' ? word : `${path} ${word}`;
    }
  }
  return { command, path, given, option };
}

async function candidates(
  { command, path, given, option }: Place,
  typed: string,
  program: Command,
  names: (list: List) => Promise<readonly string[]>,
): Promise<Candidates> {
  if (option !== undefined) return await valuesOf(option, names);
  const flags = command.options.flatMap(({ short, long, hidden }) =>
    hidden ? [] : [short, long].filter((flag) => flag !== undefined),
  );
  if (typed.startsWith('-')) return [...flags, '--help'];
  const children = visible(command);
  if (children.length > 0) return children;
  const sources = ARGUMENTS[path];
  if (sources === undefined) return [...flags, '--help'];
  const at = Math.min(given.length, sources.length - 1);
  const source = sources[at]!;
  if (typeof source !== 'string') return given.length === at ? source : [];
  // An argument that is not variadic takes one word only.
  const most = command.registeredArguments;
  if (given.length >= most.length && !most.at(-1)?.variadic) return [...flags, '--help'];
  return await namesFrom(source, { given, typed, program, names });
}

const visible = (command: Command): readonly string[] =>
  command
    .createHelp()
    .visibleCommands(command)
    // This leaves out the `help` that commander adds to every noun.
    .filter((child) => command.commands.includes(child))
    .map((child) => child.name());

async function valuesOf(
  option: Option,
  names: (list: List) => Promise<readonly string[]>,
): Promise<Candidates> {
  if (option.argChoices) return option.argChoices;
  const list = VALUES[option.long ?? ''];
  if (list !== undefined) return await names(list);
  return /<(path|dir|directory|file|source)>/.test(option.flags) ? 'file' : [];
}

async function namesFrom(
  source: Source,
  on: {
    readonly given: readonly string[];
    readonly typed: string;
    readonly program: Command;
    readonly names: (list: List) => Promise<readonly string[]>;
  },
): Promise<Candidates> {
  const { given, typed, program, names } = on;
  const kinds = [...Object.values(PLURAL), ...Object.keys(OTHER_LISTS)];
  switch (source) {
    case 'file':
      return 'file';
    case 'kinds':
      return typed.includes('/') ? await withKind(typed, names) : [...kinds, 'all'];
    case 'named': {
      const kind = kindNamed(given[0] ?? '');
      if (typed.includes('/')) return await withKind(typed, names);
      return kind === undefined ? [] : await names(PLURAL[kind] as List);
    }
    case 'machines and kinds':
      return [...(await names('machines')), ...Object.keys(PLURAL).map((kind) => kind.toLowerCase())];
    case 'subjects':
      return [...(await names('machines')), ...(await names('clusters')).map((name) => `cluster/${name}`)];
    case 'catalogue':
      return Object.keys(CATALOGUE);
    case 'commands': {
      let command: Command | undefined = program;
      for (const word of given) command = command?.commands.find((one) => one.name() === word);
      return command === undefined ? [] : visible(command);
    }
    default:
      return await names(source);
  }
}

/** `machine/no` → the names of machines, each with `machine/` before it. */
async function withKind(
  typed: string,
  names: (list: List) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const word = typed.split('/')[0]!;
  const kind = kindNamed(word);
  if (kind === undefined) return [];
  return (await names(PLURAL[kind] as List)).map((name) => `${word}/${name}`);
}
