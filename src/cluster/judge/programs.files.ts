/**
 * The programs of clusters that this boot host has: a binary, or a program in a container image.
 * They are unpacked into a directory of their own the first time that they are asked.
 */
import { spawn } from 'node:child_process';
import { chmod, copyFile, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import type { ArtifactBook } from '../../artifacts/book.ts';
import { type Arch, forArch, MAX_MANIFEST_BYTES, parseManifest } from '../../artifacts/oci.ts';
import { hashOfDigest } from '../../artifacts/reference.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { runConfined } from './confine.files.ts';
import type { Program } from './judge.ts';
import type { Judged } from './placed.ts';

interface ProgramsDeps {
  readonly book: Pick<ArtifactBook, 'binary' | 'image'>;
  readonly assets: {
    find(sha256: string): { readonly path: string } | undefined;
    read(sha256: string, limit: number): Promise<Uint8Array | undefined>;
  };
  /** Where programs are unpacked. */
  readonly directory: string;
}

/** So many unpacked programs are kept: the components of two versions. They take some 1.2 GB. */
const KEPT = 14;

/** The architecture of this host; undefined for one that no machine has. */
const ownArch = (): Arch | undefined =>
  process.arch === 'x64' ? 'x86_64' : process.arch === 'arm64' ? 'aarch64' : undefined;

/** Finds the programs of a cluster's versions. Only one is unpacked at a time. */
export function openPrograms({ book, assets, directory }: ProgramsDeps) {
  const arch = ownArch();
  let last: Promise<unknown> = Promise.resolve();

  /** The files that may have the program: layers of its image, the last first, then its binary. */
  const sourcesOf = async (resolved: ResolvedCluster, component: Judged): Promise<readonly Source[]> => {
    if (arch === undefined) return [];
    const layers =
      component === 'kubelet' ? [] : await layersOf(book.image(resolved.images[component])?.digest, arch);
    const version = resolved.versions[component].replace(/-\d+$/, '');
    const binary = book.binary(component, version, arch);
    return [
      ...layers.map((sha256): Source => ({ sha256, form: 'tar' })).toReversed(),
      ...(binary === undefined ? [] : [binary]),
    ];
  };

  const layersOf = async (digest: string | undefined, of: Arch): Promise<readonly string[]> => {
    const octets = digest && (await assets.read(hashOfDigest(digest), MAX_MANIFEST_BYTES));
    if (!octets) return [];
    const manifest = parseManifest(octets);
    if (manifest.kind === 'index') return layersOf(forArch(manifest.manifests, of)[0]?.digest, of);
    return manifest.parts.slice(1).map((part) => hashOfDigest(part.digest));
  };

  const find = async (resolved: ResolvedCluster, component: Judged): Promise<Program | undefined> => {
    for (const { sha256, form } of await sourcesOf(resolved, component)) {
      const file = path.join(directory, `${component}-${sha256}`);
      if (await isThere(file)) return { sha256, file };
      const source = assets.find(sha256)?.path;
      if (source === undefined) continue;
      // Readable for the unit that runs them, whatever the umask is.
      await mkdir(directory, { recursive: true });
      await chmod(directory, 0o755);
      const partial = `${file}.partial`;
      const taken = form === 'file' ? copied(source, partial) : unpacked(source, `*/${component}`, partial);
      if (!(await taken)) {
        await rm(partial, { force: true });
        continue;
      }
      await chmod(partial, 0o755);
      await rename(partial, file);
      await forget(directory);
      return { sha256, file };
    }
    return undefined;
  };

  return (resolved: ResolvedCluster, component: Judged): Promise<Program | undefined> => {
    const next = last.then(() => find(resolved, component));
    last = next.catch(() => {});
    return next;
  };
}

/** How long a program may take to say its version. */
const VERSION_WITHIN_MS = 20_000;

/** Finds the programs in a directory that have the minor version of the cluster. */
export const programsIn =
  (directory: string) =>
  async ({ versions }: ResolvedCluster, component: Judged): Promise<Program | undefined> => {
    const file = path.resolve(directory, component);
    const said = await runConfined(file, ['--version'], new Map(), AbortSignal.timeout(VERSION_WITHIN_MS));
    const minor = versions[component].split('.').slice(0, 2).join('.');
    return said.did === 'end' && / v?(\d+\.\d+)\./.exec(said.output)?.[1] === minor
      ? { sha256: file, file }
      : undefined;
  };

interface Source {
  readonly sha256: string;
  readonly form: 'file' | 'tar';
}

async function isThere(file: string): Promise<boolean> {
  const now = new Date();
  return utimes(file, now, now).then(
    () => true,
    () => false,
  );
}

async function copied(source: string, target: string): Promise<boolean> {
  await copyFile(source, target);
  return true;
}

/** Unpacks the first member of an archive that a pattern fits; false if there is none. */
async function unpacked(archive: string, pattern: string, target: string): Promise<boolean> {
  const words = ['--extract', '--to-stdout', '--occurrence=1', '--wildcards', `--file=${archive}`, pattern];
  const file = await open(target, 'w');
  try {
    const child = spawn('tar', words, {
      stdio: ['ignore', file.fd, 'ignore'],
      env: { PATH: '/usr/bin:/bin' },
    });
    return await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => resolve(code === 0));
    });
  } finally {
    await file.close();
  }
}

/** Removes the programs that were not asked for longest. */
async function forget(directory: string): Promise<void> {
  const files = await Promise.all(
    (await readdir(directory)).map(async (name) => {
      const file = path.join(directory, name);
      return { file, used: (await stat(file)).mtimeMs };
    }),
  );
  for (const { file } of files.sort((a, b) => b.used - a.used).slice(KEPT)) await rm(file);
}
