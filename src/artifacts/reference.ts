/** Names of container images, as the OCI distribution specification and containerd spell them. */

/**
 * `registry.k8s.io/kube-apiserver:v1.36.2`: which registry, which repository there, and which of
 * its images.
 */
export interface Reference {
  /** Host with an optional port. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  /** `sha256:` and 64 hexadecimal digits; it counts where there is a tag as well. */
  readonly digest?: string;
}

// OCI distribution specification 1.1, "Pulling manifests"; the separators as containerd's
// `reference` package has them.
const COMPONENT = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const LABEL = '[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?';
const HOST = new RegExp(`^(?:${LABEL}(?:\\.${LABEL})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]{1,5})?$`);
/** Repository names are no longer (containerd, docker). */
const MAX_NAME = 255;

export const isRepository = (text: string): boolean => text.length <= MAX_NAME && REPOSITORY.test(text);
export const isTag = (text: string): boolean => TAG.test(text);
export const isDigest = (text: string): boolean => DIGEST.test(text);
export const isRegistry = (text: string): boolean => text.length <= MAX_NAME && HOST.test(text);

/** `sha256:HASH` → `HASH`. The digest is one. */
export const hashOfDigest = (digest: string): string => digest.slice('sha256:'.length);
export const digestOfHash = (sha256: string): string => `sha256:${sha256}`;

/**
 * Reads a reference; without tag and digest it means `latest`, without registry Docker's (`busybox`
 * is `docker.io/library/busybox:latest`), as containerd and podman take them. Undefined when it is
 * none.
 */
export function parseReference(text: string): Reference | undefined {
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !isDigest(digest)) return undefined;
  const named = at < 0 ? text : text.slice(0, at);
  const slash = named.lastIndexOf('/');
  const colon = named.indexOf(':', slash + 1);
  const tag = colon < 0 ? undefined : named.slice(colon + 1);
  if (tag !== undefined && !isTag(tag)) return undefined;
  const { registry, repository } = splitName(colon < 0 ? named : named.slice(0, colon));
  if (!isRegistry(registry) || !isRepository(repository)) return undefined;
  return {
    registry,
    repository,
    ...(tag !== undefined || digest === undefined ? { tag: tag ?? 'latest' } : {}),
    ...(digest === undefined ? {} : { digest }),
  };
}

/**
 * What stands before the first slash is a registry only if it can be nothing else: it has a dot or
 * a port, or is localhost.
 */
function splitName(name: string): { readonly registry: string; readonly repository: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  if (/[.:]/.test(first) || first === 'localhost')
    return { registry: first, repository: name.slice(slash + 1) };
  return { registry: 'docker.io', repository: slash < 0 ? `library/${name}` : name };
}

/** Registry and repository: under this name a mirror keeps an image. */
export const nameOf = ({ registry, repository }: Reference): string => `${registry}/${repository}`;

/** The whole reference; `parseReference` reads it back to the same. */
export function formatReference(reference: Reference): string {
  const { tag, digest } = reference;
  return `${nameOf(reference)}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}
