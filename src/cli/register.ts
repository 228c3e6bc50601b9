/**
 * Shared by all files named verbs.ts: how a noun adds itself to the command tree, and options that
 * several verbs have. Nothing here loads more than commander.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Io } from './io.ts';

/** Receives the exit code of a verb when its action has ended. */
export type Finish = (code: number) => void;

/**
 * Adds a noun or verb to the tree: arguments, options, texts and actions. An action imports its
 * implementation only when it runs, so that `muster version` does not load the API client or the
 * YAML reader.
 */
export type Register = (program: Command, io: Io, finish: Finish) => void;

/** An example of use: the command line, and what it does. */
export interface Example {
  readonly command: string;
  readonly about: string;
}

const EXAMPLES = new WeakMap<Command, readonly Example[]>();

/** The examples of a command; docs/cli.md prints them. */
export const examplesOf = (command: Command): readonly Example[] => EXAMPLES.get(command) ?? [];

/** Adds examples to the help of `command`; each is `[command line, what it does]`. */
export function withExamples(
  command: Command,
  ...examples: readonly (readonly [command: string, about: string])[]
): Command {
  const all = examples.map(([line, about]) => ({ command: line, about }));
  EXAMPLES.set(command, all);
  const lines = all.map((one) => `  # ${one.about}\n  ${one.command}`);
  return command.addHelpText('after', `\nExamples:\n${lines.join('\n\n')}`);
}

/** Refuses an empty value of an option. */
export const notEmpty = (value: string): string => {
  if (value !== '') return value;
  throw new InvalidArgumentError('It must not be empty.');
};

/** Collects the values of an option that may be given several times. */
export const collect = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

/** Adds the options of a verb that calls the server. */
export const withServer = (command: Command): Command =>
  command
    .addOption(new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET'))
    .option('--timeout <duration>', 'how long to wait until the server begins to answer (default: 30s)');

/** The argument that names a machine. */
export const MACHINE = ['<machine>', 'name as `muster get machines` lists it, or a MAC address'] as const;

/** The option `-o`, with the formats that a verb can print. */
export const outputOption = (...formats: string[]): Option =>
  new Option('-o, --output <format>', 'output format').choices(formats);

/** How the format begins that has a template, as kubectl's. */
export const JSON_PATH = 'jsonpath=';

/** Lets the option `-o` take a template besides its formats. */
export function withJsonPath(option: Option): Option {
  const choose = option.parseArg!;
  option.description += `, or ${JSON_PATH}TEMPLATE`;
  return option.argParser((value: string, before: string) =>
    value.startsWith(JSON_PATH) ? value : choose(value, before),
  );
}

/** The option `-f`, which may be given several times. */
export const filenameOption = (): Option =>
  new Option('-f, --filename <path>', 'file, directory, or - for standard input (repeatable)').argParser(
    collect,
  );

/** The option `--mirror`, which may be given several times. */
export const mirrorOption = (): Option =>
  new Option('--mirror <from=to>', 'fetch URLs that begin with FROM from TO instead (repeatable)').argParser(
    collect,
  );

/**
 * The option by which the operator types the cluster's name again to confirm a destructive order.
 */
export const CONFIRM = ['--confirm <name>', "the cluster's name again, to confirm"] as const;

/** Names of processors, as Linux and Debian spell them. */
const ARCHES: Readonly<Record<string, 'x86_64' | 'aarch64'>> = {
  x86_64: 'x86_64',
  amd64: 'x86_64',
  aarch64: 'aarch64',
  arm64: 'aarch64',
};

/** The option `--arch`. The names of Debian and Go (amd64, arm64) mean the same as Linux's. */
export const archOption = (about: string): Option =>
  new Option('--arch <arch>', about).choices(Object.keys(ARCHES)).argParser((value: string) => {
    if (Object.hasOwn(ARCHES, value)) return ARCHES[value];
    throw new InvalidArgumentError(`Allowed choices are ${Object.keys(ARCHES).join(', ')}.`);
  });
