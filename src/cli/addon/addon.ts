/** `muster addon ls|show|pin` */
import { type Command, Option } from 'commander';
import type { Io } from '../io.ts';

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Adds `addon` and its sub-verbs to the command tree. */
export function registerAddons(program: Command, io: Io, finish: (code: number) => void): void {
  const addon = program
    .command('addon')
    .helpGroup('Clusters:')
    .description('What is put into clusters besides what Kubernetes needs.');
  addon
    .command('ls')
    .summary('the catalogue, or the add-ons of a cluster')
    .description(
      'Lists the catalogue of add-ons; with a cluster, its own: what is here of them. Exit code 1: one cannot be applied.',
    )
    .argument('[cluster]', 'name of a Cluster')
    .addOption(new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml']))
    .addOption(new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET'))
    .action(async (cluster: string | undefined, options) =>
      finish(await (await import('./verbs.ts')).list(cluster, options, io)),
    );
  addon
    .command('show')
    .summary('an entry of the catalogue')
    .description('Prints what to write below `addons` of a Cluster, without the hashes. Needs no server.')
    .argument('<name>', 'as `muster addon ls` lists it')
    .option('--release <version>', 'another version than the one that the catalogue was written for')
    .action(async (name: string, options) => finish((await import('./verbs.ts')).show(name, options, io)));
  addon
    .command('pin')
    .summary('fetch manifests once and say their hashes')
    .description(
      'Fetches the files of an entry, or manifests by their URLs, and prints what to write below `addons` of a Cluster. Nothing is kept: `muster artifacts pull` fetches them again, and takes only what has these hashes. Needs no server.',
    )
    .argument('<what...>', 'name in the catalogue, or URLs')
    .option('--release <version>', 'another version than the one that the catalogue was written for')
    .option('--as <name>', 'name of the add-on')
    .addOption(
      new Option(
        '--mirror <from=to>',
        'fetch URLs that begin with FROM from TO instead (repeatable)',
      ).argParser(collect),
    )
    .action(async (what: string[], options) =>
      finish(await (await import('./verbs.ts')).pin(what, options, io)),
    );
}
