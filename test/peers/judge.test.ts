/**
 * A program that is asked about its values can read, reach and use nothing of the host: for root
 * and for another user, with a shell as the program. Needs root.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { MEDIA_TYPE } from '../../src/artifacts/oci.ts';
import type { Outcome } from '../../src/cluster/judge/confine.files.ts';
import { openPrograms } from '../../src/cluster/judge/programs.files.ts';
import { resolved } from '../unit/cluster/kit.ts';

const SHELL = fs.realpathSync('/bin/dash');
const MODULE = path.resolve('src/cluster/judge/confine.files.ts');
const TMPDIR = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-judged-'));
fs.chmodSync(TMPDIR, 0o777);
afterAll(() => fs.rmSync(TMPDIR, { recursive: true }));

const ENDLESS = 'while :; do :; done';
const AS = {
  root: [],
  'another user':
    'setpriv --reuid=12345 --regid=12345 --clear-groups --no-new-privs --bounding-set=-all'.split(' '),
} as const;
type User = keyof typeof AS;

/** Runs a script in a confined shell, as a user, with a process that Muster would be. */
function start(
  user: User,
  script: string,
  within = 20_000,
): { child: ChildProcess; outcome: Promise<Outcome> } {
  const code = `import { runConfined } from ${JSON.stringify(MODULE)};
const files = new Map([['/etc/given.yaml', 'given'], ['/var/lib/made', undefined]]);
const signal = AbortSignal.timeout(${within});
console.log(JSON.stringify(await runConfined(${JSON.stringify(SHELL)}, ['-c', ${JSON.stringify(script)}], files, signal)));`;
  const [program = '', ...words] = [
    ...AS[user],
    process.execPath,
    '--input-type=module-typescript',
    '-e',
    code,
  ];
  const child = spawn(program, words, {
    cwd: '/',
    env: { PATH: process.env.PATH, SECRET: 'geheim', TMPDIR },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (part) => (text += part));
  const outcome = new Promise<Outcome>((resolve) => child.once('close', () => resolve(JSON.parse(text))));
  return { child, outcome };
}

const outputOf = async (user: User, script: string): Promise<string> => {
  const outcome = await start(user, script).outcome;
  expect(outcome).toMatchObject({ did: 'end' });
  return outcome.did === 'end' ? outcome.output.trim() : '';
};

describe.each(Object.keys(AS) as User[])('as %s', (user) => {
  test('it sees the files that it is given, and none of the host', async () => {
    const script =
      'read -r text </etc/given.yaml; echo "$text"; echo /* /etc/* /var/lib/* /dev/* /home/* /proc/*; echo "${SECRET-none}"';
    const [given, paths, secret] = (await outputOf(user, script)).split('\n');
    expect(given).toBe('given');
    expect(paths!.split(' ').filter((one) => !/^\/lib(64)?$/.test(one))).toEqual([
      ...['/dev', '/etc', '/program', '/tmp', '/var', '/etc/given.yaml', '/var/lib/made', '/dev/null'],
      ...['/home/*', '/proc/*'],
    ]);
    expect(secret).toBe('none');
  });

  test('it has a user without rights, no capability, and networks and processes of its own', async () => {
    // Less than its limit of processor time.
    const { outcome } = start(user, ENDLESS, 9_000);
    const inside = await Promise.race([
      confined(),
      outcome.then((early) => Promise.reject(new Error(JSON.stringify(early)))),
    ]);
    const status = fs.readFileSync(`/proc/${inside}/status`, 'utf8');
    for (const set of ['CapPrm', 'CapEff', 'CapAmb'])
      expect(status).toMatch(new RegExp(`^${set}:\\t0{16}$`, 'm'));
    expect(status).toMatch(new RegExp(`^Uid:\\t${user === 'root' ? 65534 : 12345}\\t`, 'm'));
    for (const kind of ['net', 'pid', 'ipc', 'mnt', 'user', 'uts'])
      expect(fs.readlinkSync(`/proc/${inside}/ns/${kind}`)).not.toBe(
        fs.readlinkSync(`/proc/self/ns/${kind}`),
      );
    expect(fs.readFileSync(`/proc/${inside}/net/dev`, 'utf8').match(/^ *\w+:/gm)).toEqual(['    lo:']);
    expect(fs.readFileSync(`/proc/${inside}/oom_score_adj`, 'utf8').trim()).toBe('1000');
    const limits = fs.readFileSync(`/proc/${inside}/limits`, 'utf8');
    for (const limit of ['cpu time +10', 'file size +100663296', 'data size +402653184', 'core file size +0'])
      expect(limits).toMatch(new RegExp(`^Max ${limit} `, 'm'));
    expect(await outcome).toEqual({ did: 'hang' });
    expect(fs.existsSync(`/proc/${inside}`)).toBe(false);
  });

  test('a flood of words ends it', async () => {
    expect((await outputOf(user, 'while :; do echo flood; done')).length).toBeLessThanOrEqual(256 * 1024);
  });
});

test('nothing is left of the programs in the temporary directory', () => {
  expect(fs.readdirSync(TMPDIR)).toEqual([]);
});

/** The process id of the confined shell, once it runs. */
async function confined(): Promise<string> {
  for (;;) {
    for (const name of fs.readdirSync('/proc').filter((one) => /^\d+$/.test(one)))
      try {
        const [program = '', , script] = fs.readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0');
        if (program === '/program' && script === ENDLESS) return name;
      } catch {
        // It ended meanwhile.
      }
    await pause(50);
  }
}

describe('the programs of a boot host', () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-programs-'));
  afterAll(() => fs.rmSync(directory, { recursive: true }));
  const assets = path.join(directory, 'assets');
  const hashOf = (octets: Buffer) => createHash('sha256').update(octets).digest('hex');
  const put = (octets: Buffer | string) => {
    fs.mkdirSync(assets, { recursive: true });
    const sha256 = hashOf(Buffer.from(octets));
    fs.writeFileSync(path.join(assets, sha256), octets);
    return { sha256, digest: `sha256:${sha256}`, size: octets.length };
  };
  const archive = (name: string, text: string) => {
    const from = fs.mkdtempSync(path.join(directory, 'tree-'));
    fs.mkdirSync(path.dirname(path.join(from, name)), { recursive: true });
    fs.writeFileSync(path.join(from, name), text);
    return put(execFileSync('tar', ['-czf', '-', '.'], { cwd: from }));
  };
  const image = (...layers: { readonly digest: string; readonly size: number }[]) => {
    const part = ({ digest, size }: { digest: string; size: number }) => ({ mediaType: 'a', digest, size });
    const config = part(put('{}'));
    const manifest = put(JSON.stringify({ schemaVersion: 2, config, layers: layers.map(part) }));
    const index = { schemaVersion: 2, manifests: [{ ...part(manifest), mediaType: MEDIA_TYPE.manifest }] };
    return put(JSON.stringify(index)).digest;
  };

  test('are found in the layers of an image, in an archive, and as a file, and unpacked once', async () => {
    const cluster = resolved();
    const layers = [archive('usr/local/bin/kube-apiserver', 'api'), archive('etc/other', 'x')];
    const binaries: Readonly<Record<string, object>> = {
      'etcd 3.6.8': { ...archive('etcd-v3.6.8-linux-amd64/etcd', 'etcd'), form: 'tar' },
      'kubelet 1.36.3': { ...put('kubelet'), form: 'file' },
    };
    const unpackedTo = path.join(directory, 'judged');
    const program = openPrograms({
      book: {
        image: (reference) =>
          (reference === cluster.images['kube-apiserver']
            ? { digest: image(...layers) }
            : undefined) as never,
        binary: (name, version) => binaries[`${name} ${version}`] as never,
      },
      assets: {
        find: (sha256) => ({ path: path.join(assets, sha256) }),
        read: async (sha256) => fs.readFileSync(path.join(assets, sha256)),
      },
      directory: unpackedTo,
    });
    for (const [component, text] of [
      ['kube-apiserver', 'api'],
      ['etcd', 'etcd'],
      ['kubelet', 'kubelet'],
    ] as const) {
      const found = await program(cluster, component);
      expect(fs.readFileSync(found!.file, 'utf8')).toBe(text);
      expect(fs.statSync(found!.file).mode & 0o111).not.toBe(0);
      const { ino } = fs.statSync(found!.file);
      expect(fs.statSync((await program(cluster, component))!.file).ino).toBe(ino);
    }
    expect(await program(cluster, 'kube-scheduler')).toBeUndefined();
    expect(fs.readdirSync(unpackedTo)).toHaveLength(3);
  });
});
