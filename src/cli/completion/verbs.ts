/** Registers `muster completion`. */
import { Argument } from 'commander';
import { type Register, withExamples } from '../register.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export const registerCompletion: Register = (program, io, finish) => {
  const completion = program
    .command('completion')
    .summary('print a completion script for bash, zsh or fish')
    .description('Prints the completion script of a shell, for its start-up file.')
    .addArgument(new Argument('[shell]', 'bash, zsh or fish').choices(SHELLS).default('bash'))
    .action(async (shell: (typeof SHELLS)[number]) =>
      finish((await import('./completion.ts')).completion(shell, program, io)),
    );
  withExamples(
    completion,
    ['source <(muster completion bash)', 'in ~/.bashrc'],
    ['source <(muster completion zsh)', 'in ~/.zshrc, after compinit'],
    ['muster completion fish | source', 'in ~/.config/fish/config.fish'],
  );
};
