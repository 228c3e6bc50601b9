/**
 * HTTP for machines, with curl and wget as machines, and `muster image`, all with the shipped
 * command.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attach, bridge, type Muster, remove, run, startMuster } from './dhcp-segment.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-http-peers-'));
let STATE: string;
let SOCKET: string;
const BASE = 'http://10.80.0.1:8080';
const sha256 = (octets: Buffer) => createHash('sha256').update(octets).digest('hex');

function octets(name: string, size: number): { file: string; hash: string; octets: Buffer } {
  const content = Buffer.alloc(size, `${name} `);
  const file = join(HOME, name);
  writeFileSync(file, content);
  return { file, hash: sha256(content), octets: content };
}
const kernel = octets('vmlinuz', 5_000_000);
const initrd = octets('initrd.img', 100_000);
const root = octets('root.squashfs', 80_000_000);

interface Done {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs `muster image …`; `stopAfter` sends SIGINT when that much of the file is on the server. */
function image(args: readonly string[], stopWhen?: () => boolean): Promise<Done> {
  const child = spawn(resolve('bin/muster'), ['image', ...args, '--socket', SOCKET], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (text) => (out += text));
  child.stderr.on('data', (text) => (err += text));
  const watch = stopWhen && setInterval(() => stopWhen() && child.kill('SIGINT'), 5);
  return new Promise((done) =>
    child.on('close', (code) => {
      clearInterval(watch);
      done({ code: code ?? -1, out, err });
    }),
  );
}

const partial = (hash: string): number => {
  try {
    return statSync(join(STATE, 'assets/partial', hash)).size;
  } catch {
    return 0;
  }
};

/** A web server that counts what it sends, honours ranges, and is slow on demand. */
function origin(files: Readonly<Record<string, Buffer>>, options: { slow?: boolean; breakAt?: number } = {}) {
  const seen: { path: string; range: string | undefined }[] = [];
  let breaks = 1;
  const server = http.createServer((request, response) => {
    const path = request.url ?? '';
    const file = files[path];
    seen.push({ path, range: request.headers.range });
    if (!file) {
      response.writeHead(404).end();
      return;
    }
    const from = Number(/bytes=([0-9]+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const part = file.subarray(from);
    response.writeHead(from > 0 ? 206 : 200, {
      'content-length': part.length,
      ...(from > 0 ? { 'content-range': `bytes ${from}-${file.length - 1}/${file.length}` } : {}),
    });
    if (options.breakAt !== undefined && breaks-- > 0) {
      response.write(part.subarray(0, options.breakAt), () => response.destroy());
      return;
    }
    if (!options.slow) {
      response.end(part);
      return;
    }
    let at = 0;
    const more = () => {
      if (response.destroyed) return;
      response.write(part.subarray(at, at + 500_000));
      at += 500_000;
      if (at < part.length) setTimeout(more, 10);
      else response.end();
    };
    more();
  });
  return new Promise<{ url: string; seen: typeof seen; close(): void }>((done) =>
    server.listen(0, '127.0.0.1', () =>
      done({
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        seen,
        close: () => {
          server.closeAllConnections();
          server.close();
        },
      }),
    ),
  );
}

let muster: Muster;
beforeAll(async () => {
  bridge('br-http', '10.80.0.1/24');
  attach('httpclient', 'br-http');
  await run('httpclient', ['ip', 'addr', 'add', '10.80.0.9/24', 'dev', 'eth0']);
  const documents = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.80.0.0/24, dhcp: {mode: server}}
`;
  muster = await startMuster(['br-http'], documents);
  STATE = muster.state;
  SOCKET = muster.socket;
});
afterAll(async () => {
  await muster.stop();
  remove(['httpclient'], ['br-http']);
  rmSync(HOME, { recursive: true, force: true });
});

const curl = async (...args: string[]) => (await run('httpclient', ['curl', '-sS', ...args], 60)).output;
const status = (...args: string[]) => curl('-o', '/dev/null', '-w', '%{http_code}', ...args);

describe('muster image', () => {
  it('muster image add verifies and adds an image from files, and muster image lists it', async () => {
    const files = ['--kernel', kernel.file, '--initrd', initrd.file, '--root', root.file];
    const added = await image(['add', 'test', ...files, '--os', 'linux', '--kernel-argument', 'quiet']);
    expect(added).toMatchObject({ code: 0, err: '' });
    expect(added.out).toMatch(/root\.squashfs 76\.3 MiB stored and verified\nimage\/test created\n$/);
    expect((await image(['ls'])).out).toMatch(
      /^NAME .*STATE\ntest +linux +x86_64 +none +81\.2 MiB +complete\n$/,
    );
    expect((await image(['verify'])).code).toBe(0);
    // The second time, nothing is sent.
    expect((await image(['add', 'test', ...files, '--os', 'linux'])).out).toMatch(/was there already/);
  });

  it('muster image refuses a URL without a hash and a file with a wrong hash, and neither is served', async () => {
    const web = await origin({ '/k': Buffer.from('not it') });
    expect(await image(['add', 'x', '--kernel', `${web.url}/k`])).toMatchObject({ code: 2 });
    const wrong = await image([
      'add',
      'x',
      '--kernel',
      `${web.url}/k`,
      '--sha256',
      `kernel=${'0'.repeat(64)}`,
    ]);
    expect(wrong.code).toBe(1);
    expect(wrong.err).toMatch(
      new RegExp(`SHA-256 ${sha256(Buffer.from('not it'))}, not 0{64} \\(E_ASSET_HASH\\)`),
    );
    expect(await status(`${BASE}/assets/${'0'.repeat(64)}/k`)).toBe('404');
    const missing = await image([
      'add',
      'x',
      '--kernel',
      `${web.url}/nope`,
      '--sha256',
      `kernel=${'0'.repeat(64)}`,
    ]);
    expect(missing).toMatchObject({ code: 1, err: expect.stringMatching(/404.*\(E_FETCH_REFUSED\)/) });
    web.close();
  });

  it('muster image resumes an interrupted download with a range in a new process', async () => {
    const big = octets('big', 60_000_000);
    const slow = await origin({ '/big': big.octets }, { slow: true });
    const add = ['add', 'resumed', '--kernel', `${slow.url}/big`, '--sha256', `kernel=${big.hash}`];
    const broken = await image(add, () => partial(big.hash) > 10_000_000);
    expect(broken.code).not.toBe(0);
    const there = partial(big.hash);
    expect(there).toBeGreaterThan(10_000_000);
    expect(await status(`${BASE}/assets/${big.hash}/big`)).toBe('404');
    slow.close();
    const fast = await origin({ '/big': big.octets });
    add[3] = `${fast.url}/big`;
    expect(await image(add)).toMatchObject({ code: 0 });
    expect(Number(/bytes=([0-9]+)-/.exec(fast.seen[0]?.range ?? '')?.[1])).toBeGreaterThanOrEqual(there);
    expect(await status(`${BASE}/assets/${big.hash}/big`)).toBe('200');
    fast.close();
    expect((await image(['rm', 'resumed'])).out).toMatch(
      /image\/resumed deleted\nasset\/[0-9a-f]{12} deleted/,
    );
    expect(await status(`${BASE}/assets/${big.hash}/big`)).toBe('404');
  });

  it('muster image resumes by itself when a server closes the connection early', async () => {
    const file = octets('flaky', 3_000_000);
    const web = await origin({ '/flaky': file.octets }, { breakAt: 1_000_000 });
    const done = await image([
      'add',
      'flaky',
      '--kernel',
      `${web.url}/flaky`,
      '--sha256',
      `kernel=${file.hash}`,
    ]);
    expect(done).toMatchObject({ code: 0 });
    expect(web.seen.length).toBe(2);
    web.close();
    await image(['rm', 'flaky']);
  });

  it('muster image adds the files that documents name, and finds a file that has changed on disk', async () => {
    const file = octets('doc-kernel', 1000);
    const yaml = join(HOME, 'image.yaml');
    writeFileSync(
      yaml,
      `apiVersion: muster/v1
kind: Image
metadata: {name: documented}
spec: {os: linux, arch: x86_64, configFormat: none, kernel: {url: doc-kernel, sha256: ${file.hash}}}
`,
    );
    expect(await image(['add', '-f', yaml])).toMatchObject({ code: 0 });
    truncateSync(join(STATE, 'assets/sha256', file.hash), 10);
    const found = await image(['verify', 'documented']);
    expect(found.code).toBe(1);
    expect(found.out).toMatch(/kernel [0-9a-f]{12} changed on disk/);
    // An Image document names the file, so machines wait for it.
    expect(await status(`${BASE}/assets/${file.hash}/k`)).toBe('503');
    expect((await image(['ls', '-o', 'json'])).out).toMatch(
      /"state": "incomplete",\s+"missing": \[\s+"kernel"/,
    );
    expect(await image(['add', '-f', yaml])).toMatchObject({ code: 0 });
    expect(await image(['verify', 'documented'])).toMatchObject({ code: 0 });
  });

  it('removing an image keeps the files that another image needs', async () => {
    await image(['add', 'other', '--kernel', kernel.file]);
    await image(['rm', 'other']);
    expect(await status(`${BASE}/assets/${kernel.hash}/vmlinuz`)).toBe('200');
  });
});

describe('a machine', () => {
  const url = `${BASE}/assets/${root.hash}/root.squashfs`;

  it('a machine fetches a complete file with curl and with wget', async () => {
    for (const command of [
      ['curl', '-sS', '-o', join(HOME, 'got'), url],
      ['wget', '-q', '-O', join(HOME, 'got'), url],
      ['busybox', 'wget', '-q', '-O', join(HOME, 'got'), url],
    ]) {
      expect((await run('httpclient', command, 60)).output).toBe('');
      expect(sha256(readFileSync(join(HOME, 'got')))).toBe(root.hash);
    }
    const served = await muster.event(
      'served',
      ({ kind, fields }) => kind === 'asset.served' && fields?.octets === 80_000_000,
    );
    expect(served).toMatchObject({ network: 'rack', fields: { address: '10.80.0.9', octets: 80_000_000 } });
  });

  it('a machine resumes an interrupted download', async () => {
    const got = join(HOME, 'resumed-copy');
    for (const command of [
      ['curl', '-sS', '-C', '-', '-o', got, url],
      ['wget', '-q', '-c', '-O', got, url],
    ]) {
      writeFileSync(got, root.octets.subarray(0, 33_333_333));
      expect((await run('httpclient', command, 60)).output).toBe('');
      expect(sha256(readFileSync(got))).toBe(root.hash);
    }
  });

  it('a machine may send HEAD and then GET on one connection and omit the port in Host, as UEFI does', async () => {
    const output = await curl(
      '-v',
      '-H',
      'Host: 10.80.0.1',
      '-I',
      `${BASE}/loaders/ipxe.efi`,
      '--next',
      '-sS',
      '-v',
      '-H',
      'Host: 10.80.0.1',
      '-o',
      '/dev/null',
      `${BASE}/loaders/ipxe.efi`,
    );
    expect(output).toMatch(/Content-Type: application\/efi|content-type: application\/efi/);
    expect(output).toMatch(/Re-using existing connection|Re-using existing http/i);
    expect(await curl('-H', 'Host: 10.80.0.1', `${BASE}/boot.ipxe`)).toContain(`${BASE}/script.ipxe?mac=`);
  });

  it('a machine without a document is held by a script that says so', async () => {
    const script = await curl(
      `${BASE}/script.ipxe?mac=52-54-00-99-00-01&manufacturer=A&product=B&serial=\${x}`,
    );
    expect(script).toMatch(/^#!ipxe\n/);
    expect(script).toMatch(/muster machine (accept|add) /);
    expect(script).not.toContain('${x}');
  });

  it('a machine cannot reach other files with a crafted path', async () => {
    for (const path of [
      '/loaders/../../etc/passwd',
      '/loaders/%2e%2e/%2e%2e/etc/passwd',
      '/loaders/..%2f..%2fetc%2fpasswd',
    ])
      expect(await status('--path-as-is', `${BASE}${path}`)).toMatch(/^40[04]$/);
    expect(await status(`${BASE}/boot/nope/report`, '-d', 'step=ready')).toBe('409');
  });
});

it('damaged files are moved to another directory, and no incomplete files are left', () => {
  expect(readdirSync(join(STATE, 'assets/partial'))).toEqual([]);
  expect(execFileSync('ls', ['-A', join(STATE, 'assets/damaged')], { encoding: 'utf8' })).toMatch(
    /^[0-9a-f]{64}\n$/,
  );
});
