/**
 * The command tree: verbs, their arguments and options. Help, completion and docs come from it.
 * What a verb does is loaded when it runs, so that `muster version` does not pay for the API client
 * or the YAML reader.
 */
import { Command, CommanderError, Option } from 'commander';
import { VERSION } from '../base/version.ts';
import type { Io } from './io.ts';
import { SERVE_SETTINGS, type ServeSetting, type SettingName } from './serve/options.ts';

const SOCKET = new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET');
const FILENAME = new Option('-f, --filename <path>', 'file, directory, or - for standard input (repeatable)')
  .argParser((value: string, before: string[] = []) => [...before, value])
  .makeOptionMandatory();

const output = (...formats: string[]): Option =>
  new Option('-o, --output <format>', `output format: ${formats.join(', ')}`).choices(formats);

/** What a verb's action does with its result: the process's exit code. */
export type Finish = (code: number) => void;

/** Adds a verb of another room to the tree; its file registers arguments, options and action. */
export type Register = (program: Command, io: Io, finish: Finish) => void;

/** Commands in help are listed under these headings, in this order. */
const HEADING = {
  documents: 'Documents:',
  machines: 'Machines:',
  clusters: 'Clusters:',
  images: 'Images and the lab:',
  server: 'Server:',
  other: 'Other:',
} as const;

/**
 * The whole tree. Every action ends in `finish`; what it throws goes to the caller of `parseAsync`,
 * as does commander's own CommanderError for a command line that is not understood.
 */
export function buildProgram(io: Io, finish: Finish, registers: readonly Register[] = []): Command {
  const program = new Command('muster')
    .description('Muster boots bare-metal machines over the network, each into its own configuration.')
    .version(`muster ${VERSION}`, '--version', 'version of this command')
    .exitOverride()
    .configureOutput({ writeOut: io.out, writeErr: io.err, getOutHasColors: () => io.color })
    .showSuggestionAfterError()
    .helpCommand('help [command]', 'how to use a command')
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 1 failed, 2 not understood; `diff`: 0 equal, 1 different, 2 failed.',
    );
  documentVerbs(program, io, finish);
  machineVerbs(program, io, finish);
  clusterVerbs(program, io, finish);
  trustVerbs(program, io, finish);
  program.commandsGroup(HEADING.images);
  for (const register of registers) register(program, io, finish);
  serverVerbs(program, io, finish);
  wordErrors(program, 'muster');
  return program;
}

/**
 * Makes every command say what it does not understand as all other errors are said: with its code,
 * then what to do.
 */
function wordErrors(command: Command, path: string): void {
  const help = `See \`${path} --help\`.`;
  command.configureOutput({
    outputError: (text, write) => write(`muster: ${usageText(text)} (E_USAGE)\n  ${help}\n`),
  });
  for (const child of command.commands) wordErrors(child, `${path} ${child.name()}`);
}

/** `error: unknown command 'aply'\n(Did you mean apply?)` in one line, in our words. */
function usageText(text: string): string {
  const [first = '', ...rest] = text.trim().split('\n');
  const more = rest.map((line) => line.replace(/^\(Did (.*)\)$/, 'did $1'));
  return [first.replace(/^error: /, '').replace(/\.$/, ''), ...more].join('; ');
}

function documentVerbs(program: Command, io: Io, finish: Finish): void {
  program.commandsGroup(HEADING.documents);
  program
    .command('validate')
    .summary('check documents without a server')
    .description(
      'Checks the documents of a directory: their schemas, what they say of each other, and that every configuration renders.',
    )
    .argument('[directory]', 'directory of YAML documents')
    .addOption(new Option(FILENAME.flags, FILENAME.description).argParser(FILENAME.parseArg!))
    .action(async (directory: string | undefined, options) =>
      finish(await (await import('./documents/validate.ts')).validate(directory, options, io)),
    );
  program
    .command('apply')
    .summary('create or change documents')
    .description(
      'Creates or changes the documents of files: all of them, or none. More than 128 are checked together and stored in steps.',
    )
    .addOption(FILENAME)
    .option('-R, --recursive', 'directories are always taken with all below them')
    .option('--dry-run', 'check and say what would happen')
    .addOption(SOCKET)
    .action(async (options) => finish(await (await import('./documents/apply.ts')).apply(options, io)));
  program
    .command('diff')
    .summary('show what apply would change')
    .description('Shows what `apply` would change, as a unified diff. Exit code 0: nothing; 1: something.')
    .addOption(FILENAME)
    .addOption(SOCKET)
    .action(async (options) => finish(await (await import('./documents/diff.ts')).diff(options, io)));
  program
    .command('get')
    .summary('list documents, machines, leases')
    .description(
      'Lists documents of a kind with their status: networks (net), images (img), clusters (cl), profiles (prof), machines (m); also leases and events.',
    )
    .argument('<kind>', 'kind, KIND,KIND, KIND/NAME, or all')
    .argument('[name...]', 'only these; after KIND/NAME more of these, also of other kinds')
    .addOption(output('table', 'wide', 'json', 'yaml', 'name'))
    .option('-l, --selector <labels>', 'only with these labels: key=value,key!=value')
    .option('-w, --watch', 'go on with what changes')
    .option('--no-headers', 'no line of headings')
    .option('--full', 'of one cluster: every derived value, and where it came from')
    .addOption(SOCKET)
    .action(async (kind: string, names: string[], options) =>
      finish(await (await import('./documents/get.ts')).get([kind, ...names], options, io)),
    );
  program
    .command('delete')
    .summary('delete documents, forget machines')
    .description(
      'Deletes documents of the API, or forgets a machine that was only seen. With -f those of files. All of them are checked as one change; none is deleted when one cannot be.',
    )
    .argument('[kind]', 'kind, or KIND/NAME')
    .argument('[name...]', 'which; after KIND/NAME more of these, also of other kinds')
    .addOption(new Option(FILENAME.flags, FILENAME.description).argParser(FILENAME.parseArg!))
    .option('--all', 'all of the kind')
    .option('-l, --selector <labels>', 'those of the kind with these labels: key=value,key!=value')
    .option('--ignore-not-found', 'what is not there is no failure')
    .option('--dry-run', 'check and say what would happen')
    .addOption(SOCKET)
    .action(async (kind: string | undefined, names: string[], options) =>
      finish(
        await (await import('./documents/apply.ts')).remove(
          kind === undefined ? [] : [kind, ...names],
          options,
          io,
        ),
      ),
    );
}

function machineVerbs(program: Command, io: Io, finish: Finish): void {
  program.commandsGroup(HEADING.machines);
  program
    .command('explain')
    .summary('what a machine would get and why; what a field means')
    .description(
      'MAC or MACHINE: what it would get now and why. KIND[.field]: what may be written there. --packet: replays a capture through the same functions, without a server.',
    )
    .argument('[what]', 'MAC, machine, or KIND[.field]')
    .addOption(new Option('--network <name>', 'as if it booted on this network'))
    .addOption(
      new Option('--arch <arch>', 'as if it were of this architecture').choices(['x86_64', 'aarch64']),
    )
    .addOption(new Option('--firmware <kind>', 'as if it had this firmware').choices(['bios', 'uefi']))
    .option('--packet <file>', 'a capture (pcap, pcapng) with DHCP packets')
    .option('--config <dir>', 'with --packet: directory of YAML documents')
    .addOption(output('table', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (what: string | undefined, options) =>
      finish(await (await import('./explain/explain.ts')).explain(what, options, io)),
    );
  program
    .command('render')
    .summary("print a machine's first-boot configuration")
    .description("Prints a machine's first-boot configuration; with -f from a directory, without a server.")
    .argument('<machine>', 'name or MAC')
    .option('-f, --filename <dir>', 'directory of YAML documents; no server is asked')
    .option('--file <name>', 'only this file, e.g. user-data')
    .addOption(output('table', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (machine: string, options) =>
      finish(await (await import('./machine/render.ts')).render(machine, options, io)),
    );
  program
    .command('events')
    .summary('what happened')
    .description('Prints what happened, newest last: of one machine, MAC or Kind/name, or of all.')
    .argument('[subject]', 'machine, MAC, or Kind/name')
    .option('--follow', 'go on as it happens')
    .option('--tail <count>', 'only the newest')
    .addOption(output('table', 'wide', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (subject: string | undefined, options) =>
      finish(await (await import('./events.ts')).events(subject, options, io)),
    );
  const machine = program.command('machine').description('Makes machines known.');
  machine
    .command('add')
    .description('Makes a Machine document.')
    .argument('<mac>', 'hardware address in any usual spelling')
    .option('--profile <name>', 'its profile')
    .option('--name <name>', 'its name; default: as it was seen, else m-MAC')
    .option('--cluster <name>', 'its cluster')
    .option('--address <ipv4>', 'an address reserved for it')
    .addOption(SOCKET)
    .action(async (mac: string, options) =>
      finish(await (await import('./machine/machine.ts')).add(mac, options, io)),
    );
  machine
    .command('accept')
    .description('Accepts a machine that was seen, or lets one that is held try again.')
    .argument('<machine>', 'as `muster get machines` lists it, or a MAC')
    .option('--profile <name>', 'its profile')
    .option('--name <name>', 'its name')
    .option('--cluster <name>', 'its cluster')
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./machine/machine.ts')).accept(name, options, io)),
    );
  machine
    .command('rearm')
    .description(
      'Ends the alarm of a machine in whose name two keys asked, or what holds one that was taken out and is back. Its certificate is no longer believed, and the next key that comes with the ticket of its present boot has one.',
    )
    .argument('<machine>', 'as `muster get machines` lists it, or a MAC')
    .option('--keep', 'its certificate was its own and stays; one that was revoked counts again')
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./pki/trust.ts')).rearm(name, options, io)),
    );
}

function trustVerbs(program: Command, io: Io, finish: Finish): void {
  program.commandsGroup(HEADING.clusters);
  program
    .command('kubeconfig')
    .summary('a fresh admin certificate for a person')
    .description(
      'Prints a kubeconfig for the endpoint of a cluster, with an admin certificate and key made for this call, good for 12 hours. It is secret.',
    )
    .argument('<cluster>', 'name of the Cluster')
    .option('--user <name>', 'who it is for, as audit logs will show it; default: who calls')
    .addOption(SOCKET)
    .action(async (cluster: string, options) =>
      finish(await (await import('./pki/trust.ts')).kubeconfig(cluster, options, io)),
    );
  const pki = program.command('pki').description('Keys and certificates.');
  pki
    .command('status')
    .description('Every keyset, and every certificate that was handed out: to whom, until when.')
    .argument('[cluster]', 'only of this cluster')
    .addOption(output('table', 'wide', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (cluster: string | undefined, options) =>
      finish(await (await import('./pki/trust.ts')).pkiStatus(cluster, options, io)),
    );
}

function clusterVerbs(program: Command, io: Io, finish: Finish): void {
  program.commandsGroup(HEADING.clusters);
  const cluster = program
    .command('cluster')
    .description('What is done with clusters beyond their documents.');
  cluster
    .command('status')
    .description(
      'Whether a cluster is well: a line each for etcd, API servers, nodes, leases, requests, certificates and machines, with what to do. Exit code 0 only if all is.',
    )
    .argument('<cluster>', 'name')
    .option('--etcd', 'only etcd and its machines')
    .addOption(output('table', 'wide', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/health.ts')).status(name, options, io)),
    );
  cluster
    .command('verify')
    .description(
      'As status, and pods on up to 16 nodes ask DNS and reach a Service. They are taken away again. Exit code 0 only if all is well.',
    )
    .argument('<cluster>', 'name')
    .option('--wait [duration]', 'ask again until all is well, 15m if no duration is said')
    .option('--etcd', 'only etcd and its machines')
    .option(
      '--probe-image <image>',
      "with a shell, nslookup and nc; default: flannel's or kube-router's, which is on every node",
    )
    .addOption(output('table', 'wide', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/health.ts')).verify(name, options, io)),
    );
  cluster
    .command('plan')
    .description('What a machine of a cluster is told to do once it has its certificates: lines and files.')
    .argument('<machine>', 'name')
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/cluster.ts')).plan(name, options, io)),
    );
  cluster
    .command('founding')
    .description("How far the founding of a cluster's etcd is, and what each member was told.")
    .argument('<cluster>', 'name')
    .addOption(output('table', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/cluster.ts')).founding(name, options, io)),
    );
  cluster
    .command('found')
    .description(
      'Opens the founding with the members that have asked, without waiting for those that are absent. Without this it opens when all have asked.',
    )
    .argument('<cluster>', 'name')
    .option('--confirm <name>', "the cluster's name once more")
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/cluster.ts')).found(name, options, io)),
    );
  cluster
    .command('etcd-client')
    .summary("a fresh client certificate of a cluster's etcd for a person")
    .description(
      'Writes ca.crt, client.crt and client.key into a directory, good for 12 hours, and prints what etcdctl takes from its environment; or prints all of it as JSON or YAML. The key is secret: it opens all of etcd.',
    )
    .argument('<cluster>', 'name')
    .argument('[directory]', 'made when missing')
    .option('--user <name>', 'who it is for, in its subject; default: who calls')
    .addOption(output('json', 'yaml'))
    .addOption(SOCKET)
    .action(async (name: string, directory: string | undefined, options) =>
      finish(await (await import('./cluster/etcd-client.files.ts')).etcdClient(name, directory, options, io)),
    );
  const confirm = ['--confirm <name>', "the cluster's name once more"] as const;
  cluster
    .command('add-node')
    .description(
      "Names machines in the Cluster's document, as editing it would. Powered on, they join: members of etcd one at a time.",
    )
    .argument('<cluster>', 'name')
    .argument('<machine...>', 'names of Machines')
    .option('--control-plane', 'as control planes; without this as workers')
    .option('--etcd', 'as members of an external etcd')
    .addOption(SOCKET)
    .action(async (name: string, machines: string[], options) =>
      finish(await (await import('./cluster/members.ts')).addNode(name, machines, options, io)),
    );
  cluster
    .command('remove-node')
    .description(
      'Takes machines out, running or dead: from the document, drained, out of etcd while the others keep its quorum, their Nodes deleted, everything of the cluster stopped.',
    )
    .argument('<cluster>', 'name')
    .argument('<machine...>', 'names; several, where the number of members of etcd has to stay odd')
    .option('--replace-with <machine...>', 'Machines that take their places, in this order')
    .option('--clear', 'what the cluster has on their data disks is deleted')
    .option('--no-drain', 'their pods are not asked to go first')
    .option('--drain-timeout <duration>', 'how long pods have', '5m')
    .addOption(SOCKET)
    .action(async (name: string, machines: string[], options) =>
      finish(await (await import('./cluster/members.ts')).removeNode(name, machines, options, io)),
    );
  cluster
    .command('reset')
    .description(
      'Ends a cluster: all of its machines are stopped and cleared, and nothing is founded until `muster cluster found`. Without --confirm it says what it would do.',
    )
    .argument('<cluster>', 'name')
    .option(...confirm)
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/members.ts')).reset(name, options, io)),
    );
  cluster
    .command('restore')
    .description(
      "With etcd's quorum lost for good: goes on from a copy of one member's data, as a new founding. The original is kept.",
    )
    .argument('<cluster>', 'name')
    .option('--from <member>', 'whose data are taken')
    .option('--without <member...>', 'members that are silent and gone for good: what they have is given up')
    .option(...confirm)
    .addOption(SOCKET)
    .action(async (name: string, options) =>
      finish(await (await import('./cluster/members.ts')).restore(name, options, io)),
    );
  cluster
    .command('call-off')
    .description(
      'Ends what others wait for: the replacement of a member of etcd that never starts, or a restore from the data of one that died meanwhile.',
    )
    .argument('<cluster>', 'name')
    .argument('<member>', 'the one that is being replaced, or whose data are being restored')
    .addOption(SOCKET)
    .action(async (name: string, member: string, options) =>
      finish(await (await import('./cluster/members.ts')).callOff(name, member, options, io)),
    );
  cluster
    .command('adopt')
    .description(
      'After the store was rolled back: the disk that a running member of etcd has now is its own. etcd has to say so as well.',
    )
    .argument('<cluster>', 'name')
    .argument('<member>', 'name')
    .option(...confirm)
    .addOption(SOCKET)
    .action(async (name: string, member: string, options) =>
      finish(await (await import('./cluster/members.ts')).adopt(name, member, options, io)),
    );
}

function serverVerbs(program: Command, io: Io, finish: Finish): void {
  program.commandsGroup(HEADING.server);
  const serve = program
    .command('serve')
    .summary('run the server')
    .description('Runs the server in the foreground. Every flag has a variable for the environment.');
  for (const [name, setting] of Object.entries(SERVE_SETTINGS) as [SettingName, ServeSetting][]) {
    const { flag, about, env, fallback, repeatable } = setting;
    const option = new Option(flag, `${about} (env: ${env}${fallback ? `; default: ${fallback}` : ''})`);
    option.attributeName = () => name;
    if (repeatable) option.argParser((value: string, before: string[] = []) => [...before, value]);
    serve.addOption(option);
  }
  serve.action(async (options) => finish(await (await import('./serve/serve.ts')).serve(options, io)));
  program
    .command('status')
    .summary('whether the server is ready')
    .description('Whether the server is ready, and what is wrong with its configuration directory.')
    .addOption(output('table', 'json', 'yaml'))
    .addOption(SOCKET)
    .action(async (options) => finish(await (await import('./status.ts')).status(options, io)));
  program
    .command('reload')
    .description(
      'Makes the server read its configuration and loader directories again; fails if the configuration has faults.',
    )
    .addOption(SOCKET)
    .action(async (options) => finish(await (await import('./status.ts')).reload(options, io)));
  program.commandsGroup(HEADING.other);
  program
    .command('version')
    .description('Prints the version of this command and, when it answers, of the server.')
    .addOption(SOCKET)
    .action(async (options) => finish(await (await import('./status.ts')).version(options, io)));
  program
    .command('completion')
    .description('Prints the completion script of a shell: source <(muster completion bash)')
    .argument('[shell]', 'bash', 'bash')
    .action(async (shell: string) =>
      finish((await import('./completion.ts')).completion(shell, program, io)),
    );
}

export { CommanderError };
