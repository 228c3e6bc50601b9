/** Registers `muster network snippet`. */
import { Option } from 'commander';
import { DHCP_PROGRAMS } from '../../pxe/firmware/snippets.ts';
import { type Register, withExamples, withServer } from '../register.ts';

export const registerNetwork: Register = (program, io, finish) => {
  const network = program
    .command('network')
    .summary('configure the DHCP servers of others')
    .description('Lets machines boot from Muster where another DHCP server gives the addresses.');
  const snippet = withServer(
    network
      .command('snippet')
      .summary('print what another DHCP server has to say to machines that boot')
      .description(
        'Prints configuration for another DHCP server: the loader for each architecture, UEFI HTTP boot, and the script for iPXE, as Muster itself would answer. Exit code 1 when --check finds a difference.',
      )
      .argument('<network>', 'name of a Network with dhcp.mode off, proxy or reservations')
      .addOption(
        new Option('--for <program>', 'the DHCP server').choices(DHCP_PROGRAMS).makeOptionMandatory(),
      )
      .option('--check <file>', 'print only how this file differs from the snippet of today'),
  ).action(async (name: string, options) =>
    finish(await (await import('./snippet.files.ts')).snippet(name, options, io)),
  );
  withExamples(
    snippet,
    ['muster network snippet rack1 --for kea > /etc/kea/muster.json', 'let Kea boot the machines of rack1'],
    [
      'muster network snippet rack1 --for dnsmasq --check /etc/dnsmasq.d/muster.conf',
      'see whether documents changed since it was written',
    ],
  );
};
