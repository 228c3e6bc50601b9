/**
 * `muster artifacts` against the real asset store, the real book and the real API; the registry
 * answers what was imported.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startApi } from '../../../src/api/api.server.ts';
import { type ArtifactBook, openArtifactBook } from '../../../src/artifacts/book.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { mirrors } from '../../../src/cli/artifacts/pull.ts';
import { parseChallenge } from '../../../src/cli/artifacts/registry-source.files.ts';
import { publishedHash } from '../../../src/cluster/resolve/artifacts.ts';
import { type Assets, openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { serveRegistry } from '../../../src/pxe/http/registry.server.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const CLUSTER = `${DOCUMENTS}---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:02"], profile: worker, addresses: [10.77.0.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes: {version: 1.36.2, endpoint: 10.77.0.10, controlPlanes: [cp1]}
`;

/** A document that is looked into. */
// biome-ignore lint/suspicious/noExplicitAny: each look names what it expects
type Json = any;

let world: World;
let store: Store;
let assets: Assets;
let book: ArtifactBook;
let api: Awaited<ReturnType<typeof startApi>> | undefined;
let socket: string;
let directory: string;
let closing: (() => void)[] = [];

beforeEach(async () => {
  world = await openWorld(CLUSTER);
  directory = world.directory;
  store = openMemoryStore();
  assets = await openAssets({
    directory: path.join(directory, 'assets'),
    loaderDirectories: [],
    log: silentLog,
  });
  book = await openArtifactBook(store);
  await serveApi();
});
/** The API over the book as it is now; what answered before ends. */
async function serveApi(): Promise<void> {
  await api?.close();
  socket = path.join(directory, `artifacts${fs.readdirSync(directory).length}.sock`);
  api = await startApi({ listen: { socket }, deps: { ...world.deps, assets, artifacts: book } });
}
afterEach(async () => {
  for (const close of closing) close();
  closing = [];
  await api?.close();
  api = undefined;
  await world.close();
});

const muster = (...args: string[]) => run(['artifacts', ...args], { socket });
const file = (name: string, content: string, mode = 0o755): string => {
  const at = path.join(directory, name);
  fs.mkdirSync(path.dirname(at), { recursive: true });
  fs.writeFileSync(at, content, { mode });
  return at;
};
const digestOf = (octets: Uint8Array | string) => createHash('sha256').update(octets).digest('hex');
const listen = async (handler: http.RequestListener): Promise<string> => {
  const server = http.createServer(handler);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};
const registry = () =>
  listen((request, response) => {
    void serveRegistry(request, response, { book, assets, metrics: createMetrics() });
  });

describe('muster artifacts pack', () => {
  it('gives the same digests for the same programs, wherever and whenever, modes of the umask aside', async () => {
    const app = file('a/app', 'program', 0o755);
    const again = file('b/app', 'program', 0o711);
    fs.utimesSync(again, 1, 1);
    const [one, two] = [path.join(directory, 'one'), path.join(directory, 'two')];
    const first = await muster('pack', one, '--image', `example.org/app:1=${app}:/app`);
    const second = await muster('pack', two, '--image', `example.org/app:1=${again}:/app`);
    expect(first).toMatchObject({ code: 0, err: '' });
    expect(second.out).toBe(first.out);
    expect(execFileSync('diff', ['-r', one, two], { encoding: 'utf8' })).toBe('');
  });

  it('adds to what is there, and replaces what has the same name', async () => {
    const out = path.join(directory, 'out');
    await muster('pack', out, '--image', `example.org/a:1=${file('a', 'a')}`);
    await muster('pack', out, '--image', `example.org/b:1=${file('b', 'b')}`);
    await muster(
      'pack',
      out,
      '--image',
      `example.org/a:1=${file('a', 'new')}`,
      '--binary',
      `tool:v1.2=${file('t', 't')}`,
    );
    const index = JSON.parse(fs.readFileSync(path.join(out, 'oci/index.json'), 'utf8'));
    expect(index.manifests).toHaveLength(2);
    expect(JSON.parse(fs.readFileSync(path.join(out, 'artifacts.json'), 'utf8')).binaries).toMatchObject([
      { name: 'tool', version: '1.2', arch: 'x86_64', file: 'bin/1.2/x86_64/tool', sha256: digestOf('t') },
    ]);
  });

  it.each([
    ['--image', 'no reference'],
    ['--image', 'example.org/a:1='],
    ['--binary', 'tool=x'],
  ])('%s %s is not understood, and says how it is written', async (option, value) => {
    expect(await muster('pack', directory, option, value)).toMatchObject({
      code: 2,
      err: expect.stringContaining('E_USAGE'),
    });
  });
});

describe('muster artifacts import', () => {
  it('warns of a name that is almost one that clusters ask for, and takes any other as it is', async () => {
    const given = ['kublet:1.36.3', 'kubelet:1.36.3', 'node-tool:1'];
    const binaries = given.flatMap((name) => ['--binary', `${name}=${file('t', 't')}`]);
    const { code, out, err } = await muster('import', ...binaries);
    expect([code, out.match(/created/g)]).toEqual([0, Array(3).fill('created')]);
    expect(err).toBe('warning: no cluster needs a binary "kublet"; did you mean "kubelet"?\n');
  });

  it('brings what pack made; the registry then serves every part of it by its digest', async () => {
    const out = path.join(directory, 'out');
    await muster('pack', out, '--image', `registry.k8s.io/pause:3.10.2=${file('pause', 'pause')}:/pause`);
    const imported = await muster('import', out);
    expect(imported).toMatchObject({ code: 0, err: '' });
    expect(imported.out).toMatch(
      /^image\/registry\.k8s\.io\/pause:3\.10\.2 created, .* stored and verified$/m,
    );
    expect((await muster('import', out)).out).toBe('image/registry.k8s.io/pause:3.10.2 unchanged\n');

    const base = await registry();
    const get = async (what: string) => fetch(`${base}/v2/pause/${what}?ns=registry.k8s.io`);
    const index = (await (await get('manifests/3.10.2')).json()) as Json;
    const manifest = (await (await get(`manifests/${index.manifests[0].digest}`)).json()) as Json;
    const layer = manifest.layers[0].digest;
    const octets = new Uint8Array(await (await get(`blobs/${layer}`)).arrayBuffer());
    expect(`sha256:${digestOf(octets)}`).toBe(layer);
    const config = (await (await get(`blobs/${manifest.config.digest}`)).json()) as Json;
    expect(config.config.Entrypoint).toEqual(['/pause']);
    expect(config.rootfs.diff_ids).toEqual([layer]);
    const part = await fetch(`${base}/v2/registry.k8s.io/pause/blobs/${layer}`, {
      headers: { range: 'bytes=512-516' },
    });
    expect([part.status, await part.text()]).toEqual([
      206,
      Buffer.from(octets).subarray(512, 517).toString(),
    ]);
    const head = await fetch(`${base}/v2/registry.k8s.io/pause/manifests/3.10.2`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-type')]).toEqual([200, index.mediaType]);
  });

  it('takes the same as one tar, and an archive of docker save whose layers are plain tars', async () => {
    const out = path.join(directory, 'out');
    await muster(
      'pack',
      out,
      '--image',
      `example.org/a:1=${file('a', 'a')}`,
      '--binary',
      `tool:1=${file('t', 't')}`,
    );
    execFileSync('tar', ['-C', out, '-cf', path.join(directory, 'all.tar'), '.']);
    expect((await muster('import', path.join(directory, 'all.tar'))).out).toMatch(
      /^image\/example\.org\/a:1 created/m,
    );
    expect(book.binary('tool', '1', 'x86_64')).toMatchObject({ sha256: digestOf('t') });

    const docker = path.join(directory, 'docker');
    file('docker/abc/layer.tar', 'a layer');
    file('docker/cfg.json', '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}');
    file(
      'docker/manifest.json',
      JSON.stringify([{ Config: 'cfg.json', RepoTags: ['app:2'], Layers: ['abc/layer.tar'] }]),
    );
    execFileSync('tar', [
      '-C',
      docker,
      '-cf',
      path.join(directory, 'saved.tar'),
      'manifest.json',
      'cfg.json',
      'abc',
    ]);
    expect((await muster('import', path.join(directory, 'saved.tar'))).out).toMatch(
      /^image\/docker\.io\/library\/app:2 created/,
    );
    expect(book.image('app:2')!.blobs.map(({ digest }) => digest)).toContain(`sha256:${digestOf('a layer')}`);
  });

  it('refuses a file that is not what its list says, and enters nothing', async () => {
    const out = path.join(directory, 'out');
    await muster('pack', out, '--binary', `kubelet:1.36.2=${file('kubelet', 'good')}`);
    fs.writeFileSync(path.join(out, 'bin/1.36.2/x86_64/kubelet'), 'evil');
    expect(await muster('import', out)).toMatchObject({
      code: 1,
      err: expect.stringContaining('E_ASSET_HASH'),
    });
    expect(book.list()).toEqual([]);
  });

  it('refuses an image that lacks a layer, and says which', async () => {
    const out = path.join(directory, 'out');
    await muster('pack', out, '--image', `example.org/a:1=${file('a', 'a')}`);
    const blobs = path.join(out, 'oci/blobs/sha256');
    const layer = fs.readdirSync(blobs).find((name) => fs.statSync(path.join(blobs, name)).size > 1024)!;
    fs.rmSync(path.join(blobs, layer));
    const { code, err } = await muster('import', out);
    expect([code, err]).toEqual([1, expect.stringContaining(layer)]);
  });

  it('says what it takes when there is nothing to take', async () => {
    expect(await muster('import', directory)).toMatchObject({
      code: 1,
      err: expect.stringContaining('oci-layout'),
    });
  });
});

describe('muster artifacts plan, ls, verify, rm', () => {
  it('plan lists what the full specification names, and succeeds when all of it is here', async () => {
    const before = await muster('plan', 'blue');
    expect(before.code).toBe(1);
    expect(before.out).toMatch(/image\/registry\.k8s\.io\/kube-apiserver:v1\.36\.2 +control-plane +missing/);
    expect(before.out).toMatch(/binary\/kubelet\/1\.36\.2\/x86_64 +control-plane etcd worker +missing/);
    const lines = JSON.parse((await muster('plan', 'blue', '-o', 'json')).out) as {
      name: string;
      required: { kind: string; reference?: string };
    }[];
    const app = file('app', 'app');
    const fetched = lines.filter(({ required }) => required.kind !== 'program');
    const args = fetched.flatMap(({ name, required }) =>
      required.reference === undefined
        ? ['--binary', `${name.split('/').slice(1, 3).join(':')}=${app}`]
        : ['--image', `${required.reference}=${app}`],
    );
    await muster('pack', path.join(directory, 'out'), ...args);
    expect((await muster('import', path.join(directory, 'out'))).code).toBe(0);
    expect(await muster('plan', 'blue')).toMatchObject({
      code: 0,
      out: expect.not.stringContaining('missing'),
    });
  });

  it('plan names the image that lacks a program of its machines, and fails until it is another', async () => {
    const programs = async () =>
      (await muster('plan', 'blue')).out.split('\n').filter((one) => one.includes('program/'));
    expect(await programs()).toEqual([
      expect.stringMatching(/^program\/iptables +control-plane worker +in the OS image *$/),
    ]);
    const lists = async (some: string) => {
      const text = CLUSTER.replace(
        'configFormat: cloud-init}',
        `configFormat: cloud-init, programs: [${some}]}`,
      );
      fs.writeFileSync(path.join(directory, 'config/all.yaml'), text);
      await world.deps.catalog.reload();
    };
    await lists('curl');
    expect(await programs()).toEqual([expect.stringMatching(/ missing in image small *$/)]);
    await lists('iptables');
    expect(await programs()).toEqual([expect.stringContaining('in the OS image')]);
  });

  it('the book is the same after a restart, and a file that is gone is missing in ls and verify', async () => {
    const out = path.join(directory, 'out');
    await muster(
      'pack',
      out,
      '--image',
      `example.org/a:1=${file('a', 'a')}`,
      '--binary',
      `tool:1=${file('t', 't')}`,
    );
    await muster('import', out);
    const again = await openArtifactBook(store);
    expect(again.list()).toEqual(book.list());
    book = again;
    await serveApi();
    expect((await muster('import', out)).out).toBe(
      'image/example.org/a:1 unchanged\nbinary/tool/1/x86_64 unchanged\n',
    );
    expect(await muster('verify')).toMatchObject({ code: 0 });
    fs.rmSync(assets.find(digestOf('t'))!.path);
    expect(await muster('verify')).toMatchObject({
      code: 1,
      out: expect.stringContaining('missing; add it again'),
    });
    expect((await muster('ls')).out).toMatch(/binary +tool 1 x86_64 .* 1 missing/);
  });

  it('rm takes the files along that nothing else needs, and no others', async () => {
    const out = path.join(directory, 'out');
    const app = file('a', 'a');
    await muster('pack', out, '--image', `example.org/a:1=${app}`, '--image', `example.org/b:1=${app}`);
    await muster('import', out);
    expect(await muster('rm', 'example.org/a:1')).toMatchObject({ code: 0 });
    expect(await muster('verify')).toMatchObject({ code: 0, out: 'image/example.org/b:1 ok\n' });
    await muster('rm', 'image/example.org/b:1');
    expect(await assets.list()).toEqual([]);
    expect(await run(['artifacts', 'verify'], { socket })).toMatchObject({
      code: 0,
      err: 'no artifacts; `muster artifacts pull` or `import` brings them\n',
    });
  });

  it('files of artifacts are not unused, and are not deleted by themselves', async () => {
    await muster('import', '--binary', `tool:1=${file('t', 't')}`);
    expect(await run(['image', 'ls', '--unused'], { socket })).toMatchObject({
      out: '',
      err: 'no unused files\n',
    });
    await expect(world.client.call('GET', '/v1/status')).resolves.toBeDefined();
    await run(['image', 'rm', '--unused'], { socket });
    expect(assets.find(digestOf('t'))).toBeDefined();
  });
});

describe('muster artifacts pull', () => {
  it('fetches binaries by the checksums of their publisher and images from a registry that wants a token', async () => {
    const out = path.join(directory, 'out');
    const lines = JSON.parse((await muster('plan', 'blue', '-o', 'json')).out) as {
      required: { kind: string; reference?: string; url: string; checksums: string };
    }[];
    const images = lines.flatMap(({ required }) => required.reference ?? []);
    await muster('pack', out, ...images.flatMap((name) => ['--image', `${name}=${file('app', 'app')}`]));
    // a registry of the same content, behind a token
    const upstream = await openAssets({
      directory: path.join(directory, 'up'),
      loaderDirectories: [],
      log: silentLog,
    });
    const upstreamBook = await openArtifactBook(openMemoryStore());
    const upSocket = path.join(directory, 'up.sock');
    const upApi = await startApi({
      listen: { socket: upSocket },
      deps: { ...world.deps, assets: upstream, artifacts: upstreamBook },
    });
    closing.push(() => void upApi.close());
    await run(['artifacts', 'import', out], { socket: upSocket });
    const base = await listen((request, response) => {
      const { pathname, searchParams } = new URL(request.url!, 'http://x');
      if (pathname === '/token')
        return void response.end(JSON.stringify({ token: `for ${searchParams.get('scope')}` }));
      if (!request.headers.authorization?.startsWith('Bearer for repository:'))
        return void response
          .writeHead(401, {
            'www-authenticate': `Bearer realm="http://${request.headers.host}/token",service="x"`,
          })
          .end();
      request.url = request.url!.replace(/^\/([^/]+)\/v2\//, '/v2/$1/');
      void serveRegistry(request, response, {
        book: upstreamBook,
        assets: upstream,
        metrics: createMetrics(),
      });
    });
    const publisher = await listen((request, response) => {
      const name = path.basename(request.url!);
      if (name === 'SHA256SUMS' || name === 'runc.sha256sum')
        return void response.end(
          ['runc.amd64', 'etcd-v3.6.8-linux-amd64.tar.gz', 'nerdctl-2.2.2-linux-amd64.tar.gz']
            .map((one) => `${digestOf(one)}  ${one}\n`)
            .join(''),
        );
      const of = /^(.*)\.sha256(sum)?$/.exec(name)?.[1];
      response.end(of === undefined ? name : `${digestOf(of)}\n`);
    });
    const mirror = ['https://dl.k8s.io', 'https://github.com'].flatMap((from) => [
      '--mirror',
      `${from}=${publisher}`,
    ]);
    const hosts = new Set(images.map((name) => name.split('/')[0]!));
    const registries = [...hosts].flatMap((host) => ['--mirror', `https://${host}=${base}/${host}`]);
    const pulled = await muster('pull', 'blue', ...mirror, ...registries);
    expect(pulled).toMatchObject({ code: 0, err: '' });
    expect(await muster('plan', 'blue')).toMatchObject({ code: 0 });
    expect(book.list().filter(({ kind }) => kind === 'image')).toEqual(upstreamBook.list());
    expect((await muster('pull', 'blue')).out).toMatch(/^all \d+ artifacts of blue are here$/m);
  });

  it('says of each that cannot be had why, and exits with failure', async () => {
    const nothing = await listen((_request, response) => void response.writeHead(404).end());
    const mirror = [
      'https://dl.k8s.io',
      'https://github.com',
      'https://registry.k8s.io',
      'https://docker.io',
      'https://ghcr.io',
    ];
    const { code, err } = await muster(
      'pull',
      'blue',
      ...mirror.flatMap((from) => ['--mirror', `${from}=${nothing}`]),
    );
    expect(code).toBe(1);
    expect(err).toMatch(/^binary\/kubelet\/1\.36\.2\/x86_64: .* 404 .*\(E_FETCH_REFUSED\)$/m);
    expect(err).toMatch(/^(\d+) of \1 could not be fetched/m);
  });
});

describe('what publishers and registries say', () => {
  it('the longest beginning of a mirror counts', () => {
    const mirrored = mirrors(['https://a.org=http://m', 'https://a.org/x=http://n/y']);
    expect(['https://a.org/1', 'https://a.org/x/1', 'https://b.org/1'].map(mirrored)).toEqual([
      'http://m/1',
      'http://n/y/1',
      'https://b.org/1',
    ]);
  });

  it.each([
    [`${'a'.repeat(64)}\n`, 'a'],
    [`${'b'.repeat(64)}  other\n${'a'.repeat(64)}  file\n`, 'a'],
    [`${'a'.repeat(64)} *file`, 'a'],
    [`${'A'.repeat(64)}  ./file`, 'a'],
    [`${'b'.repeat(64)}  other`, undefined],
    [`${'a'.repeat(64)}\n${'b'.repeat(64)}`, undefined],
    ['<html>', undefined],
  ])('a list of checksums %j has for the file %s', (list, letter) => {
    expect(publishedHash(list, 'file')).toBe(letter?.repeat(64));
  });

  it('a challenge is read in any order; other schemes are none', () => {
    expect(parseChallenge('Bearer service="s",realm="https://a/t",scope="repository:x:pull"')).toEqual({
      realm: 'https://a/t',
      service: 's',
      scope: 'repository:x:pull',
    });
    expect(parseChallenge('Basic realm="x"')).toBeUndefined();
    expect(parseChallenge('Bearer realm="no url"')).toBeUndefined();
  });
});
