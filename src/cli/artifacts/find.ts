/**
 * Finds what a directory or tar has for an import: images of an OCI layout or of `docker save`, and
 * listed binaries.
 */
import { createHash } from 'node:crypto';
import {
  BINARIES_FILE,
  type ListedBinary,
  manifestText,
  type Part,
  parseBinaries,
  parseDockerArchive,
  parseLayout,
} from '../../artifacts/layout.ts';
import { type Arch, contentsOf, forArch, MAX_MANIFEST_BYTES, parseManifest } from '../../artifacts/oci.ts';
import { hashOfDigest } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import { type AssetSource, hashOf } from '../image/sources.files.ts';
import { memorySource, type Tree, treeOf } from './trees.files.ts';

interface FoundImage {
  /** Absent when the archive does not name the image. */
  readonly reference?: string;
  readonly digest: string;
  /** The architectures for which all files are present. */
  readonly archs: readonly Arch[];
  /** The sources of its files, by hash. */
  readonly files: ReadonlyMap<string, AssetSource>;
}

interface FoundBinary extends ListedBinary {
  readonly source: AssetSource;
}

export interface Found {
  readonly images: readonly FoundImage[];
  readonly binaries: readonly FoundBinary[];
}

/**
 * Finds images and binaries. A directory may also contain tars of `docker save`, one for each
 * image.
 *
 * @throws {MusterError} E_ARTIFACT when there is neither an image nor a binary, or an image is not
 *   complete.
 */
export async function findArtifacts(tree: Tree, signal: AbortSignal): Promise<Found> {
  const images: FoundImage[] = [];
  const binaries: FoundBinary[] = [];
  const take = async (from: Tree): Promise<boolean> => {
    let any = false;
    for (const directory of ['', 'oci/']) {
      const found = await layoutImages(from, directory);
      any ||= found !== undefined;
      images.push(...(found ?? []));
    }
    if (!any) {
      const docker = await dockerImages(from, signal);
      any = docker !== undefined;
      images.push(...(docker ?? []));
    }
    const listed = await listedBinaries(from);
    binaries.push(...(listed ?? []));
    return any || listed !== undefined;
  };
  if (!(await take(tree)))
    for (const name of tree.names.filter((one) => one.endsWith('.tar')))
      if (!tree.shown.endsWith('.tar')) await take(await treeOf(`${tree.shown}/${name}`));
  if (images.length + binaries.length === 0)
    throw new MusterError(
      'E_ARTIFACT',
      `${tree.shown}: neither an OCI layout (oci-layout, index.json), nor an archive of docker save, nor ${BINARIES_FILE}`,
    );
  return { images, binaries };
}

const ARCHS: readonly Arch[] = ['x86_64', 'aarch64'];

async function layoutImages(tree: Tree, directory: string): Promise<readonly FoundImage[] | undefined> {
  const mark = await tree.octets(`${directory}oci-layout`, 4096);
  const index = await tree.octets(`${directory}index.json`, MAX_MANIFEST_BYTES);
  if (mark === undefined || index === undefined) return undefined;
  const blob = (sha256: string) => `${directory}blobs/sha256/${sha256}`;
  const read = (sha256: string) => tree.octets(blob(sha256), MAX_MANIFEST_BYTES);
  const images: FoundImage[] = [];
  for (const { reference, digest } of parseLayout(textOf(index))) {
    const top = await read(hashOfDigest(digest));
    if (top === undefined)
      throw new MusterError('E_ARTIFACT', `${tree.shown}: index.json names ${digest}, which is not there`);
    const files = new Map<string, AssetSource>();
    const sources = await contentsOf({ digest, archs: [], read, has: () => true });
    for (const { digest: one } of [...sources.manifests, ...sources.blobs]) {
      const source = await tree.file(blob(hashOfDigest(one)));
      if (source) files.set(hashOfDigest(one), source);
    }
    const archs: Arch[] = [];
    let lacks: readonly string[] = [];
    for (const arch of candidates(top)) {
      const { missing } = await contentsOf({
        digest,
        archs: [arch],
        read,
        has: (sha256) => files.has(sha256),
      });
      if (missing.length === 0) archs.push(arch);
      else lacks = missing;
    }
    if (archs.length === 0)
      throw new MusterError(
        'E_ARTIFACT_MISSING',
        `${tree.shown}: image ${reference ?? digest} is not complete for any of ${ARCHS.join(', ')}; missing: ${lacks.join(', ')}`,
      );
    images.push({ digest, archs, files, ...(reference ? { reference } : {}) });
  }
  return images;
}

/**
 * The architectures that an index names; x86_64 for a single manifest, which does not name its
 * architecture.
 */
function candidates(top: Uint8Array): readonly Arch[] {
  const manifest = parseManifest(top);
  return manifest.kind === 'image'
    ? ['x86_64']
    : ARCHS.filter((arch) => forArch(manifest.manifests, arch).length > 0);
}

async function dockerImages(tree: Tree, signal: AbortSignal): Promise<readonly FoundImage[] | undefined> {
  const list = await tree.octets('manifest.json', MAX_MANIFEST_BYTES);
  if (list === undefined) return undefined;
  const images: FoundImage[] = [];
  for (const { references, config, layers } of parseDockerArchive(textOf(list))) {
    const files = new Map<string, AssetSource>();
    const part = async (name: string): Promise<Part> => {
      const source = await tree.file(name);
      if (source === undefined)
        throw new MusterError('E_ARTIFACT', `${tree.shown}: manifest.json names ${name}, which is not there`);
      const hashed = await hashOf(source, signal);
      files.set(hashed.sha256, source);
      return hashed;
    };
    const parts: Part[] = [];
    const configPart = await part(config);
    for (const layer of layers) parts.push(await part(layer));
    const manifest = Buffer.from(manifestText(configPart, parts));
    const sha256 = createHash('sha256').update(manifest).digest('hex');
    files.set(sha256, memorySource(`${tree.shown}: manifest`, manifest));
    const image: FoundImage = { digest: `sha256:${sha256}`, archs: ['x86_64'], files };
    if (references.length === 0) images.push(image);
    for (const reference of references) images.push({ ...image, reference });
  }
  return images;
}

async function listedBinaries(tree: Tree): Promise<readonly FoundBinary[] | undefined> {
  const list = await tree.octets(BINARIES_FILE, MAX_MANIFEST_BYTES);
  if (list === undefined) return undefined;
  const found: FoundBinary[] = [];
  for (const listed of parseBinaries(textOf(list))) {
    const source = await tree.file(listed.file);
    if (source === undefined)
      throw new MusterError(
        'E_ARTIFACT',
        `${tree.shown}: ${BINARIES_FILE} names ${listed.file}, which is not there`,
      );
    found.push({ ...listed, source });
  }
  return found;
}

const textOf = (octets: Uint8Array): string => new TextDecoder().decode(octets);
