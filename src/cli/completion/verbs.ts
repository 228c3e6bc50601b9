/** Registers `muster completion`, and the hidden command that its scripts call. */
import { Argument } from 'commander';
import { type Register, withExamples } from '../register.ts';
import { SHELLS } from './shells.ts';

export const registerCompletion: Register = (program, io, finish) => {
  const completion = program
    .command('completion')
    .summary('print a completion script for bash, zsh or fish')
    .description('Prints the completion script of a shell, for its start-up file.')
    .addArgument(new Argument('[shell]', 'bash, zsh or fish').choices(SHELLS).default('bash'))
    .action(async (shell: (typeof SHELLS)[number]) =>
      finish((await import('./completion.ts')).completion(shell, io)),
    );
  withExamples(
    completion,
    ['source <(muster completion bash)', 'in ~/.bashrc'],
    ['source <(muster completion zsh)', 'in ~/.zshrc, after compinit'],
    ['muster completion fish | source', 'in ~/.config/fish/config.fish'],
  );
  program
    .command('__complete', { hidden: true })
    .summary('print what may come next')
    .description('Prints what may come next on a command line; the scripts of `muster completion` call it.')
    .argument('[words...]', 'the words after `muster`, the last as far as it is typed')
    .action(async (words: string[]) =>
      finish(await (await import('./completion.ts')).printCandidates(words, program, io)),
    );
};
