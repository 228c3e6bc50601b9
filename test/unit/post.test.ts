/** What an operator's document names cannot reach programs that only the boot host should reach. */
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { createPost } from '../../src/base/post.socket.ts';

let server: http.Server | undefined;
afterEach(() => server?.close());

/** The port of a server on loopback, which counts its requests. */
async function listening(counted: { asked: number }): Promise<number> {
  server = http.createServer((request, response) => {
    counted.asked++;
    request.resume();
    response.end('yes');
  });
  server.listen(0);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const posted = (url: string) => ({ url, headers: {}, body: 'x' });
const soon = () => AbortSignal.timeout(5_000);

test.each([
  '127.0.0.1',
  '127.9.9.9',
  'localhost',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '0.0.0.0',
  '2130706433',
  '169.254.169.254',
  '[fe80::1]',
])('a Webhook to %s is not sent, unless the server allows it', async (host) => {
  const counted = { asked: 0 };
  const port = await listening(counted);
  const { post, postAndRead } = createPost({ local: false });
  const url = `http://${host}:${port}/`;
  await expect(post(posted(url), soon())).rejects.toMatchObject({ code: 'E_LOCAL_ADDRESS' });
  await expect(postAndRead(posted(url), { limit: 10 }, soon())).rejects.toMatchObject({
    code: 'E_LOCAL_ADDRESS',
  });
  expect(counted.asked).toBe(0);
});

test('where local addresses are allowed, answers are read up to their limit', async () => {
  const counted = { asked: 0 };
  const url = `http://127.0.0.1:${await listening(counted)}/`;
  const { post, postAndRead } = createPost({ local: true });
  expect(await post(posted(url), soon())).toBe(200);
  expect(await postAndRead(posted(url), { limit: 3 }, soon())).toEqual({ status: 200, text: 'yes' });
  await expect(postAndRead(posted(url), { limit: 2 }, soon())).rejects.toMatchObject({ code: 'E_TOO_LARGE' });
  expect(counted.asked).toBe(3);
});
