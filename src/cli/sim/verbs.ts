/** Registers `muster sim run` and `muster sim storm`. */
import type { Register } from '../register.ts';
import { withExamples } from '../register.ts';
import type { ShowOptions } from './run.ts';
import type { StormOptions } from './storm.ts';

export const registerSim: Register = (program, io, finish) => {
  const sim = program
    .command('sim')
    .summary('run simulated machines against a boot host')
    .description(
      'Simulated machines: their packets, requests and keys are real, their kernels and disks are not. They cost little, so that thousands run on one host.',
    );
  const run = sim
    .command('run')
    .summary('show a whole cluster of simulated machines')
    .description(
      'Starts the real `muster serve` in its own network namespace and boots simulated machines from it: three control planes that found a cluster, workers, and one machine without a document, which waits to be accepted. Nothing is installed, and nothing outside the namespace is touched. Everything is there in some 20 seconds, and gone when it ends.',
    )
    .option('--machines <count>', 'how many (default: 12)')
    .option(
      '--page <port>',
      "serve the page to this host's browsers on this port of 127.0.0.1, print a one-time link, and run until Ctrl-C; 0: any port",
    )
    .action(async (options: ShowOptions) => finish(await (await import('./run.ts')).run(options, io)));
  withExamples(
    run,
    ['muster sim run --page 8444', 'see all of Muster in a browser, without machines'],
    ['muster sim run --machines 30', 'boot thirty machines, print the table of them, and end'],
  );
  const storm = sim
    .command('storm')
    .summary('power many machines on at once')
    .description(
      'Starts the real `muster serve` in its own network namespace and powers simulated machines on: DHCP, port 4011, loader by TFTP or HTTP, script, image, configuration, reports, ticket. Prints how long each step took, what was sent again, and what the server used. Boot host and machines share the processors of this host. Exit code 0 only if every machine got its configuration and its certificate.',
    )
    .option('--machines <count>', 'how many (default: 1000)')
    .option(
      '--firmware <mix>',
      'kinds of firmware and their shares: bios, uefi, uefi-4011, uefi-http, ipxe (default: uefi=5,bios=2,uefi-4011=1,uefi-http=1,ipxe=1)',
    )
    .option('--over <seconds>', 'power them on one after the other, over so long (default: 0, all at once)')
    .option('--plot <file>', 'write how many machines have reached each stage when, as SVG')
    .option('--json', 'print the figures as one JSON object')
    .action(async (options: StormOptions) => finish(await (await import('./storm.ts')).storm(options, io)));
  withExamples(
    storm,
    ['muster sim storm --machines 1000', 'a rack row that gets its power back'],
    ['muster sim storm --machines 200 --firmware bios --plot storm.svg', 'old firmware only, with a plot'],
  );
};
