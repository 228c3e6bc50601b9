/** Registers `muster lab run`. */
import type { Register } from '../register.ts';
import { withExamples } from '../register.ts';
import type { LabRunOptions } from './run.ts';

export const registerLab: Register = (program, io, finish) => {
  const lab = program
    .command('lab')
    .summary('run scenarios in the virtual rack')
    .description('The virtual rack: machines with real firmware in QEMU, in a network namespace.');
  const run = lab
    .command('run')
    .summary('run a scenario')
    .description(
      'Builds a rack in its own network namespace, powers its machines on against a real `muster serve`, and checks what the scenario expects. Exit code 0 only if every expectation was met.',
    )
    .argument('<scenario>', 'YAML file, such as lab/boot-uefi.yaml')
    .option('--json', 'print the result as one JSON object at the end')
    .option('--keep', 'keep everything running at the end, until interrupted')
    .option(
      '--page <port>',
      "serve the page to this host's browsers on this port of 127.0.0.1 while the rack runs, and print a one-time link; 0: any port",
    )
    .option('--image-cache <dir>', 'directory where images are built and kept (default: .cache/images)')
    .option('--parallel <count>', 'how many machines may boot at the same time')
    .action(async (scenario: string, options: LabRunOptions) =>
      finish(await (await import('./run.ts')).run(scenario, options, io)),
    );
  withExamples(
    run,
    ['muster lab run lab/boot-uefi.yaml', 'boot one machine with UEFI firmware'],
    ['muster lab run --keep lab/boot-uefi.yaml', 'the same, and leave the rack running to look around'],
    ['muster lab run --keep --page 8444 lab/demo.yaml', 'look at its machines on the page, in a browser'],
  );
};
