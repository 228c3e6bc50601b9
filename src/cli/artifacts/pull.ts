/**
 * `muster artifacts pull`: fetches what a cluster lacks from its publishers and uploads it to the
 * server. Each file is checked before it counts.
 */
import path from 'node:path';
import type { Shown } from '../../api/shown.ts';
import { type Descriptor, forArch, MAX_MANIFEST_BYTES, parseManifest } from '../../artifacts/oci.ts';
import { hashOfDigest, parseReference } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import {
  publishedHash,
  type Required,
  type RequiredBinary,
  type RequiredImage,
  type RequiredManifest,
  requiredArtifacts,
} from '../../cluster/resolve/artifacts.ts';
import { type ApiClient, openClient } from '../client.socket.ts';
import { type AssetSource, readAll, sourceOf } from '../image/sources.files.ts';
import { EXIT, type Io } from '../io.ts';
import { bring, type Sourced } from './import.ts';
import { artifactsOf } from './inventory.ts';
import { addonsOf, fullCluster, imagesOf, type PlanOptions, planned, requiredName } from './plan.ts';
import { connectRegistry } from './registry-source.files.ts';
import { memorySource } from './trees.files.ts';

interface PullOptions extends PlanOptions {
  readonly mirror?: readonly string[];
}

/** The most octets that are read of a publisher's list of checksums; these lists are short. */
const MAX_LIST = 1024 * 1024;

/**
 * Fetches and uploads everything that is missing. Exit code 1 when a file could not be fetched or
 * an add-on cannot be used.
 */
export async function pull(cluster: string, options: PullOptions, io: Io): Promise<number> {
  const client = openClient(options, io);
  const mirrored = mirrors(options.mirror ?? []);
  const resolved = await fullCluster(client, cluster);
  const sourced = sourcer(mirrored, await directoryOf(client, cluster), io.signal);
  const round = (required: readonly Required[]) => fetchMissing(required, sourced, client, io);
  const before = requiredArtifacts(resolved, options.arch);
  const own = await round(before);
  // The files of the add-ons were fetched above; they name the add-ons' images.
  const addons = await addonsOf(client, cluster);
  const names = new Set(before.map(requiredName));
  const all = requiredArtifacts(resolved, options.arch, imagesOf(addons));
  const forAddons = await round(all.filter((one) => !names.has(requiredName(one))));
  const faulty = addons.filter(({ state }) => state === 'faulty');
  for (const { name, detail } of faulty) io.err(`the add-on ${name} cannot be used: ${detail}\n`);
  const [missing, failed] = [own.missing + forAddons.missing, own.failed + forAddons.failed];
  if (missing === 0) io.out(`all ${all.length} artifacts of ${cluster} are here\n`);
  if (failed > 0)
    io.err(`${failed} of ${missing} could not be fetched; the same command continues from here\n`);
  return failed + faulty.length === 0 ? EXIT.ok : EXIT.failure;
}

async function fetchMissing(
  required: readonly Required[],
  sourced: (required: Required) => Promise<Sourced>,
  client: ApiClient,
  io: Io,
): Promise<{ readonly missing: number; readonly failed: number }> {
  const missing = planned(required, await artifactsOf(client)).filter(({ state }) => state !== 'here');
  let failed = 0;
  for (const { name, required: one } of missing)
    try {
      await bring(await sourced(one), client, io);
    } catch (error) {
      if (io.signal.aborted || !(error instanceof MusterError)) throw error;
      // The other files may succeed, and the part of this file that was received is kept.
      failed++;
      io.err(`${name}: ${error.message} (${error.code})\n`);
    }
  return { missing: missing.length, failed };
}

/** The directory of the file with the Cluster; undefined when it came through the API. */
async function directoryOf(client: ApiClient, cluster: string): Promise<string | undefined> {
  const { status } = await client.call<Shown>('GET', `/v1/clusters/${encodeURIComponent(cluster)}`);
  return status.origin?.from === 'file' ? path.dirname(status.origin.at.file) : undefined;
}

function sourcer(mirrored: Mirrored, directory: string | undefined, signal: AbortSignal) {
  return (required: Required): Promise<Sourced> => {
    switch (required.kind) {
      case 'binary':
        return binary(required, mirrored, signal);
      case 'image':
        return image(required, mirrored, signal);
      case 'manifest':
        return manifest(required, mirrored, directory);
    }
  };
}

type Mirrored = (url: string) => string;

/**
 * Reads `https://dl.k8s.io=http://10.0.0.5/k8s`; for a URL, the longest matching beginning counts.
 *
 * @throws {MusterError} E_USAGE when a text is not FROM=TO.
 */
export function mirrors(given: readonly string[]): Mirrored {
  const pairs = given
    .map((text) => {
      const found = /^(https?:\/\/[^=]+)=(https?:\/\/.+)$/.exec(text);
      if (!found) throw new MusterError('E_USAGE', `--mirror ${text}: write FROM=TO, both URLs`);
      return [found[1]!, found[2]!] as const;
    })
    .sort(([a], [b]) => b.length - a.length);
  return (url) => {
    const pair = pairs.find(([from]) => url.startsWith(from));
    return pair ? pair[1] + url.slice(pair[0].length) : url;
  };
}

async function binary(required: RequiredBinary, mirrored: Mirrored, signal: AbortSignal): Promise<Sourced> {
  const { name, version, arch, form, url, checksums } = required;
  const list = await readAll(sourceOf(mirrored(checksums)), MAX_LIST, signal);
  const sha256 = publishedHash(new TextDecoder().decode(list), path.posix.basename(url));
  if (sha256 === undefined)
    throw new MusterError(
      'E_FETCH_REFUSED',
      `${mirrored(checksums)} has no SHA-256 of ${path.posix.basename(url)}`,
    );
  return {
    entry: { kind: 'binary', name, version, arch, sha256, form },
    files: new Map([[sha256, sourceOf(mirrored(url))]]),
  };
}

async function manifest(
  { addon, url, file, sha256 }: RequiredManifest,
  mirrored: Mirrored,
  directory: string | undefined,
): Promise<Sourced> {
  const entry = { kind: 'manifest', addon, sha256 } as const;
  if (url !== undefined) return { entry, files: new Map([[sha256, sourceOf(mirrored(url))]]) };
  if (file !== undefined && (directory !== undefined || path.isAbsolute(file)))
    return { entry, files: new Map([[sha256, sourceOf(file, directory)]]) };
  throw new MusterError(
    'E_ARTIFACT_MISSING',
    `${file === undefined ? 'it has no url' : `${file} is a relative path, and the Cluster was not read from a file`}; bring it with \`muster artifacts import --manifest ${addon}=FILE\``,
  );
}

/**
 * Fetches the manifests of an index for one architecture only. The index itself is fetched
 * unchanged, so that its digest stays the same.
 */
async function image(required: RequiredImage, mirrored: Mirrored, signal: AbortSignal): Promise<Sourced> {
  const reference = parseReference(required.reference);
  if (reference === undefined)
    throw new MusterError('E_ARTIFACT', `"${required.reference}" is not an image reference`);
  const registry = connectRegistry(mirrored(`https://${reference.registry}`), reference.repository);
  const files = new Map<string, AssetSource>();
  const manifest = async (which: string) => {
    const { octets, digest } = await registry.manifest(which, MAX_MANIFEST_BYTES, signal);
    files.set(hashOfDigest(digest), memorySource(`${required.reference} manifest`, octets));
    return { manifest: parseManifest(octets), digest };
  };
  const top = await manifest(reference.digest ?? reference.tag!);
  const parts: Descriptor[] = [];
  if (top.manifest.kind === 'image') parts.push(...top.manifest.parts);
  else
    for (const one of forArch(top.manifest.manifests, required.arch)) {
      const inner = await manifest(one.digest);
      if (inner.manifest.kind === 'image') parts.push(...inner.manifest.parts);
    }
  if (parts.length === 0)
    throw new MusterError('E_FETCH_REFUSED', `${required.reference} has no image for ${required.arch}`);
  for (const { digest } of parts) files.set(hashOfDigest(digest), registry.blob(digest));
  return {
    entry: { kind: 'image', reference: required.reference, digest: top.digest, archs: [required.arch] },
    files,
  };
}
