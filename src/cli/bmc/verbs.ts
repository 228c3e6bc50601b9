/** Registers `muster bmc find|ls|show|rotate`. */
import { outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerBmcs: Register = (program, io, finish) => {
  const bmc = program
    .command('bmc')
    .summary("ask the machines' management controllers, and keep accounts on them")
    .description(
      'Shows what the BMCs of machines say of them, and how Muster logs in there, and replaces the passwords of its own accounts.',
    );
  const ls = withServer(
    bmc
      .command('ls')
      .summary('list BMCs, accounts, and the age of their passwords')
      .description(
        'Lists the BMCs of machines: the account by which Muster logs in, when it made the password of its own account, and what could not be done.',
      )
      .option('-l, --selector <labels>', 'those with these labels: key=value,key!=value')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./bmc.ts')).listBmcs(options, io)));
  withExamples(ls, ['muster bmc ls -l rack=a', 'see which passwords are old']);
  const find = withServer(
    bmc
      .command('find')
      .summary('list the BMCs that machines report of themselves')
      .description(
        'Lists the BMCs that agents and the discovery system report, each beside its machine, and prints what to write into the documents that name none. An address is the claim of its machine; two machines that report the same one are shown.',
      )
      .option('-l, --selector <labels>', 'those with these labels: key=value,key!=value')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./find.ts')).findBmcs(options, io)));
  withExamples(find, ['muster bmc find -l rack=a', 'see the addresses that are missing in documents']);
  const rotate = withServer(
    bmc
      .command('rotate')
      .summary("replace the passwords of Muster's own accounts")
      .description(
        "Gives Muster's own account on each BMC a new random password, logs in with it, and only then forgets the old one. It can be interrupted at any time: the server goes on, and tries both. Exit code 1: one BMC did not take it.",
      )
      .argument('[machine...]', 'names')
      .option('-l, --selector <labels>', 'those with these labels that have a BMC: key=value,key!=value')
      .option('--dry-run', 'show what it is about, and change nothing')
      .option('--yes', 'needed for more than one machine, after the preview')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (machines: string[], options) =>
    finish(await (await import('./bmc.ts')).rotateBmcs(machines, options, io)),
  );
  withExamples(rotate, ['muster bmc rotate -l rack=a --yes', 'after somebody left who had the vault']);
  const show = withServer(
    bmc
      .command('show')
      .summary('show what a machine is made of, its sensors or its event log')
      .description(
        'Asks the BMC of a machine: for manufacturer, model, serial number and versions of firmware, or for its sensors, or for the newest entries of its event log. Nothing of it is asked for regularly, and all of it is the word of the BMC.',
      )
      .argument('<machine>', 'name')
      .option('--sensors', 'temperatures, fans, power')
      .option('--log', 'the event log, the newest entry last')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (machine: string, options) =>
    finish(await (await import('./show.ts')).showBmc(machine, options, io)),
  );
  withExamples(
    show,
    ['muster bmc show node-1', 'see its serial number and versions of firmware'],
    ['muster bmc show node-1 --sensors', 'see whether it is too hot'],
    ['muster bmc show node-1 --log', 'see what its hardware reported'],
  );
};
