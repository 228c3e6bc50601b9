/** Registers `muster bmc ca|find|ls|show|rotate`. */
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
  const ca = withServer(
    bmc
      .command('ca')
      .summary('print the CA that signs for BMCs')
      .description(
        'Prints the certificates of the CA that signs the certificates of BMCs (`bmc.managedCertificate`), in PEM, for browsers and other clients of BMCs. With --replace it makes another CA first: the certificate of each BMC is then replaced, and the CA before ends when no BMC shows a certificate of it any more.',
      )
      .option('--replace', 'make another CA first'),
  ).action(async (options) => finish(await (await import('./authority.ts')).bmcAuthority(options, io)));
  withExamples(ca, ['muster bmc ca > bmcs.pem', 'let curl or a browser trust the BMCs']);
  const find = withServer(
    bmc
      .command('find')
      .summary('list BMCs that were found, beside the machines that they belong to')
      .description(
        'Lists the BMCs that agents and the discovery system report, and those that asked Muster for an address with the vendor class of a BMC, each beside its machine, and prints what to write into the documents that name none. With --search it asks the segments for Redfish services first (SSDP, three seconds). All of it is the claim of whoever said it; two machines that report the same address are shown.',
      )
      .option('-l, --selector <labels>', 'those with these labels: key=value,key!=value')
      .option('--search', 'ask the segments for Redfish services first')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./find.ts')).findBmcs(options, io)));
  withExamples(
    find,
    ['muster bmc find -l rack=a', 'see the addresses that are missing in documents'],
    ['muster bmc find --search', 'see also BMCs with fixed addresses, of which no machine reports'],
  );
  const rotate = withServer(
    bmc
      .command('rotate')
      .summary("replace the passwords of Muster's own accounts, or certificates")
      .description(
        "Gives Muster's own account on each BMC a new random password, logs in with it, and only then forgets the old one. It can be interrupted at any time: the server goes on, and tries both. With --certificate each BMC makes a new key, and Muster's CA signs it. Exit code 1: one BMC did not take it.",
      )
      .argument('[machine...]', 'names')
      .option('-l, --selector <labels>', 'those with these labels that have a BMC: key=value,key!=value')
      .option('--certificate', 'the certificate instead of the password')
      .option('--dry-run', 'show what it is about, and change nothing')
      .option('--yes', 'needed for more than one machine, after the preview')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (machines: string[], options) =>
    finish(await (await import('./bmc.ts')).rotateBmcs(machines, options, io)),
  );
  withExamples(
    rotate,
    ['muster bmc rotate -l rack=a --yes', 'after somebody left who had the vault'],
    ['muster bmc rotate node-1 --certificate', 'after the key of a BMC was copied'],
  );
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
