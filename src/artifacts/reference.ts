/**
 * Names of container images, in the grammar of the OCI distribution specification and containerd.
 */

/**
 * A parsed name such as `registry.k8s.io/kube-apiserver:v1.36.2`: registry, repository, and tag or
 * digest.
 */
export interface Reference {
  /** Host with an optional port. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  /** `sha256:` and 64 hexadecimal digits; it wins over a tag. */
  readonly digest?: string;
}

// OCI distribution specification 1.1, "Pulling manifests"; separators as in containerd's
// `reference` package.
const COMPONENT = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const LABEL = '[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?';
const HOST = new RegExp(`^(?:${LABEL}(?:\\.${LABEL})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]{1,5})?$`);
/** The longest name of a repository (containerd, docker). */
const MAX_NAME = 255;

export const isRepository = (text: string): boolean => text.length <= MAX_NAME && REPOSITORY.test(text);
export const isTag = (text: string): boolean => TAG.test(text);
export const isDigest = (text: string): boolean => DIGEST.test(text);
export const isRegistry = (text: string): boolean => text.length <= MAX_NAME && HOST.test(text);

/** `sha256:HASH` → `HASH`, for a valid digest. */
export const hashOfDigest = (digest: string): string => digest.slice('sha256:'.length);

/**
 * Reads a reference; undefined when the text is none. Without tag and digest it means `latest`,
 * without registry Docker's (`busybox` is `docker.io/library/busybox:latest`), as in containerd and
 * podman.
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
 * The part before the first slash is a registry only if it has a dot or a port, or is localhost.
 */
function splitName(name: string): { readonly registry: string; readonly repository: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  if (/[.:]/.test(first) || first === 'localhost')
    return { registry: first, repository: name.slice(slash + 1) };
  return { registry: 'docker.io', repository: slash < 0 ? `library/${name}` : name };
}

/** Registry and repository, the name under which a mirror keeps an image. */
export const nameOf = ({ registry, repository }: Reference): string => `${registry}/${repository}`;

/** The text of a reference, which {@link parseReference} reads back unchanged. */
export function formatReference(reference: Reference): string {
  const { tag, digest } = reference;
  return `${nameOf(reference)}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}
