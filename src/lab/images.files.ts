/** Images that this host builds: the scripts under images/, what they leave behind, and the documents for it. */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';
import type { Document } from '../resources/kinds.ts';

/** What can be built, as scenarios and `muster image build` name it. */
export const BUILDS = {
  'debian-13': ['images/debian/build.sh', '--suite', 'trixie'],
  'debian-12': ['images/debian/build.sh', '--suite', 'bookworm'],
  probe: ['images/probe/build.sh'],
} as const;
export type BuiltImageName = keyof typeof BUILDS;

interface BuiltFile {
  readonly name: string;
  readonly sha256: string;
  readonly size: number;
}

/** image.json, as the scripts write it. */
interface Description {
  readonly name: string;
  readonly os: string;
  readonly version: string;
  readonly arch: 'x86_64';
  readonly kernelVersion: string;
  readonly cloudInitVersion?: string;
  readonly kernelArguments: readonly string[];
  readonly kernel: BuiltFile;
  readonly initrd: BuiltFile;
  readonly root?: BuiltFile;
}

export interface BuiltImage {
  readonly directory: string;
  readonly description: Description;
  readonly document: Document<'Image'>;
  /** Absolute paths of its files, by hash. */
  readonly files: readonly { readonly path: string; readonly sha256: string; readonly size: number }[];
}

/**
 * Builds an image unless it is in the cache already; what the script has to say goes to `say`, line by line.
 * Throws E_IMAGE_BUILD.
 */
export async function buildImage(
  name: BuiltImageName,
  options: {
    readonly project: string;
    readonly cache?: string | undefined;
    readonly extra?: readonly string[];
    readonly say: (line: string) => void;
    readonly signal?: AbortSignal;
  },
): Promise<BuiltImage> {
  const [script, ...words] = BUILDS[name];
  const extra = [...words, ...(options.cache ? ['--cache', options.cache] : []), ...(options.extra ?? [])];
  const out = await output(join(options.project, script), extra, options);
  const directory = out.trim().split('\n').at(-1) ?? '';
  const description = JSON.parse(await readFile(join(directory, 'image.json'), 'utf8')) as Description;
  const files = [description.kernel, description.initrd, description.root].filter(
    (file) => file !== undefined,
  );
  return {
    directory,
    description,
    document: imageDocument(description),
    files: files.map((file) => ({ ...file, path: join(directory, file.name) })),
  };
}

function output(
  script: string,
  words: readonly string[],
  options: { readonly say: (line: string) => void; readonly signal?: AbortSignal },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(script, words, {
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(options.signal ? { signal: options.signal } : {}),
    });
    let out = '';
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      out += piece;
    });
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      const lines = (rest + piece).split('\n');
      rest = lines.pop()!;
      for (const line of lines) options.say(line);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (rest) options.say(rest);
      if (code === 0) resolve(out);
      else
        reject(
          new MusterError('E_IMAGE_BUILD', `${script} ${words.join(' ')}: exit code ${code}; ${rest.trim()}`),
        );
    });
  });
}

function imageDocument(built: Description): Document<'Image'> {
  const asset = (file: BuiltFile) => ({ sha256: file.sha256, size: file.size, name: file.name });
  return {
    apiVersion: 'muster/v1',
    kind: 'Image',
    metadata: { name: built.name },
    spec: {
      os: built.os,
      version: built.version,
      arch: built.arch,
      kernel: asset(built.kernel),
      initrds: [asset(built.initrd)],
      ...(built.root ? { root: asset(built.root) } : {}),
      configFormat: 'cloud-init',
      ...(built.cloudInitVersion ? { cloudInitVersion: built.cloudInitVersion } : {}),
      kernelArguments: [...built.kernelArguments],
    },
  };
}
