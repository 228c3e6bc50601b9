/**
 * Directories and archives of images as values: OCI layouts (image-layout specification 1.1),
 * archives of `docker save`, and our own list of binaries. Pure: callers pass the texts.
 */
import { z } from 'zod';
import { MusterError } from '../base/errors.ts';
import { type Arch, MEDIA_TYPE, OCI_ARCH } from './oci.ts';
import { formatReference, isDigest, parseReference } from './reference.ts';

/** The list of binaries next to an OCI layout, which `muster artifacts pack` writes. */
export const BINARIES_FILE = 'artifacts.json';

const binaries = z.strictObject({
  binaries: z.array(
    z.strictObject({
      name: z.string(),
      version: z.string(),
      arch: z.enum(['x86_64', 'aarch64']),
      /** Path relative to the list. */
      file: z
        .string()
        .refine((path) => !path.startsWith('/') && !path.split('/').includes('..'), 'inside the directory'),
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
      form: z.enum(['file', 'tar']).default('file'),
    }),
  ),
});
export type ListedBinary = z.output<typeof binaries>['binaries'][number];

function read<T>(what: string, text: string, shape: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new MusterError('E_ARTIFACT', `${what} is not JSON`, { cause });
  }
  const found = shape.safeParse(value);
  if (found.success) return found.data;
  const [issue] = found.error.issues;
  throw new MusterError('E_ARTIFACT', `${what}: ${issue?.path.join('.')}: ${issue?.message}`);
}

/**
 * Reads a list of binaries ({@link BINARIES_FILE}).
 *
 * @throws {MusterError} E_ARTIFACT when the text is not such a list; the message names the field.
 */
export const parseBinaries = (text: string): readonly ListedBinary[] =>
  read(BINARIES_FILE, text, binaries).binaries;

const REFERENCE_KEYS = ['io.containerd.image.name', 'org.opencontainers.image.ref.name'] as const;

const layoutIndex = z.looseObject({
  manifests: z.array(
    z.looseObject({
      mediaType: z.string().default(MEDIA_TYPE.manifest),
      digest: z.string().refine(isDigest, 'a sha256 digest'),
      size: z.int().min(0),
      annotations: z.record(z.string(), z.string()).optional(),
    }),
  ),
});

/**
 * The images of a layout's `index.json`: full references and digests. An image without a usable
 * name has no reference.
 *
 * @throws {MusterError} E_ARTIFACT when the text is not an index.
 */
export function parseLayout(
  text: string,
): readonly { readonly reference?: string; readonly digest: string; readonly size: number }[] {
  return read('index.json', text, layoutIndex).manifests.map(({ digest, size, annotations = {} }) => {
    // A bare tag ("v1.36.2") is no name; a name has a registry or a path.
    const named = REFERENCE_KEYS.map((key) => annotations[key]).find((name) => name?.includes('/'));
    const reference = named === undefined ? undefined : parseReference(named);
    return { digest, size, ...(reference ? { reference: formatReference(reference) } : {}) };
  });
}

const dockerList = z.array(
  z.looseObject({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
);

/**
 * The images of a `docker save` archive, from its `manifest.json`: member names of config and
 * layers.
 *
 * @throws {MusterError} E_ARTIFACT when the text is not such a list.
 */
export function parseDockerArchive(text: string): readonly {
  readonly references: readonly string[];
  readonly config: string;
  readonly layers: readonly string[];
}[] {
  return read('manifest.json', text, dockerList).map(({ Config, RepoTags, Layers }) => ({
    config: Config,
    layers: Layers,
    references: (RepoTags ?? []).flatMap((name) => {
      const reference = parseReference(name);
      return reference ? [formatReference(reference)] : [];
    }),
  }));
}

/** A part of an image that is made here: hash and size in octets. */
export interface Part {
  readonly sha256: string;
  readonly size: number;
}

const describe = (mediaType: string, { sha256, size }: Part) => ({
  mediaType,
  digest: `sha256:${sha256}`,
  size,
});

/** A manifest for these parts; layers are plain tars. The same parts give the same text. */
export const manifestText = (config: Part, layers: readonly Part[]): string =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA_TYPE.manifest,
    config: describe(MEDIA_TYPE.config, config),
    layers: layers.map((layer) => describe(MEDIA_TYPE.layer, layer)),
  });

interface ImageConfig {
  readonly arch: Arch;
  readonly entrypoint: readonly string[];
  readonly env?: readonly string[];
  readonly user?: string;
  /** SHA-256 of every layer's uncompressed tar. */
  readonly layers: readonly string[];
}

/** `PATH` of packed images. */
const IMAGE_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** An image's configuration without dates. */
export const configText = ({ arch, entrypoint, env = [], user, layers }: ImageConfig): string =>
  JSON.stringify({
    architecture: OCI_ARCH[arch],
    os: 'linux',
    config: { ...(user ? { User: user } : {}), Env: [`PATH=${IMAGE_PATH}`, ...env], Entrypoint: entrypoint },
    rootfs: { type: 'layers', diff_ids: layers.map((sha256) => `sha256:${sha256}`) },
  });

/** The index of one image for several architectures. */
export const indexText = (manifests: readonly (Part & { readonly arch: Arch })[]): string =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA_TYPE.index,
    manifests: manifests.map(({ arch, ...part }) => ({
      ...describe(MEDIA_TYPE.manifest, part),
      platform: { architecture: OCI_ARCH[arch], os: 'linux' },
    })),
  });

/** A layout's `index.json`. */
export const layoutText = (
  images: readonly (Part & { readonly reference: string; readonly mediaType: string })[],
): string =>
  `${JSON.stringify(
    {
      schemaVersion: 2,
      mediaType: MEDIA_TYPE.index,
      manifests: images.map(({ reference, mediaType, ...part }) => ({
        ...describe(mediaType, part),
        annotations: { [REFERENCE_KEYS[0]]: reference, [REFERENCE_KEYS[1]]: reference },
      })),
    },
    undefined,
    2,
  )}\n`;

/** The content of a layout's file `oci-layout`. */
export const LAYOUT_MARK = '{"imageLayoutVersion":"1.0.0"}';
