/** Makes a disk or a file system of what an operator has: qcow2, compressed files, tarballs. */
import { open, rename, statfs } from 'node:fs/promises';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import { confined, MOST_UNPACKED } from './import-tools.files.ts';

/** What an import works with. */
export interface Job {
  readonly signal: AbortSignal;
  /** A directory of `nobody`, and the one in which file systems are mounted. */
  readonly out: string;
  readonly tree: string;
}

/** Programs that unpack a file, by its first octets. */
const UNPACKERS: readonly (readonly [magic: string, program: string])[] = [
  ['\x1f\x8b', 'gzip'],
  ['\xfd7zXZ\0', 'xz'],
  ['\x28\xb5\x2f\xfd', 'zstd'],
];

/**
 * The image as a disk or a file system: the file itself, or what is made of it.
 *
 * @throws {MusterError} E_IMPORT_FORMAT, E_IMPORT_TRUNCATED, E_IMPORT_SIZE, E_IMPORT_ENCRYPTED,
 *   E_IMPORT_ENTRY.
 */
export async function unpacked(
  { file, say }: { readonly file: string; readonly say: (line: string) => void },
  job: Job,
): Promise<string> {
  const start = (await head(file, 512)).toString('latin1');
  const [, program] = UNPACKERS.find(([magic]) => start.startsWith(magic)) ?? [];
  const isTar = start.startsWith('ustar', 257);
  if (program === undefined && !isTar && !start.startsWith('QFI\xfb')) return file;
  say(`unpacking ${path.basename(file)}`);
  if (program !== undefined) return unpacked({ file: await decompressed(file, program, job), say }, job);
  return isTar ? ofTar(file, job) : ofQcow2(file, job);
}

async function decompressed(file: string, program: string, job: Job): Promise<string> {
  const { bavail, bsize } = await statfs(job.out);
  // A small file may unpack to any size, and must not fill the disk.
  const octets = Math.min(MOST_UNPACKED, Math.floor((bavail * bsize) / 2));
  const target = path.join(job.out, 'unpacked');
  const words = ['sh', '-euc', `exec "$1" -dc "$2" >"$3"`, 'sh', program, file, `${target}.new`];
  const { code, said } = await confined({ words, signal: job.signal, octets });
  // The shell's code for SIGXFSZ; zstd and xz say that the file is too large.
  if (code === 153 || code === 128 || /too large/i.test(said))
    throw new MusterError('E_IMPORT_SIZE', `unpacked it has more than ${octets} octets`);
  if (code !== 0) throw new MusterError('E_IMPORT_TRUNCATED', `${program}: ${said}`);
  await rename(`${target}.new`, target);
  return target;
}

/** The disk that is the only file of a tarball, or the file system of its files. */
async function ofTar(file: string, job: Job): Promise<string> {
  const { signal } = job;
  const words = ['tar', '--list', '--absolute-names', '--quoting-style=escape', '--file', file];
  const listed = await confined({ words, signal });
  if (listed.code !== 0) throw new MusterError('E_IMPORT_TRUNCATED', `tar: ${listed.said}`);
  const names = listed.stdout.toString().split('\n').filter(Boolean);
  const outside = names.find((name) => name.startsWith('/') || name.split('/').includes('..'));
  if (outside !== undefined)
    throw new MusterError('E_IMPORT_ENTRY', `${outside} is a name outside of the tree`);
  const [only] = names;
  if (names.length === 1 && /^(\.\/)?[A-Za-z0-9_-][A-Za-z0-9._-]*\.raw$/.test(only!)) {
    const extract = ['tar', '--extract', '--no-same-owner', '--file', file, '-C', job.out, only!];
    const { code, said } = await confined({ words: extract, signal });
    if (code !== 0) throw new MusterError('E_IMPORT_TRUNCATED', `tar: ${said}`);
    return path.join(job.out, only!);
  }
  const target = path.join(job.out, 'tar.squashfs');
  // The tarball need not have an entry for its root. It is compressed when the root image is made.
  const root = '-root-mode 0755 -root-uid 0 -root-gid 0';
  const script = `mksquashfs - "$2" -tar ${root} -noI -noD -noF -noX -no-progress -quiet <"$1"`;
  const made = await confined({ words: ['sh', '-euc', script, 'sh', file, target], signal });
  if (made.code !== 0) throw new MusterError('E_IMPORT_TRUNCATED', `mksquashfs: ${made.said}`);
  return target;
}

/** The raw disk that qemu-img makes of a qcow2. */
async function ofQcow2(file: string, job: Job): Promise<string> {
  const { signal } = job;
  const shown = await confined({ words: ['qemu-img', 'info', '-f', 'qcow2', '--output=json', file], signal });
  if (shown.code !== 0) throw new MusterError('E_IMPORT_FORMAT', `qemu-img: ${shown.said}`);
  const info = JSON.parse(shown.stdout.toString()) as Readonly<Record<string, unknown>>;
  const data = (info['format-specific'] as { data?: Readonly<Record<string, unknown>> } | undefined)?.data;
  // Such an image would have this host read a file that it names.
  if (info['backing-filename'] !== undefined || data?.['data-file'] !== undefined)
    throw new MusterError('E_IMPORT_FORMAT', 'it is only a part: it names another file that has the rest');
  if (info.encrypted === true || data?.encrypt !== undefined)
    throw new MusterError('E_IMPORT_ENCRYPTED', 'the qcow2 file is encrypted');
  if (Number(info['virtual-size']) > MOST_UNPACKED)
    throw new MusterError(
      'E_IMPORT_SIZE',
      `its disk has ${info['virtual-size']} octets, more than the ${MOST_UNPACKED} that are unpacked`,
    );
  const checked = await confined({
    words: ['qemu-img', 'check', '-f', 'qcow2', '--output=json', file],
    signal,
  });
  if (checked.code !== 0 && checked.code !== 3)
    throw new MusterError('E_IMPORT_TRUNCATED', 'parts of the qcow2 file are missing or damaged');
  const raw = path.join(job.out, 'disk');
  const words = ['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', file, raw];
  const { code, said } = await confined({ words, signal });
  if (code !== 0) throw new MusterError('E_IMPORT_FORMAT', `qemu-img: ${said}`);
  return raw;
}

/** The first octets of a file. */
export async function head(file: string, octets: number): Promise<Buffer> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(octets), 0, octets, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
