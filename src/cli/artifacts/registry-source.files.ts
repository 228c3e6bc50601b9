/**
 * A container registry as a source of files: manifests and blobs of one repository (OCI
 * distribution 1.1), read without credentials.
 */
import { createHash } from 'node:crypto';
import { INDEX_TYPES, MANIFEST_TYPES } from '../../artifacts/oci.ts';
import { isDigest } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import { type AssetSource, readAll, urlSource } from '../image/sources.files.ts';
import { byProxy, fetchOutside } from '../outside.socket.ts';

export interface Registry {
  /** Fetches a manifest by tag or digest. If it was named by digest, its octets are checked. */
  manifest(
    which: string,
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly octets: Uint8Array; readonly digest: string }>;
  blob(digest: string): AssetSource;
}

/** The images of Docker Hub are named docker.io, but its API is on another host. */
const HOST_OF: Readonly<Record<string, string>> = { 'https://docker.io': 'https://registry-1.docker.io' };

/**
 * Returns a registry to read from; nothing is requested before the first read. `base` is the
 * registry's URL without `/v2`.
 *
 * @throws {MusterError} its `manifest`: E_ASSET_HASH when the registry answers with content that
 *   the digest does not match; E_FETCH and E_FETCH_REFUSED as {@link urlSource}.
 */
export function connectRegistry(base: string, repository: string): Registry {
  const root = `${HOST_OF[base] ?? base.replace(/\/+$/, '')}/v2/${repository}`;
  let token: Promise<string | undefined> | undefined;
  const headers = async (signal: AbortSignal): Promise<Readonly<Record<string, string>>> => {
    token ??= anonymousToken(`${root}/tags/list`, repository, signal);
    const given = await token;
    return {
      accept: [...INDEX_TYPES, ...MANIFEST_TYPES].join(', '),
      ...(given === undefined ? {} : { authorization: `Bearer ${given}` }),
    };
  };
  const source = (url: string): AssetSource => ({
    shown: url,
    remote: true,
    read: async (offset, signal) => urlSource(url, await headers(signal)).read(offset, signal),
  });
  return {
    async manifest(which, limit, signal) {
      const octets = await readAll(source(`${root}/manifests/${which}`), limit, signal);
      const digest = `sha256:${createHash('sha256').update(octets).digest('hex')}`;
      if (isDigest(which) && which !== digest)
        throw new MusterError('E_ASSET_HASH', `${root}/manifests/${which} answered with ${digest}`);
      return { octets, digest };
    },
    blob: (digest) => source(`${root}/blobs/${digest}`),
  };
}

/**
 * Requests a token if the registry demands one, from the URL that its 401 answer names; resolves
 * with undefined when it demands none.
 */
async function anonymousToken(
  url: string,
  repository: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const failed = (error: unknown): never => {
    if (signal.aborted) throw error;
    const { cause, message } = error as Error;
    throw new MusterError(
      'E_FETCH',
      `${url}: ${cause instanceof Error ? cause.message : message}${byProxy(url)}`,
      {
        cause: error,
      },
    );
  };
  const response = await fetchOutside(url, { signal }).catch(failed);
  await response.body?.cancel();
  if (response.status !== 401) return undefined;
  const challenge = parseChallenge(response.headers.get('www-authenticate') ?? '');
  if (challenge === undefined)
    throw new MusterError(
      'E_FETCH_REFUSED',
      `${url}: the registry demands credentials that Muster does not have`,
    );
  const ask = new URL(challenge.realm);
  if (challenge.service !== undefined) ask.searchParams.set('service', challenge.service);
  ask.searchParams.set('scope', challenge.scope ?? `repository:${repository}:pull`);
  const answer = await fetchOutside(ask, { signal }).catch(failed);
  if (!answer.ok)
    throw new MusterError(
      'E_FETCH_REFUSED',
      `${ask.href}: the registry refused an anonymous token (HTTP ${answer.status})`,
    );
  const body = (await answer.json()) as { token?: unknown; access_token?: unknown };
  const given = body.token ?? body.access_token;
  if (typeof given !== 'string')
    throw new MusterError('E_FETCH_REFUSED', `${ask.href}: the answer has no token`);
  return given;
}

/**
 * Reads `Bearer realm="…",service="…",scope="…"` (RFC 6750, with Docker's fields); undefined for
 * another scheme.
 */
export function parseChallenge(
  header: string,
): { readonly realm: string; readonly service?: string; readonly scope?: string } | undefined {
  if (!/^bearer /i.test(header)) return undefined;
  const fields = new Map(
    [...header.matchAll(/([a-z]+)="([^"]*)"/gi)].map(([, key, value]) => [key!.toLowerCase(), value!]),
  );
  const [realm, service, scope] = [fields.get('realm'), fields.get('service'), fields.get('scope')];
  if (realm === undefined || !URL.canParse(realm)) return undefined;
  return {
    realm,
    ...(service === undefined ? {} : { service }),
    ...(scope === undefined ? {} : { scope }),
  };
}
