/** Registers `muster explain`. */
import { Option } from 'commander';
import { archOption, outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerExplain: Register = (program, io, finish) => {
  const explain = withServer(
    program
      .command('explain')
      .summary('show what a machine would get and why, or what a field means')
      .description(
        'For a MAC address or machine: shows what it would get now, and why. For KIND[.field]: shows what may be written there. With --packet: replays a capture through the same functions, without a server.',
      )
      .argument('[what]', 'MAC address, machine, or KIND[.field]')
      .option('--network <name>', 'suppose that it boots on this network')
      .addOption(archOption('suppose that it has this processor'))
      .addOption(
        new Option('--firmware <kind>', 'suppose that it has this firmware').choices(['bios', 'uefi']),
      )
      .option('--packet <file>', 'replay the DHCP packets of this capture (pcap or pcapng)')
      .option('--config <dir>', 'with --packet: directory of YAML documents')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (what: string | undefined, options) =>
    finish(await (await import('./explain.ts')).explain(what, options, io)),
  );
  withExamples(
    explain,
    ['muster explain node-1', 'show why a machine boots what it boots, or why it is held'],
    ['muster explain 52:54:00:aa:00:01 --firmware uefi', 'ask before the machine was ever seen'],
    ['muster explain machine.network', 'show what may be written in a document'],
    ['muster explain --packet boot.pcap --config /etc/muster', 'replay a capture against documents'],
  );
};
