/** Builds images on this host with the scripts under images/. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';

/** The builds, by the names that scenarios and `muster image build` use. */
const BUILDS = {
  'debian-13': ['images/debian/build.sh', '--suite', 'trixie'],
  'debian-13-ignition': ['images/debian/build.sh', '--suite', 'trixie', '--ignition'],
  'debian-13-kubernetes': ['images/debian/build.sh', '--suite', 'trixie', '--kubernetes'],
  'debian-13-kubernetes-ignition': [
    'images/debian/build.sh',
    '--suite',
    'trixie',
    '--kubernetes',
    '--ignition',
  ],
  // The arguments are those of other emulated machines (facts.ts).
  'debian-13-disk': [
    'images/debian/build.sh',
    ...['--suite', 'trixie', '--kernel', 'cloud', '--disk'],
    ...['--append', 'no_timer_check mitigations=off init_on_alloc=0'],
  ],
  'debian-12': ['images/debian/build.sh', '--suite', 'bookworm'],
  'debian-13-imported': ['lab/imported.sh'],
  probe: ['images/probe/build.sh'],
  discovery: ['images/discovery/build.sh', '--kernel', 'cloud'],
} as const;
type BuiltImageName = keyof typeof BUILDS;

export interface BuiltImage {
  /** The directory with the image's files and image.json, which describes them. */
  readonly directory: string;
}

/**
 * Builds an image unless the cache has it. The script's messages go to `say`, line by line.
 *
 * @throws {MusterError} E_BUILD when the script fails.
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
  return { directory: out.trim().split('\n').at(-1) ?? '' };
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
        reject(new MusterError('E_BUILD', `${script} ${words.join(' ')}: exit code ${code}; ${rest.trim()}`));
    });
  });
}
