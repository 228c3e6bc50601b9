/**
 * The artifacts that are here, by name: records of the store that name files of the asset store by
 * hash.
 *
 *     artifact/binary/NAME/VERSION/ARCH     BinaryArtifact
 *     artifact/image/REFERENCE              ImageArtifact
 *     artifact/manifest/ADDON/SHA256        ManifestArtifact
 */
import { z } from 'zod';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { inParts } from '../base/parts.ts';
import { KEYS } from '../store/keys.ts';
import { MAX_OPERATIONS, type Store, type Write } from '../store/store.ts';
import type { Arch, Descriptor } from './oci.ts';
import { formatReference, hashOfDigest, isDigest, nameOf, parseReference } from './reference.ts';

const hash = z.string().regex(/^[0-9a-f]{64}$/);
/** The characters of a name and a version, which are also safe in a path on a machine. */
const word = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$/);

const binaryRecord = z.strictObject({
  kind: z.literal('binary'),
  name: word,
  version: word,
  arch: z.enum(['x86_64', 'aarch64']),
  sha256: hash,
  size: z.int().min(0),
  /** A single program, or a tar (gz, xz, zst) with programs. */
  form: z.enum(['file', 'tar']),
});
const part = z.strictObject({
  mediaType: z.string(),
  digest: z.string().refine(isDigest),
  size: z.int().min(0),
});
const imageRecord = z.strictObject({
  kind: z.literal('image'),
  /** As {@link formatReference} writes it. */
  reference: z.string(),
  digest: z.string().refine(isDigest),
  mediaType: z.string(),
  manifests: z.array(part),
  blobs: z.array(part),
});
const manifestRecord = z.strictObject({
  kind: z.literal('manifest'),
  /** The add-on that it belongs to. */
  addon: word,
  sha256: hash,
  size: z.int().min(0),
});
const artifactRecord = z.discriminatedUnion('kind', [binaryRecord, imageRecord, manifestRecord]);

export type BinaryArtifact = Readonly<z.output<typeof binaryRecord>>;
type ImageArtifact = Readonly<z.output<typeof imageRecord>>;
/** A file with Kubernetes objects. */
type ManifestArtifact = Readonly<z.output<typeof manifestRecord>>;
export type Artifact = BinaryArtifact | ImageArtifact | ManifestArtifact;

/**
 * An artifact's name for users and the API: `binary/kubelet/1.36.2/x86_64`,
 * `image/registry.k8s.io/pause:3.10.2`.
 */
export function artifactName(artifact: Artifact): string {
  switch (artifact.kind) {
    case 'image':
      return `image/${artifact.reference}`;
    case 'binary':
      return `binary/${artifact.name}/${artifact.version}/${artifact.arch}`;
    case 'manifest':
      return `manifest/${artifact.addon}/${artifact.sha256}`;
  }
}

/**
 * Checks a value and returns it as an artifact.
 *
 * @throws {MusterError} E_ARTIFACT, which names the field that is wrong.
 */
export function checkArtifact(value: unknown): Artifact {
  const read = artifactRecord.safeParse(value);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new MusterError('E_ARTIFACT', `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'no artifact'}`);
  }
  const artifact = read.data;
  if (artifact.kind === 'image') {
    const reference = parseReference(artifact.reference);
    if (reference === undefined || formatReference(reference) !== artifact.reference)
      throw new MusterError('E_ARTIFACT', `"${artifact.reference}" is not a full image reference`);
  }
  return artifact;
}

/** The files of an artifact, each once. */
export function filesOf(artifact: Artifact): readonly { readonly sha256: string; readonly size: number }[] {
  if (artifact.kind !== 'image') return [{ sha256: artifact.sha256, size: artifact.size }];
  const parts = new Map(
    [...artifact.manifests, ...artifact.blobs].map(({ digest, size }) => [hashOfDigest(digest), size]),
  );
  return [...parts].map(([sha256, size]) => ({ sha256, size }));
}

/** All images of one repository, as a registry has them. */
interface Repository {
  /** Tag → digest. */
  readonly tags: ReadonlyMap<string, string>;
  readonly manifests: ReadonlyMap<string, Pick<Descriptor, 'mediaType' | 'size'>>;
  readonly blobs: ReadonlyMap<string, Pick<Descriptor, 'mediaType' | 'size'>>;
}

export interface ArtifactBook {
  /** All artifacts, ordered by name. */
  list(): readonly Artifact[];
  get(name: string): Artifact | undefined;
  binary(name: string, version: string, arch: Arch): BinaryArtifact | undefined;
  /**
   * Finds an image by a reference in any spelling. A reference with a digest finds any image of
   * that repository which contains the digest, whatever the tag.
   */
  image(reference: string): ImageArtifact | undefined;
  /** Finds a repository by registry and name, e.g. `registry.k8s.io/kube-apiserver`. */
  repository(name: string): Repository | undefined;
  /** Names of the artifacts that need each file, by hash. */
  users(): ReadonlyMap<string, readonly string[]>;
  /**
   * Adds artifacts; one with the same name is replaced. Resolves when that is durable.
   *
   * @throws {MusterError} E_ARTIFACT when one of them is malformed; nothing is added then.
   */
  put(artifacts: readonly Artifact[]): Promise<void>;
  /**
   * Removes an artifact from the book and returns it. Its files stay in the asset store.
   *
   * @throws {MusterError} E_NOT_FOUND when there is no artifact of this name.
   */
  remove(name: string): Promise<Artifact>;
}

/**
 * Opens the book.
 *
 * @throws {MusterError} E_ARTIFACT when a stored record is not one.
 */
export async function openArtifactBook(store: Pick<Store, 'list' | 'commit'>): Promise<ArtifactBook> {
  const all = new Map<string, Artifact>();
  for (const { key, value } of (await store.list(KEYS.artifact.prefix())).records)
    all.set(KEYS.artifact.parse(key)![0], decode(key, value));
  let repositories = byRepository(all.values());
  const commit = async (writes: readonly Write[]): Promise<void> => {
    for (const part of inParts(writes, MAX_OPERATIONS)) await store.commit(part);
  };
  const sorted = () => [...all.values()].sort((a, b) => (artifactName(a) < artifactName(b) ? -1 : 1));
  return {
    list: sorted,
    get: (name) => all.get(name),
    binary(name, version, arch) {
      const found = all.get(`binary/${name}/${version}/${arch}`);
      return found?.kind === 'binary' ? found : undefined;
    },
    image(text) {
      const reference = parseReference(text);
      if (reference === undefined) return undefined;
      const { digest, ...named } = reference;
      if (digest === undefined) {
        const found = all.get(`image/${formatReference(named)}`);
        return found?.kind === 'image' ? found : undefined;
      }
      return sorted().find(
        (one): one is ImageArtifact =>
          one.kind === 'image' &&
          nameOf(parseReference(one.reference)!) === nameOf(reference) &&
          one.manifests.some((manifest) => manifest.digest === digest),
      );
    },
    repository: (name) => repositories.get(name),
    users() {
      const users = new Map<string, string[]>();
      for (const artifact of sorted())
        for (const { sha256 } of filesOf(artifact))
          users.set(sha256, [...(users.get(sha256) ?? []), artifactName(artifact)]);
      return users;
    },
    async put(artifacts) {
      const checked = artifacts.map(checkArtifact);
      await commit(
        checked.map((artifact) => ({
          key: KEYS.artifact.key(artifactName(artifact)),
          put: JSON.stringify({ v: 1, ...artifact }),
        })),
      );
      for (const artifact of checked) all.set(artifactName(artifact), artifact);
      repositories = byRepository(all.values());
    },
    async remove(name) {
      const artifact = all.get(name);
      if (artifact === undefined) throw new MusterError('E_NOT_FOUND', `there is no artifact "${name}"`);
      await commit([{ key: KEYS.artifact.key(name), delete: true }]);
      all.delete(name);
      repositories = byRepository(all.values());
      return artifact;
    },
  };
}

function decode(key: string, value: string): Artifact {
  try {
    const { v, ...artifact } = JSON.parse(value) as Record<string, unknown>;
    if (v !== 1) throw new MusterError('E_ARTIFACT', `version ${v} of its shape is not known here`);
    return checkArtifact(artifact);
  } catch (cause) {
    throw new MusterError('E_ARTIFACT', `record ${key}: ${messageOf(cause)}`, { cause });
  }
}

function byRepository(artifacts: Iterable<Artifact>): ReadonlyMap<string, Repository> {
  const found = new Map<
    string,
    {
      tags: Map<string, string>;
      manifests: Map<string, Pick<Descriptor, 'mediaType' | 'size'>>;
      blobs: Map<string, Pick<Descriptor, 'mediaType' | 'size'>>;
    }
  >();
  for (const artifact of artifacts) {
    if (artifact.kind !== 'image') continue;
    const reference = parseReference(artifact.reference)!;
    const name = nameOf(reference);
    const repository = found.get(name) ?? { tags: new Map(), manifests: new Map(), blobs: new Map() };
    found.set(name, repository);
    if (reference.tag !== undefined) repository.tags.set(reference.tag, artifact.digest);
    for (const one of artifact.manifests) repository.manifests.set(one.digest, one);
    for (const one of artifact.blobs) repository.blobs.set(one.digest, one);
  }
  return found;
}
