/**
 * Files of images and artifacts. The server fetches nothing from elsewhere but from the other boot
 * hosts: the command line reads the file and uploads it in pieces. Each piece names its place in
 * the file (Content-Range), so that an interrupted upload can be continued.
 */
import { z } from 'zod';
import type { ArtifactBook } from '../../artifacts/book.ts';
import { MusterError } from '../../base/errors.ts';
import type { Assets, Upload } from '../../pxe/assets/assets.files.ts';
import { assetsOf } from '../../pxe/assets/assets.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { itemsOf, on, type Parsed, part, raw as rawType } from '../contract/contract.ts';
import { type Hosts, holders } from '../hosts.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';

interface AssetDeps {
  readonly assets: Assets;
  readonly artifacts: Pick<ArtifactBook, 'users'>;
  readonly catalog: Pick<LiveCatalog, 'list'>;
  readonly hosts: Pick<Hosts, 'shared' | 'list' | 'wantedFiles' | 'removedFile'>;
}

const sha256 = z.string().meta({ description: 'SHA-256, hexadecimal.' });
const modified = z.string().meta({ description: 'RFC 3339.' });
const progress = z.strictObject({ sha256, complete: z.boolean(), received: z.int() });
const asset = z
  .strictObject({
    sha256,
    size: z.int(),
    modified,
    images: z.array(z.string()).meta({ description: 'Images that need it.' }),
    artifacts: z.array(z.string()).meta({ description: 'Artifacts that need it.' }),
    hosts: z.array(z.string()).optional().meta({
      description: 'Boot hosts that are known to have it; absent when the store is not shared.',
    }),
  })
  .meta({ id: 'Asset' });
export type AssetView = Parsed<z.output<typeof asset>>;
const upload = z.strictObject({
  sha256,
  received: z.int().meta({ description: 'Octets that the server has.' }),
  modified,
  active: z.boolean().meta({ description: 'A client is uploading it now.' }),
});
export type UploadView = Parsed<z.output<typeof upload>>;

/** Hash of a file → names of the images that need it. */
function imagesByAsset(catalog: Pick<LiveCatalog, 'list'>): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { document } of catalog.list('Image'))
    for (const sha256 of assetsOf(document.spec)) {
      const names = found.get(sha256) ?? [];
      names.push(document.metadata.name);
      found.set(sha256, names);
    }
  return found;
}

/**
 * Reads a Content-Range header, `bytes FIRST-LAST/TOTAL`. Without one, the body is the whole file.
 *
 * @throws {MusterError} E_USAGE for a malformed header or a range outside the file
 */
function uploadRange(header: string | undefined): Pick<Upload, 'offset' | 'total'> {
  if (header === undefined) return { offset: 0 };
  const found = /^bytes ([0-9]{1,15})-([0-9]{1,15})\/([0-9]{1,15})$/.exec(header);
  if (!found) throw new MusterError('E_USAGE', 'Content-Range must be "bytes FIRST-LAST/TOTAL"');
  const [first, last, total] = found.slice(1).map(Number) as [number, number, number];
  if (last < first || last >= total)
    throw new MusterError('E_USAGE', `Content-Range "${header}" is not inside the file`);
  return { offset: first, total };
}

/** Size of the body in octets, if the client named it. */
function contentLength(header: string | undefined): number | undefined {
  return header !== undefined && /^[0-9]{1,15}$/.test(header) ? Number(header) : undefined;
}

export const ASSETS = [
  operation(
    'GET /v1/assets',
    {
      access: 'view',
      summary: 'Lists verified files, with the images and artifacts that need them.',
      query: z.strictObject(part),
      answer: z.strictObject(itemsOf(asset)),
    },
    async ({ query }, { assets, artifacts, catalog, hosts }: AssetDeps) => {
      const held = holders(hosts);
      const images = imagesByAsset(catalog);
      const users = artifacts.users();
      // The other hosts say only what they lack of what is needed.
      const used = (sha256: string): boolean => images.has(sha256) || users.has(sha256);
      const items = (await assets.list()).map(({ sha256, size, modified }) => ({
        sha256,
        size,
        modified: modified.toISOString(),
        images: images.get(sha256) ?? [],
        artifacts: users.get(sha256) ?? [],
        ...(hosts.shared && { hosts: used(sha256) ? held(sha256) : held(sha256).slice(0, 1) }),
      }));
      return partOf(query, items, (one) => one.sha256);
    },
  ),
  operation(
    'GET /v1/uploads',
    {
      access: 'view',
      summary: 'Lists incomplete uploads: how much of each file the server has, and since when.',
      query: z.strictObject(part),
      answer: z.strictObject(itemsOf(upload)),
    },
    async ({ query }, { assets }: Pick<AssetDeps, 'assets'>) => {
      const items = (await assets.partials()).map(({ modified, ...one }) => ({
        ...one,
        modified: modified.toISOString(),
      }));
      return partOf(query, items, (one) => one.sha256);
    },
  ),
  operation(
    'GET /v1/assets/:sha256',
    {
      access: 'view',
      summary: 'Shows how much of a file the server has, and whether it is complete.',
      answer: progress,
    },
    ({ params }, { assets }: Pick<AssetDeps, 'assets'>) => assets.progress(params.sha256),
  ),
  operation(
    'PUT /v1/assets/:sha256',
    {
      access: 'administer',
      takes: 'role',
      summary:
        'Uploads a file, or with Content-Range a piece of it. 200: complete and verified; 202: more pieces are needed.',
      rawBody: rawType('application/octet-stream', 'The file, or a piece of it.'),
      answer: progress,
      statuses: [200, 202],
    },
    async ({ params, headers, body }, { assets }: Pick<AssetDeps, 'assets'>) => {
      const length = contentLength(headers['content-length']);
      const { complete, ...rest } = await assets.receive({
        sha256: params.sha256,
        ...uploadRange(headers['content-range']),
        ...(length !== undefined && { length }),
        body,
      });
      return reply({ ...rest, complete }, complete ? 200 : 202);
    },
  ),
  operation(
    'POST /v1/assets/:sha256/verify',
    {
      access: 'administer',
      costly: true,
      takes: 'role',
      summary: 'Reads a file again and compares its hash. A file that has changed is no longer served.',
      answer: z.strictObject({ sha256, ok: z.boolean(), state: z.enum(['ok', 'changed', 'missing']) }),
    },
    async ({ params }, { assets }: Pick<AssetDeps, 'assets'>) => {
      const state = await assets.verify(params.sha256);
      return { sha256: params.sha256, ok: state === 'ok', state };
    },
  ),
  operation(
    'DELETE /v1/assets/:sha256',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Removes a file or an incomplete upload.',
      query: z.strictObject({ force: on('Also when an image or artifact needs it.') }),
      answer: z.strictObject({ sha256 }),
    },
    async ({ params: { sha256 }, query }, { assets, artifacts, catalog, hosts }: AssetDeps) => {
      const users = [
        ...(imagesByAsset(catalog).get(sha256) ?? []).map((name) => `image ${name}`),
        ...(artifacts.users().get(sha256) ?? []).map((name) => `artifact ${name}`),
      ];
      // An incomplete upload is not in use, even if a document names its hash.
      const complete = assets.find(sha256) !== undefined;
      if (complete && users.length > 0 && !query.force)
        throw new MusterError('E_ASSET_USED', `${sha256} is needed by ${users.join(', ')}`);
      await assets.remove(sha256);
      hosts.removedFile(sha256);
      return { sha256 };
    },
  ),
] as const;
