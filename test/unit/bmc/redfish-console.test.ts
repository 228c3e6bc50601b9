/** The serial console by a websocket: of a virtual BMC over TLS, and of BMCs that attack. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, describe, expect, test } from 'vitest';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import { consolePath } from '../../../src/bmc/redfish/console.ts';
import {
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmcOptions,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { selfSigned } from '../../self-signed.ts';

const ADA = { user: 'ada', password: 'secret-of-ada' };
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const within = { timeout: 60_000 };

async function client(port: number) {
  const bmc = await openRedfish({ address: '127.0.0.1', port, ...ADA, trust: {} });
  open.push(bmc);
  return bmc;
}

async function virtual(more: Partial<VirtualBmcOptions>) {
  const machine = new ImaginedMachine();
  const options = { protocol: 'redfish', address: '127.0.0.1', port: 0, ...ADA, ...more } as const;
  const bmc = await startVirtualBmc(options, machine);
  open.push(bmc);
  return { machine, bmc, redfish: await client(bmc.port) };
}

/** What a console printed, and whether it ended. */
function listener() {
  const heard = { text: '', octets: 0, ended: 0 };
  const printed = (octets: Buffer): void => {
    heard.octets += octets.length;
    if (heard.text.length < 1000) heard.text += octets.toString('latin1');
  };
  return { heard, use: { printed, ended: () => void heard.ended++ } };
}

describe.each(['openbmc', 'named'] as const)('a console that is %s', (console) => {
  test('prints, takes what is typed, and ends with its BMC', async () => {
    const { machine, bmc, redfish } = await virtual({ traits: { console } });
    const { heard, use } = listener();
    const line = await redfish.console(use);
    await machine.start('network', { hang: false });
    await expect.poll(() => heard.text, within).toBe('BIOS (network)\r\nlogin: ');
    expect(line.type(Buffer.from('root\r'))).toBe(true);
    await expect.poll(() => machine.typed, within).toBe('root\r');
    expect(line.type(Buffer.alloc(64 * 1024))).toBe(false);
    await bmc.close();
    await expect.poll(() => heard.ended, within).toBe(1);
    expect(line.type(Buffer.from('x'))).toBe(false);
  });
});

test('the console of OpenBMC is read and typed into in the session of its Redfish', async () => {
  const { machine, bmc, redfish } = await virtual({ traits: { console: 'openbmc', sessions: 1 } });
  const first = listener();
  const second = listener();
  const line = await redfish.console(first.use);
  await redfish.console(second.use);
  machine.say('POST\r\n');
  await expect.poll(() => [first.heard.text, second.heard.text], within).toEqual(['POST\r\n', 'POST\r\n']);
  await line.close();
  machine.say('more\r\n');
  await expect.poll(() => second.heard.text, within).toBe('POST\r\nmore\r\n');
  expect(first.heard).toMatchObject({ text: 'POST\r\n', ended: 0 });
  // Another certificate gets no token: the connection ends before its request.
  await bmc.changeCertificate();
  await expect(redfish.console(listener().use)).rejects.toMatchObject({ code: 'pin-changed' });
});

test('a BMC without a console by websocket, or that keeps it from the account, says so', async () => {
  const none = await virtual({});
  await expect(none.redfish.console(listener().use)).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining('names no console'),
  });
  const shut = await virtual({ traits: { console: 'openbmc' }, faults: [{ on: '^console', answer: 403 }] });
  await expect(shut.redfish.console(listener().use)).rejects.toMatchObject({
    code: 'refused',
    message: 'the account may not use its console',
  });
});

test('a console is where its system says, never at another host, and never that of another machine', async () => {
  const system = (WebSocket: object) => ({ path: '/', body: { SerialConsole: { WebSocket } } });
  const manager = (Oem: object) => async () => ({ path: '/', body: { Oem } });
  const none = manager({});
  expect(await consolePath(system({ ConsoleURI: '/console/2?a=b' }), none, false)).toBe('/console/2?a=b');
  for (const ConsoleURI of [
    'wss://evil.example/c',
    '//evil.example/c',
    '/a b',
    '/a\r\nx: y',
    `/${'a'.repeat(600)}`,
  ])
    await expect(consolePath(system({ ConsoleURI }), none, true), ConsoleURI).rejects.toThrow('another host');
  await expect(consolePath(system({ ServiceEnabled: false }), none, true)).rejects.toThrow('switched off');
  expect(await consolePath(system({}), manager({ OpenBmc: {} }), true)).toBe('/console0');
  expect(await consolePath(system({}), manager({ OpenBMC: {} }), true)).toBe('/console0');
  await expect(consolePath(system({}), manager({ OpenBmc: {} }), false)).rejects.toThrow('several machines');
});

/** A BMC that logs everybody in, and whose console `attacks` once it is open. */
async function hostile(
  attacks: (socket: Duplex) => void,
  answer = (key: string) =>
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${key}\r\n\r\n`,
) {
  const pair = selfSigned('bmc', ['IP:127.0.0.1']);
  const server = https.createServer(
    { cert: pair.certificate, key: pair.key },
    ({ url, method }, response) => {
      const isLogin = method === 'POST';
      response.writeHead(200, isLogin ? { 'x-auth-token': 't' } : {});
      const body =
        url === '/redfish/v1/Systems'
          ? { Members: [{ '@odata.id': '/redfish/v1/Systems/1' }] }
          : { SerialConsole: { WebSocket: { ConsoleURI: '/console0' } } };
      response.end(JSON.stringify(body));
    },
  );
  const asked: string[] = [];
  server.on('upgrade', ({ url, headers }, socket) => {
    asked.push(`${url} ${headers['x-auth-token']}`);
    socket.on('error', () => {});
    const magic = `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    socket.write(answer(createHash('sha1').update(magic).digest('base64')));
    attacks(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push({
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  });
  return { asked, redfish: await client((server.address() as AddressInfo).port) };
}

/** A frame without a mask: `first` has the code, `length` what it says of itself. */
function frame(first: number, octets: Buffer, length: bigint | number = octets.length): Buffer {
  if (length < 126) return Buffer.concat([Buffer.from([first, Number(length)]), octets]);
  const head = Buffer.alloc(10);
  head.writeUInt8(first);
  head.writeUInt8(127, 1);
  head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, octets]);
}

const BAD: Readonly<Record<string, readonly Buffer[]>> = {
  'a frame of a tebibyte': [frame(0x82, Buffer.alloc(1000), 2n ** 40n)],
  'a frame of 128 KiB': [frame(0x82, Buffer.alloc(128 * 1024))],
  'parts of a message that never ends': [
    frame(0x02, Buffer.alloc(1000)),
    ...Array.from({ length: 100 }, () => frame(0x00, Buffer.alloc(1000))),
  ],
  'empty parts of a message': [
    frame(0x02, Buffer.alloc(0)),
    Buffer.concat(Array.from({ length: 20_000 }, () => frame(0x00, Buffer.alloc(0)))),
  ],
  'codes that nobody knows': [frame(0x83, Buffer.alloc(10)), frame(0x8f, Buffer.alloc(10))],
  'a ping that is too long': [frame(0x89, Buffer.alloc(200))],
  'a frame that is masked, as only clients may': [Buffer.from([0x82, 0x81, 1, 2, 3, 4, 5])],
  'what is no frame at all': [Buffer.from('HTTP/1.1 200 OK\r\n\r\n')],
};

test.each(Object.entries(BAD))('%s ends the console, and nothing of it is printed', async (_, frames) => {
  const { redfish } = await hostile((socket) => {
    for (const one of frames) socket.write(one);
  });
  const { heard, use } = listener();
  await redfish.console(use);
  await expect.poll(() => heard.ended, within).toBe(1);
  expect(heard.octets).toBe(0);
});

test('an answer that is no upgrade, or leads elsewhere, is refused, and its host gets no token', async () => {
  const elsewhere = await hostile(() => {});
  const location = 'https://127.0.0.1:1/console0';
  for (const status of ['200 OK', `302 Found\r\nlocation: ${location}`, '503 Busy']) {
    const { redfish } = await hostile(
      (socket) => socket.end(),
      () => `HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`,
    );
    const code = status.startsWith('503') ? 'busy' : 'refused';
    await expect(redfish.console(listener().use)).rejects.toMatchObject({ code });
  }
  const wrong = await hostile(
    () => {},
    () => 'HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n',
  );
  await expect(wrong.redfish.console(listener().use)).rejects.toMatchObject({ code: 'unreachable' });
  expect(elsewhere.asked).toEqual([]);
});

test.each([
  ['without end', frame(0x82, Buffer.alloc(4096, 0x41))],
  ['that are empty', Buffer.concat(Array.from({ length: 500 }, () => frame(0x82, Buffer.alloc(0))))],
  ['that are pings', Buffer.concat(Array.from({ length: 500 }, () => frame(0x89, Buffer.alloc(0))))],
])('frames %s wait in the BMC, and are taken as a serial line would bring them', async (_, part) => {
  let sent = 0;
  const { redfish } = await hostile((socket) => {
    const more = (): void => {
      do sent += part.length;
      while (socket.write(part));
    };
    socket.on('drain', more);
    more();
  });
  const begun = performance.now();
  const { heard, use } = listener();
  const line = await redfish.console(use);
  // Other work goes on, and what was sent stays behind what this end takes in a second.
  await expect.poll(() => sent > 1024 * 1024 || performance.now() - begun > 3000, within).toBe(true);
  const seconds = Math.ceil((performance.now() - begun) / 1000) + 1;
  expect(heard.octets).toBeLessThan(seconds * 512 * 1024);
  await line.close();
  expect(heard.ended).toBe(0);
});
