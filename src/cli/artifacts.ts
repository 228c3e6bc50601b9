/** `muster artifacts plan|pull|import|pack|verify|ls|rm` */
import type { Command } from 'commander';
import { Option } from 'commander';
import type { ArtifactView } from '../api/artifacts.ts';
import { type Artifact, artifactName, filesOf } from '../artifacts/book.ts';
import { MusterError } from '../base/errors.ts';
import { type ApiClient, connectApi } from './client.socket.ts';
import { sizeText } from './image.ts';
import { EXIT, type Io, socketPath } from './io.ts';
import { type Column, jsonText, tableText, yamlText } from './output.ts';

interface Common {
  readonly socket?: string;
}

const clientOf = (options: Common, io: Io): ApiClient => connectApi(socketPath(options.socket, io.env));

export const artifactsOf = async (client: ApiClient): Promise<readonly ArtifactView[]> =>
  (await client.call<{ items: readonly ArtifactView[] }>('GET', '/v1/artifacts')).items;

function shownName(artifact: Artifact): string {
  switch (artifact.kind) {
    case 'image':
      return artifact.reference;
    case 'binary':
      return `${artifact.name} ${artifact.version} ${artifact.arch}`;
    case 'manifest':
      return artifact.addon;
  }
}

const COLUMNS: readonly Column<ArtifactView>[] = [
  { heading: 'KIND', cell: ({ artifact }) => artifact.kind },
  {
    heading: 'NAME',
    cell: ({ artifact }) => shownName(artifact),
  },
  { heading: 'SIZE', cell: ({ size }) => sizeText(size) },
  {
    heading: 'DIGEST',
    cell: ({ artifact }) =>
      (artifact.kind === 'image' ? artifact.digest : `sha256:${artifact.sha256}`).slice(0, 19),
  },
  {
    heading: 'STATE',
    cell: ({ missing }) => (missing.length === 0 ? 'complete' : `${missing.length} missing`),
  },
];

async function list(options: Common & { readonly output?: string }, io: Io): Promise<number> {
  const items = await artifactsOf(clientOf(options, io));
  if (options.output === 'json') io.out(jsonText(items));
  else if (options.output === 'yaml') io.out(yamlText(items));
  else if (options.output === 'name') for (const { name } of items) io.out(`${name}\n`);
  else if (items.length === 0) io.err('no artifacts; `muster artifacts import` or `pull` brings some\n');
  else io.out(tableText(COLUMNS, items, false));
  return EXIT.ok;
}

/** Names may be given as `ls -o name` prints them, or as references. Throws E_NOT_FOUND. */
function chosen(items: readonly ArtifactView[], names: readonly string[]): readonly ArtifactView[] {
  if (names.length === 0) return items;
  return names.flatMap((name) => {
    const found = items.filter((item) => item.name === name || item.name === `image/${name}`);
    if (found.length === 0) throw new MusterError('E_NOT_FOUND', `there is no artifact "${name}"`);
    return found;
  });
}

/** Reads every file again. Exit code 1 when one is missing or has changed. */
async function verify(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = clientOf(options, io);
  const states = new Map<string, string>();
  let good = true;
  for (const { name, artifact } of chosen(await artifactsOf(client), names)) {
    const wrong: string[] = [];
    for (const { sha256 } of filesOf(artifact)) {
      const state = states.get(sha256) ?? (await stateOf(client, sha256));
      states.set(sha256, state);
      if (state !== 'ok') wrong.push(`${sha256.slice(0, 12)} ${state}`);
    }
    good &&= wrong.length === 0;
    io.out(`${name} ${wrong.length === 0 ? 'ok' : `${wrong.join(', ')}; add it again`}\n`);
  }
  return good ? EXIT.ok : EXIT.failure;
}

async function stateOf(client: ApiClient, sha256: string): Promise<string> {
  try {
    return (await client.call<{ state: string }>('POST', `/v1/assets/${sha256}/verify`)).state;
  } catch (error) {
    if (error instanceof MusterError && error.code === 'E_NOT_FOUND') return 'missing';
    throw error;
  }
}

/** Removes names, and the files that nothing else needs. */
async function remove(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = clientOf(options, io);
  for (const { artifact } of chosen(await artifactsOf(client), names)) {
    const name = artifactName(artifact);
    const { unused } = await client.call<{ unused: readonly string[] }>('DELETE', '/v1/artifacts', {
      query: { name },
    });
    io.out(`${name} deleted\n`);
    for (const sha256 of unused)
      await client.call('DELETE', `/v1/assets/${sha256}`).catch((error: unknown) => {
        // an OS image may name the same file; one that is gone is gone
        if (!(error instanceof MusterError) || !['E_ASSET_USED', 'E_NOT_FOUND'].includes(error.code))
          throw error;
      });
  }
  return EXIT.ok;
}

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
      finish(await (await import('./artifacts-plan.ts')).plan(cluster, options, io)),
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
      finish(await (await import('./artifacts-pull.ts')).pull(cluster, options, io)),
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
      finish(await (await import('./artifacts-import.ts')).importArtifacts(paths, options, io)),
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
      finish(await (await import('./artifacts-pack.ts')).packArtifacts(directory, options, io)),
    );
  artifacts
    .command('ls')
    .summary('list binaries and images')
    .description('Lists binaries and images, and whether their files are here.')
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml', 'name']),
    )
    .addOption(socket())
    .action(async (options) => finish(await list(options, io)));
  artifacts
    .command('verify')
    .summary('read the files of artifacts again')
    .description(
      'Reads the files of artifacts again and compares their hashes. Exit code 1: one is missing or has changed.',
    )
    .argument('[name...]', 'only these')
    .addOption(socket())
    .action(async (names: string[], options) => finish(await verify(names, options, io)));
  artifacts
    .command('rm')
    .summary('remove binaries and images')
    .description('Removes artifacts, and those of their files that nothing else needs.')
    .argument('<name...>', 'which, as `ls -o name` prints them')
    .addOption(socket())
    .action(async (names: string[], options) => finish(await remove(names, options, io)));
}
