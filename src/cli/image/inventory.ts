/** The verbs `muster image ls`, `verify` and `rm`. */
import type { AssetView, UploadView } from '../../api/operations/assets.ts';
import type { Shown } from '../../api/shown.ts';
import { MusterError } from '../../base/errors.ts';
import { assetsOf, partsOf } from '../../pxe/assets/assets.ts';
import type { Document } from '../../resources/kinds.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';
import { type Column, jsonText, lookOf, sizeText, tableText, yamlText } from '../output.ts';

interface Common extends ServerOptions {}

/** An image in `muster image ls`. */
export interface ImageLine {
  readonly name: string;
  readonly os: string;
  readonly version: string | undefined;
  readonly arch: string;
  readonly config: string;
  /** The size, in octets, of those of its files that the server has. */
  readonly size: number;
  readonly state: 'complete' | 'incomplete';
  readonly missing: readonly string[];
  /** The boot hosts that have all of its files; absent when the store is not shared. */
  readonly hosts?: readonly string[];
}

const COLUMNS: readonly Column<ImageLine>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'OS', cell: ({ os, version }) => [os, version].filter(Boolean).join(' ') },
  { heading: 'ARCH', cell: ({ arch }) => arch },
  { heading: 'CONFIG', cell: ({ config }) => config },
  { heading: 'SIZE', cell: ({ size }) => sizeText(size) },
  {
    heading: 'STATE',
    cell: ({ state }) => state,
    color: ({ state }) => (state === 'incomplete' ? 'yellow' : undefined),
  },
  { heading: 'MISSING', cell: ({ missing }) => missing.join(' '), wide: true },
];
const HOSTS: Column<ImageLine> = { heading: 'HOSTS', cell: ({ hosts = [] }) => hosts.join(',') };

type ImageDocument = Document<'Image'>;

async function images(client: ApiClient): Promise<readonly ImageDocument[]> {
  return (await client.call<{ items: readonly Shown[] }>('GET', '/v1/images')).items as never;
}

async function assets(client: ApiClient): Promise<ReadonlyMap<string, AssetView>> {
  const { items } = await client.ask('GET /v1/assets');
  return new Map(items.map((item) => [item.sha256, item]));
}

async function uploads(client: ApiClient): Promise<readonly UploadView[]> {
  return (await client.ask('GET /v1/uploads')).items;
}

/** The lines of `muster image ls`: images, each with which of its files the server has. Pure. */
function imageLines(
  documents: readonly ImageDocument[],
  stored: ReadonlyMap<string, Pick<AssetView, 'size' | 'hosts'>>,
): readonly ImageLine[] {
  return documents.map(({ metadata, spec }) => {
    const missing = partsOf(spec)
      .filter(({ sha256 }) => !stored.has(sha256))
      .map(({ part }) => part);
    const shared = [...stored.values()].some(({ hosts }) => hosts !== undefined);
    return {
      name: metadata.name,
      os: spec.os,
      version: spec.version,
      arch: spec.arch,
      config: spec.configFormat,
      size: assetsOf(spec).reduce((sum, sha256) => sum + (stored.get(sha256)?.size ?? 0), 0),
      state: missing.length === 0 ? 'complete' : 'incomplete',
      missing,
      ...(shared && { hosts: inAll(assetsOf(spec).map((sha256) => stored.get(sha256)?.hosts ?? [])) }),
    };
  });
}

const columnsFor = (lines: readonly ImageLine[]): readonly Column<ImageLine>[] =>
  lines.some(({ hosts }) => hosts !== undefined) ? [...COLUMNS, HOSTS] : COLUMNS;

/** What is in each of the lists. */
const inAll = ([first = [], ...others]: readonly (readonly string[])[]): readonly string[] =>
  first.filter((one) => others.every((list) => list.includes(one)));

/** `muster image ls`: prints the images or, with `--unused`, files that no image needs. */
export async function list(
  options: Common & { readonly output?: string; readonly unused?: true },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const stored = await assets(client);
  if (options.unused) {
    const unused = [...stored.values()].filter((asset) => asset.images.length + asset.artifacts.length === 0);
    const open = await uploads(client);
    if (unused.length + open.length === 0) io.err('no unused files\n');
    for (const { sha256, size } of unused) io.out(`${sha256}  ${sizeText(size)}\n`);
    for (const { sha256, received, active } of open)
      io.out(`${sha256}  ${sizeText(received)}  ${active ? 'being uploaded' : 'incomplete upload'}\n`);
    return EXIT.ok;
  }
  const lines = imageLines(await images(client), stored);
  switch (options.output) {
    case 'json':
      io.out(jsonText(lines));
      break;
    case 'yaml':
      io.out(yamlText(lines));
      break;
    default:
      if (lines.length === 0) io.err('no images; `muster image build debian` makes one\n');
      else io.out(tableText(columnsFor(lines), lines, lookOf(io, options.output === 'wide')));
  }
  return EXIT.ok;
}

const VERIFIED = {
  ok: 'ok',
  changed: 'changed on disk and is no longer served; add it again',
  missing: 'missing; add it again',
} as const;

/**
 * `muster image verify`: makes the server read the files of the named images, or of all images,
 * again. Exit code 1 when one is missing or has changed.
 */
export async function verify(names: readonly string[], options: Common, io: Io): Promise<number> {
  const client = openClient(options, io);
  const all = await images(client);
  refuseUnknown(names, (name) => all.some(({ metadata }) => metadata.name === name));
  if (all.length === 0) io.err('no images; `muster image build debian` makes one\n');
  const stored = await assets(client);
  let good = true;
  for (const { metadata, spec } of all) {
    if (names.length > 0 && !names.includes(metadata.name)) continue;
    for (const { part, sha256 } of partsOf(spec)) {
      const { state } = stored.has(sha256)
        ? await client.ask('POST /v1/assets/:sha256/verify', { params: { sha256 } }, { works: true })
        : ({ state: 'missing' } as const);
      good &&= state === 'ok';
      io.out(`image/${metadata.name} ${part} ${sha256.slice(0, 12)} ${VERIFIED[state]}\n`);
    }
  }
  return good ? EXIT.ok : EXIT.failure;
}

function refuseUnknown(names: readonly string[], isKnown: (name: string) => boolean): void {
  const unknown = names.filter((name) => !isKnown(name));
  if (unknown.length > 0)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no Image "${unknown.join('", "')}"; \`muster image ls\` lists them`,
    );
}

/**
 * `muster image rm`: removes images, all or none, with those of their files that no other image
 * needs. With --unused it also removes all other files that no image needs.
 *
 * @throws {MusterError} E_USAGE when neither an image nor --unused is given; E_NOT_FOUND for an
 *   unknown image; and what the server answers.
 */
export async function remove(
  names: readonly string[],
  options: Common & { readonly unused?: true; readonly keepFiles?: true; readonly force?: true },
  io: Io,
): Promise<number> {
  if (names.length === 0 && !options.unused)
    throw new MusterError('E_USAGE', 'name an image, or --unused for files that no image needs');
  const client = openClient(options, io);
  const all = new Map((await images(client)).map((image) => [image.metadata.name, image]));
  refuseUnknown(names, (name) => all.has(name));
  const files = new Set<string>();
  if (names.length > 0) {
    const { results, warnings } = await client.ask('POST /v1/delete', {
      query: { force: options.force ? true : undefined },
      body: { documents: [...new Set(names)].map((name) => ({ kind: 'Image' as const, name })) },
    });
    for (const { name } of results) {
      io.out(`image/${name} deleted\n`);
      if (!options.keepFiles) for (const sha256 of assetsOf(all.get(name)!.spec)) files.add(sha256);
    }
    printWarnings(warnings, io);
  }
  for (const asset of (await assets(client)).values()) {
    if (asset.images.length + asset.artifacts.length > 0 || !(options.unused || files.has(asset.sha256)))
      continue;
    await client.ask('DELETE /v1/assets/:sha256', { params: { sha256: asset.sha256 } });
    io.out(`asset/${asset.sha256.slice(0, 12)} deleted (${sizeText(asset.size)})\n`);
  }
  if (options.unused)
    for (const { sha256, received, active } of await uploads(client)) {
      if (active) continue;
      await client.ask('DELETE /v1/assets/:sha256', { params: { sha256 } });
      io.out(`upload/${sha256.slice(0, 12)} deleted (${sizeText(received)}, incomplete)\n`);
    }
  return EXIT.ok;
}
