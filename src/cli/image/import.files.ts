/**
 * Makes kernel, initrd and root image of a publisher's image. Nothing of it is run, and what reads
 * it does so as `nobody` (import-tools.files.ts).
 */
import { chmod, chown, copyFile, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  blkidFields,
  identified,
  isMounted,
  type Looked,
  type Mount,
  mountWords,
  otherMounts,
  type Part,
  PROBED,
  partsOf,
  rootOf,
} from '../../artifacts/import/disk.ts';
import { checkEntries, ENTRY_FORMAT, type Entry, parseEntries } from '../../artifacts/import/entries.ts';
import { type Findings, type ImageFacts, imageFacts } from '../../artifacts/import/judge.ts';
import {
  archOf,
  chooseModules,
  compressionOf,
  equipmentOf,
  type KernelPlace,
  kernelConfig,
  kernelOf,
  osRelease,
} from '../../artifacts/import/system.ts';
import { MusterError } from '../../base/errors.ts';
import { projectRoot } from '../../base/paths.ts';
import { confined, onMounted, run } from './import-tools.files.ts';
import { head, type Job, unpacked } from './import-unpack.files.ts';
import { hashOf, sourceOf } from './sources.files.ts';

export interface ImportOptions {
  /** The operator's file. */
  readonly file: string;
  /** A new directory that only this user may enter. */
  readonly work: string;
  readonly name: string | undefined;
  /** The partition that has the root file system, if several have one. */
  readonly root: number | undefined;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

export interface Imported {
  readonly facts: ImageFacts;
  readonly findings: Findings;
}

/** The file systems of an image, mounted by each command anew. */
interface Source {
  readonly file: string;
  readonly mounts: readonly Mount[];
}

/**
 * Writes `kernel`, `initrd`, `root.squashfs` and `image.json` to `work`.
 *
 * @throws {MusterError} E_IMPORT_… for what is wrong with the image.
 */
export async function importImage(options: ImportOptions): Promise<Imported> {
  const { work, signal, say } = options;
  const job: Job = { signal, out: path.join(work, 'out'), tree: path.join(work, 'tree') };
  await mkdir(job.tree);
  await mkdir(job.out);
  await chmod(work, 0o711);
  await chown(job.out, 65534, 65534);
  const source = await openSource(options, job);
  say('reading its files');
  const entries = await listed(source, job);
  checkEntries(entries);
  const place = kernelOf(entries);
  const { findings, compression } = await findingsOf(source, entries, place, job);
  say('writing the root image');
  await squash(source, compression.root, job);
  say('making the initrd');
  await makeInitrd({ source, place, entries, compression: compression.initrd, work, job });
  const facts = imageFacts(findings, options.name);
  await copyFile(path.join(job.out, 'root.squashfs'), path.join(work, 'root.squashfs'));
  await copyFile(path.join(job.out, place.kernel!), path.join(work, 'kernel'));
  await writeFile(path.join(work, 'image.json'), await imageJson(facts, work, signal));
  await rm(job.out, { recursive: true });
  return { facts, findings };
}

async function imageJson(facts: ImageFacts, work: string, signal: AbortSignal): Promise<string> {
  const described = async (name: string) => ({ name, ...(await hashOf(sourceOf(name, work), signal)) });
  const files = {
    kernel: await described('kernel'),
    initrd: await described('initrd'),
    root: await described('root.squashfs'),
  };
  return `${JSON.stringify({ ...facts, ...files }, undefined, 2)}\n`;
}

/** Finds out what a file is, and which file systems in it make up the root. */
async function openSource(options: ImportOptions, job: Job): Promise<Source> {
  const file = await unpacked(options, job);
  const { size } = await stat(file);
  const whole = blkidFields(
    (await confined({ words: ['blkid', '-p', '-o', 'export', file], signal: job.signal })).stdout.toString(),
  );
  const parts =
    whole.PTTYPE === undefined
      ? [identified({ number: 0, start: 0, size }, whole)]
      : await partitions(file, size, job);
  const looked: Looked[] = [];
  for (const part of parts.filter(isMounted)) looked.push({ part, names: await look(file, part, job) });
  const root = rootOf(looked, parts, options.root);
  const fstab = await text({ file, mounts: [root] }, 'etc/fstab', job);
  return { file, mounts: [root, ...otherMounts(fstab, root, looked)] };
}

async function partitions(file: string, size: number, { signal }: Job): Promise<readonly Part[]> {
  const table = await confined({ words: ['sfdisk', '--json', file], signal });
  if (table.code !== 0) throw new MusterError('E_IMPORT_FORMAT', `sfdisk: ${table.said}`);
  const parts: Part[] = [];
  for (const part of partsOf(table.stdout.toString(), size)) {
    const words = ['blkid', '-p', '-o', 'export', '-O', `${part.start}`, '-S', `${part.size}`, file];
    parts.push(identified(part, blkidFields((await confined({ words, signal })).stdout.toString())));
  }
  return parts;
}

/** The names of `PROBED` that a part has. */
async function look(file: string, part: Part, job: Job): Promise<readonly string[]> {
  const tests = PROBED.flatMap((pattern) => ['-o', '-path', pattern]).slice(1);
  const found = await mounted({ file, mounts: [{ part, path: '/' }] }, job, [
    'find',
    '.',
    '-maxdepth',
    '4',
    '(',
    ...tests,
    ')',
    '-printf',
    '%P\\0',
  ]);
  return found.toString().split('\0').filter(Boolean);
}

/** Runs a command on the mounted file systems, and returns what it prints. */
async function mounted(source: Source, job: Job, words: readonly string[], input?: string): Promise<Buffer> {
  const { code, stdout, said } = await onMounted(
    { tree: job.tree, file: source.file, mounts: mountWords(source.mounts) },
    { words, signal: job.signal, ...(input !== undefined && { input }) },
  );
  if (code !== 0) throw new MusterError('E_IMPORT_FORMAT', `its files cannot be read: ${said}`);
  return stdout;
}

async function listed(source: Source, job: Job): Promise<readonly Entry[]> {
  return parseEntries((await mounted(source, job, ['find', '.', '-printf', ENTRY_FORMAT])).toString());
}

/** The text of a regular file; empty when there is none. No link is followed. */
const text = async (source: Source, name: string, job: Job): Promise<string> =>
  (
    await mounted(source, job, [
      'find',
      '.',
      '-path',
      `./${name}`,
      '-type',
      'f',
      '-exec',
      'head',
      '-c',
      '16M',
      '{}',
      ';',
    ])
  ).toString();

async function findingsOf(source: Source, entries: readonly Entry[], place: KernelPlace, job: Job) {
  const has = (name: string) => entries.some(({ path, type }) => path === name && type === 'file');
  const first = (...names: readonly string[]) => names.find(has);
  const read = async (name: string | undefined) => (name === undefined ? '' : text(source, name, job));
  const equipment = equipmentOf(entries);
  const configText = await read(first(`boot/config-${place.version}`, `${place.modules}/config`));
  const config = configText === '' ? undefined : kernelConfig(configText);
  const { kernel } = place;
  if (kernel === undefined)
    throw new MusterError(
      'E_IMPORT_KERNEL',
      `it has modules of kernel ${place.version}, but not that kernel`,
    );
  await taken(source, [kernel], job);
  const arch = archOf(await head(path.join(job.out, kernel), 1024));
  if (arch === undefined) throw new MusterError('E_IMPORT_KERNEL', `${kernel} is no kernel of a known form`);
  const findings: Findings = {
    release: osRelease(await read(first('usr/lib/os-release', 'etc/os-release'))),
    arch,
    kernel: place,
    equipment,
    cloudInitVersion: /__VERSION__ = "([0-9][0-9.]*)"/.exec(await read(equipment.cloudInit))?.[1],
    selinux: /^SELINUX=(\w+)/m.exec(await read(first('etc/selinux/config')))?.[1],
    xattrs: config?.has('SQUASHFS_XATTR'),
  };
  return { findings, compression: compressionOf(config) };
}

/** Copies regular files of the image to the directory of `nobody`, at their own paths. */
async function taken(source: Source, files: readonly string[], job: Job): Promise<void> {
  const copy = `tar --create --null --no-recursion --files-from=- | tar --extract --no-same-owner -C "$1"`;
  await mounted(source, job, ['sh', '-euc', copy, 'sh', job.out], files.map((name) => `${name}\0`).join(''));
  // Root reads these files next, and must not follow a link that a faulty program left there.
  const others = await run({
    words: ['find', job.out, '!', '-type', 'f', '!', '-type', 'd'],
    signal: job.signal,
  });
  if (others.code !== 0 || others.stdout.length > 0)
    throw new MusterError('E_IMPORT_ENTRY', 'files that were taken out of it are not plain files');
}

async function squash(source: Source, compression: 'zstd' | 'xz' | 'gzip', job: Job): Promise<void> {
  const level = compression === 'zstd' ? ['-Xcompression-level', '11'] : [];
  // mksquashfs dates the root of a tarball by the clock.
  const fixed = ['-mkfs-time', '0', '-root-time', '0', '-noappend', '-no-progress', '-quiet', '-b', '256K'];
  await mounted(source, job, [
    'mksquashfs',
    '.',
    path.join(job.out, 'root.squashfs'),
    '-comp',
    compression,
    ...level,
    ...fixed,
  ]);
}

async function makeInitrd(how: {
  readonly source: Source;
  readonly place: KernelPlace;
  readonly entries: readonly Entry[];
  readonly compression: 'zstd' | 'gzip';
  readonly work: string;
  readonly job: Job;
}): Promise<void> {
  const { source, place, entries, compression, work, job } = how;
  const read = (name: string) => text(source, `${place.modules}/${name}`, job);
  const choice = chooseModules({
    dep: await read('modules.dep'),
    alias: await read('modules.alias'),
    builtin: await read('modules.builtin'),
  });
  const there = new Set(entries.flatMap(({ type, path }) => (type === 'file' ? [path] : [])));
  const files = choice.files.map((file) => `${place.modules}/${file}`).filter((file) => there.has(file));
  await taken(source, files, job);
  const tree = path.join(job.out, place.modules, '../..');
  await mkdir(path.join(job.out, place.modules), { recursive: true });
  await writeFile(path.join(job.out, place.modules, 'modules.dep'), choice.dep);
  await writeFile(path.join(job.out, place.modules, 'modules.alias'), choice.alias);
  const script = path.join(projectRoot(), 'images/import/initrd.sh');
  const { code, said } = await run({
    words: [script, tree, place.version, compression, path.join(work, 'initrd')],
    signal: job.signal,
  });
  if (code !== 0) throw new MusterError('E_BUILD', `images/import/initrd.sh: ${said}`);
}

/** Runs `work` with a new directory that only this user may enter, and deletes it afterwards. */
export async function inScratch<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(path.join(tmpdir(), 'muster-import-'));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Copies the files of an imported image to a directory for `muster image add --from`. */
export async function keepFiles(work: string, to: string): Promise<string> {
  await mkdir(to, { recursive: true });
  // image.json is written last, because its presence says that the others are complete.
  for (const name of ['kernel', 'initrd', 'root.squashfs', 'image.json'])
    await copyFile(path.join(work, name), path.join(to, name));
  return to;
}
