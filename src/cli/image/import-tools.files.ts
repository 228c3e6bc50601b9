/** Runs the programs that read images of strangers: without privileges, and without a network. */
import { spawn } from 'node:child_process';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import { projectRoot } from '../../base/paths.ts';

/** Programs that an import needs, and Debian's packages of them. */
const TOOLS: Readonly<Record<string, string>> = {
  'qemu-img': 'qemu-utils',
  mksquashfs: 'squashfs-tools',
  sfdisk: 'fdisk',
  blkid: 'util-linux',
  setpriv: 'util-linux',
  unshare: 'util-linux',
  losetup: 'mount',
  busybox: 'busybox-static',
  cpio: 'cpio',
  zstd: 'zstd',
  xz: 'xz-utils',
};

const PATH = `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin`;

/**
 * Checks that an image can be imported on this host.
 *
 * @throws {MusterError} E_IMPORT_HOST without root, and without one of the programs.
 */
export async function checkHost(): Promise<void> {
  if (process.getuid?.() !== 0)
    throw new MusterError('E_IMPORT_HOST', 'mounting the file systems of an image needs root');
  const missing: string[] = [];
  for (const tool of Object.keys(TOOLS)) {
    const places = PATH.split(':').map((directory) => access(path.join(directory, tool)));
    await Promise.any(places).catch(() => missing.push(tool));
  }
  if (missing.length > 0)
    throw new MusterError(
      'E_IMPORT_HOST',
      `missing: ${missing.join(', ')}; install with: apt-get install ${[...new Set(missing.map((tool) => TOOLS[tool]))].join(' ')}`,
    );
}

/** Namespaces without a network, whose mounts and processes end with the command. */
const APART = ['unshare', '--mount', '--net', '--ipc', '--uts', '--pid', '--fork', '--kill-child', '--'];

/**
 * The user `nobody`, with the one privilege to read files whatever their mode says, and files of at
 * most this many octets.
 */
const UNPRIVILEGED = (octets: number) => [
  'prlimit',
  `--fsize=${octets}`,
  '--core=0',
  'setpriv',
  '--reuid=65534',
  '--regid=65534',
  '--clear-groups',
  '--inh-caps=-all,+dac_read_search',
  '--ambient-caps=-all,+dac_read_search',
  '--bounding-set=-all,+dac_read_search',
  '--no-new-privs',
];

export interface Ran {
  readonly code: number;
  readonly stdout: Buffer;
  /** Its last line of standard error. */
  readonly said: string;
}

interface Command {
  readonly words: readonly string[];
  readonly input?: string;
  readonly signal: AbortSignal;
}

/** Octets of output that are kept: the list of two million files. */
const MOST_OUTPUT = 512 * 2 ** 20;
/** Octets that an unpacked image may have. */
export const MOST_UNPACKED = 64 * 2 ** 30;

/** Runs a command as `nobody`, without a network. */
export const confined = ({
  words,
  octets = MOST_UNPACKED,
  ...more
}: Command & { readonly octets?: number }): Promise<Ran> =>
  run({ words: [...APART, ...UNPRIVILEGED(octets), ...words], ...more });

/**
 * Runs a command as `nobody` in a directory where file systems of a disk image are mounted
 * read-only.
 *
 * @param mounts The words of images/import/mounted.sh.
 * @throws {MusterError} E_IMPORT_NO_ROOT when a file system cannot be mounted.
 */
export async function onMounted(
  place: { readonly tree: string; readonly file: string; readonly mounts: readonly string[] },
  { words, ...more }: Command,
): Promise<Ran> {
  const script = path.join(projectRoot(), 'images/import/mounted.sh');
  const ran = await run({
    words: [
      ...APART,
      script,
      place.tree,
      place.file,
      ...place.mounts,
      '--',
      ...UNPRIVILEGED(MOST_UNPACKED),
      ...words,
    ],
    ...more,
  });
  if (ran.code === 90)
    throw new MusterError('E_IMPORT_NO_ROOT', `a file system of it cannot be mounted: ${ran.said}`);
  return ran;
}

/** Runs a command and keeps what it prints. */
export function run({ words, input, signal }: Command): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const [command, ...rest] = words;
    const child = spawn(command!, rest, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { PATH, LC_ALL: 'C.UTF-8', TMPDIR: process.env.TMPDIR ?? '/tmp' },
      signal,
    });
    const parts: Buffer[] = [];
    let octets = 0;
    let errors = '';
    child.stdout.on('data', (part: Buffer) => {
      octets += part.length;
      if (octets > MOST_OUTPUT) child.kill('SIGKILL');
      else parts.push(part);
    });
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      errors = (errors + part).slice(-8192);
    });
    // A command that ends early does not read its input, which its exit code tells.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input ?? '');
    child.once('error', reject);
    child.once('close', (code) =>
      resolve({
        code: code ?? 128,
        stdout: Buffer.concat(parts),
        said: errors.trim().split('\n').at(-1) ?? '',
      }),
    );
  });
}
