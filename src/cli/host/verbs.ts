/** Registers `muster host list|invite|join|hand-over|forget`. */
import { outputOption, type Register, withExamples, withServer } from '../register.ts';

export const registerHosts: Register = (program, io, finish) => {
  const host = program
    .command('host')
    .summary('boot hosts that share a store')
    .description(
      'Shows the boot hosts that share a store on etcd, and lets another one act (docs/several-hosts.md).',
    );
  const list = withServer(
    host
      .command('list')
      .alias('ls')
      .summary('list the boot hosts')
      .description(
        'Lists the hosts that share the store: which one acts, which stand by, since when, when each was last heard, how many revisions of the store it had not read then, which files of images and artifacts it lacks, and how far its clock is off.',
      )
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./host.ts')).list(options, io)));
  withExamples(list, ['muster host list', 'see whether another host would take over']);
  const invite = withServer(
    host
      .command('invite')
      .summary('invite a new boot host')
      .description(
        'Prints a code by which a new host joins (`muster host join`). It lives for 15 minutes, counts once, and ends when this host ceases to act. Keep it secret: its holder gets the vault key.',
      )
      .argument('<name>', 'the name that the new host gets')
      .option('--share-certificate', 'the new host also gets the certificate that this one shows etcd')
      .option('--call-off', 'the code of an invitation counts no more'),
  ).action(async (name: string, options) =>
    finish(await (await import('./host.ts')).invite(name, options, io)),
  );
  withExamples(
    invite,
    ['muster host invite host2', 'on the acting host'],
    ['muster host invite host2 --call-off', 'when the code went astray'],
  );
  const join = host
    .command('join')
    .summary('make this host one that stands by')
    .description(
      'Reads a code from the terminal or standard input, asks the host that printed it for what a boot host needs, and writes it: the vault key, the documents, the CA of etcd and the settings of the service. Says what is left to do by hand. It writes nothing over files that are there.',
    )
    .option('--store-cert <file>', 'the certificate (PEM) that this host shows etcd')
    .option('--store-key <file>', 'the private key of that certificate (PEM)')
    .option('--state <dir>', 'the state directory', '/var/lib/muster')
    .option('--config <dir>', 'the directory of documents', '/etc/muster')
    .option('--store-files <dir>', 'where the files for etcd go', '/etc/muster-store')
    .option('--settings <file>', 'the settings of the service', '/etc/default/muster')
    .action(async (options) => finish(await (await import('./join.files.ts')).join(options, io)));
  withExamples(join, [
    'muster host join --store-cert host2.pem --store-key host2.key',
    'on the new host, as root; it asks for the code',
  ]);
  const handOver = withServer(
    host
      .command('hand-over')
      .summary('let another host act')
      .description(
        'The acting host finishes what it sends to machines (at most ten seconds), gives its turn away, and stands by when its service starts again. A host that stands by acts at once.',
      ),
  ).action(async (options) => finish(await (await import('./host.ts')).handOver(options, io)));
  withExamples(handOver, ['muster host hand-over', 'before you upgrade or restart the acting host']);
  const forget = withServer(
    host
      .command('forget')
      .summary('forget a host that is gone for good')
      .description('Removes a silent host from the list, so that `muster status` does not miss it any more.')
      .argument('<name>', 'the host, as `muster host list` shows it'),
  ).action(async (name: string, options) =>
    finish(await (await import('./host.ts')).forget(name, options, io)),
  );
  withExamples(forget, ['muster host forget host3', 'after host3 was scrapped']);
};
