/** Generates the manual pages from the tree of commands: muster(1) and one for each command. */
import type { Command } from 'commander';
import { VERSION } from '../src/base/version.ts';
import { examplesOf } from '../src/cli/register.ts';
import { aboutOption, commandTree, visibleChildren } from './command-tree.ts';

/** Files and variables that muster(1) lists. */
const FILES: readonly (readonly [string, string])[] = [
  ['/etc/muster/', 'documents of the service'],
  ['/etc/default/muster', 'settings of the service'],
  ['/var/lib/muster/', 'store, images, keys of clusters, events'],
  ['/usr/share/doc/muster/', 'licences and the list of all components (SBOM)'],
  ['/usr/lib/muster/docs/', 'all pages of documentation, in Markdown'],
];

/** Escapes text for roff. Hyphens stay ASCII hyphens, so that commands can be copied. */
export const roff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '')
    .replace(/^\./gm, '\\&.');

const bold = (text: string): string => `\\fB${roff(text)}\\fR`;
const item = (term: string, about: string): string => `.TP\n${bold(term)}\n${roff(about)}\n`;

const heading = (name: string, about: string): string =>
  `.\\" Written by scripts/man-page.ts from the tree of commands.\n` +
  `.TH ${name.toUpperCase()} 1 "" "muster ${VERSION}" "Muster"\n` +
  `.SH NAME\n${roff(name)} \\- ${roff(about)}\n`;

/** Arguments, options and examples of a command. */
function details(command: Command): string {
  const listed = [
    ...command.registeredArguments.map((one) => item(one.name(), one.description || one.name())),
    ...command.options
      .filter((option) => !option.hidden)
      .map((option) => item(option.flags, aboutOption(option))),
  ];
  const examples = examplesOf(command).map(
    ({ command: line, about }) => `.PP\n${roff(about)}:\n.PP\n.RS 4\n.nf\n${roff(line)}\n.fi\n.RE\n`,
  );
  return listed.join('') + examples.join('');
}

/** Every command below `command` that does something, with the words that lead to it. */
function leaves(command: Command, path: string): readonly (readonly [string, Command])[] {
  if (command.commands.length === 0) return [[path, command]];
  return visibleChildren(command).flatMap((child) => leaves(child, `${path} ${child.name()}`));
}

function commandPage(command: Command): string {
  const path = `muster ${command.name()}`;
  const all = leaves(command, path);
  const synopsis = all.map(([words, one]) => `${bold(words)} ${roff(one.usage())}\n`).join('.br\n');
  const described = all.map(([words, one]) =>
    all.length === 1
      ? `.PP\n${roff(one.description())}\n${details(one)}`
      : `.SS ${roff(words)}\n${roff(one.description())}\n${details(one)}`,
  );
  return (
    heading(`muster-${command.name()}`, command.summary() || command.description()) +
    `.SH SYNOPSIS\n${synopsis}` +
    `.SH DESCRIPTION\n${described.join('')}` +
    '.SH SEE ALSO\n.BR muster (1)\n'
  );
}

function overview(program: Command): string {
  const commands = visibleChildren(program).map(
    (child) =>
      `.TP\n.BR muster\\-${roff(child.name())} (1)\n${roff(child.summary() || child.description())}\n`,
  );
  return (
    heading('muster', 'boot bare-metal machines over the network') +
    `.SH SYNOPSIS\n${bold('muster')} ${roff(program.usage())}\n` +
    `.SH DESCRIPTION\n${roff(program.description())}\n` +
    `.SH COMMANDS\n${commands.join('')}` +
    '.SH EXIT STATUS\n' +
    item('0', 'The command has done what it was asked. For diff: there is no difference.') +
    item('1', 'It failed. For diff: there are differences.') +
    item('2', 'The command line was not understood. For diff: it failed.') +
    `.SH FILES\n${FILES.map(([path, about]) => item(path, about)).join('')}`
  );
}

/** All manual pages by the names of their files. */
export function manPages(): ReadonlyMap<string, string> {
  const program = commandTree();
  return new Map([
    ['muster.1', overview(program)],
    ...visibleChildren(program).map(
      (command) => [`muster-${command.name()}.1`, commandPage(command)] as const,
    ),
  ]);
}
