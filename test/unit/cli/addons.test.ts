/**
 * `muster addon` and the add-ons' part of `muster artifacts`, against the real API, asset store and
 * book.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startApi } from '../../../src/api/api.server.ts';
import { type ArtifactBook, openArtifactBook } from '../../../src/artifacts/book.ts';
import { silentLog } from '../../../src/base/log.ts';
import { openAddons } from '../../../src/cluster/objects/addons/library.ts';
import { type Assets, openAssets } from '../../../src/pxe/assets/assets.files.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const MANIFEST = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {template: {spec: {containers: [{name: web, image: "example.org/web:1"}]}}}
`;
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

let world: World;
let assets: Assets;
let book: ArtifactBook;
let api: Awaited<ReturnType<typeof startApi>>;
let socket: string;
let base: string;
let closing: (() => void)[] = [];
/** What the publisher has, by path. */
let published: Record<string, string>;

const clusterOf = (addons: string): string => `${DOCUMENTS}---
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
  kubernetes:
    version: 1.36.2
    endpoint: 10.77.0.10
    controlPlanes: [cp1]
    addons:
${addons.replace(/^/gm, '    ')}
`;

async function serve(addons: string): Promise<void> {
  world = await openWorld(clusterOf(addons));
  assets = await openAssets({
    directory: path.join(world.directory, 'assets'),
    loaderDirectories: [],
    log: silentLog,
  });
  book = await openArtifactBook(openMemoryStore());
  socket = path.join(world.directory, 'addons.sock');
  api = await startApi({
    listen: { socket },
    deps: { ...world.deps, assets, artifacts: book, addons: openAddons(assets.read) },
  });
  closing.push(() => void api.close().then(() => world.close()));
}

beforeEach(async () => {
  published = { '/web.yaml': MANIFEST };
  const server = http.createServer((request, response) => {
    const text = published[request.url!];
    response.writeHead(text === undefined ? 404 : 200).end(text);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  closing = [() => server.close()];
});
afterEach(() => {
  for (const close of closing.reverse()) close();
});

const entry = (sha256: string, more = '') => `- name: web
  manifests: [{url: "https://publisher.example/web.yaml", sha256: ${sha256}}]
${more}`;
const muster = (...args: string[]) => run(args, { socket });
/** Everything but the publisher's host is nowhere. */
const pull = () =>
  muster(
    ...['artifacts', 'pull', 'blue', '--mirror', `https://publisher.example=${base}`],
    ...['dl.k8s.io', 'github.com', 'registry.k8s.io', 'docker.io', 'ghcr.io', 'example.org'].flatMap(
      (host) => ['--mirror', `https://${host}=${base}/none`],
    ),
  );

it('pull brings the file of an add-on, and tries the images that stand in it', async () => {
  await serve(entry(hashOf(MANIFEST)));
  const before = await muster('artifacts', 'plan', 'blue');
  expect(before.out).toMatch(new RegExp(`manifest/web/${hashOf(MANIFEST)} +control-plane +missing`));
  expect(before.out).not.toContain('example.org/web');
  expect(before.err).toContain('the images of the add-on web are known when its files are here');
  const pulled = await pull();
  expect(pulled.out).toMatch(
    new RegExp(`^manifest/web/${hashOf(MANIFEST)} created, .* stored and verified$`, 'm'),
  );
  expect(pulled.err).toMatch(/^image\/example\.org\/web:1: .*404/m);
  const after = await muster('artifacts', 'plan', 'blue');
  expect(after.out).toMatch(/manifest\/web\/\S+ +control-plane +here/);
  expect(after.out).toMatch(/image\/example\.org\/web:1 +control-plane worker +missing/);
  expect(await muster('addon', 'ls', 'blue')).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^NAME +STATE .*\nweb +ready +1 +1 +<none>\n$/),
  });
});

it('a file that is not what the document says is thrown away, and the add-on stays missing', async () => {
  await serve(entry(hashOf(MANIFEST)));
  published['/web.yaml'] = MANIFEST.replace('web:1', 'evil:1');
  expect((await pull()).err).toMatch(/^manifest\/web\/\S+: .*\(E_ASSET_HASH\)$/m);
  expect(book.list()).toEqual([]);
  expect(await muster('addon', 'ls', 'blue')).toMatchObject({
    code: 1,
    out: expect.stringContaining(`not here: ${hashOf(MANIFEST)}`),
  });
  const plan = await muster('cluster', 'plan', 'cp1');
  expect(plan.out).not.toContain('evil');
});

it('an add-on whose patch fits nothing is faulty in ls, plan and pull', async () => {
  await serve(entry(hashOf(MANIFEST), '  patches: [{target: {kind: DaemonSet}, remove: true}]'));
  const pulled = await pull();
  expect(pulled.err).toMatch(
    /^the add-on web cannot be used: .*no object of the add-on has kind DaemonSet$/m,
  );
  expect((await muster('addon', 'ls', 'blue')).out).toMatch(/web +faulty/);
  expect((await muster('artifacts', 'plan', 'blue')).err).toContain('cannot be used');
});

it('import brings a file without network; it is used for the entry that names its hash', async () => {
  await serve(`- {name: web, manifests: [{sha256: ${hashOf(MANIFEST)}}]}`);
  expect((await pull()).err).toContain('muster artifacts import --manifest web=FILE');
  const file = path.join(world.directory, 'web.txt');
  fs.writeFileSync(file, MANIFEST);
  expect(await muster('artifacts', 'import', '--manifest', `other=${file}`)).toMatchObject({
    code: 0,
    err: '',
  });
  expect((await muster('artifacts', 'plan', 'blue')).out).toMatch(/manifest\/web\/\S+ +control-plane +here/);
  expect((await muster('artifacts', 'ls')).out).toMatch(/manifest +other /);
  expect((await muster('artifacts', 'verify')).code).toBe(0);
  expect((await muster('cluster', 'plan', 'cp1')).out).toContain('image: "example.org/web:1"');
  fs.writeFileSync(file, 'no manifest');
  expect((await muster('artifacts', 'import', '--manifest', `web=${file}`)).err).toContain('E_ADDON');
  expect((await muster('artifacts', 'import', '--manifest', file)).code).toBe(2);
});

it('pull takes a file that lies beside the file of the Cluster, and only with its hash', async () => {
  await serve(`- {name: web, manifests: [{file: .addons/web.yaml, sha256: ${hashOf(MANIFEST)}}]}`);
  const [{ status }] = (
    await world.client.call<{ items: { status: { origin: { at: { file: string } } } }[] }>(
      'GET',
      '/v1/clusters',
    )
  ).items as [{ status: { origin: { at: { file: string } } } }];
  const file = path.join(path.dirname(status.origin.at.file), '.addons/web.yaml');
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `${MANIFEST}# changed`);
  expect((await pull()).err).toMatch(/^manifest\/web\/\S+: .*\(E_ASSET_HASH\)$/m);
  fs.writeFileSync(file, MANIFEST);
  expect((await pull()).out).toMatch(/^manifest\/web\/\S+ created/m);
});

it('what pin prints goes into a document as it is, and says what the file holds', async () => {
  const pinned = await run(['addon', 'pin', `${base}/web.yaml`]);
  expect(pinned).toMatchObject({
    code: 0,
    err: expect.stringContaining('1 objects; images: example.org/web:1'),
  });
  expect(pinned.out).toContain(hashOf(MANIFEST));
  const { faults, documents } = parseDocuments(clusterOf(pinned.out.trimEnd()), 'x.yaml');
  expect(faults).toEqual([]);
  expect(documents).toHaveLength(parseDocuments(DOCUMENTS, 'x.yaml').documents.length + 2);
  published['/bad.yaml'] = '<html>';
  expect((await run(['addon', 'pin', `${base}/bad.yaml`])).err).toContain('E_ADDON');
});

it('a catalogue entry is pinned with its patches and all of its files', async () => {
  const path = '/metallb/metallb/v1.2.3/config/manifests/metallb-native.yaml';
  published[path] = MANIFEST;
  const mirror = `https://raw.githubusercontent.com=${base}`;
  const { out, code } = await run(['addon', 'pin', 'metallb', '--release', 'v1.2.3', '--mirror', mirror]);
  expect(code).toBe(0);
  expect(out.replaceAll('"', '')).toBe(
    `- name: metallb\n  manifests:\n    - url: https://raw.githubusercontent.com${path}\n      sha256: ${hashOf(MANIFEST)}\n`,
  );
});

it('what show prints without hashes is refused until they are pinned', async () => {
  const shown = await run(['addon', 'show', 'metallb']);
  expect(shown.out).toContain('config/manifests/metallb-native.yaml');
  const { faults } = parseDocuments(clusterOf(shown.out.trimEnd()), 'x.yaml');
  expect(faults.map(({ message }) => message)).toEqual([expect.stringContaining('not a SHA-256')]);
  expect((await run(['addon', 'show', 'dns-autoscaler'])).out).toContain('cluster-proportional-autoscaler');
  expect((await run(['addon', 'show', 'cilium'])).out).toContain('helm template cilium');
  expect((await run(['addon', 'show', 'metalb'])).err).toContain('did you mean "metallb"?');
  expect((await run(['addon', 'pin', 'cilium'])).err).toContain('muster addon show cilium');
  expect((await run(['addon', 'ls'])).out).toMatch(/^NAME +VERSION +FORM +ABOUT\n.*calico/);
});
