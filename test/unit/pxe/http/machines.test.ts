import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import v8 from 'node:v8';
import vm from 'node:vm';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Millis } from '../../../../src/base/duration.ts';
import { MACHINE_HTTP_LIMITS, type Standing } from '../../../../src/base/limits.server.ts';
import { ask, type Rig, raw, rig } from './rig.ts';

v8.setFlagsFromString('--expose-gc');
/** Collects garbage, so that a measurement does not count buffers that are no longer used. */
const collectGarbage = vm.runInNewContext('gc') as () => void;

let server: Rig;
beforeAll(async () => {
  server = await rig();
});
afterAll(() => server.close());
const get = (target: string, headers = {}) => ask(server.port, 'GET', target, headers);
const asset = () => `/assets/${server.sha256}/kernel`;

describe('files of images', () => {
  it('come whole, with their length, type and validator', async () => {
    const { status, headers, body } = await get(asset());
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-length': '100000',
      'accept-ranges': 'bytes',
      etag: `"${server.sha256}"`,
      'content-type': 'application/octet-stream',
    });
    expect(body.equals(server.octets)).toBe(true);
    // The client may have the last octet a moment before the server records the event.
    await vi.waitFor(() => {
      const served = server.events.filter(({ kind }) => kind === 'asset.served');
      expect(served.at(-1)).toMatchObject({
        subject: '127.0.0.1',
        network: 'loop',
        fields: { octets: 100_000 },
      });
    }, 10_000);
  });

  it('are described by HEAD as by GET, without the body', async () => {
    const whole = await get(asset());
    const { status, headers, body } = await ask(server.port, 'HEAD', asset());
    expect([status, body.length]).toEqual([200, 0]);
    const { date: _a, ...ofHead } = headers;
    const { date: _b, ...ofGet } = whole.headers;
    expect(ofHead).toEqual(ofGet);
  });

  it.each([
    ['bytes=0-9', 0, 10],
    ['bytes=99990-', 99_990, 100_000],
    ['bytes=-5', 99_995, 100_000],
    ['bytes=99999-200000', 99_999, 100_000],
  ])('come in part for %s', async (range, from, to) => {
    const { status, headers, body } = await get(asset(), { range });
    expect(status).toBe(206);
    expect(headers['content-range']).toBe(`bytes ${from}-${to - 1}/100000`);
    expect(headers['content-length']).toBe(String(to - from));
    expect(body.equals(server.octets.subarray(from, to))).toBe(true);
  });

  it('give their size when the range is outside them', async () => {
    const { status, headers } = await get(asset(), { range: 'bytes=100000-' });
    expect([status, headers['content-range']]).toEqual([416, 'bytes */100000']);
  });

  it.each(['bytes=5-1', 'bytes=a-b', 'items=0-1', 'bytes=0-1,5-6', 'bytes=-'])(
    'come whole for a range that may be ignored: %s',
    async (range) => expect((await get(asset(), { range })).status).toBe(200),
  );

  it('are not sent again to a client that has them, and a stale range gets the whole file', async () => {
    const etag = `"${server.sha256}"`;
    expect((await get(asset(), { 'if-none-match': etag })).status).toBe(304);
    expect((await get(asset(), { range: 'bytes=0-1', 'if-range': etag })).status).toBe(206);
    expect((await get(asset(), { range: 'bytes=0-1', 'if-range': '"old"' })).status).toBe(200);
  });

  it('that are missing are refused with a remedy', async () => {
    const { status, body } = await get(`/assets/${'0'.repeat(64)}/kernel`);
    expect(status).toBe(404);
    expect(body.toString()).toMatch(/^E_NOT_FOUND: .*muster image add/);
  });
});

describe('files of images that are not here', () => {
  it('get 503 when an Image names them, and 404 when none does', async () => {
    const r = await rig();
    try {
      const from = () => ask(r.port, 'GET', `/assets/${r.sha256}/kernel`);
      fs.rmSync(r.assets.find(r.sha256)!.path);
      expect((await from()).status).toBe(404);
      expect(r.assets.find(r.sha256)).toBeUndefined();
      r.needed.add(r.sha256);
      const { status, headers, body } = await from();
      expect([status, headers['retry-after']]).toEqual([503, '5']);
      expect(body.toString()).toMatch(/muster image add/);
    } finally {
      await r.close();
    }
  });

  it('get 503 at the first request that finds them missing, and are served when they are added', async () => {
    const r = await rig();
    try {
      const from = () => ask(r.port, 'GET', `/assets/${r.sha256.toUpperCase()}/kernel`);
      r.needed.add(r.sha256);
      fs.rmSync(r.assets.find(r.sha256)!.path);
      expect((await from()).status).toBe(503);
      await r.assets.receive({ sha256: r.sha256, offset: 0, body: one(r.octets) });
      expect((await from()).body.equals(r.octets)).toBe(true);
      fs.writeFileSync(r.assets.find(r.sha256)!.path, 'rotten');
      expect(await r.assets.verify(r.sha256)).toBe('changed');
      expect((await from()).status).toBe(503);
    } finally {
      await r.close();
    }
  });
});

async function* one(octets: Buffer) {
  yield octets;
}

describe('boot loaders', () => {
  it('are served under their names, in any case, as EFI programs', async () => {
    for (const name of ['ipxe.efi', 'IPXE.EFI']) {
      const { status, headers, body } = await get(`/loaders/${name}`);
      expect([status, headers['content-type'], body.toString()]).toEqual([
        200,
        'application/efi',
        'an EFI program',
      ]);
    }
  });

  it('that are missing are refused with what to install', async () => {
    const { status, body } = await get('/loaders/nope.efi');
    expect(status).toBe(404);
    expect(body.toString()).toMatch(/Install Debian's package ipxe.* muster reload reads/);
  });
});

describe('a file that becomes shorter while it is sent', () => {
  it('ends its connection at once, short of the length that was promised', async () => {
    const size = 16 * 1024 * 1024;
    const big = await rig({ size });
    const { path } = big.assets.find(big.sha256)!;
    const socket = net.connect(big.port, '127.0.0.1');
    socket.write(`GET /assets/${big.sha256}/root HTTP/1.1\r\nHost: a\r\n\r\n`);
    await once(socket, 'readable');
    fs.truncateSync(path, 10);
    let octets = 0;
    socket.on('data', (part: Buffer) => (octets += part.length));
    // It is cut, and does not wait for the time-out of a kept connection.
    await once(socket, 'close', { signal: AbortSignal.timeout(4000) });
    expect(octets).toBeLessThan(size);
    expect(big.events.filter(({ kind }) => kind === 'asset.served')).toEqual([]);
    await big.close();
  });
});

describe('paths', () => {
  it('paths may have doubled slashes, and are never answered with a redirect', async () => {
    for (const target of ['//loaders//ipxe.efi', `//assets/${server.sha256}//kernel`])
      expect((await get(target)).status).toBe(200);
  });

  it('may be given in absolute form', async () =>
    expect((await get(`http://x:1/loaders/ipxe.efi`)).status).toBe(200));

  it.each([
    '/loaders/../secret',
    '/loaders/%2e%2e/secret',
    '/loaders/..%2fsecret',
    '/loaders/%2e%2e%2fsecret',
    '/loaders/..%5csecret',
    '/loaders/ipxe.efi%00',
    '/loaders/ipxe.efi%0a',
    '/loaders/%',
    '/loaders/%ff',
    '/./loaders/ipxe.efi',
    'loaders/ipxe.efi',
    '*',
    `/${'a'.repeat(9000)}`,
  ])('like %j are malformed', async (target) => {
    const { status, body } = await get(target);
    expect(status).toBe(400);
    expect(body.toString()).not.toContain('secret');
  });

  it.each(['/loaders/leak.efi', '/loaders//etc/passwd', '/loaders/', '/etc/passwd', '/', '/loaders/secret'])(
    'like %j lead nowhere',
    async (target) => expect((await get(target)).status).toBe(404),
  );
});

describe('the habits that firmware demands', () => {
  it('refuse other methods, and name the allowed ones', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const { status, headers } = await ask(server.port, method, asset());
      expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
    }
    expect((await ask(server.port, 'GET', '/boot/live/report')).status).toBe(405);
  });

  it('the server keeps a connection open after HEAD and GET, for more than a minute (edk2#9920)', async () => {
    const request = `HEAD /loaders/ipxe.efi HTTP/1.1\r\nHost: 10.78.0.1\r\nUser-Agent: UefiHttpBoot/1.0\r\n\r\n`;
    const { headers, body } = await raw(
      server.port,
      `${request}${request.replace('HEAD', 'GET').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`,
    );
    expect(headers.connection).toBe('keep-alive');
    expect(Number(/timeout=([0-9]+)/.exec(headers['keep-alive'] ?? '')?.[1])).toBeGreaterThanOrEqual(60);
    expect(body.toString()).toMatch(/an EFI program$/);
  });

  it('the server never sends an empty header value (edk2#7443), and always sends a length', async () => {
    for (const target of [
      asset(),
      '/boot.ipxe',
      '/nowhere',
      '/boot/live/user-data',
      '/boot/waiting/user-data',
    ]) {
      const { headers } = await get(target);
      expect(headers['content-length']).toMatch(/^[0-9]+$/);
      for (const [name, value] of Object.entries(headers)) expect(value, name).not.toBe('');
    }
  });
});

describe('scripts', () => {
  it('scripts have URLs with the server’s address, not with the Host that the client sends', async () => {
    for (const target of ['/boot.ipxe', '/boot/SESSION_1/start.ipxe']) {
      const { headers, body } = await get(target, { host: 'evil' });
      expect(headers['content-type']).toMatch(/^text\/plain/);
      expect(body.toString()).toContain(`http://127.0.0.1:${server.port}/`);
      expect(body.toString()).not.toContain('evil');
    }
    expect((await get('/boot/SESSION_1/start.ipxe')).body.toString()).toContain(
      '/boot/SESSION_1/script.ipxe?',
    );
  });

  it('are requested with what iPXE says about the machine', async () => {
    await get(
      '/boot/s1/script.ipxe?mac=52-54-00-aa-00-02&macs=52-54-00-aa-00-01,52-54-00-aa-00-02,,&uuid=4C4C4544-0042-3510-8051-B7C04F4D3532&serial=AB%20C%2B1+2&manufacturer=Dell%20Inc.&product=&asset=%ff&arch=x86_64&platform=efi',
    );
    expect(server.asked.at(-1)).toMatchObject({
      boot: 's1',
      bootMac: '52:54:00:aa:00:02',
      arch: 'x86_64',
      firmware: 'uefi',
      peer: '127.0.0.1',
      baseUrl: `http://127.0.0.1:${server.port}`,
      network: { name: 'loop' },
      identity: {
        macs: ['52:54:00:aa:00:02', '52:54:00:aa:00:01'],
        uuid: '4c4c4544-0042-3510-8051-b7c04f4d3532',
        serial: 'AB C+1+2',
        manufacturer: 'Dell Inc.',
        assetTag: 'ÿ',
      },
    });
    expect(server.asked.at(-1)?.identity).not.toHaveProperty('product');
  });

  it('the length is in a header that GRUB reads', async () => {
    for (const path of ['/boot.ipxe', asset()]) {
      const { names } = await get(path);
      expect(names).toContain('Content-Length');
    }
  });

  it('a GRUB gets a script of its own, and its word that a file did not load is a report', async () => {
    expect((await get('/boot.grub')).status).toBe(400);
    expect((await get('/boot.grub?mac=52:54:00:aa:00:02&arch=x86_64&platform=efi')).status).toBe(200);
    expect(server.asked.at(-1)).toMatchObject({
      ...{ loader: 'grub', bootMac: '52:54:00:aa:00:02', arch: 'x86_64', firmware: 'uefi' },
    });
    const { status, body } = await get('/boot/live/refused/kernel');
    expect([status, body.toString()]).toEqual([200, expect.stringContaining('reboot')]);
    expect(server.reports.at(-1)).toMatchObject({
      ...{ session: 'live', report: { step: 'failed', detail: 'loader: GRUB could not load the kernel' } },
    });
    expect((await get('/boot/live/refused/something')).status).toBe(404);
  });

  it('can be requested without a session, by a machine that says which it is', async () => {
    expect((await get('/script.ipxe')).status).toBe(400);
    expect((await get('/script.ipxe?mac=52-54-00-aa-00-02')).status).toBe(200);
    expect(server.asked.at(-1)?.boot).toBeUndefined();
  });

  it('are neither given nor counted for HEAD', async () => {
    const before = server.asked.length;
    for (const path of ['/boot/s1/script.ipxe?mac=52:54:00:aa:00:01', '/script.ipxe?mac=52:54:00:aa:00:01']) {
      const { status, headers, body } = await ask(server.port, 'HEAD', path);
      expect([status, headers['content-type'], body.length]).toEqual([200, 'text/plain; charset=utf-8', 0]);
    }
    expect(server.asked.length).toBe(before);
  });

  it('that cannot be made now get 503 with Retry-After, without details of the fault', async () => {
    const { status, headers, body } = await get('/boot/broken/script.ipxe?mac=52-54-00-aa-00-02');
    expect([status, headers['retry-after']]).toEqual([503, '5']);
    expect(body.toString()).not.toContain('boom');
  });

  it('are refused for an invalid session id', async () => {
    for (const id of ['a b', 'x'.repeat(65), '$%7Bx%7D'])
      expect((await get(`/boot/${encodeURIComponent(id)}/start.ipxe`)).status).toBe(404);
  });
});

describe('configuration', () => {
  it.each(['user-data', 'meta-data', 'vendor-data', 'network-config', 'ignition'])(
    '%s is served',
    async (file) => {
      const { status, headers, body } = await get(`/boot/live/${file}`);
      expect([status, headers['content-type'], body.toString()]).toEqual([200, 'text/yaml', `#${file}\n`]);
    },
  );

  it('that is not ready is 503 with Retry-After, never 404 or empty', async () => {
    const { status, headers } = await get('/boot/waiting/user-data');
    expect([status, headers['retry-after']]).toEqual([503, '5']);
  });

  it('for an unknown session is 404 with the reason', async () => {
    const { status, body } = await get('/boot/old/user-data');
    expect([status, body.toString()]).toEqual([
      404,
      'E_NOT_FOUND: no such session; power the machine on again\n',
    ]);
  });
});

describe('reports', () => {
  const report = (session: string, body: string) =>
    ask(
      server.port,
      'POST',
      `/boot/${session}/report`,
      {
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': String(Buffer.byteLength(body)),
      },
      body,
    );

  it('are accepted as forms, and the answer says whether they are believed', async () => {
    const { status } = await report('live', 'step=failed&detail=no+disk%0A&log=a%0Ab%25');
    expect(status).toBe(200);
    expect(server.reports.at(-1)).toEqual({
      session: 'live',
      peer: '127.0.0.1',
      report: { step: 'failed', detail: 'no disk', logTail: 'a\nb%' },
    });
    expect((await report('stale', 'step=ready')).status).toBe(409);
  });

  it('of unknown steps are refused', async () => {
    const { status, body } = await report('live', 'step=installed');
    expect([status, body.toString()]).toEqual([
      400,
      'E_USAGE: step must be one of kernel, configured, ready, failed.\n',
    ]);
  });

  it('keep the end of a long log', async () => {
    await report('live', `step=failed&log=${'a'.repeat(30_000)}end`);
    const tail = server.reports.at(-1)?.report.logTail ?? '';
    expect([tail.length, tail.slice(-3)]).toEqual([16_384, 'end']);
  });

  it('larger than 64 KiB are refused, before they are sent if the client asks', async () => {
    const before = server.reports.length;
    expect((await report('live', `step=ready&log=${'a'.repeat(70_000)}`)).status).toBe(413);
    const expecting = await ask(server.port, 'POST', '/boot/live/report', {
      'content-length': '1000000',
      expect: '100-continue',
    });
    expect(expecting.status).toBe(413);
    expect(server.reports.length).toBe(before);
  });
});

describe('a client that misbehaves', () => {
  it('by speaking no HTTP gets 400 and is cut', async () => {
    for (const noise of ['\0\x01\x02\x03\r\n\r\n', 'GET\r\n\r\n', '\x16\x03\x01\x02\0\x01\0'])
      expect((await raw(server.port, Buffer.from(noise, 'latin1'))).status).toBe(400);
  });

  it('by headers without end gets 431', async () => {
    expect(
      (await raw(server.port, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`)).status,
    ).toBe(431);
  });

  it('by never finishing its request is cut, and others are served meanwhile', async () => {
    const ms = (n: number) => n as Millis;
    const quick = await rig({
      limits: { headersTimeout: ms(150), requestTimeout: ms(300), checkEvery: ms(50) },
    });
    const slow = raw(quick.port, 'GET / HTTP/1.1\r\nHost: x\r\n');
    const slowBody = raw(
      quick.port,
      'POST /boot/live/report HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nstep',
    );
    expect((await ask(quick.port, 'GET', '/boot.ipxe')).status).toBe(200);
    expect((await slow).status).toBe(408);
    expect([0, 408]).toContain((await slowBody).status);
    await quick.close();
  });

  it('is not one whose request waited because this process was busy', async () => {
    const ms = (n: number) => n as Millis;
    const busy = await rig({
      limits: { headersTimeout: ms(150), requestTimeout: ms(300), checkEvery: ms(50) },
    });
    const socket = net.connect(busy.port, '127.0.0.1');
    await once(socket, 'connect');
    expect((await ask(busy.port, 'GET', '/boot.ipxe')).status).toBe(200);
    socket.write('GET /boot.ipxe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    for (const began = performance.now(); performance.now() - began < 600; );
    let answer = '';
    for await (const octets of socket) answer += String(octets);
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    await busy.close();
  });

  it('by opening many connections is limited to its share', async () => {
    const few = await rig({ limits: { perClient: 3 } });
    const sockets = await Promise.all(
      Array.from(
        { length: 10 },
        () =>
          new Promise<{ open: boolean; socket: net.Socket }>((resolve) => {
            const socket = net.connect(few.port, '127.0.0.1');
            socket.on('error', () => {});
            socket.on('close', () => resolve({ open: false, socket }));
            socket.on('connect', () => socket.write('GET /boot.ipxe HTTP/1.1\r\nHost: x\r\n\r\n'));
            socket.on('data', () => resolve({ open: true, socket }));
          }),
      ),
    );
    expect(sockets.filter(({ open }) => open).length).toBe(3);
    for (const { socket } of sockets) socket.destroy();
    await few.close();
  });

  it('without a lease gets a smaller share than a machine, and never the reserve', async () => {
    const standing = (address: string): Standing => (address === '127.0.0.9' ? 'machine' : 'stranger');
    const few = await rig({
      standing,
      limits: { connections: 8, reserved: 4, perClient: 9, perMachine: 3, perStranger: 2 },
    });
    const sockets: net.Socket[] = [];
    /** How many of ten connections from this address get an answer. */
    const answered = async (localAddress: string) => {
      const got = await Promise.all(
        Array.from(
          { length: 10 },
          () =>
            new Promise<boolean>((resolve) => {
              const socket = net.connect({ port: few.port, host: '127.0.0.1', localAddress });
              sockets.push(socket);
              socket.on('error', () => {});
              socket.on('close', () => resolve(false));
              socket.on('connect', () => socket.write('GET /boot.ipxe HTTP/1.1\r\nHost: x\r\n\r\n'));
              socket.on('data', () => resolve(true));
            }),
        ),
      );
      return got.filter(Boolean).length;
    };
    expect([await answered('127.0.0.2'), await answered('127.0.0.3'), await answered('127.0.0.4')]).toEqual([
      2, 2, 0,
    ]);
    expect(await answered('127.0.0.9')).toBe(3);
    for (const socket of sockets) socket.destroy();
    await few.close();
  });

  it('by sending many requests at once is cut', async () => {
    const got = await raw(server.port, 'GET /boot.ipxe HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(50));
    // Without the limit the connection would stay open, and all fifty would be answered.
    expect(got.body.toString('latin1').split('HTTP/1.1 200').length).toBeLessThan(10);
  });

  it('by not reading costs 64 KiB where many others do the same, and still gets the whole file later', async () => {
    const octets = 3 * 1024 * 1024;
    const big = await rig({ size: octets });
    const connections = await Promise.all(
      Array.from(
        { length: 200 },
        () =>
          new Promise<net.Socket>((resolve) => {
            const socket = net.connect(big.port, '127.0.0.1', () => {
              socket.write(`GET /assets/${big.sha256}/root HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
              socket.once('readable', () => resolve(socket));
            });
            socket.on('error', () => {});
          }),
      ),
    );
    for (const socket of connections) {
      let length = 0;
      socket.on('data', (part: Buffer) => (length += part.length));
      await new Promise((resolve) => socket.once('close', resolve));
      expect(length).toBeGreaterThan(octets);
    }
    await big.close();
  });

  it('by not reading what it asked for costs memory for a few reads, not for the file', async () => {
    const big = await rig({ size: 64 * 1024 * 1024 });
    const target = `/assets/${big.sha256}/root`;
    const stuck = await Promise.all(
      Array.from(
        { length: 20 },
        () =>
          new Promise<net.Socket>((resolve) => {
            const socket = net.connect(big.port, '127.0.0.1', () => {
              socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
              socket.once('readable', () => resolve(socket));
            });
            socket.on('error', () => {});
          }),
      ),
    );
    collectGarbage();
    const before = process.memoryUsage();
    expect((await ask(big.port, 'HEAD', target)).status).toBe(200);
    collectGarbage();
    const { external, arrayBuffers } = process.memoryUsage();
    expect(external + arrayBuffers - before.external - before.arrayBuffers).toBeLessThan(100 * 1024 * 1024);
    for (const socket of stuck) socket.destroy();
    await big.close();
  });
});

describe('the server', () => {
  it('lets a transfer end when it is told to stop, and takes no new connection', async () => {
    const big = await rig({ size: 32 * 1024 * 1024 });
    const socket = net.connect(big.port, '127.0.0.1');
    socket.write(`GET /assets/${big.sha256}/root HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((resolve) => socket.once('readable', resolve));
    const closing = big.close();
    let octets = 0;
    for await (const part of socket) octets += (part as Buffer).length;
    expect(octets).toBeGreaterThan(32 * 1024 * 1024);
    await closing;
    await expect(ask(big.port, 'GET', '/boot.ipxe')).rejects.toThrow(/ECONNREFUSED/);
  });

  it('cuts a transfer that does not end', async () => {
    const big = await rig({ size: 32 * 1024 * 1024, limits: { grace: 100 as Millis } });
    const socket = net.connect(big.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`GET /assets/${big.sha256}/root HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((resolve) => socket.once('readable', resolve));
    await big.close();
    socket.destroy();
  });

  it('counts requests by route and status', async () => {
    expect(await server.metrics()).toMatch(/muster_http_requests_total\{route="asset",status="206"\} [1-9]/);
    expect(MACHINE_HTTP_LIMITS.keepAlive).toBeGreaterThanOrEqual(60_000);
  });
});
