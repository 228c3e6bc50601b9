/** Registers `muster host list|hand-over|forget`. */
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
