/** A client that disconnects during its request. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import net from 'node:net';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { createServer } from '../../../src/api/api.server.ts';
import { json, type Route, readText } from '../../../src/api/handler.ts';
import { silentLog } from '../../../src/base/log.ts';

it('is logged at level debug, without a stack', async () => {
  const lines: [string, Record<string, unknown>][] = [];
  const logged = Promise.withResolvers<void>();
  const keep = (level: string) => (fields: Record<string, unknown>) => {
    lines.push([level, fields]);
    logged.resolve();
  };
  const log = { ...silentLog, debug: keep('debug'), warn: keep('warn'), error: keep('error') };
  const counted: unknown[] = [];
  const metrics = { add: (...one: unknown[]) => void counted.push(one) };
  const reading = Promise.withResolvers<void>();
  const route: Route<unknown> = {
    method: 'PUT',
    path: '/file',
    access: 'operate',
    summary: 'Takes a file.',
    answer: z.int(),
    handler: async (request) => {
      reading.resolve();
      return json((await readText(request)).length);
    },
  };
  const server = createServer([route], { log, metrics } as never, new AbortController().signal);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = net.connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write('PUT /file HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf');
  await reading.promise;
  client.destroy();
  await logged.promise;
  expect(lines).toEqual([['debug', { method: 'PUT', path: '/file' }]]);
  expect(counted).toEqual([['muster_api_requests_total', { route: 'PUT /file', status: '499' }]]);
  server.close();
});
