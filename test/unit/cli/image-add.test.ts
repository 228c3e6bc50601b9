/**
 * `muster image add` by URL and `image rm`: a real HTTP server that breaks off, the real asset
 * store, the real API.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startApi } from '../../../src/api/api.server.ts';
import { openArtifactBook } from '../../../src/artifacts/book.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import { againAfter } from '../../../src/cli/attempts.ts';
import { progressText } from '../../../src/cli/progress.files.ts';
import { type Assets, openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const hashOf = (octets: Uint8Array): string => createHash('sha256').update(octets).digest('hex');
/** 300,000 octets of which no part is like another. */
const FILE = Buffer.concat(
  Array.from({ length: 75_000 }, (_, n) => Buffer.from(Uint32Array.of(n * 2_654_435_761).buffer)),
);
const sha256 = hashOf(FILE);
const CUT = 100_000;

/** What the server does with one request. */
type Answer = (request: http.IncomingMessage, response: http.ServerResponse) => void;

let world: World;
let assets: Assets;
let api: Awaited<ReturnType<typeof startApi>>;
let directory: string;
let socket: string;
let web: http.Server;
let url: string;
let temporary: string;
let answers: Answer[];
/** Range and If-Range of each request. */
let asked: (string | undefined)[][];
beforeEach(async () => {
  world = await openWorld('');
  directory = path.join(world.directory, 'assets');
  assets = await openAssets({ directory, loaderDirectories: [], log: silentLog });
  socket = path.join(world.directory, 'images.sock');
  api = await startApi({
    listen: { socket },
    deps: { ...world.deps, assets, artifacts: await openArtifactBook(openMemoryStore()) },
  });
  temporary = path.join(world.directory, 'tmp');
  fs.mkdirSync(temporary);
  vi.stubEnv('TMPDIR', temporary);
  answers = [];
  asked = [];
  web = http.createServer((request, response) => {
    asked.push([request.headers.range, request.headers['if-range'] as string | undefined]);
    (answers.shift() ?? whole())(request, response);
  });
  await once(web.listen(0, '127.0.0.1'), 'listening');
  url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/vmlinuz`;
});
afterEach(async () => {
  vi.unstubAllEnvs();
  web.closeAllConnections();
  web.close();
  await api.close();
  await world.close();
});

/** As servers of files answer: all, or from where the Range begins while If-Range fits. */
const whole =
  (file = FILE, etag = '"one"'): Answer =>
  ({ headers }, response) => {
    const from = Number(/^bytes=([0-9]+)-$/.exec(headers.range ?? '')?.[1] ?? 0);
    const fits = headers['if-range'] === undefined || headers['if-range'] === etag;
    const begin = fits ? from : 0;
    response.setHeader('etag', etag);
    response.setHeader('content-length', file.length - begin);
    if (begin > 0) response.setHeader('content-range', `bytes ${begin}-${file.length - 1}/${file.length}`);
    response.statusCode = begin > 0 ? 206 : 200;
    response.end(file.subarray(begin));
  };

/**
 * Speaks of the whole file; the connection is cut once `CUT` octets have come where `came` looks.
 */
const cut =
  (
    came: () => Promise<number> | number,
    headers: Readonly<Record<string, string>> = { etag: '"one"' },
  ): Answer =>
  async (_, response) => {
    response.writeHead(200, { ...headers, 'content-length': FILE.length });
    response.write(FILE.subarray(0, CUT));
    await expect.poll(came).toBe(CUT);
    response.destroy();
  };

/** Octets that the server has of the file. */
const sent = async () => (await assets.progress(sha256)).received;
/** Octets of the copy of a file whose hash nobody knows. */
const copied = () => {
  const [directory] = fs.readdirSync(temporary);
  return directory ? fs.statSync(path.join(temporary, directory, 'file')).size : 0;
};

const status =
  (code: number): Answer =>
  (_, response) => {
    response.writeHead(code).end();
  };

const waits: number[] = [];
const muster = (...args: string[]) => {
  waits.length = 0;
  return run(args, { socket, onPause: (milliseconds) => waits.push(milliseconds) });
};
const left = () => ['sha256', 'partial'].flatMap((kind) => fs.readdirSync(path.join(directory, kind)));
const known = (hash = sha256) => ['--sha256', `kernel=${hash}`];

describe('muster image add of a URL', () => {
  it('continues after the octets that came when the connection is cut, says so, and verifies the whole', async () => {
    answers = [cut(sent)];
    const { code, out, err } = await muster('image', 'add', 'small', '--kernel', url, ...known());
    expect(err).toMatch(/^attempt 1 failed: .*\/vmlinuz: .+; next attempt in 1 s\n$/);
    expect([code, waits]).toEqual([0, [1000]]);
    expect(out).toBe(
      `asset/${sha256.slice(0, 12)} vmlinuz 293 KiB stored and verified\nimage/small created\n`,
    );
    expect(asked).toEqual([
      [undefined, undefined],
      [expect.stringMatching(/^bytes=[0-9]+-$/), undefined],
    ]);
    expect(asked[1]![0]).toBe(`bytes=${CUT}-`);
    expect(fs.readFileSync(assets.find(sha256)!.path).equals(FILE)).toBe(true);
  });

  it('goes on where an interrupted command stopped', async () => {
    const stop = new AbortController();
    answers = [
      (_, response) => {
        response.writeHead(200, { 'content-length': FILE.length });
        response.write(FILE.subarray(0, CUT));
      },
    ];
    const words = ['image', 'add', 'small', '--kernel', url, ...known()];
    const ran = run(words, { socket, signal: stop.signal });
    await expect.poll(sent).toBe(CUT);
    stop.abort();
    expect((await ran).err).toContain('interrupted; the same command continues from here\n');
    await expect.poll(() => left()).toEqual([sha256]);
    expect(assets.find(sha256)).toBeUndefined();
    expect(await muster(...words)).toMatchObject({ code: 0 });
    expect(asked[1]![0]).toBe(`bytes=${CUT}-`);
    expect(fs.readFileSync(assets.find(sha256)!.path).equals(FILE)).toBe(true);
  });

  it('takes nothing of a file that has another hash: nothing is served, nothing is left over, no image is made', async () => {
    const other = hashOf(Buffer.from('something else'));
    const { code, err } = await muster('image', 'add', 'small', '--kernel', url, ...known(other));
    expect([code, waits]).toEqual([1, []]);
    expect(err).toContain(`the 300000 octets received have SHA-256 ${sha256}, not ${other} (E_ASSET_HASH)`);
    expect(left()).toEqual([]);
    expect([assets.find(other), assets.find(sha256)]).toEqual([undefined, undefined]);
    expect(world.deps.catalog.list('Image')).toEqual([]);
  });

  it('begins once more when what was there is of another file', async () => {
    const begun = Buffer.from('of an older build');
    const pieces = (async function* () {
      yield begun;
    })();
    await assets.receive({ sha256, offset: 0, total: FILE.length, body: pieces });
    expect(await muster('image', 'add', 'small', '--kernel', url, ...known())).toMatchObject({
      code: 0,
      err: '',
    });
    expect(asked.map(([range]) => range)).toEqual([`bytes=${begun.length}-`, undefined]);
  });

  it('says each failure of a server in trouble and when it asks again, and gives up after five', async () => {
    answers = Array.from({ length: 9 }, () => status(500));
    const { code, err } = await muster('image', 'add', 'small', '--kernel', url, ...known());
    expect([code, waits, asked.length]).toEqual([1, [2000, 4000, 8000, 16_000], 5]);
    expect(err.split('\n').slice(0, 5)).toEqual([
      `attempt 1 failed: ${url}: the server answered 500 Internal Server Error; next attempt in 2 s`,
      `attempt 2 failed: ${url}: the server answered 500 Internal Server Error; next attempt in 4 s`,
      `attempt 3 failed: ${url}: the server answered 500 Internal Server Error; next attempt in 8 s`,
      `attempt 4 failed: ${url}: the server answered 500 Internal Server Error; next attempt in 16 s`,
      `muster: ${url}: the server answered 500 Internal Server Error (E_FETCH)`,
    ]);
  });

  it('asks a server that nobody reaches once more only', async () => {
    web.close();
    await once(web, 'close');
    const { code, err } = await muster('image', 'add', 'small', '--kernel', url, ...known());
    expect([code, waits]).toEqual([1, [2000]]);
    expect(err).toMatch(
      /^attempt 1 failed: .*ECONNREFUSED.*; next attempt in 2 s\nmuster: .*ECONNREFUSED.* \(E_FETCH\)\n/,
    );
  });

  it.each([
    ['http://127.0.0.1:9/', /^muster: http:\/\/127\.0\.0\.1:9\/: bad port \(E_FETCH_REFUSED\)/, 1],
    ['http://user:secret@127.0.0.1/', /^muster: .*credentials.* \(E_FETCH_REFUSED\)/, 1],
    ['http://[nowhere/', /^muster: http:\/\/\[nowhere\/ is not a URL \(E_USAGE\)/, 2],
  ])('refuses %s at once, which no attempt could ever fetch', async (bad, text, exit) => {
    const { code, err } = await muster('image', 'add', 'small', '--kernel', bad, ...known());
    expect([code, waits]).toEqual([exit, []]);
    expect(err).toMatch(text);
  });

  it('waits twice as long each time, and from one second on after a part that came', () => {
    const fault = new MusterError('E_FETCH', 'connection lost');
    const unresolved = new MusterError('E_FETCH', 'no such host', {
      cause: new TypeError('fetch failed', { cause: { code: 'ENOTFOUND' } }),
    });
    const row = (error: unknown, begun: boolean) =>
      [0, 1, 2, 3, 4, 5].map((inRow) => againAfter(error, { inRow, begun }));
    expect(row(fault, false)).toEqual([1000, 2000, 4000, 8000, 16_000, undefined]);
    expect(row(unresolved, false)).toEqual([1000, 2000, ...Array(4).fill(undefined)]);
    expect(row(unresolved, true)).toEqual(row(fault, true));
    expect(row(new MusterError('E_FETCH_REFUSED', '404'), true)).toEqual(Array(6).fill(undefined));
    expect(row(new MusterError('E_ASSET_BUSY', 'busy'), false).slice(0, 3)).toEqual([
      undefined,
      undefined,
      4000,
    ]);
  });
});

describe('muster image add --trust-on-first-use', () => {
  const trusting = () => muster('image', 'add', 'small', '--kernel', url, '--trust-on-first-use');

  it('goes on where the connection was cut, as long as the server says that the file is the same', async () => {
    answers = [cut(copied)];
    const { code, out, err } = await trusting();
    expect(err).toMatch(
      /^attempt 1 failed: .*; next attempt in 1 s\n.*accepted without a check; its SHA-256 is [0-9a-f]{64}\n$/,
    );
    expect([code, out]).toEqual([0, expect.stringContaining('image/small created')]);
    expect(asked).toEqual([
      [undefined, undefined],
      [`bytes=${CUT}-`, '"one"'],
    ]);
    expect(fs.readFileSync(assets.find(sha256)!.path).equals(FILE)).toBe(true);
    expect(fs.readdirSync(temporary)).toEqual([]);
  });

  it('does not join the halves of two files', async () => {
    const next = Buffer.from(FILE).reverse();
    answers = [cut(copied), whole(next, '"two"')];
    expect(await trusting()).toMatchObject({ code: 0 });
    expect([assets.find(sha256), assets.find(hashOf(next))]).toEqual([undefined, expect.anything()]);
  });

  it('begins anew where the server gives a file no name and no time', async () => {
    answers = [cut(copied, {})];
    expect(await trusting()).toMatchObject({ code: 0 });
    expect(asked.map(([range]) => range)).toEqual([undefined, undefined]);
    expect(assets.find(sha256)).toBeDefined();
  });

  it('promises no more of the next command than it keeps', async () => {
    answers = Array.from({ length: 9 }, () => status(503));
    const { code, err } = await trusting();
    expect(code).toBe(1);
    expect(err).toContain('With a SHA-256, the same command continues where it stopped');
  });
});

describe('muster image add of a file of this host', () => {
  it('compares it with the hash that is given, also when the server has a file of that hash', async () => {
    const [kernel, initrd] = ['kernel', 'initrd'].map((name) => {
      const file = path.join(temporary, name);
      fs.writeFileSync(file, `a ${name}`);
      return file;
    }) as [string, string];
    expect(await muster('image', 'add', 'x', '--kernel', kernel)).toMatchObject({ code: 0, err: '' });
    const given = hashOf(Buffer.from('a kernel'));
    const { code, err } = await muster('image', 'add', 'y', '--kernel', initrd, ...known(given));
    expect([code, err]).toEqual([
      1,
      expect.stringContaining(
        `${initrd} has SHA-256 ${hashOf(Buffer.from('a initrd'))}, not ${given} as --sha256 kernel= says`,
      ),
    ]);
    expect(world.deps.catalog.get('Image', 'y')).toBeUndefined();
    expect(await muster('image', 'add', 'y', '--kernel', kernel, ...known(given))).toMatchObject({ code: 0 });
  });
});

describe('muster image rm', () => {
  const file = (name: string): string => {
    const at = path.join(temporary, name);
    fs.writeFileSync(at, name);
    return at;
  };
  const add = async (name: string, ...parts: readonly string[]) => {
    expect(await muster('image', 'add', name, ...parts)).toMatchObject({ code: 0 });
  };
  const here = (name: string) => assets.find(hashOf(Buffer.from(name))) !== undefined;

  it('keeps the files that another image names, and takes them with the last one', async () => {
    await add('one', '--kernel', file('shared'), '--initrd', file('own'));
    await add('two', '--kernel', file('shared'));
    expect(await muster('image', 'rm', 'one')).toMatchObject({ code: 0, err: '' });
    expect([here('shared'), here('own')]).toEqual([true, false]);
    expect(await muster('image', 'rm', 'two')).toMatchObject({ code: 0, err: '' });
    expect(left()).toEqual([]);
  });

  it('touches nothing when one of the names is none', async () => {
    await add('one', '--kernel', file('own'));
    const { code, out, err } = await muster('image', 'rm', 'one', 'nope', 'nada');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain('there is no Image "nope", "nada"; `muster image ls` lists them (E_NOT_FOUND)');
    expect([here('own'), world.deps.catalog.get('Image', 'one')]).toEqual([true, expect.anything()]);
  });

  it('refuses one that a Profile names, unless forced, and then says what will not work', async () => {
    await add('one', '--kernel', file('own'));
    await world.deps.catalog.apply([
      { apiVersion: 'muster/v1', kind: 'Profile', metadata: { name: 'worker' }, spec: { image: 'one' } },
    ]);
    const refused = await muster('image', 'rm', 'one');
    expect(refused).toMatchObject({ code: 1, out: '' });
    expect(refused.err).toContain(
      'Image/one is named by Profile/worker, whose machines would be held at their next boot; change that first, or add --force',
    );
    expect(here('own')).toBe(true);
    const { code, out, err } = await muster('image', 'rm', 'one', '--force');
    expect([code, here('own')]).toEqual([0, false]);
    expect(out).toMatch(/^image\/one deleted\nasset\/[0-9a-f]{12} deleted/);
    expect(err).toMatch(/^warning: .*Profile\/worker: there is no Image "one" \(E_REFERENCE\)\n$/);
  });
});

describe('the progress line', () => {
  it('tells the part that is there as a bar, in percent and in octets', () => {
    expect(progressText('https://mirror.example/boot/vmlinuz', 12 * 1024 ** 2, 23 * 1024 ** 2)).toBe(
      'vmlinuz  [##########----------]  52 %  12.0 MiB of 23.0 MiB',
    );
    expect(progressText('vmlinuz', 0, 10)).toBe('vmlinuz  [--------------------]  0 %  0 B of 10 B');
    expect(progressText('vmlinuz', 10, 10)).toBe('vmlinuz  [####################]  100 %  10 B of 10 B');
  });

  it('tells what came of a file whose size nobody knows', () => {
    expect(progressText('vmlinuz', 2048, undefined)).toBe('vmlinuz  2.0 KiB');
  });
});

describe('muster image add --from', () => {
  it('takes the programs that a recipe lists into the Image, and none where the recipe lists none', async () => {
    const kernel = Buffer.from('a kernel');
    const asset = { sha256: hashOf(kernel), size: kernel.length, name: 'kernel' };
    const built = { name: 'built', os: 'debian', arch: 'x86_64', configFormat: 'none', kernel: asset };
    const add = async (name: string, more: object) => {
      const from = fs.mkdtempSync(path.join(temporary, 'built-'));
      fs.writeFileSync(path.join(from, 'kernel'), kernel);
      fs.writeFileSync(path.join(from, 'image.json'), JSON.stringify({ ...built, ...more }));
      expect((await muster('image', 'add', name, '--from', from)).code).toBe(0);
      return world.deps.catalog.get('Image', name)?.document.spec.programs;
    };
    expect(await add('listed', { programs: ['curl', 'haproxy'] })).toEqual(['curl', 'haproxy']);
    expect(await add('unlisted', {})).toBeUndefined();
  });
});
