/**
 * Every `muster …` that a page, a message, a hint or a comment shows is one that the command line
 * understands: the command exists, has these options, and takes so many arguments.
 */
import { type Command, CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { commandTree } from '../../scripts/command-tree.ts';
import { read, sources, trackedFiles } from './tree.ts';

/** The real command tree, whose verbs do nothing and whose faults are exceptions. */
function stillTree(): Command {
  const program = commandTree();
  const still = (command: Command): void => {
    command.exitOverride().configureOutput({ writeOut: () => {}, writeErr: () => {}, outputError: () => {} });
    if (command.commands.length === 0 || command.registeredArguments.length > 0) command.action(() => {});
    for (const child of command.commands) still(child);
  };
  still(program);
  return program;
}

/** The words of a command line as a shell splits them, up to the next command. */
function wordsOf(line: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  for (const [token] of line.matchAll(/'[^']*'|"[^"]*"|\s+|[|;&<>)]|[^\s'"|;&<>)]+/g)) {
    if (/^[|;&<>)]$/.test(token)) break;
    if (/^\s/.test(token)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (token.startsWith('#') && word === undefined) break;
    else word = (word ?? '') + token.replace(/^(['"])([\s\S]*)\1$/, '$2');
  }
  return word === undefined ? words : [...words, word];
}

interface ShownCommand {
  readonly page: string;
  readonly text: string;
  /** In running text a verb may be named without its arguments. */
  readonly inText: boolean;
}

/** Every `muster …` of a page: lines of shell in its code blocks, and code in running text. */
function commandsIn(page: string): readonly ShownCommand[] {
  const text = read(page);
  const shown: ShownCommand[] = [];
  // Only at the beginning of a command, not as a word of another command or in a comment.
  const begins = /(?:^\s*(?:\$ )?|[|;&(]\s*)(?:sudo )?(?:bin\/)?muster (?=[a-z-])(.*)/;
  for (const [, body] of text.matchAll(/^ *```(?:sh|console)\n([\s\S]*?)^ *```/gm))
    for (const line of body!.replaceAll('\\\n', ' ').split('\n')) {
      const found = begins.exec(line.replace(/(^|\s)# .*$/, ''));
      if (found) shown.push({ page, text: found[1]!, inText: false });
    }
  for (const [, code] of text.replace(/^ *```[\s\S]*?^ *```/gm, '').matchAll(/`([^`]+)`/g)) {
    const found = /^(?:sudo )?(?:bin\/)?muster ([a-z][\s\S]*)$/.exec(code!.replace(/\s+/g, ' '));
    // `[options]` is in lines of usage, which docs/cli.md has from the command tree itself.
    if (found && !code!.includes('[options]')) shown.push({ page, text: found[1]!, inText: true });
  }
  return shown;
}

/** The error of a command line that only names a verb, as running text may. */
const NAMES_A_VERB = new Set([
  'commander.missingArgument',
  'commander.missingMandatoryOptionValue',
  'commander.optionMissingArgument',
  'commander.help',
]);

/** Whether a command line gives arguments to its verb: it must be whole then. */
function hasArguments(words: readonly string[], tree: Command): boolean {
  let command = tree;
  for (const word of words) {
    const below = command.commands.find((child) => child.name() === word);
    if (below === undefined) return !word.startsWith('-');
    command = below;
  }
  return false;
}

/** The command line's error message; undefined when it accepts the command. */
async function misunderstood({ text, inText }: ShownCommand): Promise<string | undefined> {
  // `[--wait]` and `pull|import` show choices, and `…` means more of the same.
  const words = wordsOf(text.replace(/[[\]]/g, '').replaceAll('|', inText ? '/' : '|'))
    .filter((word, n, all) => word !== '…' || all[n - 1]?.startsWith('--'))
    .map((word) => word.replace(/(?<=.)…$/, ''));
  const several = words.find((word, n) => n < 3 && /^[a-z-]+(\/[a-z-]+)+$/.test(word));
  const choices = several?.split('/').map((one) => words.map((word) => (word === several ? one : word)));
  for (const chosen of choices ?? [words]) {
    const tree = stillTree();
    try {
      await tree.parseAsync(chosen, { from: 'user' });
    } catch (error) {
      if (!(error instanceof CommanderError)) throw error;
      const named = inText && NAMES_A_VERB.has(error.code) && !hasArguments(chosen, tree);
      // A word in capitals stands for a value, also where only some values are taken.
      const stands = error.code === 'commander.invalidArgument' && /'[A-Z]+'/.test(error.message);
      if (error.exitCode !== 0 && !named && !stands) return error.message;
    }
  }
  return undefined;
}

/** Lines that are no command line, with why each is shown as one. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'status VALUE …': 'the value is the option that was typed before its command',
};

/** What stands for a value in a text that is made when Muster runs. */
const VALUE = 'VALUE';

/** The text of a command between backticks that are escaped, as in a template, or are not. */
const QUOTED = [
  /\\`(?:sudo )?muster ([a-z](?:\$\{(?:[^{}]|\{[^{}]*\})*\}|[^`\\])*)\\`/g,
  /(?<![\\\w])`(?:sudo )?muster ([a-z][^`$\\]*)`/g,
];

/** Every `muster …` between backticks in the texts and comments of a file. */
function commandsInSource(page: string): readonly ShownCommand[] {
  const text = read(page).replace(/\n\s*(?:\*|\/\/|#) /g, ' ');
  return QUOTED.flatMap((pattern) => [...text.matchAll(pattern)]).map(([, code]) => ({
    page,
    text: code!.replace(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, VALUE).replace(/\s+/g, ' '),
    inText: true,
  }));
}

async function faultsOf(shown: readonly ShownCommand[]): Promise<readonly string[]> {
  const faults: string[] = [];
  const known = new Map<string, string | undefined>();
  for (const one of shown) {
    const key = `${one.inText} ${one.text}`;
    if (!known.has(key)) known.set(key, await misunderstood(one));
    const fault = known.get(key);
    if (fault !== undefined && EXCEPTIONS[one.text] === undefined)
      faults.push(`${one.page}: muster ${one.text}: ${fault}`);
  }
  return faults;
}

test('every muster command that a page shows is one that the command line understands', async () => {
  const shown = trackedFiles()
    .filter((file) => file.endsWith('.md'))
    .flatMap(commandsIn);
  expect(shown.length).toBeGreaterThan(150);
  expect(await faultsOf(shown)).toEqual([]);
});

test('every muster command in a message, a hint or a comment is one that it understands', async () => {
  const others = trackedFiles().filter((file) =>
    /^(examples|profiles|packaging|systemd|images|scripts|src)\/.*(\.yaml|\.sh|\.service|\.default)$/.test(
      file,
    ),
  );
  const shown = [...sources('src'), ...others].flatMap(commandsInSource);
  expect(shown.length).toBeGreaterThan(500);
  expect(await faultsOf(shown)).toEqual([]);
});
