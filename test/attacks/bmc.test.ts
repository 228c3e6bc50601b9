/**
 * BMCs that attack the boot host which asks them, machines that reach their own BMC, and operators
 * who may not use one. A BMC is a small computer that is seldom updated, and its words are foreign.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PowerView } from '../../src/api/operations/power.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import {
  certificateOf,
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../src/lab/bmc/virtual-bmc.server.ts';
import type { Certificate } from '../../src/lab/bmc/web-certificate.ts';
import { BOOT_HOST, MACHINES, Rig, SERVER_MODE } from './rig.ts';

const OPERATORS = `${BOOT_HOST}:8444`;
const PASSWORD = 'a-password-of-20-oct';
/** The BMC of a machine that reaches it; it says by itself what it speaks. */
const OWN = '127.0.0.9';
const SYSTEM = '/redfish/v1/Systems/1';
const ROOT = '/redfish/v1';
/** HTML, and sequences that a terminal would obey: the title, the clipboard, the cursor. */
const NASTY =
  '<script>alert(1)</script>\u001b]0;owned\u0007\u001b]52;c;cm0gLXJm\u0007\u001b[2J\u009b1m\u202e\r\nready';

type Answers = (request: IncomingMessage, response: ServerResponse) => void;
/** What reached a hostile BMC, and where it listens. */
interface Hostile {
  readonly port: number;
  readonly asked: string[];
  readonly server: Server;
}

let rig: Rig;
let certificate: Certificate;
const open: { close(): unknown }[] = [];
/** The names of machines, each with its BMC, and their documents. */
const documents: string[] = [];
const describeBmc = (name: string, bmc: string): void => {
  const mac = `52:54:00:bb:00:${documents.length.toString(16).padStart(2, '0')}`;
  documents.push(`---
apiVersion: muster/v1
kind: Machine
metadata: {name: ${name}}
spec:
  macs: ["${mac}"]
  profile: node
  bmc: {${bmc}, credentials: {user: ada, password: {valueFrom: {secret: bmc, key: password}}}}
`);
};

const json = (response: ServerResponse, body: unknown, headers: Record<string, string> = {}): void =>
  void response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

/** The answers of a BMC that is well; hostile ones put theirs over them. */
const decent: Answers = ({ url, method }, response) => {
  if (method === 'POST')
    json(response, {}, { 'x-auth-token': 't', location: `${ROOT}/SessionService/Sessions/1` });
  else if (url === `${ROOT}/Systems`) json(response, { Members: [{ '@odata.id': SYSTEM }] });
  else json(response, { PowerState: 'On' });
};

async function hostile(
  name: string | undefined,
  answers: Answers,
  pair = certificate,
  place = { host: '127.0.0.1', port: 0 },
): Promise<Hostile> {
  const asked: string[] = [];
  const server = createServer({ cert: pair.certificate, key: pair.key }, (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    request.resume();
    response.on('error', () => {});
    answers(request, response);
  });
  server.listen(place);
  await once(server, 'listening');
  open.push({
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  });
  const { port } = server.address() as AddressInfo;
  if (name !== undefined) describeBmc(name, `address: 127.0.0.1, port: ${port}, protocol: redfish`);
  return { port, asked, server };
}

async function virtual(name: string, protocol: 'redfish' | 'ipmi', more = ''): Promise<VirtualBmc> {
  const machine = new ImaginedMachine();
  const bmc = await startVirtualBmc(
    {
      protocol,
      address: '127.0.0.1',
      port: 0,
      user: 'ada',
      password: PASSWORD,
      ...(protocol === 'redfish' && { certificate }),
    },
    machine,
  );
  open.push(bmc);
  machines.set(name, machine);
  describeBmc(name, `address: 127.0.0.1, port: ${bmc.port}, protocol: ${protocol}${more}`);
  return bmc;
}
const machines = new Map<string, ImaginedMachine>();

/** A BMC by UDP that answers each datagram with `answers`. */
async function datagrams(
  name: string,
  answers: (socket: Socket, port: number, datagram: Buffer) => void,
): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', (datagram, { port }) => answers(socket, port, datagram));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  open.push({ close: () => socket.close() });
  describeBmc(name, `address: 127.0.0.1, port: ${socket.address().port}, protocol: ipmi`);
}

/** A value without the escapes of JSON, which would hide what a reader gets. */
function text(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' && value !== null ? Object.values(value).map(text).join(' ') : '';
}

async function status(name: string): Promise<PowerView> {
  const query = { machines: name, live: 'true' };
  const { items } = await connectApi(rig.muster.socket).call<{ items: PowerView[] }>('GET', '/v1/power', {
    query,
  });
  return items[0]!;
}
let away: Hostile;
let swapped: Hostile;
let own: VirtualBmc;
let good: VirtualBmc;
const deep = `${'['.repeat(400_000)}${']'.repeat(400_000)}`;

beforeAll(async () => {
  certificate = await certificateOf('127.0.0.1');
  away = await hostile('elsewhere', decent);
  const elsewhere = `https://127.0.0.1:${away.port}`;
  const at =
    (path: string, answers: Answers): Answers =>
    (request, response) =>
      (request.url === path ? answers : decent)(request, response);
  await hostile(
    'endless',
    at(SYSTEM, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const part = `{"PowerState":"On","${'x'.repeat(65_000)}":1,`;
      const more = (): void => {
        while (!response.destroyed && response.write(part));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    }),
  );
  await hostile('headers', (_, response) => {
    response.socket!.write(`HTTP/1.1 200 OK\r\n${'x-a: b\r\n'.repeat(500_000)}`);
  });
  for (const code of [301, 302, 307, 308])
    await hostile(
      `redirect${code}`,
      (_, response) => void response.writeHead(code, { location: `${elsewhere}${SYSTEM}` }).end(),
    );
  await hostile(
    'links',
    at(`${ROOT}/Systems`, (_, response) =>
      json(response, {
        Members: [
          elsewhere,
          `//127.0.0.1:${away.port}`,
          `${ROOT}/../../..//127.0.0.1:${away.port}`,
          '\\\\127.0.0.1',
        ].map((host) => ({ '@odata.id': `${host}${SYSTEM}` })),
      }),
    ),
  );
  await hostile('session', ({ method }, response) =>
    method === 'POST'
      ? json(response, {}, { 'x-auth-token': 't', location: `${elsewhere}/redfish/v1/../../v1/operators` })
      : void response.writeHead(500).end(),
  );
  await hostile(
    'drip',
    at(SYSTEM, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 100);
      response.on('close', () => clearInterval(drip));
    }),
  );
  await hostile(
    'deep',
    at(SYSTEM, (_, response) => void response.end(deep)),
  );
  await hostile('names', ({ url = '', method }, response) => {
    if (method === 'POST' || url === `${ROOT}/Systems`)
      return decent({ url, method } as IncomingMessage, response);
    const list = (path: string) => ({ '@odata.id': path });
    json(response, {
      ...{ PowerState: 'On', Manufacturer: NASTY, Model: NASTY, SerialNumber: NASTY, BiosVersion: NASTY },
      ...{
        Chassis: list(`${ROOT}/Chassis`),
        Thermal: list(`${ROOT}/Chassis/1/Thermal`),
        LogServices: list(`${SYSTEM}/LogServices`),
        Entries: list(`${SYSTEM}/LogServices/1/Entries`),
      },
      Links: { Chassis: [list(`${ROOT}/Chassis/1`)], ManagedBy: [list(`${ROOT}/Managers/1`)] },
      Members: [
        { ...list(`${SYSTEM}/LogServices/1`), Message: NASTY, Created: NASTY, Severity: NASTY, Name: NASTY },
      ],
      Temperatures: [{ Name: NASTY, ReadingCelsius: 40, Status: { State: 'Enabled' } }],
    });
  });
  await hostile(
    'errors',
    at(
      SYSTEM,
      (_, response) =>
        void response
          .writeHead(400, { 'content-type': 'application/json' })
          .end(JSON.stringify({ error: { message: NASTY } })),
    ),
  );
  swapped = await hostile('swapped', decent);
  own = await startVirtualBmc(
    { protocol: 'redfish', address: OWN, user: 'ada', password: PASSWORD },
    new ImaginedMachine(),
  );
  describeBmc('own', `address: ${OWN}`);
  good = await virtual('good', 'redfish');
  const huge = Buffer.alloc(65_000, 0x07);
  await datagrams('huge', (socket, port, datagram) => {
    const open = Buffer.concat([datagram.subarray(0, 5), Buffer.from([0x11]), huge.subarray(0, 60_000)]);
    for (let n = 0; n < 20; n++)
      for (const one of [huge, open, Buffer.alloc(0), datagram]) socket.send(one, port, '127.0.0.1');
  });
  rig = await Rig.open(`${SERVER_MODE}${MACHINES}${documents.join('')}`, ['--operators-listen', OPERATORS]);
  await connectApi(rig.muster.socket).call('PUT', '/v1/secrets/bmc/password', { body: PASSWORD });
  // Its console is opened at once when the Secret is there.
  await virtual('serial', 'ipmi', ', console: sol');
  await connectApi(rig.muster.socket).call('POST', '/v1/apply', { body: documents.at(-1)! });
});
afterAll(async () => {
  await rig?.close();
  for (const one of open) one.close();
});

it('an answer without an end, a drip, deep JSON and huge datagrams stop nobody, and take no memory', async () => {
  const before = rig.memory();
  // It holds its own request for 20 seconds, and nobody else's.
  const drips = status('drip');
  const began = performance.now();
  expect(await status('endless')).toMatchObject({ state: 'unknown', fault: 'its answer does not end' });
  expect((await status('headers')).state).toBe('unknown');
  expect((await status('deep')).state).toBe('unknown');
  expect((await status('huge')).state).toBe('unknown');
  expect((await status('good')).state).toBe('off');
  expect(performance.now() - began).toBeLessThan(12_000);
  expect(rig.memory() - before).toBeLessThan(150);
  expect(await Promise.race([drips.then(({ state }) => state), 'it still waits'])).not.toBe('on');
});

it('no redirect and no link leads to another host, nor to another path', async () => {
  for (const name of ['redirect301', 'redirect302', 'redirect307', 'redirect308', 'links', 'session'])
    expect([name, (await status(name)).state]).toEqual([name, 'unknown']);
  expect(away.asked).toEqual([]);
});

it('HTML and sequences of terminals arrive nowhere as such', async () => {
  const views = ['inventory', 'sensors', 'log'];
  const texts = await Promise.all([
    rig.operator('bmc', 'show', 'names', '--log'),
    ...views.map((view) => rig.muster.get(`/v1/machines/names/bmc?view=${view}`).then(text)),
    status('errors').then(text),
  ]);
  const printed = async (): Promise<string> => {
    machines.get('serial')!.say(`${NASTY}\r\n`);
    return text(await rig.muster.get('/v1/machines/serial/console?bmc=true'));
  };
  await expect.poll(printed, { timeout: 15_000 }).toContain('script');
  texts.push(await printed());
  for (const one of texts) expect(one).toContain('script');
  texts.push(rig.muster.log());
  for (const one of texts) expect(one).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
});

it('a certificate that is swapped in the middle of a session gets no word of it, until somebody accepts it', async () => {
  expect((await status('swapped')).state).toBe('on');
  const before = swapped.asked.length;
  const other = await certificateOf('127.0.0.1');
  swapped.server.setSecureContext({ cert: other.certificate, key: other.key });
  swapped.server.setTicketKeys(Buffer.alloc(48, 7));
  swapped.server.closeAllConnections();
  for (let n = 0; n < 3; n++) {
    const { state, fault } = await status('swapped');
    expect([state, fault]).toEqual(['unknown', expect.stringContaining('another certificate')]);
  }
  expect(swapped.asked).toHaveLength(before);
  await rig.operator('power', 'forget', 'swapped');
  expect((await status('swapped')).state).toBe('on');
});

it('a machine that reaches its own BMC and answers in its place gets no password, by neither protocol', async () => {
  expect((await status('own')).state).toBe('off');
  await own.close();
  const other = await hostile(undefined, decent, await certificateOf(OWN), { host: OWN, port: 443 });
  const socket = createSocket('udp4');
  let heard = 0;
  socket.on('message', () => heard++).bind(623, OWN);
  await once(socket, 'listening');
  for (let n = 0; n < 3; n++)
    expect(await status('own')).toMatchObject({
      state: 'unknown',
      fault: expect.stringContaining('certificate'),
    });
  socket.close();
  expect([other.asked, heard]).toEqual([[], 0]);
});

it('an operator without the right orders, types, reads and forgets nothing, and its BMC hears nothing', async () => {
  const api = connectApi(rig.muster.socket);
  const grants = [{ role: 'operator', clusters: ['two'] }];
  await api.call('PUT', '/v1/operators/eve', { body: { json: { grants } } });
  const { token } = await api.call<{ token: string }>('POST', '/v1/tokens', {
    body: { json: { operator: 'eve', label: 't', grants, expires: '1d' } },
  });
  const eve = (path: string, ...more: string[]) =>
    rig.http('atk', `https://${OPERATORS}${path}`, '-k', '-H', `authorization: Bearer ${token}`, ...more);
  const { controller } = good;
  const before = controller.log.length;
  const send = ['-H', 'content-type: application/json', '--data'];
  const order = JSON.stringify({ order: 'cycle', cut: true, machines: ['good'] });
  const asked = [
    await eve('/v1/power', ...send, order),
    await eve('/v1/power?machines=good&live=true'),
    await eve('/v1/machines/good/bmc'),
    await eve('/v1/machines/good/bmc', '-X', 'DELETE'),
    await eve('/v1/machines/good/identify', ...send, '{}'),
    await eve('/v1/bmcs/rotate', ...send, JSON.stringify({ machines: ['good'] })),
  ];
  expect(asked.map(({ status: code }) => code)).toEqual([403, 403, 403, 403, 403, 403]);
  const { body } = await eve('/v1/bmcs');
  expect(body).not.toContain('good');
  expect(controller.log).toHaveLength(before);
});
