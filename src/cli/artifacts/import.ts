/** `muster artifacts import`: uploads files, then records the artifacts' names. */
import { createHash } from 'node:crypto';
import type { ArtifactEntry } from '../../api/operations/artifacts.ts';
import type { Arch } from '../../artifacts/oci.ts';
import { formatReference, parseReference } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import { didYouMean } from '../../base/suggest.ts';
import { MAX_MANIFEST_BYTES, readManifest } from '../../cluster/objects/addons/manifest.ts';
import { BINARIES } from '../../cluster/resolve/artifacts.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { type AssetSource, hashOf, readAll, sourceOf } from '../image/sources.files.ts';
import { upload } from '../image/upload.ts';
import { EXIT, type Io } from '../io.ts';
import { sizeText } from '../output.ts';
import { withProgress } from '../progress.files.ts';
import { findArtifacts } from './find.ts';
import { binaryIn } from './pack.ts';
import { treeOf } from './trees.files.ts';

interface ImportOptions extends ServerOptions {
  readonly binary?: readonly string[];
  readonly manifest?: readonly string[];
  readonly arch: Arch;
  readonly as?: string;
}

/** An artifact, and the sources of its files by hash. */
export interface Sourced {
  readonly entry: ArtifactEntry;
  readonly files: ReadonlyMap<string, AssetSource>;
}

/**
 * `muster artifacts import`: sends binaries, images and manifests to the server and records their
 * names there.
 *
 * @throws {MusterError} E_USAGE when nothing is named, or `--manifest` is not ADDON=FILE; and what
 *   reading the files and the server's answers throw.
 */
export async function importArtifacts(
  paths: readonly string[],
  options: ImportOptions,
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const all: Sourced[] = [];
  for (const given of paths) all.push(...(await inTree(given, options, io.signal)));
  for (const text of options.binary ?? []) {
    const { name, version, from } = binaryIn(text);
    const source = sourceOf(from);
    const { sha256 } = await hashOf(source, io.signal);
    const form = /\.(tar(\.(gz|xz|zst))?|tgz)$/.test(from) ? 'tar' : 'file';
    all.push({
      entry: { kind: 'binary', name, version, arch: options.arch, sha256, form },
      files: new Map([[sha256, source]]),
    });
  }
  for (const text of options.manifest ?? []) {
    const [, addon, from] = /^([a-z0-9][a-z0-9-]*)=(.+)$/.exec(text) ?? [];
    if (addon === undefined || from === undefined)
      throw new MusterError('E_USAGE', `--manifest ${text}: write ADDON=FILE, e.g. metallb=./metallb.yaml`);
    const source = sourceOf(from);
    const octets = await readAll(source, MAX_MANIFEST_BYTES, io.signal);
    readManifest(octets, from);
    const sha256 = createHash('sha256').update(octets).digest('hex');
    all.push({ entry: { kind: 'manifest', addon, sha256 }, files: new Map([[sha256, source]]) });
  }
  if (all.length === 0)
    throw new MusterError('E_USAGE', 'nothing to import: give a path, --binary or --manifest');
  for (const { entry } of all) warnOfName(entry, io);
  for (const one of all) await bring(one, client, io);
  return EXIT.ok;
}

/**
 * Warns about a binary that no cluster needs and whose name resembles one that clusters do need. A
 * name that resembles none may be intended, so it causes no warning.
 */
function warnOfName(entry: ArtifactEntry, io: Io): void {
  if (entry.kind !== 'binary' || (BINARIES as readonly string[]).includes(entry.name)) return;
  const meant = didYouMean(entry.name, BINARIES);
  if (meant !== '') io.err(`warning: no cluster needs a binary "${entry.name}"${meant}\n`);
}

async function inTree(
  given: string,
  options: ImportOptions,
  signal: AbortSignal,
): Promise<readonly Sourced[]> {
  const { images, binaries } = await findArtifacts(await treeOf(given), signal);
  const nameless = images.filter(({ reference }) => reference === undefined);
  if (nameless.length > 1 || (nameless.length === 1 && options.as === undefined))
    throw new MusterError(
      'E_ARTIFACT',
      `${given}: ${nameless.length} of its images have no name; give one with --as REFERENCE`,
    );
  const as = options.as === undefined ? undefined : parseReference(options.as);
  if (options.as !== undefined && as === undefined)
    throw new MusterError('E_USAGE', `--as ${options.as} is not an image reference`);
  return [
    ...images.map(
      ({ reference, digest, archs, files }): Sourced => ({
        entry: {
          kind: 'image',
          reference: reference ?? formatReference(as!),
          digest,
          archs: [...archs],
        },
        files,
      }),
    ),
    ...binaries.map(
      ({ name, version, arch, sha256, form, source }): Sourced => ({
        entry: { kind: 'binary', name, version, arch, sha256, form },
        files: new Map([[sha256, source]]),
      }),
    ),
  ];
}

/** Uploads the files of an artifact that the server lacks, then records the artifact's name. */
export async function bring({ entry, files }: Sourced, client: ApiClient, io: Io): Promise<void> {
  let octets = 0;
  for (const [sha256, source] of files) {
    const { size, already } = await withProgress(source.shown, 'continues from here', io, (how) =>
      upload({ client, source, sha256, ...how }),
    );
    if (!already) octets += size;
  }
  const { items } = await client.ask('POST /v1/artifacts', { body: { artifacts: [entry] } });
  for (const { name, action } of items)
    io.out(`${name} ${action}${octets > 0 ? `, ${sizeText(octets)} stored and verified` : ''}\n`);
}
