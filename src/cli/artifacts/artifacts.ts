/** `muster artifacts plan|pull|import|pack|verify|ls|rm` */
import { type Command, Option } from 'commander';
import type { Io } from '../io.ts';

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
const archOption = (about: string) =>
  new Option('--arch <arch>', about).choices(['x86_64', 'aarch64']).default('x86_64');

/** Adds `artifacts` and its sub-verbs to the command tree. */
export function registerArtifacts(program: Command, io: Io, finish: (code: number) => void): void {
  const socket = () => new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET');
  const artifacts = program
    .command('artifacts')
    .description('Binaries and container images that clusters are made of.');
  artifacts
    .command('plan')
    .summary('what a cluster needs, and what of it is here')
    .description(
      'Lists the binaries and container images that the full specification of a cluster needs. Exit code 1: something is missing.',
    )
    .argument('<cluster>', 'name of a Cluster')
    .addOption(archOption('processor of its machines'))
    .addOption(new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml']))
    .addOption(socket())
    .action(async (cluster: string, options) =>
      finish(await (await import('./plan.ts')).plan(cluster, options, io)),
    );
  artifacts
    .command('pull')
    .summary('fetch what a cluster needs from its publishers')
    .description(
      'Fetches what is missing: binaries with the checksums of their publishers, images by digest from their registries. One that was broken off goes on where it stopped.',
    )
    .argument('<cluster>', 'name of a Cluster')
    .addOption(archOption('processor of its machines'))
    .addOption(
      new Option(
        '--mirror <from=to>',
        'fetch URLs that begin with FROM from TO instead (repeatable)',
      ).argParser(collect),
    )
    .addOption(socket())
    .action(async (cluster: string, options) =>
      finish(await (await import('./pull.ts')).pull(cluster, options, io)),
    );
  artifacts
    .command('import')
    .summary('bring binaries and images from files')
    .description(
      [
        'Brings binaries and images to the server, which keeps only what fits its SHA-256.',
        '',
        '  muster artifacts import PATH…                        OCI layouts and archives of docker save (directories or tars);',
        '                                                       what `muster artifacts pack` made',
        '  muster artifacts import --binary kubelet:1.36.2=FILE a program, or a tar with programs',
        '  muster artifacts import --manifest metallb=FILE      a file of an add-on',
      ].join('\n'),
    )
    .argument('[path...]', 'directories and tars')
    .addOption(new Option('--binary <name:version=file>', 'a binary (repeatable)').argParser(collect))
    .addOption(archOption('processor of --binary'))
    .addOption(new Option('--manifest <addon=file>', 'a file of an add-on (repeatable)').argParser(collect))
    .option('--as <reference>', 'name of an image that its archive does not name')
    .addOption(socket())
    .action(async (paths: string[], options) =>
      finish(await (await import('./import.ts')).importArtifacts(paths, options, io)),
    );
  artifacts
    .command('pack')
    .summary('make images of static programs')
    .description(
      [
        'Makes images of one layer from static programs, and a list of binaries; both are what `import` takes. The same programs',
        'give the same digests. Needs no server.',
        '',
        '  muster artifacts pack DIR --image registry.k8s.io/pause:3.10.2=./pause:/pause',
        '  muster artifacts pack DIR --image example/app:1=./app:/app,./etc:/etc --binary kubelet:1.36.2=./kubelet',
      ].join('\n'),
    )
    .argument('<directory>', 'where to; images and binaries are added to what is there')
    .addOption(
      new Option(
        '--image <reference=file:path,…>',
        'an image: files with their paths in it (default: /usr/local/bin/NAME), directories for trees; the first is what it runs (repeatable)',
      ).argParser(collect),
    )
    .addOption(new Option('--binary <name:version=file>', 'a binary (repeatable)').argParser(collect))
    .addOption(archOption('processor that all are for'))
    .option('--user <uid>', 'user that the images run as', '0')
    .action(async (directory: string, options) =>
      finish(await (await import('./pack.ts')).packArtifacts(directory, options, io)),
    );
  artifacts
    .command('ls')
    .summary('list binaries and images')
    .description('Lists binaries and images, and whether their files are here.')
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml', 'name']),
    )
    .addOption(socket())
    .action(async (options) => finish(await (await import('./verbs.ts')).list(options, io)));
  artifacts
    .command('verify')
    .summary('read the files of artifacts again')
    .description(
      'Reads the files of artifacts again and compares their hashes. Exit code 1: one is missing or has changed.',
    )
    .argument('[name...]', 'only these')
    .addOption(socket())
    .action(async (names: string[], options) =>
      finish(await (await import('./verbs.ts')).verify(names, options, io)),
    );
  artifacts
    .command('rm')
    .summary('remove binaries and images')
    .description('Removes artifacts, and those of their files that nothing else needs.')
    .argument('<name...>', 'which, as `ls -o name` prints them')
    .addOption(socket())
    .action(async (names: string[], options) =>
      finish(await (await import('./verbs.ts')).remove(names, options, io)),
    );
}
