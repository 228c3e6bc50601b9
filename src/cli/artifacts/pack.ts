/** The arguments of `muster artifacts pack`. */
import path from 'node:path';
import type { Arch } from '../../artifacts/oci.ts';
import { formatReference, parseReference } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import { EXIT, type Io } from '../io.ts';
import { type PackedBinary, type PackedFile, type PackedImage, pack } from './pack.files.ts';

interface PackOptions {
  readonly image?: readonly string[];
  readonly binary?: readonly string[];
  readonly arch: Arch;
  readonly user: string;
}

/**
 * `muster artifacts pack`: writes images and binaries into `directory` and prints their hashes.
 *
 * @throws {MusterError} E_USAGE when neither `--image` nor `--binary` is given
 */
export async function packArtifacts(directory: string, options: PackOptions, io: Io): Promise<number> {
  const images = (options.image ?? []).map((text) => imageIn(text, options.user));
  const binaries = (options.binary ?? []).map(binaryIn);
  if (images.length + binaries.length === 0)
    throw new MusterError('E_USAGE', 'nothing to pack: give --image or --binary');
  const made = await pack(directory, options.arch, images, binaries, io.signal);
  for (const { reference, sha256 } of made.images) io.out(`image/${reference} sha256:${sha256}\n`);
  for (const { name, version, arch, sha256 } of made.binaries)
    io.out(`binary/${name}/${version}/${arch} sha256:${sha256}\n`);
  return EXIT.ok;
}

/**
 * Reads an image's argument `REFERENCE=FILE[:/PATH][,FILE…]`.
 *
 * @throws {MusterError} E_USAGE when the text has another form.
 */
function imageIn(text: string, user: string): PackedImage {
  const equals = text.indexOf('=');
  const reference = equals < 0 ? undefined : parseReference(text.slice(0, equals));
  if (reference === undefined || reference.digest !== undefined)
    throw new MusterError(
      'E_USAGE',
      `--image ${text}: write REFERENCE=FILE, e.g. registry.k8s.io/pause:3.10.2=./pause:/pause`,
    );
  const files = text
    .slice(equals + 1)
    .split(',')
    .map(fileIn);
  return { reference: formatReference(reference), files, ...(user === '0' ? {} : { user }) };
}

function fileIn(text: string): PackedFile {
  const found = /^(.+):(\/.*)$/.exec(text);
  if (found) return { from: found[1]!, to: found[2]! };
  if (text === '') throw new MusterError('E_USAGE', '--image: a file is missing after = or a comma');
  return { from: text, to: `/usr/local/bin/${path.basename(text)}` };
}

/**
 * Reads a binary's argument `NAME:VERSION=FILE`.
 *
 * @throws {MusterError} E_USAGE when the text has another form.
 */
export function binaryIn(text: string): PackedBinary {
  const found = /^([A-Za-z0-9][A-Za-z0-9._+-]*):v?([A-Za-z0-9][A-Za-z0-9._+-]*)=(.+)$/.exec(text);
  if (!found)
    throw new MusterError(
      'E_USAGE',
      `--binary ${text}: write NAME:VERSION=FILE, e.g. kubelet:1.36.2=./kubelet`,
    );
  return { name: found[1]!, version: found[2]!, from: found[3]! };
}
