/**
 * The pull half of the OCI distribution API (specification 1.1). A registry's answers are values;
 * the caller sends the text, or the file of that hash.
 *
 * containerd asks a mirror with `?ns=REGISTRY`, the registry that the image's name begins with.
 * Other clients write it into the path: `HOST/registry.k8s.io/pause:3.10.2`.
 */
import type { ArtifactBook } from './book.ts';
import { hashOfDigest, isDigest, isRegistry, isRepository, isTag } from './reference.ts';

interface RegistryRequest {
  readonly method: string;
  /** The path of the request, percent-encoded, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
}

export type Headers = readonly (readonly [string, string])[];

export type RegistryAnswer =
  | {
      readonly kind: 'text';
      readonly status: number;
      readonly contentType: string;
      readonly body: string;
      readonly headers: Headers;
    }
  /** The file of that hash, with HEAD and ranges; `absent` is the answer when it is not on disk. */
  | {
      readonly kind: 'file';
      readonly sha256: string;
      readonly contentType: string;
      readonly headers: Headers;
      readonly absent: Extract<RegistryAnswer, { readonly kind: 'text' }>;
    };

const VERSION = ['docker-distribution-api-version', 'registry/2.0'] as const;

/** Error codes of the specification. */
type Code =
  | 'BLOB_UNKNOWN'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_INVALID'
  | 'NAME_UNKNOWN'
  | 'DIGEST_INVALID'
  | 'UNSUPPORTED';

const text = (status: number, value: unknown, headers: Headers = []) =>
  ({
    kind: 'text',
    status,
    contentType: 'application/json',
    body: `${JSON.stringify(value)}\n`,
    headers: [VERSION, ...headers],
  }) as const;
const failure = (status: number, code: Code, message: string, headers: Headers = []) =>
  text(status, { errors: [{ code, message }] }, headers);

/** Answers a request; undefined when its path is not a registry's (`/v2/…`). */
export function answerRegistry(
  { method, path, query }: RegistryRequest,
  book: Pick<ArtifactBook, 'repository'>,
): RegistryAnswer | undefined {
  if (path !== '/v2' && !path.startsWith('/v2/')) return undefined;
  if (method !== 'GET' && method !== 'HEAD')
    return failure(405, 'UNSUPPORTED', 'images are only pulled here; `muster artifacts import` adds some', [
      ['allow', 'GET, HEAD'],
    ]);
  const rest = decoded(path.slice('/v2/'.length));
  if (rest === '') return text(200, {});
  const found = /^(.+)\/(manifests|blobs|tags)\/([^/]+)$/.exec(rest ?? '');
  if (!found) return failure(404, 'UNSUPPORTED', 'there is nothing but manifests, blobs and tags');
  const [, repository, what, which] = found as unknown as [string, string, string, string];
  const ns = query.get('ns');
  if (!isRepository(repository) && !isHosted(repository))
    return failure(400, 'NAME_INVALID', `"${repository.slice(0, 100)}" is not the name of a repository`);
  if (ns !== null && !isRegistry(ns))
    return failure(400, 'NAME_INVALID', `"${ns.slice(0, 100)}" is not the name of a registry`);
  const name = ns === null ? repository : `${ns}/${repository}`;
  const here = book.repository(name);
  if (here === undefined)
    return failure(404, 'NAME_UNKNOWN', `no image of ${name} is here; see \`muster artifacts ls\``);
  if (what === 'tags')
    return which === 'list'
      ? tagList(name, [...here.tags.keys()].sort(), query)
      : failure(404, 'UNSUPPORTED', 'of tags there is only the list');
  return what === 'blobs' ? blob(name, which, here) : manifest(name, which, here);
}

type Here = NonNullable<ReturnType<ArtifactBook['repository']>>;

/** Whether a name begins with a registry: repositories alone have no colon and no capitals. */
function isHosted(name: string): boolean {
  const slash = name.indexOf('/');
  return slash > 0 && isRegistry(name.slice(0, slash)) && isRepository(name.slice(slash + 1));
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

function manifest(name: string, which: string, here: Here): RegistryAnswer {
  if (!isDigest(which) && !isTag(which))
    return failure(400, 'DIGEST_INVALID', 'neither a tag nor a sha256 digest');
  const digest = isDigest(which) ? which : here.tags.get(which);
  const found = digest === undefined ? undefined : here.manifests.get(digest);
  const absent = failure(
    404,
    'MANIFEST_UNKNOWN',
    `no ${which} of ${name} is here; see \`muster artifacts ls\``,
  );
  return digest === undefined || found === undefined ? absent : file(digest, found.mediaType, absent);
}

function blob(name: string, digest: string, here: Here): RegistryAnswer {
  if (!isDigest(digest)) return failure(400, 'DIGEST_INVALID', 'no sha256 digest');
  const absent = failure(404, 'BLOB_UNKNOWN', `no blob ${digest} of ${name} is here`);
  // Clients may also fetch a manifest as a blob.
  return here.blobs.has(digest) || here.manifests.has(digest)
    ? file(digest, 'application/octet-stream', absent)
    : absent;
}

const file = (
  digest: string,
  contentType: string,
  absent: Extract<RegistryAnswer, { readonly kind: 'text' }>,
): RegistryAnswer => ({
  kind: 'file',
  sha256: hashOfDigest(digest),
  contentType,
  headers: [VERSION, ['docker-content-digest', digest]],
  absent,
});

/** A list of tags with `n` and `last` as in the specification, and a `Link` when there are more. */
function tagList(name: string, tags: readonly string[], query: URLSearchParams): RegistryAnswer {
  const count = query.get('n');
  if (count !== null && !/^[0-9]{1,9}$/.test(count))
    return failure(400, 'UNSUPPORTED', 'n must be a whole number');
  const last = query.get('last');
  const after = last === null ? tags : tags.filter((tag) => tag > last);
  const shown = count === null ? after : after.slice(0, Number(count));
  const more = shown.length > 0 && shown.length < after.length;
  const next = `</v2/${name}/tags/list?n=${count}&last=${shown.at(-1)}>; rel="next"`;
  return text(200, { name, tags: shown }, more ? [['link', next]] : []);
}
