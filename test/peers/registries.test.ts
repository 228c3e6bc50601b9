/**
 * Mirrors of single registries with a path, a login and a CA of their own, against Debian's
 * registry: containerd pulls through its CRI plugin, as kubelet lets it, and CRI-O's library with
 * the files of a plan.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Login } from '../../src/cluster/plan/registries.ts';
import { runtimeLines } from '../../src/cluster/plan/runtime.ts';
import { selfSigned } from '../self-signed.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { bridge, daemon, remove } from './dhcp-segment.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-registries-'));
const ADDRESS = '10.84.0.1';
const HOST = `${ADDRESS}:5443`;
const { certificate, key } = selfSigned('registry', [`IP:${ADDRESS}`]);
/** htpasswd's line for robot with the password "pull me". */
const HTPASSWD = 'robot:$2b$04$jXEgptwappgfgpcipL/qtOm8spWIGRGV1Y1Y3QLHikcofcos/0Ohi\n';

const login = (password: string): Login => ({ host: HOST, username: 'robot', password, tag: 'tag' });
const file = (name: string, text: string | Uint8Array): string => {
  mkdirSync(dirname(join(HOME, name)), { recursive: true });
  writeFileSync(join(HOME, name), text);
  return join(HOME, name);
};

/** A cluster whose images of docker.io are all in one project of a registry. */
const clusterOf = (runtime: 'containerd' | 'cri-o', containerd: string, upstream = false) =>
  resolved({
    runtime,
    registries: [
      {
        registry: 'docker.io',
        upstream,
        mirrors: [
          // Nothing answers here.
          { url: `http://${ADDRESS}:9` },
          {
            url: `https://${HOST}/v2/dockerhub`,
            ca: certificate,
            login: { username: 'robot', password: { valueFrom: { secret: 's', key: 'k' } } },
          },
        ],
      },
    ],
    overrides: { versions: { containerd } },
  });

/** Writes the files of the plan below a directory, and the paths in them. */
function place(directory: string, cluster: ReturnType<typeof clusterOf>, logins: readonly Login[]): void {
  for (const line of runtimeLines(cluster, [], logins).files)
    if (line.do === 'put' && 'text' in line.content)
      file(
        `${directory}${line.path}`,
        line.content.text.replace(/"\/etc\/(muster|containerd\/certs\.d)/g, `"${HOME}/${directory}/etc/$1`),
      );
}

const digestOf = (octets: Uint8Array | string): string => createHash('sha256').update(octets).digest('hex');

/** An image of one file, in the form of `skopeo copy dir:`. */
function makeImage(): string {
  file('layer/hello', 'hello\n');
  execFileSync('tar', ['-cf', join(HOME, 'layer.tar'), '-C', join(HOME, 'layer'), 'hello']);
  const layer = readFileSync(join(HOME, 'layer.tar'));
  const config = JSON.stringify({
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    rootfs: { type: 'layers', diff_ids: [`sha256:${digestOf(layer)}`] },
  });
  const blob = (type: string, octets: Uint8Array | string) => ({
    mediaType: `application/vnd.oci.image.${type}`,
    digest: `sha256:${digestOf(octets)}`,
    size: Buffer.byteLength(octets),
  });
  for (const octets of [layer, config]) file(`image/${digestOf(octets)}`, octets);
  file('image/version', 'Directory Transport Version: 1.1\n');
  file(
    'image/manifest.json',
    JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: blob('config.v1+json', config),
      layers: [blob('layer.v1.tar', layer)],
    }),
  );
  return join(HOME, 'image');
}

const text = (field: number, octets: Uint8Array | string): Buffer =>
  Buffer.concat([Buffer.from([(field << 3) | 2, Buffer.byteLength(octets)]), Buffer.from(octets)]);

/** Calls PullImage of the CRI as kubelet does; resolves to the status and the message of gRPC. */
async function pullByCri(
  socket: string,
  image: string,
): Promise<{ readonly status: string; readonly message: string }> {
  const session = http2.connect('http://localhost', { createConnection: () => net.connect(socket) });
  try {
    return await new Promise((done, fail) => {
      session.on('error', fail);
      const request = session.request({
        ':method': 'POST',
        ':path': '/runtime.v1.ImageService/PullImage',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      const end = (headers: http2.IncomingHttpHeaders) => {
        if (headers['grpc-status'] !== undefined)
          done({
            status: String(headers['grpc-status']),
            message: decodeURIComponent(String(headers['grpc-message'] ?? '')),
          });
      };
      request.on('response', end).on('trailers', end).on('error', fail).resume();
      const message = text(1, text(1, image));
      const prefix = Buffer.alloc(5);
      prefix.writeUInt32BE(message.length, 1);
      request.end(Buffer.concat([prefix, message]));
    });
  } finally {
    session.destroy();
  }
}

let registry: Awaited<ReturnType<typeof daemon>>;
const skopeo = (...words: string[]): { readonly code: number | null; readonly output: string } => {
  const { command, env } = unpacked('skopeo', 'usr/bin/skopeo');
  const { status, stdout, stderr } = spawnSync(command, words, {
    env: { ...env, HOME },
    encoding: 'utf8',
    timeout: 100_000,
  });
  return { code: status, output: stdout + stderr };
};

beforeAll(async () => {
  bridge('br-mirror', `${ADDRESS}/24`);
  const config = `version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: ${join(HOME, 'storage')}}}
auth: {htpasswd: {realm: test, path: ${file('htpasswd', HTPASSWD)}}}
http:
  addr: "${HOST}"
  secret: x
  tls: {certificate: ${file('cert.pem', certificate)}, key: ${file('key.pem', key)}}
`;
  const { command, env } = unpacked('docker-registry', 'usr/bin/docker-registry');
  registry = await daemon(undefined, [command, 'serve', file('registry.yml', config)], /listening on/, env);
  file('policy.json', JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] }));
  file(`.config/containers/certs.d/${HOST}/ca.crt`, certificate);
  const pushed = skopeo(
    ...['--policy', join(HOME, 'policy.json'), 'copy', '--dest-creds', 'robot:pull me'],
    ...[`dir:${makeImage()}`, `docker://${HOST}/dockerhub/library/hello:v1`],
  );
  expect(pushed.code, pushed.output).toBe(0);
});
afterAll(async () => {
  await registry?.stop();
  remove([], ['br-mirror']);
  rmSync(HOME, { recursive: true, force: true });
});

it('containerd pulls from a project of a registry with a login, and the registry itself is never asked', async () => {
  const { command, env } = unpacked('containerd', 'usr/bin/containerd');
  const version = /(\d+\.\d+\.\d+)/.exec(
    execFileSync(command, ['--version'], { env, encoding: 'utf8' }),
  )![1]!;
  for (const [password, expected] of [
    ['pull me', '0'],
    ['wrong', '2'],
  ] as const) {
    const at = password.replace(' ', '-');
    place(at, clusterOf('containerd', version), [login(password)]);
    const socket = join(HOME, at, 'containerd.sock');
    const containerd = await daemon(
      undefined,
      [
        ...[command, '--config', join(HOME, at, 'etc/containerd/config.toml'), '--address', socket],
        ...['--root', join(HOME, at, 'root'), '--state', join(HOME, at, 'state')],
      ],
      /containerd successfully booted/,
      env,
    );
    try {
      let pulled: Awaited<ReturnType<typeof pullByCri>>;
      // The plugin may need longer than containerd itself to start.
      do pulled = await pullByCri(socket, 'docker.io/library/hello:v1');
      while (/not initialized/.test(pulled.message));
      expect(pulled.status, pulled.message).toBe(expected);
      expect(containerd.output()).not.toContain('registry-1.docker.io');
    } finally {
      await containerd.stop();
    }
  }
});

it('CRI-O’s library pulls from a project of a registry with a login', () => {
  for (const [password, code] of [
    ['pull me', 0],
    ['wrong', 1],
  ] as const) {
    const at = `crio-${code}`;
    place(at, clusterOf('cri-o', '1.7.24'), [login(password)]);
    const etc = join(HOME, at, 'etc');
    const pulled = skopeo(
      ...['--registries-conf', join(etc, 'containers/registries.conf.d/90-muster.conf')],
      ...['--policy', join(etc, 'crio/policy.json'), 'copy', '--authfile', join(etc, 'crio/auth.json')],
      ...['docker://docker.io/library/hello:v1', `dir:${join(HOME, at, 'image')}`],
    );
    expect(pulled.code, pulled.output).toBe(code);
    if (code !== 0) expect(pulled.output).toMatch(/unauthorized|401/);
  }
});
