/**
 * `muster artifacts pack`: makes images of one layer from static programs, in an OCI layout with a
 * list of binaries. The same programs give the same digests at any time and on any host: the layers
 * have no dates and no owners, and are not compressed.
 */
import { createHash } from 'node:crypto';
import {
  copyFile,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import {
  BINARIES_FILE,
  configText,
  indexText,
  LAYOUT_MARK,
  type ListedBinary,
  layoutText,
  manifestText,
  type Part,
  parseBinaries,
  parseLayout,
} from '../../artifacts/layout.ts';
import { type Arch, MEDIA_TYPE } from '../../artifacts/oci.ts';
import { TAR_END, type TarMember, tarHeader, tarPadding } from '../../artifacts/tar.ts';
import { MusterError } from '../../base/errors.ts';
import { hashOf, sourceOf } from '../image/sources.files.ts';

/** Content of an image: a program with its path, or a directory whose tree becomes its root. */
export interface PackedFile {
  readonly from: string;
  /** Absolute path in the image; `/` for a directory's tree. */
  readonly to: string;
}

export interface PackedImage {
  readonly reference: string;
  readonly files: readonly PackedFile[];
  readonly entrypoint?: readonly string[];
  readonly user?: string;
}

export interface PackedBinary {
  readonly name: string;
  readonly version: string;
  readonly from: string;
}

/**
 * Writes images and binaries into `directory`. In an existing layout, images and binaries of the
 * same name are replaced.
 */
export async function pack(
  directory: string,
  arch: Arch,
  images: readonly PackedImage[],
  binaries: readonly PackedBinary[],
  signal: AbortSignal,
): Promise<{
  readonly images: readonly (Part & { readonly reference: string })[];
  readonly binaries: readonly ListedBinary[];
}> {
  const blobs = path.join(directory, 'oci/blobs/sha256');
  await mkdir(blobs, { recursive: true });
  const put = async (text: string): Promise<Part> => {
    const octets = Buffer.from(text);
    const sha256 = createHash('sha256').update(octets).digest('hex');
    await writeFile(path.join(blobs, sha256), octets);
    return { sha256, size: octets.length };
  };
  const made: (Part & { readonly reference: string; readonly mediaType: string })[] = [];
  for (const image of images) {
    const layer = await packLayer(blobs, image.files, signal);
    const entrypoint = image.entrypoint ?? [image.files[0]!.to];
    const user = image.user === undefined ? {} : { user: image.user };
    const config = await put(configText({ arch, entrypoint, ...user, layers: [layer.sha256] }));
    const manifest = await put(manifestText(config, [layer]));
    const index = await put(indexText([{ ...manifest, arch }]));
    made.push({ ...index, reference: image.reference, mediaType: MEDIA_TYPE.index });
  }
  const listed: ListedBinary[] = [];
  for (const { name, version, from } of binaries) {
    const file = path.join('bin', version, arch, name);
    await mkdir(path.dirname(path.join(directory, file)), { recursive: true });
    await copyFile(from, path.join(directory, file));
    const { sha256 } = await hashOf(sourceOf(from), signal);
    listed.push({
      name,
      version,
      arch,
      file,
      sha256,
      form: /\.(tar(\.(gz|xz|zst))?|tgz)$/.test(from) ? 'tar' : 'file',
    });
  }
  await writeLists(directory, made, listed);
  return { images: made, binaries: listed };
}

async function writeLists(
  directory: string,
  images: readonly (Part & { readonly reference: string; readonly mediaType: string })[],
  binaries: readonly ListedBinary[],
): Promise<void> {
  const oci = path.join(directory, 'oci');
  const before = await textOr(path.join(oci, 'index.json'), '{"manifests":[]}');
  const kept = parseLayout(before).flatMap(({ reference, digest, size }) =>
    reference === undefined || images.some((one) => one.reference === reference)
      ? []
      : [{ reference, size, sha256: digest.slice('sha256:'.length), mediaType: MEDIA_TYPE.index }],
  );
  const all = [...kept, ...images].sort((a, b) => (a.reference < b.reference ? -1 : 1));
  await writeFile(path.join(oci, 'oci-layout'), LAYOUT_MARK);
  await writeFile(path.join(oci, 'index.json'), layoutText(all));
  const list = path.join(directory, BINARIES_FILE);
  const others = parseBinaries(await textOr(list, '{"binaries":[]}')).filter(
    (one) => !binaries.some(({ file }) => file === one.file),
  );
  const sorted = [...others, ...binaries].sort((a, b) => (a.file < b.file ? -1 : 1));
  await writeFile(list, `${JSON.stringify({ binaries: sorted }, undefined, 2)}\n`);
}

const textOr = (file: string, otherwise: string): Promise<string> =>
  readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return otherwise;
    throw new MusterError('E_FILE_READ', `${file}: ${error.message}`, { cause: error });
  });

/** Writes the layer to a file named after its hash. */
async function packLayer(blobs: string, files: readonly PackedFile[], signal: AbortSignal): Promise<Part> {
  const members = await membersOf(files);
  const temporary = path.join(blobs, '.layer');
  const hash = createHash('sha256');
  const out = await open(temporary, 'w');
  let size = 0;
  const write = async (octets: Uint8Array): Promise<void> => {
    hash.update(octets);
    size += octets.length;
    await out.writeFile(octets);
  };
  try {
    for (const { from, ...member } of members) {
      await write(tarHeader(member));
      if (member.type !== 'file') continue;
      let octets = 0;
      for await (const part of (await sourceOf(from).read(0, signal)).octets) {
        octets += part.length;
        await write(part);
      }
      if (octets !== member.size) throw new MusterError('E_FILE_READ', `${from} changed while it was packed`);
      await write(tarPadding(octets));
    }
    await write(TAR_END);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await out.close();
  }
  const sha256 = hash.digest('hex');
  await rename(temporary, path.join(blobs, sha256));
  return { sha256, size };
}

type Member = TarMember & { readonly from: string };

/** The entries in the order of their paths, so that a directory comes before its content. */
async function membersOf(files: readonly PackedFile[]): Promise<readonly Member[]> {
  const members = new Map<string, Member>();
  for (const { from, to } of files) await addMember(members, from, to.replace(/^\/+|\/+$/g, ''));
  for (const at of [...members.keys()])
    for (let up = path.posix.dirname(at); up !== '.'; up = path.posix.dirname(up))
      if (!members.has(up)) members.set(up, { path: up, type: 'directory', mode: 0o755, size: 0, from: '' });
  return [...members.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function addMember(members: Map<string, Member>, from: string, at: string): Promise<void> {
  const found = await lstat(from).catch((cause: Error) => {
    throw new MusterError('E_FILE_READ', `${from}: ${cause.message}`, { cause });
  });
  if (found.isDirectory()) {
    if (at !== '') members.set(at, { path: at, type: 'directory', mode: 0o755, size: 0, from });
    for (const name of await readdir(from))
      await addMember(members, path.join(from, name), path.posix.join(at, name));
    return;
  }
  if (at === '')
    throw new MusterError(
      'E_USAGE',
      `${from}: the path in the image is missing; write e.g. ${from}:/usr/local/bin/${path.basename(from)}`,
    );
  // Modes depend on the builder's umask, so it is only recorded whether the file is executable.
  if (found.isFile())
    members.set(at, {
      path: at,
      type: 'file',
      mode: found.mode & 0o111 ? 0o755 : 0o644,
      size: found.size,
      from,
    });
  else if (found.isSymbolicLink())
    members.set(at, { path: at, type: 'symlink', mode: 0o777, size: 0, to: await readlink(from), from });
  else throw new MusterError('E_ARTIFACT', `${from} is neither a file, a directory nor a link`);
}
