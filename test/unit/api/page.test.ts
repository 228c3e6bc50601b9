/** The files of the page over real HTTPS: what is answered, and with which headers. */
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { pageRoutes } from '../../../src/api/page.files.ts';
import { openWorld, type World } from './world.ts';

let directory: string;
let world: World;
beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-page-'));
  fs.mkdirSync(path.join(directory, 'assets'));
  fs.writeFileSync(path.join(directory, 'index.html'), '<!doctype html><title>Muster</title>');
  fs.writeFileSync(path.join(directory, 'assets/main-AbC12_-3.js'), 'export const a = 1;\n'.repeat(100));
  fs.writeFileSync(path.join(directory, 'notes.txt'), 'no part of the page');
  world = await openWorld(undefined, { https: true, page: pageRoutes(directory)! });
});
afterEach(async () => {
  await world.close();
  fs.rmSync(directory, { recursive: true, force: true });
});

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}
const ask = (where: string, headers: Record<string, string> = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: world.httpsPort,
      path: where,
      headers,
      ca: world.authority,
      agent: false,
    };
    https
      .get(options, async (response) => {
        const body = Buffer.concat(await response.toArray());
        resolve({ status: response.statusCode!, headers: response.headers, body });
      })
      .once('error', reject);
  });

test('everybody gets the page, with a policy that allows only files of this server', async () => {
  const { status, headers, body } = await ask('/');
  expect(status).toBe(200);
  expect(String(body)).toContain('Muster');
  expect(headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
  });
  const policy = String(headers['content-security-policy']);
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|\*|https?:|data:/);
  expect((await ask('/', { 'if-none-match': String(headers.etag) })).status).toBe(304);
});

test('files with a hash in their names are kept for ever, and are compressed', async () => {
  const { headers, body } = await ask('/assets/main-AbC12_-3.js', { 'accept-encoding': 'gzip' });
  expect(headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' });
  expect(headers['cache-control']).toContain('immutable');
  expect(body.length).toBeLessThan(100);
  expect(String(gunzipSync(body))).toContain('export const a');
});

test.each([
  '/notes.txt',
  '/assets/../notes.txt',
  '/assets/%2e%2e/index.html',
  '/assets/..%2fnotes.txt',
  '/assets',
])('%s is no file of the page', async (where) => {
  expect((await ask(where)).status).toBe(404);
});

test('the API needs a log-in beside the page', async () => {
  expect((await ask('/v1/machines')).status).toBe(401);
});

test('a page that was not built has no routes', () => {
  expect(pageRoutes(path.join(directory, 'missing'))).toBeUndefined();
});
