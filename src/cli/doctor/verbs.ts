/** Registers `muster doctor` and `muster support`. */
import { collect, notEmpty, outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerDoctor: Register = (program, io, finish) => {
  const doctor = withServer(
    program
      .command('doctor')
      .summary('check this host and its segments as machines see them')
      .description(
        'Checks the server, the clock, the firewall and the table of neighbours of this host, and on each Network link, MTU, TFTP, HTTP and other DHCP and proxy DHCP servers. Says what to change. Asking for other DHCP servers takes 8 s, because servers probe an address before they offer it; it needs root, and leaves no lease. Without a server that runs, it looks at the addresses of this host. Exit code 1 when something fails.',
      )
      .option('--http-port <port>', 'port from which machines fetch (default: 8080)', notEmpty)
      .option('--loader <name>', 'the file that is fetched by TFTP (default: ipxe.efi)', notEmpty)
      .option(
        '--interface <name>',
        'without a server: only this interface (repeatable; default: all)',
        collect,
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./doctor.ts')).doctor(options, io)));
  withExamples(doctor, ['sudo muster doctor', 'find out why machines on a new segment do not boot']);
  const support = withServer(
    program
      .command('support')
      .summary('write a bundle for those who help, without secrets')
      .description(
        'Writes status, events, leases, inventory, states of clusters and timelines of machines that are not well into one file. Documents are left out except for names and status; keys, tokens and the ids of boot sessions are never in it.',
      )
      .requiredOption('-o, --output <file>', 'the file, a .tar.gz that does not exist yet', notEmpty),
  ).action(async (options) =>
    finish(await (await import('../support/support.files.ts')).support(options, io)),
  );
  withExamples(support, ['muster support -o muster-support.tar.gz', 'attach it to a report of a fault']);
};
