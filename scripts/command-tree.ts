/** The tree of commands, for the pages that are generated from it and for tests. */
import type { Command } from 'commander';
import { buildProgram } from '../src/cli/program.ts';

/** Builds the whole tree without a terminal. Running its commands prints nothing. */
export const commandTree = (): Command =>
  buildProgram(
    {
      out() {},
      err() {},
      env: {},
      color: false,
      colorErr: false,
      columns: undefined,
      scryptWork: undefined,
      signal: new AbortController().signal,
      ask: async () => undefined,
      pause: async () => {},
    },
    () => {},
  );

/** The commands below `command` that help lists, in its order. */
export const visibleChildren = (command: Command): readonly Command[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .filter((child) => command.commands.includes(child));

/** Description of an option, with its possible values. */
export const aboutOption = ({ description, argChoices }: Command['options'][number]): string =>
  argChoices ? `${description}: ${argChoices.join(', ')}` : description;
