/**
 * Handlers for assets (files of images and artifacts). The server fetches nothing by itself: the
 * command line reads the file and uploads it in pieces. Each piece names its place in the file
 * (Content-Range), so that an interrupted upload can be continued.
 */

import type { ArtifactBook } from '../artifacts/book.ts';
import { MusterError } from '../base/errors.ts';
import type { Assets, Upload } from '../pxe/assets/assets.files.ts';
import { assetsOf } from '../pxe/assets/assets.ts';
import { bind } from './bind.ts';
import { ASSETS } from './contract/files.ts';
import type { ApiDeps } from './deps.ts';
import { flag, type Handler, json, type Route } from './handler.ts';
import { partOf } from './listing.ts';

export { assetsOf };

/** An asset as the API shows it. */
export interface AssetView {
  readonly sha256: string;
  readonly size: number;
  readonly modified: string;
  /** Images that need it. */
  readonly images: readonly string[];
  /** Artifacts that need it. */
  readonly artifacts: readonly string[];
}

/** An incomplete upload as the API shows it. */
export interface UploadView {
  readonly sha256: string;
  /** Octets that the server has. */
  readonly received: number;
  readonly modified: string;
  /** Whether a client is uploading it now. */
  readonly active: boolean;
}

/** Hash of a file → names of the images that need it. */
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
  const list: Handler<ApiDeps> = async ({ query }, { catalog }) => {
    const images = imagesByAsset(catalog);
    const users = artifacts.users();
    const items = (await assets.list()).map(
      ({ sha256, size, modified }): AssetView => ({
        sha256,
        size,
        modified: modified.toISOString(),
        images: images.get(sha256) ?? [],
        artifacts: users.get(sha256) ?? [],
      }),
    );
    return json(partOf(query, items, ({ sha256 }) => sha256));
  };
  const uploads: Handler<ApiDeps> = async ({ query }) => {
    const items = (await assets.partials()).map(
      ({ modified, ...upload }): UploadView => ({ ...upload, modified: modified.toISOString() }),
    );
    return json(partOf(query, items, ({ sha256 }) => sha256));
  };
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
    // An incomplete upload is not in use, even if a document names its hash.
    const complete = assets.find(params.sha256!) !== undefined;
    if (complete && users.length > 0 && !flag(query, 'force'))
      throw new MusterError('E_ASSET_USED', `${params.sha256} is needed by ${users.join(', ')}`);
    await assets.remove(params.sha256!);
    return json({ sha256: params.sha256! });
  };
  return bind(ASSETS, {
    'GET /v1/assets': list,
    'GET /v1/uploads': uploads,
    'GET /v1/assets/:sha256': get,
    'PUT /v1/assets/:sha256': put,
    'POST /v1/assets/:sha256/verify': verify,
    'DELETE /v1/assets/:sha256': remove,
  });
}
