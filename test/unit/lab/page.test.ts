/** How browsers of the host reach the page of a boot host inside the rack's namespace. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { inheritedPage, LOOPBACK, listenOnHost, passOn } from '../../../src/lab/page.socket.ts';

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A server that answers when its client has said everything; returns its port. */
async function answering(answer: (asked: string) => string): Promise<number> {
  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    let asked = '';
    client.setEncoding('utf8').on('data', (piece) => {
      asked += piece;
    });
    client.on('end', () => client.end(answer(asked)));
  });
  server.listen(0, LOOPBACK);
  await once(server, 'listening');
  ends.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

async function ask(port: number, words: string): Promise<string> {
  const client = net.connect({ host: LOOPBACK, port, allowHalfOpen: true });
  client.end(words);
  return await text(client);
}

test('a client of the socket on the host talks to the server inside, in both directions', async () => {
  const page = await listenOnHost(0);
  const long = 'x'.repeat(3_000_000);
  ends.push(passOn(page, await answering((asked) => `${asked.length} ${long}`)));
  const said = await ask(page.port, long);
  expect(said === `${long.length} ${long}`, said.slice(0, 20)).toBe(true);
  const all = await Promise.all([1, 2, 3].map((n) => ask(page.port, 'x'.repeat(n))));
  expect(all.map((said) => said.slice(0, 2))).toEqual(['1 ', '2 ', '3 ']);
});

test('a server that does not listen yet ends its clients, and the next ones are served', async () => {
  const page = await listenOnHost(0);
  const closed = await answering(() => '');
  await ends.pop()!();
  const end = passOn(page, closed);
  ends.push(end);
  await expect(ask(page.port, 'hello').catch(() => '')).resolves.toBe('');
  await expect(ask(page.port, 'hello').catch(() => '')).resolves.toBe('');
});

test('programs inherit the socket, only this host reaches it, and its end closes it', async () => {
  const page = await listenOnHost(0);
  const end = passOn(page, 1);
  const of = execFileSync('readlink', [`/proc/self/fd/${page.fd}`], { encoding: 'utf8' });
  expect(of).toMatch(/^socket:\[\d+\]\n$/);
  const listening = execFileSync('cat', ['/proc/net/tcp'], { encoding: 'utf8' })
    .split('\n')
    .find((line) => line.includes(of.slice('socket:['.length, -2)))!;
  expect(listening).toMatch(/^ *\d+: 0100007F:/);
  await end();
  await expect(ask(page.port, '')).rejects.toThrow('ECONNREFUSED');
});

test('a port that another program uses is refused, with what to do', async () => {
  const taken = await answering(() => '');
  await expect(listenOnHost(taken)).rejects.toMatchObject({
    code: 'E_PORT_IN_USE',
    message: `--page: port ${taken} of ${LOOPBACK}: another program uses it; give another port, or 0 for any`,
  });
});

test('the process inside finds the socket by its environment, and none without it', () => {
  expect(inheritedPage({ MUSTER_LAB_PAGE: '20:8444' })).toEqual({ fd: 20, port: 8444 });
  expect(inheritedPage({})).toBeUndefined();
});
