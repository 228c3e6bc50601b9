/** Registers `muster addon ls|show|pin`. */
import { mirrorOption, outputOption, type Register, withExamples, withServer } from '../register.ts';

const RELEASE = ['--release <version>', 'another version than the catalogue was written for'] as const;

export const registerAddons: Register = (program, io, finish) => {
  const addon = program
    .command('addon')
    .summary('list and pin add-ons of clusters')
    .description('Lists and pins add-ons: what runs in clusters besides what Kubernetes needs.');
  const list = withServer(
    addon
      .command('ls')
      .summary('list the catalogue, or the add-ons of a cluster')
      .description(
        'Lists the catalogue of add-ons; with a cluster, its add-ons and whether their files are here. Exit code 1 when one cannot be applied.',
      )
      .argument('[cluster]', 'name of a Cluster')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (cluster: string | undefined, options) =>
    finish(await (await import('./catalogue.ts')).list(cluster, options, io)),
  );
  withExamples(list, ['muster addon ls', 'list what the catalogue has']);
  const show = addon
    .command('show')
    .summary('print an entry of the catalogue')
    .description('Prints what to write below `addons` of a Cluster, without the hashes. Needs no server.')
    .argument('<name>', 'name, as `muster addon ls` lists it')
    .option(...RELEASE)
    .action(async (name: string, options) =>
      finish((await import('./catalogue.ts')).show(name, options, io)),
    );
  withExamples(show, ['muster addon show metallb', 'print an entry']);
  const pin = addon
    .command('pin')
    .summary('fetch manifests and print their hashes')
    .description(
      'Fetches the files of an entry, or manifests by their URLs, and prints what to write below `addons` of a Cluster. Nothing is kept: `muster artifacts pull` fetches them again and accepts only files with these hashes. Needs no server.',
    )
    .argument('<what...>', 'name in the catalogue, or URLs')
    .option(...RELEASE)
    .option('--as <name>', 'name of the add-on')
    .addOption(mirrorOption())
    .action(async (what: string[], options) =>
      finish(await (await import('./catalogue.ts')).pin(what, options, io)),
    );
  withExamples(
    pin,
    ['muster addon pin metallb', 'pin an entry of the catalogue'],
    ['muster addon pin https://example.org/app.yaml --as app', 'pin any other manifest'],
  );
};
