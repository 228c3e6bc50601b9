/** Registers `muster import …`: documents from what operators have already. */
import { Option } from 'commander';
import { notEmpty, type Register, withExamples, withServer } from '../register.ts';

export const registerImport: Register = (program, io, finish) => {
  const group = program
    .command('import')
    .summary('make documents from a table or an inventory')
    .description('Makes documents from what you have already. Nothing is applied: look at them first.');
  const csv = group
    .command('csv')
    .summary('make Machines from a table')
    .description(
      'Makes Machine documents from comma-separated values. The first row names the columns: name, mac, and any of address, profile, cluster, serial, uuid, labels. Several MACs in a field are separated by blanks.',
    )
    .argument('<file>', 'the table, or - for standard input')
    .option(
      '-o, --output <dir>',
      'directory for a file of each document (default: standard output)',
      notEmpty,
    )
    .action(async (file: string, options) =>
      finish(await (await import('./import.files.ts')).importCsv(file, options, io)),
    );
  withExamples(csv, ['muster import csv racks.csv | muster apply -f -', 'make a rack of machines known']);
  const kubespray = group
    .command('kubespray')
    .summary('make Machines and a Cluster from an inventory of Kubespray')
    .description(
      'Makes Machine and Cluster documents from an inventory of Kubespray (YAML or INI, with its group_vars). Notes name everything that is not translated. The documents describe a new cluster; the running one is not touched.',
    )
    .argument('<inventory>', 'the inventory, or its directory')
    .requiredOption('--cluster <name>', 'name of the Cluster', notEmpty)
    .addOption(
      new Option('--trust <tier>', 'what a machine has to show (docs/security.md)')
        .choices(['segment', 'approved', 'tpm'])
        .makeOptionMandatory(),
    )
    .option('--macs <file>', 'table with the columns name and mac, which inventories lack', notEmpty)
    .option(
      '-o, --output <dir>',
      'directory for a file of each document (default: standard output)',
      notEmpty,
    )
    .action(async (inventory: string, options) =>
      finish(await (await import('./import.files.ts')).importKubespray(inventory, options, io)),
    );
  withExamples(kubespray, [
    'muster import kubespray inventory/mycluster --cluster blue --trust approved --macs macs.csv -o documents',
    'bring a cluster that Kubespray made to Muster',
  ]);
  const netbox = withServer(
    group
      .command('netbox')
      .summary('make Machines from the devices of NetBox')
      .description(
        'Makes Machine documents from the devices of NetBox: hardware addresses, primary IPv4 address, serial number, and the labels site, room, rack, unit and netbox (the number of the device). The token is read from a file or from NETBOX_TOKEN; NODE_EXTRA_CA_CERTS names the CA of a site.',
      )
      .argument('<url>', 'where NetBox is, such as https://netbox.example')
      .option('--filter <query>', 'only these devices, as in lists of NetBox: site=ams1&role=server', '')
      .option('--token-file <file>', 'file with the token of a user who may view devices', notEmpty)
      .option('--profile <name>', 'name this Profile in each Machine', notEmpty)
      .option('--bmc', 'take the out-of-band address over as that of the BMC')
      .option(
        '--update',
        'lay what NetBox says over the documents that the server has: what NetBox does not know stays',
      )
      .option(
        '-o, --output <dir>',
        'directory for a file of each document (default: standard output)',
        notEmpty,
      ),
  ).action(async (url: string, options) =>
    finish(await (await import('./import.files.ts')).importNetbox(url, options, io)),
  );
  withExamples(
    netbox,
    [
      "muster import netbox https://netbox.example --token-file token --filter 'site=ams1&role=server'",
      'print a Machine for each server of a site',
    ],
    [
      'muster import netbox https://netbox.example --token-file token --update | muster diff -f -',
      'show what NetBox would change',
    ],
  );
};
