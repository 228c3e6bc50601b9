/**
 * Files of images over the operators' API. The server fetches nothing by itself: the command line
 * reads from wherever the file is and sends it here in pieces, each of which says where it belongs
 * (Content-Range), so that a broken upload goes on where it stopped.
 */
import type { ArtifactBook } from '../artifacts/book.ts';
import { MusterError } from '../base/errors.ts';
import type { Assets, Upload } from '../pxe/assets/assets.files.ts';
import { assetsOf } from '../pxe/assets/assets.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json, type Route } from './handler.ts';

export { assetsOf };

/** An asset as the API shows it. */
export interface AssetView {
  readonly sha256: string;
  readonly size: number;
  readonly modified: string;
  /** Images that name it. */
  readonly images: readonly string[];
  /** Artifacts of clusters that are made of it. */
  readonly artifacts: readonly string[];
}

/** An incomplete upload as the API shows it. */
export interface UploadView {
  readonly sha256: string;
  /** Octets that are here. */
  readonly received: number;
  readonly modified: string;
  /** It is being sent now. */
  readonly active: boolean;
}

/** Names of the images that need each hash. */
function imagesByAsset(catalog: Pick<ApiDeps['catalog'], 'list'>): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { document } of catalog.list('Image'))
    for (const sha256 of assetsOf(document.spec)) {
      const names = found.get(sha256) ?? [];
      names.push(document.metadata.name);
      found.set(sha256, names);
    }
  return found;
}

/** Reads `bytes FIRST-LAST/TOTAL`. Throws E_USAGE. */
function uploadRange(header: string | undefined): Pick<Upload, 'offset' | 'total'> {
  if (header === undefined) return { offset: 0 };
  const found = /^bytes ([0-9]{1,15})-([0-9]{1,15})\/([0-9]{1,15})$/.exec(header);
  if (!found) throw new MusterError('E_USAGE', 'Content-Range must be "bytes FIRST-LAST/TOTAL"');
  const [first, last, total] = found.slice(1).map(Number) as [number, number, number];
  if (last < first || last >= total)
    throw new MusterError('E_USAGE', `Content-Range "${header}" is not inside the file`);
  return { offset: first, total };
}

/** Octets of the body, where the client says so. */
function contentLength(header: string | undefined): number | undefined {
  return header !== undefined && /^[0-9]{1,15}$/.test(header) ? Number(header) : undefined;
}

/** The rows of the API's table that are about files, each with the name of its handler below. */
export const ASSET_ROUTES = [
  {
    name: 'list',
    method: 'GET',
    path: '/v1/assets',
    summary: 'Verified files, and the images that name them.',
  },
  {
    name: 'uploads',
    method: 'GET',
    path: '/v1/uploads',
    summary: 'Uploads that are not complete: how much of each file is here, and since when.',
  },
  {
    name: 'get',
    method: 'GET',
    path: '/v1/assets/:sha256',
    summary: 'How much of a file is here, and whether it is complete.',
  },
  {
    name: 'put',
    method: 'PUT',
    path: '/v1/assets/:sha256',
    summary:
      'Takes a file, or with Content-Range a piece of it: 200 complete and verified, 202 more is wanted.',
  },
  {
    name: 'verify',
    method: 'POST',
    path: '/v1/assets/:sha256/verify',
    summary: 'Reads the file again and compares its hash; one that has changed is not served any more.',
  },
  {
    name: 'remove',
    method: 'DELETE',
    path: '/v1/assets/:sha256',
    summary: 'Removes a file or an incomplete upload. Query: force, although an image or artifact names it.',
  },
] as const;

/**
 * The routes of assets, for `startApi`.
 *
 * @throws {MusterError} their handlers: E_USAGE for a request that cannot be read, E_ASSET_USED
 *   when an Image or an artifact needs the file that is to be removed, and what the asset store
 *   throws
 */
export function assetRoutes(
  assets: Assets,
  artifacts: Pick<ArtifactBook, 'users'>,
): readonly Route<ApiDeps>[] {
  const list: Handler<ApiDeps> = async (_request, { catalog }) => {
    const images = imagesByAsset(catalog);
    const users = artifacts.users();
    return json({
      items: (await assets.list()).map(
        ({ sha256, size, modified }): AssetView => ({
          sha256,
          size,
          modified: modified.toISOString(),
          images: images.get(sha256) ?? [],
          artifacts: users.get(sha256) ?? [],
        }),
      ),
    });
  };
  const uploads: Handler<ApiDeps> = async () =>
    json({
      items: (await assets.partials()).map(
        ({ modified, ...upload }): UploadView => ({ ...upload, modified: modified.toISOString() }),
      ),
    });
  const get: Handler<ApiDeps> = async ({ params }) => json(await assets.progress(params.sha256!));
  const put: Handler<ApiDeps> = async ({ params, headers, body }) => {
    const length = contentLength(headers['content-length']);
    const { complete, ...rest } = await assets.receive({
      sha256: params.sha256!,
      ...uploadRange(headers['content-range']),
      ...(length !== undefined && { length }),
      body,
    });
    return json({ ...rest, complete }, complete ? 200 : 202);
  };
  const verify: Handler<ApiDeps> = async ({ params }) => {
    const state = await assets.verify(params.sha256!);
    return json({ sha256: params.sha256!, ok: state === 'ok', state });
  };
  const remove: Handler<ApiDeps> = async ({ params, query }, { catalog }) => {
    const users = [
      ...(imagesByAsset(catalog).get(params.sha256!) ?? []).map((name) => `image ${name}`),
      ...(artifacts.users().get(params.sha256!) ?? []).map((name) => `artifact ${name}`),
    ];
    // Nothing uses an incomplete upload, whatever names its hash.
    const complete = assets.find(params.sha256!) !== undefined;
    if (complete && users.length > 0 && !flag(query, 'force'))
      throw new MusterError('E_ASSET_USED', `${params.sha256} is needed by ${users.join(', ')}`);
    await assets.remove(params.sha256!);
    return json({ sha256: params.sha256! });
  };
  const handlers = { list, uploads, get, put, verify, remove };
  return ASSET_ROUTES.map(({ name, ...route }) => ({ ...route, handler: handlers[name] }));
}
