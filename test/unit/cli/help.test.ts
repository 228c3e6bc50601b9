/** Help: its style, its width, its examples. */
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { commandTree } from '../../../scripts/command-tree.ts';
import { MAX_HELP_COLUMNS } from '../../../src/cli/program.ts';
import { examplesOf } from '../../../src/cli/register.ts';
import { run } from './run.ts';

const program = commandTree();

/** Every command with its path, such as `cluster add-node`. */
function commandsBelow(command: Command, path: readonly string[]): readonly (readonly [string, Command])[] {
  return command.commands.flatMap((child) => {
    const here = [...path, child.name()];
    return [[here.join(' '), child] as const, ...commandsBelow(child, here)];
  });
}
const ALL = commandsBelow(program, []).filter(([path]) => path !== '__complete');

describe.each(ALL)('help of %s', (path, command) => {
  it('has a summary in the imperative and a description in sentences', () => {
    expect(command.summary()).toMatch(/^[a-z][^.]*$/);
    expect(command.summary()).not.toMatch(/^(the|a|an|what|whether|how) /);
    expect(command.description()).toMatch(/^[A-Z][\s\S]*\.$/);
    for (const { description, flags } of [...command.options])
      expect(description, flags).toMatch(/^[a-z-](?!.*\.$)/);
    for (const argument of command.registeredArguments)
      expect(argument.description, argument.name()).toMatch(/^[a-zA-Z-]/);
  });

  it('fits its width, also on a narrow terminal', async () => {
    const widest = (text: string) => Math.max(...text.split('\n').map(({ length }) => length));
    const words = [...path.split(' '), '--help'];
    const wide = await run(words);
    expect(wide.code).toBe(0);
    // examples are not broken: they are copied
    const own = (text: string) => text.split('\nExamples:')[0]!;
    expect(widest(wide.out)).toBeLessThanOrEqual(Math.max(MAX_HELP_COLUMNS, longestExample(command)));
    expect(widest(own(wide.out))).toBeLessThanOrEqual(MAX_HELP_COLUMNS);
    expect(widest(own((await run(words, { columns: 80 })).out))).toBeLessThanOrEqual(80);
    expect(widest(own((await run(words, { columns: 300 })).out))).toBeLessThanOrEqual(MAX_HELP_COLUMNS);
  });

  it('is what `muster help` prints', async () => {
    expect((await run(['help', ...path.split(' ')])).out).toBe(
      (await run([...path.split(' '), '--help'])).out,
    );
  });
});

const longestExample = (command: Command): number =>
  Math.max(0, ...examplesOf(command).map((one) => one.command.length + 2));

describe('examples', () => {
  it('are there for every verb but the trivial ones', () => {
    const without = ALL.filter(
      ([, command]) => command.commands.length === 0 && examplesOf(command).length === 0,
    );
    expect(without.map(([path]) => path)).toEqual(['version', 'help']);
  });

  it('name verbs and options that exist', async () => {
    const lines = [program, ...ALL.map(([, command]) => command)]
      .flatMap(examplesOf)
      .flatMap(({ command }) => command.match(/\bmuster [^|;)"]*/g) ?? []);
    expect(lines.length).toBeGreaterThan(60);
    for (const line of lines) {
      const words = line.trim().split(/\s+/).slice(1);
      let command: Command = program;
      for (const word of words) command = command.commands.find((one) => one.name() === word) ?? command;
      expect(command, line).not.toBe(program);
      const end = words.indexOf('--');
      for (const flag of words
        .slice(0, end < 0 ? undefined : end)
        .filter((word) => /^--?[a-zA-Z]/.test(word)))
        expect(
          command.options.flatMap(({ short, long }) => [short, long]),
          line,
        ).toContain(flag);
    }
  });
});
