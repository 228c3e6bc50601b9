/** Requests to the outside go through the proxy of the environment: a real proxy, real requests. */
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type net from 'node:net';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { connectRegistry } from '../../../src/cli/artifacts/registry-source.files.ts';
import { readAll, urlSource } from '../../../src/cli/image/sources.files.ts';
import { isDirect } from '../../../src/cli/no-proxy.ts';
import { fetchOutside } from '../../../src/cli/outside.socket.ts';

let proxy: http.Server;
let origin: http.Server;
/** What the proxy was asked for. */
let asked: string[];
const portOf = (server: http.Server): number => (server.address() as AddressInfo).port;

beforeEach(async () => {
  for (const name of ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'no_proxy', 'NO_PROXY'])
    vi.stubEnv(name, '');
  asked = [];
  origin = http.createServer((_, response) => response.end('from the origin')).listen(0, '127.0.0.1');
  proxy = http
    .createServer((request, response) => {
      asked.push(request.url!);
      response.end('through the proxy');
    })
    .on('connect', (request, socket: net.Socket) => {
      asked.push(`CONNECT ${request.url} ${request.headers['proxy-authorization'] ?? ''}`);
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    })
    .listen(0, '127.0.0.1');
  await Promise.all([once(origin, 'listening'), once(proxy, 'listening')]);
});
afterEach(() => {
  vi.unstubAllEnvs();
  proxy.close();
  origin.close();
});

const signal = () => new AbortController().signal;
const text = async (url: string) => Buffer.from(await readAll(urlSource(url), 1000, signal())).toString();
const address = () => `http://127.0.0.1:${portOf(proxy)}`;

describe('the proxy of the environment', () => {
  it('is asked for a file of http, by the names that curl reads', async () => {
    for (const name of ['http_proxy', 'HTTP_PROXY']) {
      vi.stubEnv('http_proxy', '');
      vi.stubEnv(name, address());
      expect(await text('http://mirror.invalid/k')).toBe('through the proxy');
    }
    expect(asked).toEqual(['http://mirror.invalid/k', 'http://mirror.invalid/k']);
  });

  it('is asked to connect for https, with its credentials, which no message repeats', async () => {
    vi.stubEnv('HTTPS_PROXY', `http://ops:secret@127.0.0.1:${portOf(proxy)}`);
    const failed = await text('https://mirror.invalid/k').catch((error: Error) => error.message);
    expect(asked).toEqual([
      `CONNECT mirror.invalid:443 Basic ${Buffer.from('ops:secret').toString('base64')}`,
    ]);
    expect(failed).toContain(`through the proxy ${address()}`);
    expect(failed).not.toContain('secret');
  });

  it('is asked for the token of a registry', async () => {
    vi.stubEnv('https_proxy', address());
    const registry = connectRegistry('https://registry.invalid', 'a/b');
    await expect(registry.manifest('v1', 1000, signal())).rejects.toMatchObject({ code: 'E_FETCH' });
    expect(asked[0]).toContain('CONNECT registry.invalid:443');
  });

  it.each(['localhost,127.0.0.1', '127.0.0.0/8', '10.0.0.0/8, 127.0.0.1/32', '*'])(
    'is not asked for a host of NO_PROXY=%s',
    async (list) => {
      vi.stubEnv('http_proxy', address());
      vi.stubEnv('NO_PROXY', list);
      expect(await text(`http://127.0.0.1:${portOf(origin)}/k`)).toBe('from the origin');
      expect(asked).toEqual([]);
    },
  );

  it('is asked for a host that no network of NO_PROXY holds', async () => {
    vi.stubEnv('http_proxy', address());
    vi.stubEnv('no_proxy', '10.0.0.0/8,127.0.0.1:1,other.invalid');
    expect(await text(`http://127.0.0.1:${portOf(origin)}/k`)).toBe('through the proxy');
    expect(await text('http://mirror.invalid/k')).toBe('through the proxy');
  });

  it('is asked by nothing else of the process', async () => {
    vi.stubEnv('http_proxy', address());
    await fetchOutside('http://mirror.invalid/k');
    const direct = await fetch(`http://127.0.0.1:${portOf(origin)}/k`);
    expect(await direct.text()).toBe('from the origin');
    expect(asked).toHaveLength(1);
  });

  it.each(['proxy.example:3128', 'socks5://127.0.0.1:1080', 'no proxy'])('cannot be %s', async (value) => {
    vi.stubEnv('HTTPS_PROXY', value);
    await expect(text('https://mirror.invalid/k')).rejects.toMatchObject({
      code: 'E_USAGE',
      message: expect.stringMatching(/^HTTPS_PROXY is not the URL of a proxy; write it like/),
    });
  });
});

it('no command fetches on its own', () => {
  const files = fs.readdirSync('src/cli', { recursive: true, encoding: 'utf8' });
  const fetching = files.filter(
    (name) =>
      name.endsWith('.ts') && /(?<![.\w])fetch\(/.test(fs.readFileSync(path.join('src/cli', name), 'utf8')),
  );
  expect(fetching).toEqual(['outside.socket.ts']);
});

it.each([
  ['lab.example', 'http://lab.example/', true],
  ['lab.example', 'http://a.lab.example/', true],
  ['.lab.example', 'http://a.lab.example/', true],
  ['*.lab.example', 'http://LAB.example/', true],
  ['lab.example', 'http://mylab.example/', false],
  ['Lab.Example:8080', 'http://lab.example:8080/', true],
  ['lab.example:8080', 'http://lab.example/', false],
  ['lab.example:443', 'https://lab.example/', true],
  ['fd00::/8', 'http://[fd00::1]:8080/', true],
  ['fd00::1', 'http://[fd00::1]/', true],
  ['[fd00::1]:80', 'http://[fd00:0::1]/', true],
  ['10.0.0.0/8', 'http://10.1.2.3/', true],
  ['10.0.0.0/8', 'http://11.1.2.3/', false],
  ['10.0.0.0/8', 'http://a10.example/', false],
  ['0.1', 'http://10.0.0.1/', false],
  ['', 'http://lab.example/', false],
])('NO_PROXY=%s lists %s: %s', (list, url, lists) => {
  expect(isDirect(list, new URL(url))).toBe(lists);
});
