/**
 * Words the answer to a command line that commander does not understand: the error in one line, and
 * what was probably meant. Words of other tools are translated. A destructive verb is never
 * suggested. Pure.
 */
import type { Command, CommanderError } from 'commander';
import { suggest } from '../base/suggest.ts';

/** Verbs that end or delete something, or decide something that cannot be undone. */
const DESTRUCTIVE: ReadonlySet<string> = new Set([
  'adopt',
  'call-off',
  'delete',
  'forget',
  'found',
  'rearm',
  'remove-node',
  'reset',
  'restore',
  'rm',
  'wipe',
]);

/** Options that lift a safeguard. */
const DANGEROUS_OPTIONS: ReadonlySet<string> = new Set([
  '--all',
  '--clear',
  '--confirm',
  '--force',
  '--unused',
  '--without',
]);

const APPLY = '`muster apply -f FILE` creates and changes documents';
const POWER = '`muster power on MACHINE` switches one on through its BMC; off, cycle and reset as well';
const REBOOT =
  '`muster cluster roll CLUSTER` reboots the machines of a cluster one by one; `muster power --help` shows what restarts one that hangs';
const REINSTALL =
  'machines run from memory: reboot it, and it boots the image that its profile names; `muster explain MACHINE` shows which';
const WIPE =
  '`muster machine wipe NAME --level overwrite --reason TEXT --confirm NAME` wipes one that is out of use; `muster cluster remove-node --help` says what is cleared when one leaves its cluster';
const EDIT = '`muster edit machine NAME` changes its document';
const INVITE = '`muster operator invite NAME` makes a link with which somebody sets a new password';
const KUBECTL = 'that is done with kubectl: `muster kubeconfig CLUSTER` prints a kubeconfig for it';

/** Words of kubectl and other tools → the way to do it with Muster; by the path of the command. */
export const FOREIGN_WORDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  muster: {
    annotate: `${APPLY}, with their labels`,
    bootstrap:
      'a cluster founds itself when its machines are on; `muster cluster status CLUSTER` shows how far',
    boot: POWER,
    config: '`muster get`, `muster apply` and `muster validate` work with documents',
    cordon: KUBECTL,
    create: APPLY,
    describe: '`muster explain MACHINE` shows what a machine would get and why',
    discover: 'machines are discovered when they boot; `muster get machines` lists them',
    drain: KUBECTL,
    exec: 'Muster does not run commands on machines; log in with ssh',
    init: 'nothing has to be initialised; `muster serve` makes its state directory',
    install: '`muster image build` makes an image; machines install nothing',
    join: '`muster cluster add-node CLUSTER MACHINE` adds a machine to a cluster',
    label: `${APPLY}, with their labels`,
    list: '`muster get KIND` lists documents, machines, leases and events',
    log: '`muster events SUBJECT` shows what happened',
    logs: '`muster events SUBJECT` shows what happened',
    ls: '`muster get KIND` lists documents, machines, leases and events',
    patch: '`muster edit KIND NAME` changes a document',
    password: INVITE,
    reboot: REBOOT,
    reimage: REINSTALL,
    reinstall: REINSTALL,
    replace: APPLY,
    rollout: '`muster cluster status CLUSTER` shows changes that are under way',
    run: '`muster serve` runs the server',
    scale: '`muster cluster add-node CLUSTER MACHINE` adds machines; Muster does not scale by a number',
    set: APPLY,
    show: '`muster get KIND NAME -o yaml` prints a document',
    ssh: 'Muster does not run commands on machines; log in with ssh',
    start: '`muster serve` runs the server',
    taint: `${APPLY}; taints of nodes belong to the Cluster document`,
    uncordon: KUBECTL,
    update: APPLY,
    upgrade: '`muster cluster upgrade CLUSTER` upgrades Kubernetes on a running cluster',
    user: '`muster operator add NAME --role ROLE` makes an account',
    watch: '`muster get KIND --watch` and `muster events --follow` keep running',
    wipe: WIPE,
  },
  'muster cluster': {
    add: '`muster cluster add-node CLUSTER MACHINE` adds machines',
    cordon: KUBECTL,
    create: '`muster apply -f FILE` creates a cluster from its Cluster document',
    delete: 'a cluster is not deleted by one word: `muster cluster --help` lists what ends one',
    describe: '`muster cluster status CLUSTER` shows its health',
    destroy: 'a cluster is not deleted by one word: `muster cluster --help` lists what ends one',
    drain: KUBECTL,
    get: '`muster get clusters` lists clusters',
    health: '`muster cluster status CLUSTER` shows its health',
    init: '`muster apply -f FILE` creates a cluster from its Cluster document',
    join: '`muster cluster add-node CLUSTER MACHINE` adds machines',
    kubeconfig: '`muster kubeconfig CLUSTER` prints a kubeconfig',
    list: '`muster get clusters` lists clusters',
    ls: '`muster get clusters` lists clusters',
    scale: '`muster cluster add-node CLUSTER MACHINE` adds machines; Muster does not scale by a number',
    snapshot: '`muster cluster backups CLUSTER` lists the snapshots that Muster takes of etcd',
    snapshots: '`muster cluster backups CLUSTER` lists the snapshots that Muster takes of etcd',
    update: '`muster apply -f FILE` changes a cluster by its Cluster document',
  },
  'muster machine': {
    create: '`muster machine add MAC` creates a Machine document',
    delete: '`muster machine --help` lists what there is; Machine documents are deleted as others are',
    describe: '`muster explain MACHINE` shows what a machine would get and why',
    edit: EDIT,
    get: '`muster get machines` lists machines',
    list: '`muster get machines` lists machines',
    ls: '`muster get machines` lists machines',
    move: '`muster cluster --help` lists what takes a machine out of a cluster, and into one',
    power: POWER,
    reboot: REBOOT,
    reimage: REINSTALL,
    reinstall: REINSTALL,
    rename: `a machine is recognised by what its document lists; ${EDIT}`,
    restart: REBOOT,
    show: '`muster explain MACHINE` shows what a machine would get and why',
  },
  'muster image': {
    create: '`muster image build` makes an image',
    delete: '`muster image --help` lists what there is',
    pull: '`muster image build` makes an image, `muster image add NAME --kernel URL` fetches one',
    upload: '`muster image add` uploads an image',
  },
  'muster artifacts': {
    add: '`muster artifacts import` uploads files',
    delete: '`muster artifacts --help` lists what there is',
    fetch: '`muster artifacts pull CLUSTER` fetches what a cluster needs',
    upload: '`muster artifacts import` uploads files',
  },
  'muster operator': {
    create: '`muster operator add NAME --role ROLE` makes an account',
    delete: '`muster operator --help` lists what there is',
    password: INVITE,
  },
  'muster addon': {
    add: '`muster addon pin NAME` prints what to write into the Cluster document',
    install: '`muster addon pin NAME` prints what to write into the Cluster document',
  },
};

const SERVER = 'Muster is reached through --socket, or at another host after `muster login URL`';

/** Options of kubectl that have no meaning here. */
const FOREIGN_OPTIONS: Readonly<Record<string, string>> = {
  '-A': 'there are no namespaces: all documents of a kind are listed anyway',
  '--all-namespaces': 'there are no namespaces: all documents of a kind are listed anyway',
  '-n': 'there are no namespaces',
  '--namespace': 'there are no namespaces',
  '--sort-by': 'lists are sorted by name',
  '--field-selector': '-l selects by labels',
  '--show-labels': '-o wide shows labels',
  '--kubeconfig': SERVER,
  '--server': SERVER,
};

/** A command line that was not understood. */
interface Mistake {
  readonly command: Command;
  /** The command as it was typed, such as `muster cluster`. */
  readonly path: string;
  readonly error: CommanderError;
}

/** The error in one line, with what was probably meant if that is known. */
export function usageText(mistake: Mistake): string {
  const first = mistake.error.message
    .trim()
    .split('\n')[0]!
    .replace(/^error: /, '')
    .replace(/\.$/, '');
  const hint = hintFor(mistake);
  return hint === undefined ? first : `${first}; ${hint}`;
}

function hintFor({ command, path, error }: Mistake): string | undefined {
  switch (error.code) {
    case 'commander.unknownCommand':
      return commandHint(command, path, command.args[0] ?? '');
    case 'commander.unknownOption':
      return optionHint(command, path, error);
    case 'commander.missingMandatoryOptionValue':
      return missingHint(command, path);
    default:
      return undefined;
  }
}

/** The command line again, with the options that it has to have. */
function missingHint(command: Command, path: string): string | undefined {
  const missing = command.options.filter(
    (one) => one.mandatory && command.getOptionValue(one.attributeName()) === undefined,
  );
  const words = command.args.filter((word) => !word.startsWith('-'));
  // What is named without -f is the file.
  const [file] = missing.some(({ short }) => short === '-f') ? words : [];
  if (file !== undefined) return `write \`${path} -f ${file}\``;
  const added = missing.map(({ flags }) => flags.replace(/^-\w, /, '').replace(/<.*>/, placeholder));
  return words.length === 0 ? undefined : `write \`${[path, ...words, ...added].join(' ')}\``;
}

/** `<file>` as texts write it: `FILE`. */
const placeholder = (name: string): string => name.replace(/[<>.]/g, '').toUpperCase();

/** The words with which other tools list things; here it is `ls` below the noun. */
const LISTS: ReadonlySet<string> = new Set(['get', 'list', 'show']);

/**
 * A text that says what was meant by `word`, which is not a command below `path`; undefined when
 * nothing is known. The names of commands are taken from the tree.
 */
export function commandHint(command: Command, path: string, word: string): string | undefined {
  const foreign = FOREIGN_WORDS[path] ?? {};
  const known = word.toLowerCase();
  if (Object.hasOwn(foreign, known)) return foreign[known];
  const verbs = command
    .createHelp()
    .visibleCommands(command)
    .map((child) => child.name())
    .filter((name) => !DESTRUCTIVE.has(name));
  if (LISTS.has(known) && verbs.includes('ls')) return `\`${path} ls\` lists them`;
  const elsewhere = pathsByName(rootOf(command), 'muster');
  const meant = suggest(known, [...verbs, ...Object.keys(foreign), ...elsewhere.keys()]);
  if (meant === undefined) return undefined;
  if (verbs.includes(meant)) return `did you mean ${meant}?`;
  return foreign[meant] ?? `did you mean ${elsewhere.get(meant)!.join(' or ')}?`;
}

const rootOf = (command: Command): Command => (command.parent ? rootOf(command.parent) : command);

/** The name of each verb that may be suggested → the commands of that name, with their paths. */
function pathsByName(
  command: Command,
  path: string,
  found = new Map<string, string[]>(),
): ReadonlyMap<string, readonly string[]> {
  for (const child of command.createHelp().visibleCommands(command)) {
    const name = child.name();
    const here = `${path} ${name}`;
    if (!DESTRUCTIVE.has(name)) found.set(name, [...(found.get(name) ?? []), `\`${here}\``]);
    pathsByName(child, here, found);
  }
  return found;
}

function optionHint(command: Command, path: string, error: CommanderError): string | undefined {
  // commander has no field for an unknown option; its name is the text in quotes in the message.
  const flag = /'([^']+)'/.exec(error.message)?.[1] ?? '';
  const known = command.options.flatMap(({ long }) => (long ? [long] : []));
  const meant = flag.startsWith('--')
    ? suggest(
        flag,
        known.filter((one) => !DANGEROUS_OPTIONS.has(one)),
      )
    : undefined;
  if (meant !== undefined) return `did you mean ${meant}?`;
  if (path === 'muster image build')
    return `options of the recipe come after --, such as \`muster image build debian -- ${flag} …\``;
  if (Object.hasOwn(FOREIGN_OPTIONS, flag)) return FOREIGN_OPTIONS[flag];
  if (command.parent === null && takenBelow(command, flag))
    return `options come after the command, such as \`muster status ${flag} …\``;
  return undefined;
}

/** Whether any command below this one has the option. */
function takenBelow(command: Command, flag: string): boolean {
  return command.commands.some(
    (child) => child.options.some(({ long }) => long === flag) || takenBelow(child, flag),
  );
}
