/**
 * Manifests and indexes of container images: OCI's, and Docker's, which registries still have.
 * Pure.
 */
import { z } from 'zod';
import { MusterError } from '../base/errors.ts';
import type { ImageSpec } from '../resources/kinds.ts';
import { hashOfDigest, isDigest } from './reference.ts';

export type Arch = ImageSpec['arch'];

/** The names of architectures in registries. */
export const OCI_ARCH: Readonly<Record<Arch, string>> = { x86_64: 'amd64', aarch64: 'arm64' };

export const MEDIA_TYPE = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
  dockerIndex: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
} as const;

export const INDEX_TYPES: readonly string[] = [MEDIA_TYPE.index, MEDIA_TYPE.dockerIndex];
export const MANIFEST_TYPES: readonly string[] = [MEDIA_TYPE.manifest, MEDIA_TYPE.dockerManifest];

/** The largest manifest in octets; registries have the same limit. */
export const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;

const descriptor = z.looseObject({
  mediaType: z.string().max(255),
  digest: z.string().refine(isDigest, 'a sha256 digest'),
  size: z.int().min(0),
  platform: z.looseObject({ architecture: z.string(), os: z.string() }).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
/** A manifest's entry for one of its parts. */
export type Descriptor = Readonly<z.output<typeof descriptor>>;

const manifestShape = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  config: descriptor,
  layers: z.array(descriptor).max(1000),
});
const indexShape = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  manifests: z.array(descriptor).max(1000),
});

type Manifest =
  | { readonly kind: 'index'; readonly mediaType: string; readonly manifests: readonly Descriptor[] }
  | { readonly kind: 'image'; readonly mediaType: string; readonly parts: readonly Descriptor[] };

/**
 * Reads a manifest or index.
 *
 * @throws {MusterError} E_ARTIFACT when the text is neither.
 */
export function parseManifest(octets: Uint8Array): Manifest {
  if (octets.length > MAX_MANIFEST_BYTES)
    throw new MusterError('E_ARTIFACT', `a manifest has at most ${MAX_MANIFEST_BYTES} octets`);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(octets));
  } catch (cause) {
    throw new MusterError('E_ARTIFACT', 'the manifest is not JSON', { cause });
  }
  const index = indexShape.safeParse(value);
  if (index.success) {
    const { mediaType = MEDIA_TYPE.index, manifests } = index.data;
    if (INDEX_TYPES.includes(mediaType)) return { kind: 'index', mediaType, manifests };
  }
  const image = manifestShape.safeParse(value);
  if (image.success) {
    const { mediaType = MEDIA_TYPE.manifest, config, layers } = image.data;
    if (MANIFEST_TYPES.includes(mediaType)) return { kind: 'image', mediaType, parts: [config, ...layers] };
  }
  throw new MusterError('E_ARTIFACT', 'this is not an image manifest (OCI or Docker schema 2)');
}

/**
 * The manifests of an index for `arch`. A manifest without a platform is for every architecture.
 */
export const forArch = (manifests: readonly Descriptor[], arch: Arch): readonly Descriptor[] =>
  manifests.filter(
    ({ platform }) =>
      platform === undefined || (platform.os === 'linux' && platform.architecture === OCI_ARCH[arch]),
  );

/** All parts of an image. */
interface ImageContents {
  readonly mediaType: string;
  /** The top manifest first, then those manifests of an index that are here. */
  readonly manifests: readonly Descriptor[];
  readonly blobs: readonly Descriptor[];
  /** Digests of parts for these architectures that are not here. */
  readonly missing: readonly string[];
}

interface ContentsOptions {
  readonly digest: string;
  /** The octets of a manifest, or undefined when it is not here. */
  readonly read: (sha256: string) => Promise<Uint8Array | undefined>;
  readonly has: (sha256: string) => boolean;
  readonly archs: readonly Arch[];
}

/**
 * Follows an image from its digest to its parts. Manifests of an index for other architectures
 * count if they are here, and are not reported as missing if not.
 *
 * @throws {MusterError} E_ARTIFACT when a part is no manifest, or an index contains an index.
 */
export async function contentsOf({ digest, read, has, archs }: ContentsOptions): Promise<ImageContents> {
  const manifests: Descriptor[] = [];
  const blobs = new Map<string, Descriptor>();
  const missing = new Set<string>();
  const follow = async (at: Descriptor | string, wanted: boolean, insideIndex: boolean): Promise<string> => {
    const name = typeof at === 'string' ? at : at.digest;
    const octets = await read(hashOfDigest(name));
    if (octets === undefined) {
      if (wanted) missing.add(name);
      return '';
    }
    const manifest = parseManifest(octets);
    const { mediaType } = manifest;
    manifests.push({ ...(typeof at === 'string' ? {} : at), mediaType, digest: name, size: octets.length });
    if (manifest.kind === 'image') {
      for (const part of manifest.parts) {
        blobs.set(part.digest, part);
        if (wanted && !has(hashOfDigest(part.digest))) missing.add(part.digest);
      }
      return mediaType;
    }
    if (insideIndex) throw new MusterError('E_ARTIFACT', `${name} is an index inside an index`);
    const own = new Set(archs.flatMap((arch) => forArch(manifest.manifests, arch)));
    for (const one of manifest.manifests) await follow(one, own.has(one), true);
    return mediaType;
  };
  const mediaType = await follow(digest, true, false);
  return { mediaType, manifests, blobs: [...blobs.values()], missing: [...missing] };
}
