/** Registers `muster artifacts plan|pull|import|pack|ls|verify|rm`. */
import { type Command, Option } from 'commander';
import type { Io } from '../io.ts';
import {
  archOption,
  collect,
  type Finish,
  mirrorOption,
  outputOption,
  type Register,
  withExamples,
  withServer,
} from '../register.ts';

const arch = (about: string): Option => archOption(about).default('x86_64');
const binaryOption = (): Option =>
  new Option('--binary <name:version=file>', 'a binary (repeatable)').argParser(collect);

export const registerArtifacts: Register = (program, io, finish) => {
  const artifacts = program
    .command('artifacts')
    .summary('bring the binaries and container images of clusters')
    .description('Brings, lists and removes the binaries and container images that clusters are made of.');
  bringVerbs(artifacts, io, finish);
  inventoryVerbs(artifacts, io, finish);
};

function bringVerbs(artifacts: Command, io: Io, finish: Finish): void {
  const plan = withServer(
    artifacts
      .command('plan')
      .summary('list what a cluster needs, and what of it is here')
      .description(
        'Lists the binaries and container images that a cluster needs, and which of them are here. Exit code 1 when something is missing.',
      )
      .argument('<cluster>', 'name of a Cluster')
      .addOption(arch('processor of its machines'))
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./plan.ts')).plan(cluster, options, io)),
  );
  withExamples(plan, ['muster artifacts plan blue', 'see what has to be fetched']);
  const pull = withServer(
    artifacts
      .command('pull')
      .summary('fetch what a cluster needs from its publishers')
      .description(
        'Fetches what is missing: binaries with the checksums of their publishers, images by digest from their registries. An interrupted transfer continues where it stopped.',
      )
      .argument('<cluster>', 'name of a Cluster')
      .addOption(arch('processor of its machines'))
      .addOption(mirrorOption()),
  ).action(async (cluster: string, options) =>
    finish(await (await import('./pull.ts')).pull(cluster, options, io)),
  );
  withExamples(
    pull,
    ['muster artifacts pull blue', 'fetch everything that a cluster needs'],
    [
      'muster artifacts pull blue --mirror https://registry.k8s.io=https://mirror.example.org',
      'fetch through a mirror',
    ],
  );
  const bring = withServer(
    artifacts
      .command('import')
      .summary('upload binaries and images from files')
      .description(
        'Uploads binaries and container images from files, for hosts without a network: OCI layouts, archives of docker save (directories or tars), and what `muster artifacts pack` made. The server keeps only files with the right SHA-256.',
      )
      .argument('[path...]', 'directories and tars')
      .addOption(binaryOption())
      .addOption(arch('processor of --binary'))
      .addOption(new Option('--manifest <addon=file>', 'a file of an add-on (repeatable)').argParser(collect))
      .option('--as <reference>', 'name of an image whose archive does not name it'),
  ).action(async (paths: string[], options) =>
    finish(await (await import('./import.ts')).importArtifacts(paths, options, io)),
  );
  withExamples(
    bring,
    ['muster artifacts import images.tar', 'upload container images'],
    ['muster artifacts import --binary kubelet:1.36.2=./kubelet', 'upload a program, or a tar with programs'],
    ['muster artifacts import --manifest metallb=metallb.yaml', 'upload a file of an add-on'],
  );
  const pack = artifacts
    .command('pack')
    .summary('make images from static programs')
    .description(
      'Makes container images of one layer from static programs, and a list of binaries; `muster artifacts import` takes both. The same programs give the same digests. Needs no server.',
    )
    .argument('<directory>', 'destination; images and binaries are added to what is there')
    .addOption(
      new Option(
        '--image <reference=file:path,…>',
        'an image: files with their paths in it (default: /usr/local/bin/NAME), directories for trees; it runs the first (repeatable)',
      ).argParser(collect),
    )
    .addOption(binaryOption())
    .addOption(arch('processor that all are for'))
    .option('--user <uid>', 'user that the images run as', '0')
    .action(async (directory: string, options) =>
      finish(await (await import('./pack.ts')).packArtifacts(directory, options, io)),
    );
  withExamples(
    pack,
    ['muster artifacts pack DIR --image registry.k8s.io/pause:3.10.2=./pause:/pause', 'make one image'],
    [
      'muster artifacts pack DIR --image example/app:1=./app:/app,./etc:/etc --binary kubelet:1.36.2=./kubelet',
      'make an image of two trees, and list a binary',
    ],
  );
}

function inventoryVerbs(artifacts: Command, io: Io, finish: Finish): void {
  const list = withServer(
    artifacts
      .command('ls')
      .summary('list binaries and images')
      .description('Lists binaries and images, and whether their files are here.')
      .addOption(outputOption('table', 'json', 'yaml', 'name')),
  ).action(async (options) => finish(await (await import('./inventory.ts')).list(options, io)));
  withExamples(list, ['muster artifacts ls', 'list what clusters can be made of']);
  const verify = withServer(
    artifacts
      .command('verify')
      .summary('read the files of artifacts again')
      .description(
        'Reads the files of artifacts again and compares their hashes. Exit code 1 when one is missing or has changed.',
      )
      .argument('[name...]', 'only these artifacts'),
  ).action(async (names: string[], options) =>
    finish(await (await import('./inventory.ts')).verify(names, options, io)),
  );
  withExamples(verify, ['muster artifacts verify', 'check all files after a fault of a disk']);
  const remove = withServer(
    artifacts
      .command('rm')
      .summary('remove binaries and images')
      .description('Removes artifacts, and those of their files that nothing else needs.')
      .argument('<name...>', 'names, as `muster artifacts ls -o name` prints them'),
  ).action(async (names: string[], options) =>
    finish(await (await import('./inventory.ts')).remove(names, options, io)),
  );
  withExamples(remove, [
    'muster artifacts rm image/registry.k8s.io/pause:3.10',
    'remove an image that no cluster needs any more',
  ]);
}
