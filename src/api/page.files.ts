/**
 * The files of the web page, which `make page` builds into dist/page. They are read once at start,
 * and only the names that were found there are answered.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { projectRoot } from '../base/paths.ts';
import { raw } from './contract/contract.ts';
import type { ApiResponse, Handler, Route } from './handler.ts';

/**
 * Only files of this server, no script or style within a document, and no frame of another site
 * around it. The page sends requests to this server only.
 */
const PAGE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Names with a hash of the content never change what they mean. */
const FOREVER = 'public, max-age=31536000, immutable';

export const pageDirectory = (): string => join(projectRoot(), 'dist/page');

/** The routes of the page; undefined when it was not built. */
export function pageRoutes(directory = pageDirectory()): readonly Route<unknown>[] | undefined {
  const names = filesBelow(directory);
  if (!names.includes('index.html')) return undefined;
  return names.flatMap((name) => {
    const type = TYPES[name.split('.').at(-1) ?? ''];
    return type === undefined ? [] : [routeOf(name, type, readFileSync(join(directory, name)))];
  });
}

function filesBelow(directory: string): readonly string[] {
  if (statSync(directory, { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1));
}

function routeOf(name: string, type: string, plain: Buffer): Route<unknown> {
  const packed = gzipSync(plain, { level: 9 });
  const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
  const headers = {
    ...PAGE_HEADERS,
    etag,
    vary: 'accept-encoding',
    'cache-control': name.startsWith('assets/') ? FOREVER : 'no-cache',
  };
  const handler: Handler<unknown> = ({ headers: asked }): ApiResponse => {
    if (asked['if-none-match'] === etag) return { status: 304, headers };
    const gzip = /\bgzip\b/.test(asked['accept-encoding'] ?? '');
    const body = gzip ? packed : plain;
    return {
      status: 200,
      headers: {
        ...headers,
        'content-type': type,
        'content-length': String(body.length),
        ...(gzip && { 'content-encoding': 'gzip' }),
      },
      body: piecesOf(body),
    };
  };
  const path = name === 'index.html' ? '/' : `/${name}`;
  return {
    method: 'GET',
    path,
    access: 'open',
    summary: 'A file of the web page.',
    answer: raw(type, name),
    handler,
  };
}

async function* piecesOf(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}
