/** `muster image add|build|ls|verify|rm` */
import type { Command } from 'commander';
import { Option } from 'commander';
import { type AssetView, assetsOf } from '../api/assets.ts';
import type { Shown } from '../api/documents.ts';
import { MusterError } from '../base/errors.ts';
import type { Document, ImageSpec } from '../resources/kinds.ts';
import { type ApiClient, connectApi } from './client.socket.ts';
import { EXIT, type Io, socketPath } from './io.ts';
import { type Column, jsonText, tableText, yamlText } from './output.ts';

interface Common {
  readonly socket?: string;
}

/** What `image ls` shows of an image. */
export interface ImageLine {
  readonly name: string;
  readonly os: string;
  readonly version: string | undefined;
  readonly arch: string;
  readonly config: string;
  /** Octets of those of its files that are here. */
  readonly size: number;
  readonly state: 'complete' | 'incomplete';
  readonly missing: readonly string[];
}

const COLUMNS: readonly Column<ImageLine>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'OS', cell: ({ os, version }) => [os, version].filter(Boolean).join(' ') },
  { heading: 'ARCH', cell: ({ arch }) => arch },
  { heading: 'CONFIG', cell: ({ config }) => config },
  { heading: 'SIZE', cell: ({ size }) => sizeText(size) },
  { heading: 'STATE', cell: ({ state }) => state },
  { heading: 'MISSING', cell: ({ missing }) => missing.join(' '), wide: true },
];

/** Octets as people read them. */
export function sizeText(octets: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = octets;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

type ImageDocument = Document<'Image'>;

async function images(client: ApiClient): Promise<readonly ImageDocument[]> {
  return (await client.call<{ items: readonly Shown[] }>('GET', '/v1/images')).items as never;
}

async function assets(client: ApiClient): Promise<ReadonlyMap<string, AssetView>> {
  const { items } = await client.call<{ items: readonly AssetView[] }>('GET', '/v1/assets');
  return new Map(items.map((item) => [item.sha256, item]));
}

/** The files of an image with what they are to it. */
export function partsOf(image: ImageSpec): readonly { readonly part: string; readonly sha256: string }[] {
  const initrds = image.initrds ?? [];
  return [
    { part: 'kernel', sha256: image.kernel.sha256 },
    ...initrds.map(({ sha256 }, n) => ({ part: initrds.length > 1 ? `initrd${n}` : 'initrd', sha256 })),
    ...(image.root ? [{ part: 'root', sha256: image.root.sha256 }] : []),
  ];
}

/** Images and which of their files are here. Pure. */
export function imageLines(
  documents: readonly ImageDocument[],
  here: ReadonlyMap<string, Pick<AssetView, 'size'>>,
): readonly ImageLine[] {
  return documents.map(({ metadata, spec }) => {
    const missing = partsOf(spec)
      .filter(({ sha256 }) => !here.has(sha256))
      .map(({ part }) => part);
    return {
      name: metadata.name,
      os: spec.os,
      version: spec.version,
      arch: spec.arch,
      config: spec.configFormat,
      size: assetsOf(spec).reduce((sum, sha256) => sum + (here.get(sha256)?.size ?? 0), 0),
      state: missing.length === 0 ? 'complete' : 'incomplete',
      missing,
    };
  });
}

async function list(
  options: Common & { readonly output?: string; readonly unused?: true },
  io: Io,
): Promise<number> {
  const client = connectApi(socketPath(options.socket, io.env));
  const here = await assets(client);
  if (options.unused) {
    const unused = [...here.values()].filter((asset) => asset.images.length + asset.artifacts.length === 0);
    for (const { sha256, size } of unused) io.out(`${sha256}  ${sizeText(size)}\n`);
    return EXIT.ok;
  }
  const lines = imageLines(await images(client), here);
  switch (options.output) {
    case 'json':
      io.out(jsonText(lines));
      break;
    case 'yaml':
      io.out(yamlText(lines));
      break;
    default:
      if (lines.length === 0) io.err('no images; `muster image build debian` makes one\n');
      else io.out(tableText(COLUMNS, lines, options.output === 'wide'));
  }
  return EXIT.ok;
}

const VERIFIED = {
  ok: 'ok',
  changed: 'changed on disk, not served any more; add it again',
  missing: 'missing; add it again',
} as const;

/** Reads the files of the named images, or of all, again. Exit code 1 when one is missing or has changed. */
async function verify(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = connectApi(socketPath(options.socket, io.env));
  const all = await images(client);
  const unknown = names.filter((name) => !all.some(({ metadata }) => metadata.name === name));
  if (unknown.length > 0) throw new MusterError('E_NOT_FOUND', `there is no Image "${unknown.join('", "')}"`);
  const here = await assets(client);
  let good = true;
  for (const { metadata, spec } of all) {
    if (names.length > 0 && !names.includes(metadata.name)) continue;
    for (const { part, sha256 } of partsOf(spec)) {
      const { state } = here.has(sha256)
        ? await client.call<{ state: keyof typeof VERIFIED }>('POST', `/v1/assets/${sha256}/verify`)
        : ({ state: 'missing' } as const);
      good &&= state === 'ok';
      io.out(`image/${metadata.name} ${part} ${sha256.slice(0, 12)} ${VERIFIED[state]}\n`);
    }
  }
  return good ? EXIT.ok : EXIT.failure;
}

/** Removes images and those of their files that no other image needs; or only such files. */
async function remove(
  names: readonly string[],
  options: Common & { readonly unused?: true; readonly keepFiles?: true },
  io: Io,
): Promise<number> {
  if (names.length === 0 && !options.unused)
    throw new MusterError('E_USAGE', 'say which image, or --unused for files that no image needs');
  const client = connectApi(socketPath(options.socket, io.env));
  const files = new Set<string>();
  for (const name of names) {
    const { spec } = await client.call<ImageDocument>('GET', `/v1/images/${encodeURIComponent(name)}`);
    await client.call('DELETE', `/v1/images/${encodeURIComponent(name)}`);
    io.out(`image/${name} deleted\n`);
    if (!options.keepFiles) for (const sha256 of assetsOf(spec)) files.add(sha256);
  }
  for (const asset of (await assets(client)).values()) {
    if (asset.images.length + asset.artifacts.length > 0 || !(options.unused || files.has(asset.sha256)))
      continue;
    await client.call('DELETE', `/v1/assets/${asset.sha256}`);
    io.out(`asset/${asset.sha256.slice(0, 12)} deleted (${sizeText(asset.size)})\n`);
  }
  return EXIT.ok;
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Adds `image` and its sub-verbs to the command tree. */
export function registerImage(program: Command, io: Io, finish: (code: number) => void): void {
  const socket = () => new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET');
  const image = program
    .command('image')
    .description('Operating systems to boot: their files and their documents.');
  image
    .command('add')
    .summary('bring the files of an image to the server')
    .description(
      [
        'Brings the files of an image to the server, which serves only what fits its SHA-256, and applies its document.',
        '',
        '  muster image add -f image.yaml          fetches every file that the Image documents name (url, or --dir)',
        '  muster image add --from DIRECTORY       what images/NAME/build.sh has built',
        '  muster image add NAME --kernel FILE|URL [--initrd FILE|URL]… [--root FILE|URL] --os debian --config-format cloud-init',
        '',
        'An upload that was broken off goes on where it stopped.',
      ].join('\n'),
    )
    .argument('[name]', 'name of the Image to make')
    .addOption(
      new Option('-f, --filename <path>', 'file with Image documents (repeatable)').argParser(collect),
    )
    .option('--dir <directory>', "with -f: where files are whose url is relative; default: the file's own")
    .option('--from <directory>', 'directory with image.json, as a recipe made it')
    .option('--kernel <source>', 'file or URL')
    .addOption(new Option('--initrd <source>', 'file or URL (repeatable, in order)').argParser(collect))
    .option('--root <source>', 'root image (squashfs), file or URL')
    .addOption(
      new Option(
        '--sha256 <part=hash>',
        'what a file must be: kernel=…, initrd=… (initrd0=…), root=…; needed for every URL',
      ).argParser(collect),
    )
    .option('--trust-on-first-use', 'take a URL without a hash as it comes, and print its hash')
    .option('--os <name>', 'operating system family', 'linux')
    .option('--os-version <version>', 'its version')
    .addOption(new Option('--arch <arch>', 'processor').choices(['x86_64', 'aarch64']).default('x86_64'))
    .addOption(
      new Option('--config-format <format>', 'how it takes its configuration')
        .choices(['cloud-init', 'ignition', 'none'])
        .default('none'),
    )
    .option('--cloud-init-version <version>', "cloud-init's version in it")
    .addOption(
      new Option('--kernel-argument <argument>', 'for its command line (repeatable)').argParser(collect),
    )
    .addOption(socket())
    .action(async (name: string | undefined, options) =>
      finish(await (await import('./image-add.ts')).add(name, options, io)),
    );
  image
    .command('build')
    .summary('build an image and add it')
    .description(
      "Builds an image from its recipe in images/ (debian, probe) out of the host's own mirror, and adds it.",
    )
    .argument('<recipe>', 'debian or probe')
    .argument('[arguments...]', 'for the recipe, after --, e.g. -- --suite bookworm')
    .option('--name <name>', "the Image's name; default: as the recipe says, e.g. debian-13")
    .addOption(socket())
    .action(async (recipe: string, args: string[], options) =>
      finish(await (await import('./image-add.ts')).build(recipe, args, options, io)),
    );
  image
    .command('ls')
    .summary('list images and whether they are complete')
    .description('Lists images and whether their files are here.')
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(['table', 'wide', 'json', 'yaml']),
    )
    .option('--unused', 'list files that no image needs instead')
    .addOption(socket())
    .action(async (options) => finish(await list(options, io)));
  image
    .command('verify')
    .summary('read the files of images again')
    .description(
      'Reads the files of images again and compares their hashes. Exit code 1: one is missing or has changed.',
    )
    .argument('[name...]', 'only these')
    .addOption(socket())
    .action(async (names: string[], options) => finish(await verify(names, options, io)));
  image
    .command('rm')
    .summary('remove images and their files')
    .description('Removes images, and those of their files that no other image needs.')
    .argument('[name...]', 'which')
    .option('--keep-files', 'only the documents')
    .option('--unused', 'also all other files that no image needs')
    .addOption(socket())
    .action(async (names: string[], options) => finish(await remove(names, options, io)));
}
