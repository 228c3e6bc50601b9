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
const KUBECTL = 'that is done with kubectl: `muster kubeconfig CLUSTER` prints a kubeconfig for it';

/** Words of kubectl and other tools → the way to do it with Muster; by the path of the command. */
const FOREIGN_WORDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  muster: {
    annotate: `${APPLY}, with their labels`,
    backup: 'Muster has no backup command yet',
    bootstrap:
      'a cluster founds itself when its machines are on; `muster cluster status CLUSTER` shows how far',
    boot: 'Muster does not switch machines on; power it on, and `muster events --follow` shows its boot',
    config: '`muster get`, `muster apply` and `muster validate` work with documents',
    cordon: KUBECTL,
    create: APPLY,
    describe: '`muster explain MACHINE` shows what a machine would get and why',
    discover: 'machines are discovered when they boot; `muster get machines` lists them',
    drain: KUBECTL,
    edit: `${APPLY}; \`muster get KIND NAME -o yaml\` prints one to start from`,
    exec: 'Muster does not run commands on machines; log in with ssh',
    init: 'nothing has to be initialised; `muster serve` makes its state directory',
    install: '`muster image build` makes an image; machines install nothing',
    join: '`muster cluster add-node CLUSTER MACHINE` adds a machine to a cluster',
    label: `${APPLY}, with their labels`,
    list: '`muster get KIND` lists documents, machines, leases and events',
    log: '`muster events SUBJECT` shows what happened',
    logs: '`muster events SUBJECT` shows what happened',
    ls: '`muster get KIND` lists documents, machines, leases and events',
    patch: APPLY,
    power: 'Muster does not switch machines on or off',
    reboot: 'Muster does not switch machines on or off',
    replace: APPLY,
    rollout: '`muster cluster status CLUSTER` shows changes that are under way',
    rotate: 'Muster has no command for the rotation of keys yet',
    run: '`muster serve` runs the server',
    scale: '`muster cluster add-node CLUSTER MACHINE` adds machines; Muster does not scale by a number',
    set: APPLY,
    show: '`muster get KIND NAME -o yaml` prints a document',
    ssh: 'Muster does not run commands on machines; log in with ssh',
    start: '`muster serve` runs the server',
    taint: `${APPLY}; taints of nodes belong to the Cluster document`,
    top: '`muster cluster status CLUSTER` shows the health of a cluster',
    uncordon: KUBECTL,
    update: APPLY,
    upgrade: '`muster cluster upgrade CLUSTER` upgrades Kubernetes on a running cluster',
    watch: '`muster get KIND --watch` and `muster events --follow` keep running',
  },
  'muster cluster': {
    add: '`muster cluster add-node CLUSTER MACHINE` adds machines',
    backup: 'Muster has no snapshots of etcd yet',
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
    rotate: 'Muster has no command for the rotation of keys yet',
    scale: '`muster cluster add-node CLUSTER MACHINE` adds machines; Muster does not scale by a number',
    snapshot: 'Muster has no snapshots of etcd yet',
    update: '`muster apply -f FILE` changes a cluster by its Cluster document',
  },
  'muster machine': {
    create: '`muster machine add MAC` creates a Machine document',
    delete: '`muster machine --help` lists what there is; Machine documents are deleted as others are',
    describe: '`muster explain MACHINE` shows what a machine would get and why',
    get: '`muster get machines` lists machines',
    list: '`muster get machines` lists machines',
    ls: '`muster get machines` lists machines',
    show: '`muster explain MACHINE` shows what a machine would get and why',
  },
  'muster image': {
    create: '`muster image build` makes an image',
    delete: '`muster image --help` lists what there is',
    get: '`muster image ls` lists images',
    list: '`muster image ls` lists images',
    pull: '`muster image build` makes an image, `muster image add NAME --kernel URL` fetches one',
    upload: '`muster image add` uploads an image',
  },
  'muster artifacts': {
    add: '`muster artifacts import` uploads files',
    delete: '`muster artifacts --help` lists what there is',
    fetch: '`muster artifacts pull CLUSTER` fetches what a cluster needs',
    get: '`muster artifacts ls` lists artifacts',
    list: '`muster artifacts ls` lists artifacts',
    upload: '`muster artifacts import` uploads files',
  },
  'muster addon': {
    add: '`muster addon pin NAME` prints what to write into the Cluster document',
    get: '`muster addon ls` lists add-ons',
    install: '`muster addon pin NAME` prints what to write into the Cluster document',
    list: '`muster addon ls` lists add-ons',
  },
};

/** Options of kubectl that have no meaning here. */
const FOREIGN_OPTIONS: Readonly<Record<string, string>> = {
  '-A': 'there are no namespaces: all documents of a kind are listed anyway',
  '--all-namespaces': 'there are no namespaces: all documents of a kind are listed anyway',
  '-n': 'there are no namespaces',
  '--namespace': 'there are no namespaces',
  '--sort-by': 'lists are sorted by name',
  '--field-selector': '-l selects by labels',
  '--show-labels': '-o wide shows labels',
  '--kubeconfig': 'Muster is reached through --socket',
  '--server': 'Muster is reached through --socket',
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
    case 'commander.missingMandatoryOptionValue': {
      const file = command.args.find((word) => !word.startsWith('-'));
      return file === undefined ? undefined : `write \`${path} -f ${file}\``;
    }
    default:
      return undefined;
  }
}

/**
 * A text that says what was meant by `word`, which is not a command below `path`; undefined when
 * nothing is known.
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
  const meant = suggest(word, [...verbs, ...Object.keys(foreign)]);
  if (meant === undefined) return undefined;
  return verbs.includes(meant) ? `did you mean ${meant}?` : foreign[meant];
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
