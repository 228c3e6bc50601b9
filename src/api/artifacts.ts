/**
 * Handlers for artifacts: binaries, manifests and container images. An artifact gives names to
 * files that the asset store already has.
 */

import type { z } from 'zod';
import { type Artifact, type ArtifactBook, artifactName, checkArtifact, filesOf } from '../artifacts/book.ts';
import { type Arch, contentsOf, MAX_MANIFEST_BYTES } from '../artifacts/oci.ts';
import { formatReference, isDigest, parseReference } from '../artifacts/reference.ts';
import { MusterError } from '../base/errors.ts';
import type { Assets } from '../pxe/assets/assets.files.ts';
import { bind } from './bind.ts';
import { ARTIFACTS, enteredArtifacts } from './contract/files.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json, type Route, readText } from './handler.ts';
import { partOf } from './listing.ts';

/** An artifact as it is entered. The server finds out which files it consists of. */
export type ArtifactEntry = z.output<typeof enteredArtifacts>['artifacts'][number];

/** An artifact as the API shows it. */
export interface ArtifactView {
  readonly name: string;
  /** Size of its files together, in octets. */
  readonly size: number;
  /** Hashes of its files that the asset store does not have any more. */
  readonly missing: readonly string[];
  readonly artifact: Artifact;
}

/**
 * The routes of artifacts, for `startApi`.
 *
 * @throws {MusterError} their handlers: E_USAGE for a request that cannot be read, E_NOT_FOUND for
 * an unknown name, E_ARTIFACT for an entry with an invalid field, E_ARTIFACT_MISSING when the asset
 * store lacks one of its files
 */
export function artifactRoutes(book: ArtifactBook, assets: Assets): readonly Route<ApiDeps>[] {
  const list: Handler<ApiDeps> = ({ query }) => {
    const items = book.list().map((artifact): ArtifactView => {
      const files = filesOf(artifact);
      return {
        name: artifactName(artifact),
        size: files.reduce((sum, { size }) => sum + size, 0),
        missing: files.flatMap(({ sha256 }) => (assets.find(sha256) ? [] : [sha256])),
        artifact,
      };
    });
    return json(partOf(query, items, ({ name }) => name));
  };
  const enter: Handler<ApiDeps> = async (request) => {
    const entries = readEntries(await readText(request));
    const artifacts = (await Promise.all(entries.map((one) => complete(one, assets)))).map(checkArtifact);
    const items = artifacts.map((artifact) => {
      const name = artifactName(artifact);
      const before = book.get(name);
      const same = before !== undefined && JSON.stringify(before) === JSON.stringify(artifact);
      return { name, action: before === undefined ? 'created' : same ? 'unchanged' : 'changed' };
    });
    await book.put(artifacts);
    return json({ items });
  };
  const remove: Handler<ApiDeps> = async ({ query }) => {
    const name = query.get('name');
    if (name === null) throw new MusterError('E_USAGE', 'name which artifact: ?name=NAME');
    const artifact = await book.remove(name);
    const users = book.users();
    return json({
      name,
      unused: filesOf(artifact).flatMap(({ sha256 }) => (users.has(sha256) ? [] : [sha256])),
    });
  };
  return bind(ARTIFACTS, {
    'GET /v1/artifacts': list,
    'POST /v1/artifacts': enter,
    'DELETE /v1/artifacts': remove,
  });
}

function readEntries(text: string): readonly ArtifactEntry[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new MusterError('E_USAGE', 'the body is not JSON', { cause });
  }
  const read = enteredArtifacts.safeParse(value);
  if (read.success) return read.data.artifacts;
  const [issue] = read.error.issues;
  throw new MusterError('E_ARTIFACT', `${issue?.path.join('.')}: ${issue?.message}`);
}

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
