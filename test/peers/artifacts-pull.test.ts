/**
 * `muster artifacts pull` over TLS: binaries and an add-on from a publisher that closes connections
 * early and sends wrong files, and images from Debian's docker-registry.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { selfSigned } from '../self-signed.ts';
import { bridge, daemon, type Muster, remove, startMuster } from './dhcp-segment.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-pull-'));
const HOST = '10.83.0.1';
const hashOf = (octets: Uint8Array | string): string => createHash('sha256').update(octets).digest('hex');

const MANIFEST = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: web, image: "example.org/web:1"}]}
`;
const DOCUMENTS = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec: {subnet: 10.83.0.0/24, dhcp: {mode: server}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:83:00:01"], addresses: [10.83.0.11]}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes:
    version: 1.36.2
    endpoint: 10.83.0.11
    controlPlanes: [cp1]
    addons:
      - {name: web, manifests: [{url: "https://publisher.example/web.yaml", sha256: ${hashOf(MANIFEST)}}]}
`;

/**
 * The publisher's files by name. All but the add-on are made up, and large enough to be interrupted
 * in the middle.
 */
const contents = new Map<string, Buffer>([['web.yaml', Buffer.from(MANIFEST)]]);
const contentOf = (name: string): Buffer => {
  const known = contents.get(name) ?? Buffer.alloc(3_000_000, name);
  contents.set(name, known);
  return known;
};
/**
 * Names of the files whose next download is interrupted in the middle, and of those that are wrong.
 */
const breaking = new Set<string>();
const wrong = new Set<string>();
const asked: string[] = [];
/** Names of all files of binaries. */
let released: readonly string[] = [];

let muster: Muster;
let registry: Awaited<ReturnType<typeof daemon>>;
let publisher: https.Server;
const file = (name: string): string => join(HOME, name);

interface Done {
  readonly code: number;
  readonly out: string;
}

function artifacts(words: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Done> {
  const child = spawn(resolve('bin/muster'), ['artifacts', ...words, '--socket', muster.socket], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (out += text));
  return new Promise((done) => child.on('close', (code) => done({ code: code ?? -1, out })));
}

const REGISTRIES = ['registry.k8s.io', 'ghcr.io', 'example.org'];
function pull(env: NodeJS.ProcessEnv = { NODE_EXTRA_CA_CERTS: file('cert.pem') }): Promise<Done> {
  const { port } = publisher.address() as AddressInfo;
  const mirrors = [
    ...['publisher.example', 'dl.k8s.io', 'github.com'].map(
      (host) => `https://${host}=https://${HOST}:${port}`,
    ),
    ...REGISTRIES.map((host) => `https://${host}=https://${HOST}:5000`),
  ];
  return artifacts(['pull', 'blue', ...mirrors.flatMap((one) => ['--mirror', one])], env);
}

function publish(): https.Server {
  const options = { key: readFileSync(file('key.pem')), cert: readFileSync(file('cert.pem')) };
  return https.createServer(options, (request, response) => {
    const name = basename(request.url!);
    asked.push(`${name} ${request.headers.range ?? ''}`.trim());
    // The list of checksums of a whole release, or of one file.
    const of = /^(SHA256SUMS|runc\.sha256sum)$/.test(name)
      ? released
      : /^(.*)\.sha256(sum)?$/.exec(name)?.slice(1, 2);
    if (of !== undefined)
      return void response.end(of.map((one) => `${hashOf(contentOf(one))}  ${one}\n`).join(''));
    const octets = wrong.has(name) ? Buffer.from('something else') : contentOf(name);
    const from = Number(/^bytes=([0-9]+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const part = octets.subarray(from);
    response.writeHead(from > 0 ? 206 : 200, {
      'content-length': part.length,
      ...(from > 0 ? { 'content-range': `bytes ${from}-${octets.length - 1}/${octets.length}` } : {}),
    });
    if (!breaking.delete(name)) return void response.end(part);
    response.write(part.subarray(0, 1_000_000), () => setTimeout(() => response.destroy(), 200));
  });
}

/** Sends a request to docker-registry, whose certificate is trusted. */
function send(method: string, url: string, body: string | Buffer, type: string): Promise<string> {
  return new Promise((done, fail) => {
    const headers = { 'content-type': type, 'content-length': Buffer.byteLength(body) };
    const request = https.request(
      url,
      { method, ca: readFileSync(file('cert.pem')), headers },
      (response) => {
        response.resume();
        response.on('end', () =>
          response.statusCode! < 300
            ? done(response.headers.location ?? '')
            : fail(new Error(`${method} ${url}: ${response.statusCode}`)),
        );
      },
    );
    request.on('error', fail);
    request.end(body);
  });
}

const TYPE = 'application/vnd.oci.image.';
/** Pushes an image for two architectures. Resolves to the digests of both layers. */
async function push(repository: string, tag: string): Promise<readonly string[]> {
  const base = `https://${HOST}:5000/v2/${repository}`;
  const blob = async (text: string) => {
    const digest = `sha256:${hashOf(text)}`;
    const place = await send('POST', `${base}/blobs/uploads/`, '', 'application/octet-stream');
    await send('PUT', `${place}&digest=${digest}`, text, 'application/octet-stream');
    return { digest, size: Buffer.byteLength(text) };
  };
  const manifest = async (value: unknown, type: string, as?: string) => {
    const text = JSON.stringify(value);
    const digest = `sha256:${hashOf(text)}`;
    await send('PUT', `${base}/manifests/${as ?? digest}`, text, type);
    return { mediaType: type, digest, size: text.length };
  };
  const made = [];
  const layers: string[] = [];
  for (const architecture of ['amd64', 'arm64']) {
    const layer = await blob(`layer of ${repository} for ${architecture}`);
    layers.push(layer.digest);
    const config = await blob(
      JSON.stringify({ architecture, os: 'linux', rootfs: { type: 'layers', diff_ids: [] } }),
    );
    const type = `${TYPE}manifest.v1+json`;
    const value = {
      schemaVersion: 2,
      mediaType: type,
      config: { mediaType: `${TYPE}config.v1+json`, ...config },
      layers: [{ mediaType: `${TYPE}layer.v1.tar`, ...layer }],
    };
    made.push({ ...(await manifest(value, type)), platform: { architecture, os: 'linux' } });
  }
  const type = `${TYPE}index.v1+json`;
  await manifest({ schemaVersion: 2, mediaType: type, manifests: made }, type, tag);
  return layers;
}

let layers: readonly string[] = [];

beforeAll(async () => {
  bridge('br-pull', `${HOST}/24`);
  const pair = selfSigned('publisher', [`IP:${HOST}`]);
  writeFileSync(file('key.pem'), pair.key);
  writeFileSync(file('cert.pem'), pair.certificate);
  publisher = publish();
  await new Promise<void>((done) => publisher.listen(0, HOST, done));
  mkdirSync(file('registry'));
  writeFileSync(
    file('registry.yml'),
    `version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: ${file('registry')}}}
http: {addr: "${HOST}:5000", secret: x, tls: {certificate: ${file('cert.pem')}, key: ${file('key.pem')}}}
`,
  );
  const { command, env } = unpacked('docker-registry', 'usr/bin/docker-registry');
  registry = await daemon(undefined, [command, 'serve', file('registry.yml')], /listening on/, env);
  muster = await startMuster(['br-pull'], DOCUMENTS);
  const plan = JSON.parse(
    (await artifacts(['plan', 'blue', '-o', 'json'])).out.replace(/^the images of the add-on .*\n/m, ''),
  ) as {
    required: { reference?: string; url?: string };
  }[];
  released = plan.flatMap(({ required }) => (required.url ? [basename(required.url)] : []));
  const references = ['example.org/web:1', ...plan.flatMap(({ required }) => required.reference ?? [])];
  for (const reference of references) {
    const [, repository, tag] = /^[^/]+\/(.+):([^:]+)$/.exec(reference)!;
    const pushed = await push(repository!, tag!);
    if (repository === 'web') layers = pushed;
  }
});
afterAll(async () => {
  await muster?.stop();
  await registry?.stop();
  publisher?.close();
  remove([], ['br-pull']);
  rmSync(HOME, { recursive: true, force: true });
});

it('a publisher with an untrusted certificate is refused, and nothing is kept', async () => {
  const { code, out } = await pull({});
  expect(code).toBe(1);
  expect(out).toMatch(/^binary\/kubelet\/1\.36\.2\/x86_64: .*certificate.*\(E_FETCH_REFUSED\)$/m);
  expect(await artifacts(['ls', '-o', 'name'])).toEqual({ code: 0, out: '' });
});

it('an interrupted download is resumed, a wrong file is deleted, and all other files are fetched', async () => {
  breaking.add('kubelet');
  wrong.add('kubectl');
  asked.length = 0;
  const { code, out } = await pull();
  expect(code, out).toBe(1);
  expect(out).toMatch(/^binary\/kubectl\/1\.36\.2\/x86_64: .*\(E_ASSET_HASH\)$/m);
  expect(out).toMatch(/^1 of \d+ could not be fetched; the same command continues from here$/m);
  expect(out).toMatch(/^binary\/kubelet\/1\.36\.2\/x86_64 created, .* stored and verified$/m);
  const again = asked.filter((one) => /^kubelet bytes=/.test(one));
  expect(again).toHaveLength(1);
  expect(Number(/[0-9]+/.exec(again[0]!)![0])).toBeGreaterThan(0);
  expect(out).toMatch(new RegExp(`^manifest/web/${hashOf(MANIFEST)} created`, 'm'));
  expect(out).toMatch(/^image\/example\.org\/web:1 created/m);
});

it('a second pull fetches only what is missing, and verify finds every file correct', async () => {
  wrong.clear();
  asked.length = 0;
  const { code, out } = await pull();
  expect(code, out).toBe(0);
  expect(asked).toEqual(['kubectl.sha256', 'kubectl']);
  expect(await artifacts(['plan', 'blue'])).toMatchObject({ code: 0 });
  expect(await artifacts(['verify'])).toMatchObject({ code: 0 });
  expect((await pull()).out).toMatch(/^all \d+ artifacts of blue are here$/m);
});

it('only the machines’ layers of a multi-architecture image are pulled, under the publisher’s digest', async () => {
  const items = JSON.parse((await artifacts(['ls', '-o', 'json'])).out) as {
    name: string;
    artifact: { blobs: { digest: string }[]; digest: string };
  }[];
  const { artifact } = items.find(({ name }) => name === 'image/example.org/web:1')!;
  const digests = artifact.blobs.map(({ digest }) => digest);
  expect(digests).toContain(layers[0]);
  expect(digests).not.toContain(layers[1]);
});
