/**
 * Builds the command tree: which nouns there are, in which order help lists them, what help looks
 * like, and how a command line that is not understood is answered. Each noun registers itself from
 * its verbs.ts. Help, completion and docs/cli.md are generated from the tree.
 */
import { Command, type CommanderError } from 'commander';
import { MusterError } from '../base/errors.ts';
import { VERSION } from '../base/version.ts';
import { registerAddons } from './addon/verbs.ts';
import { registerArtifacts } from './artifacts/verbs.ts';
import { registerAudit } from './audit/verbs.ts';
import { registerBackup } from './backup/verbs.ts';
import { registerBmcs } from './bmc/verbs.ts';
import { registerChange } from './change/verbs.ts';
import { registerCluster } from './cluster/verbs.ts';
import { registerCompletion } from './completion/verbs.ts';
import { registerDns } from './dns/verbs.ts';
import { registerDoctor } from './doctor/verbs.ts';
import { registerDocuments } from './documents/verbs.ts';
import { registerEvents } from './events/verbs.ts';
import { registerExplain } from './explain/verbs.ts';
import { registerHosts } from './host/verbs.ts';
import { registerImage } from './image/verbs.ts';
import { registerImport } from './import/verbs.ts';
import { EXIT, type Io } from './io.ts';
import { registerLab } from './lab/verbs.ts';
import { registerLogin } from './login/verbs.ts';
import { registerMachine } from './machine/verbs.ts';
import { registerNetwork } from './network/verbs.ts';
import { registerPki } from './pki/verbs.ts';
import { registerPower } from './power/verbs.ts';
import type { Finish, Register } from './register.ts';
import { registerSecrets } from './secret/verbs.ts';
import { registerServer } from './serve/verbs.ts';
import { registerSigner } from './signer/verbs.ts';
import { registerSim } from './sim/verbs.ts';
import { registerStore } from './store/verbs.ts';
import { commandHint, usageText } from './usage.ts';

/** The headings of help, each with its nouns and verbs in their order. */
const TREE: readonly (readonly [heading: string, ...registers: readonly Register[]])[] = [
  ['Documents:', registerDocuments, registerImport, registerSecrets],
  [
    'Machines:',
    registerExplain,
    registerMachine,
    registerPower,
    registerBmcs,
    registerNetwork,
    registerDns,
    registerEvents,
  ],
  ['Clusters:', registerCluster, registerChange, registerPki, registerAddons],
  ['Images and the lab:', registerImage, registerArtifacts, registerLab, registerSim],
  [
    'Server:',
    registerServer,
    registerHosts,
    registerSigner,
    registerDoctor,
    registerBackup,
    registerStore,
    registerAudit,
  ],
  ['Operators:', registerLogin],
  ['Other:', registerCompletion, registerHelp],
];

/** The greatest width of help, in columns, even on a wider terminal. */
export const MAX_HELP_COLUMNS = 100;
/** Descriptions are wrapped only if at least this many columns are left for them. */
const MIN_DESCRIPTION_COLUMNS = 24;

/** Codes with which commander ends after it printed help or a version, which is not a mistake. */
const ENDED_WELL = new Set(['commander.help', 'commander.helpDisplayed', 'commander.version']);

/**
 * Builds the whole tree. Every action ends with a call of `finish`. An error that an action throws
 * goes to the caller of `parseAsync`; so does commander's CommanderError after a command line that
 * is not understood.
 */
export function buildProgram(io: Io, finish: Finish): Command {
  const width = Math.min(MAX_HELP_COLUMNS, Math.max(40, io.columns ?? MAX_HELP_COLUMNS));
  const program = new Command('muster')
    .description('Muster boots bare-metal machines over the network, each into its own configuration.')
    .version(`muster ${VERSION}`, '--version', 'version of this command')
    .configureOutput({
      writeOut: io.out,
      writeErr: io.err,
      // `answerMistakes` prints these errors instead.
      outputError: () => {},
      getOutHelpWidth: () => width,
      getErrHelpWidth: () => width,
      getOutHasColors: () => io.color,
    })
    .configureHelp({ minWidthToWrap: MIN_DESCRIPTION_COLUMNS })
    .showSuggestionAfterError(false)
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 1 failed, 2 not understood; `diff`: 0 equal, 1 different, 2 failed.',
    );
  for (const [heading, ...registers] of TREE) {
    program.commandsGroup(heading);
    for (const register of registers) register(program, io, finish);
  }
  answerMistakes(program, 'muster', io);
  return program;
}

/**
 * Makes every command report a mistake in its command line as all other errors are reported: with
 * the code, then with what to do.
 */
function answerMistakes(command: Command, path: string, io: Io): void {
  command.exitOverride((error: CommanderError) => {
    if (!ENDED_WELL.has(error.code))
      io.err(`muster: ${usageText({ command, path, error })} (E_USAGE)\n  See \`${path} --help\`.\n`);
    throw error;
  });
  for (const child of command.commands) answerMistakes(child, `${path} ${child.name()}`, io);
}

/** `muster help cluster remove-node`: prints the help of any command, at any depth of the tree. */
function registerHelp(program: Command, _io: Io, finish: Finish): void {
  program
    .command('help')
    .summary('show how to use a command')
    .description('Shows how to use a command.')
    .argument('[command...]', 'command, such as: cluster remove-node')
    .action((words: string[]) => {
      let command = program;
      let path = 'muster';
      for (const word of words) {
        const next = command.commands.find((child) => child.name() === word);
        if (next === undefined) {
          const hint = commandHint(command, path, word);
          throw new MusterError(
            'E_USAGE',
            `\`${path}\` has no command "${word}"${hint === undefined ? '' : `; ${hint}`}`,
          );
        }
        command = next;
        path += ` ${word}`;
      }
      command.outputHelp();
      finish(EXIT.ok);
    });
}
