/** Files of images and artifacts, and the artifacts of clusters. */
import { z } from 'zod';
import { type Contracts, itemsOf, on, part, raw } from './contract.ts';

const sha256 = z.string().meta({ description: 'SHA-256, hexadecimal.' });
const modified = z.string().meta({ description: 'RFC 3339.' });
const arch = z.enum(['x86_64', 'aarch64']);
const progress = z.strictObject({ sha256, complete: z.boolean(), received: z.int() });
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
export const enteredArtifacts = z.strictObject({
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

export const ASSETS = {
  'GET /v1/assets': {
    access: 'view',
    summary: 'Lists verified files, with the images and artifacts that need them.',
    query: z.strictObject(part),
    answer: z.strictObject(
      itemsOf(
        z
          .strictObject({
            sha256,
            size: z.int(),
            modified,
            images: z.array(z.string()),
            artifacts: z.array(z.string()),
          })
          .meta({ id: 'Asset' }),
      ),
    ),
  },
  'GET /v1/uploads': {
    access: 'view',
    summary: 'Lists incomplete uploads: how much of each file the server has, and since when.',
    query: z.strictObject(part),
    answer: z.strictObject(
      itemsOf(z.strictObject({ sha256, received: z.int(), modified, active: z.boolean() })),
    ),
  },
  'GET /v1/assets/:sha256': {
    access: 'view',
    summary: 'Shows how much of a file the server has, and whether it is complete.',
    answer: progress,
  },
  'PUT /v1/assets/:sha256': {
    access: 'administer',
    summary:
      'Uploads a file, or with Content-Range a piece of it. 200: complete and verified; 202: more pieces are needed.',
    rawBody: raw('application/octet-stream', 'The file, or a piece of it.'),
    answer: progress,
    statuses: [200, 202],
  },
  'POST /v1/assets/:sha256/verify': {
    access: 'administer',
    summary: 'Reads a file again and compares its hash. A file that has changed is no longer served.',
    answer: z.strictObject({ sha256, ok: z.boolean(), state: z.enum(['ok', 'changed', 'missing']) }),
  },
  'DELETE /v1/assets/:sha256': {
    access: 'administer',
    summary: 'Removes a file or an incomplete upload.',
    query: z.strictObject({ force: on('Also when an image or artifact needs it.') }),
    answer: z.strictObject({ sha256 }),
  },
} as const satisfies Contracts;

export const ARTIFACTS = {
  'GET /v1/artifacts': {
    access: 'view',
    summary: 'Lists the artifacts of clusters (binaries, manifests, container images) with their files.',
    query: z.strictObject(part),
    answer: z.strictObject(
      itemsOf(
        z.strictObject({
          name: z.string(),
          size: z.int(),
          missing: z.array(z.string()),
          artifact,
        }),
      ),
    ),
  },
  'POST /v1/artifacts': {
    access: 'administer',
    summary: 'Enters artifacts, all or none, for files that were uploaded.',
    body: enteredArtifacts,
    answer: z.strictObject({
      items: z.array(
        z.strictObject({ name: z.string(), action: z.enum(['created', 'changed', 'unchanged']) }),
      ),
    }),
  },
  'DELETE /v1/artifacts': {
    access: 'administer',
    summary: 'Removes an artifact, but not its files.',
    query: z.strictObject({ name: z.string() }),
    answer: z.strictObject({
      name: z.string(),
      unused: z.array(z.string()).meta({ description: 'Files that nothing needs any more.' }),
    }),
  },
} as const satisfies Contracts;
