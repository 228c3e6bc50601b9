/**
 * Artifacts of clusters: binaries, manifests and container images. An artifact gives names to files
 * that the asset store already has.
 */
import { z } from 'zod';
import {
  type Artifact,
  type ArtifactBook,
  artifactName,
  checkArtifact,
  filesOf,
} from '../../artifacts/book.ts';
import { type Arch, contentsOf, MAX_MANIFEST_BYTES } from '../../artifacts/oci.ts';
import { formatReference, isDigest, parseReference } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import type { Assets } from '../../pxe/assets/assets.files.ts';
import { itemsOf, type Parsed, part } from '../contract/contract.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';

interface ArtifactDeps {
  readonly artifacts: ArtifactBook;
  readonly assets: Assets;
}

const sha256 = z.string().meta({ description: 'SHA-256, hexadecimal.' });
const arch = z.enum(['x86_64', 'aarch64']);
const blob = z.strictObject({ mediaType: z.string(), digest: z.string(), size: z.int() });

const binary = {
  kind: z.literal('binary'),
  name: z.string(),
  version: z.string(),
  arch,
  sha256,
  form: z.enum(['file', 'tar']),
};
const manifest = { kind: z.literal('manifest'), addon: z.string(), sha256 };

const artifact = z
  .discriminatedUnion('kind', [
    z.strictObject({ ...binary, size: z.int() }),
    z.strictObject({ ...manifest, size: z.int() }),
    z.strictObject({
      kind: z.literal('image'),
      reference: z.string(),
      digest: z.string(),
      mediaType: z.string(),
      manifests: z.array(blob),
      blobs: z.array(blob),
    }),
  ])
  .meta({ id: 'Artifact' });

/** Artifacts as they are entered; the server finds out of which files they consist. */
const enteredArtifacts = z.strictObject({
  artifacts: z.array(
    z.discriminatedUnion('kind', [
      z.strictObject(binary),
      z.strictObject(manifest),
      z.strictObject({
        kind: z.literal('image'),
        reference: z.string(),
        digest: z.string(),
        archs: z.array(arch).min(1).meta({
          description: 'The architectures of an index whose files must all be there.',
        }),
      }),
    ]),
  ),
});

/** An artifact as it is entered. */
export type ArtifactEntry = Parsed<z.output<typeof enteredArtifacts>>['artifacts'][number];

const shown = z.strictObject({
  name: z.string(),
  size: z.int().meta({ description: 'Of its files together, in octets.' }),
  missing: z.array(z.string()).meta({ description: 'Files that the asset store does not have any more.' }),
  artifact,
});
export type ArtifactView = Parsed<z.output<typeof shown>>;

export const ARTIFACTS = [
  operation(
    'GET /v1/artifacts',
    {
      access: 'view',
      costly: true,
      summary: 'Lists the artifacts of clusters (binaries, manifests, container images) with their files.',
      query: z.strictObject(part),
      answer: z.strictObject(itemsOf(shown)),
    },
    ({ query }, { artifacts, assets }: ArtifactDeps) => {
      const items = artifacts.list().map((artifact) => {
        const files = filesOf(artifact);
        return {
          name: artifactName(artifact),
          size: files.reduce((sum, { size }) => sum + size, 0),
          missing: files.flatMap(({ sha256 }) => (assets.find(sha256) ? [] : [sha256])),
          artifact,
        };
      });
      return partOf(query, items, ({ name }) => name);
    },
  ),
  operation(
    'POST /v1/artifacts',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Enters artifacts, all or none, for files that were uploaded.',
      body: enteredArtifacts,
      answer: z.strictObject({
        items: z.array(
          z.strictObject({ name: z.string(), action: z.enum(['created', 'changed', 'unchanged']) }),
        ),
      }),
    },
    async ({ body }, { artifacts: book, assets }: ArtifactDeps) => {
      const entered = await Promise.all(body.artifacts.map((one) => complete(one, assets)));
      const artifacts = entered.map(checkArtifact);
      const items = artifacts.map((artifact) => {
        const name = artifactName(artifact);
        const before = book.get(name);
        const same = before !== undefined && JSON.stringify(before) === JSON.stringify(artifact);
        const action = before === undefined ? 'created' : same ? 'unchanged' : 'changed';
        return { name, action } as const;
      });
      await book.put(artifacts);
      return { items };
    },
  ),
  operation(
    'DELETE /v1/artifacts',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Removes an artifact, but not its files.',
      query: z.strictObject({ name: z.string() }),
      answer: z.strictObject({
        name: z.string(),
        unused: z.array(z.string()).meta({ description: 'Files that nothing needs any more.' }),
      }),
    },
    async ({ query: { name } }, { artifacts }: Pick<ArtifactDeps, 'artifacts'>) => {
      const artifact = await artifacts.remove(name);
      const users = artifacts.users();
      const unused = filesOf(artifact).flatMap(({ sha256 }) => (users.has(sha256) ? [] : [sha256]));
      return { name, unused };
    },
  ),
] as const;

/**
 * Adds what the asset store knows of the files: sizes and, for an image, its parts.
 *
 * @throws {MusterError} E_ARTIFACT_MISSING when a file is not in the asset store; E_ARTIFACT when
 *   the reference or digest of an image is malformed
 */
async function complete(entry: ArtifactEntry, assets: Assets): Promise<Artifact> {
  const lacks = (name: string, missing: readonly string[]) =>
    new MusterError(
      'E_ARTIFACT_MISSING',
      `${name} needs files that the asset store does not have: ${missing.join(', ')}`,
    );
  if (entry.kind !== 'image') {
    const file = assets.find(entry.sha256);
    const name = entry.kind === 'binary' ? `${entry.name} ${entry.version}` : `add-on ${entry.addon}`;
    if (file === undefined) throw lacks(name, [entry.sha256]);
    return { ...entry, size: file.size };
  }
  const reference = parseReference(entry.reference);
  if (reference === undefined || !isDigest(entry.digest))
    throw new MusterError('E_ARTIFACT', `"${entry.reference}" with "${entry.digest}" does not name an image`);
  const { mediaType, manifests, blobs, missing } = await contentsOf({
    digest: entry.digest,
    archs: entry.archs as readonly Arch[],
    has: (sha256) => assets.find(sha256) !== undefined,
    read: (sha256) => assets.read(sha256, MAX_MANIFEST_BYTES),
  });
  if (missing.length > 0) throw lacks(entry.reference, missing);
  const part = ({ mediaType: type, digest, size }: (typeof blobs)[number]) => ({
    mediaType: type,
    digest,
    size,
  });
  return {
    kind: 'image',
    reference: formatReference(reference),
    digest: entry.digest,
    mediaType,
    manifests: manifests.map(part),
    // Blobs of other architectures may be absent, because they are never served.
    blobs: blobs.map(part).filter(({ digest }) => assets.find(digest.slice('sha256:'.length)) !== undefined),
  };
}
