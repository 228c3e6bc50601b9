/** The client of Redfish over real TLS, with a BMC of a few lines that keeps to what it says. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Bmc, BmcFault } from '../../../src/bmc/bmc.ts';
import { openRedfish, type RedfishAccess } from '../../../src/bmc/redfish/client.socket.ts';
import { selfSigned } from '../../self-signed.ts';

const PAIRS = [selfSigned('bmc', ['IP:127.0.0.1']), selfSigned('other', ['IP:127.0.0.1'])] as const;
const pinOf = (pair: (typeof PAIRS)[number]): string =>
  new X509Certificate(pair.certificate).fingerprint256.replaceAll(':', '').toLowerCase();
const SYSTEM = '/redfish/v1/Systems/1';
const SESSIONS = '/redfish/v1/SessionService/Sessions';

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: https.RequestOptions['headers'] & Record<string, unknown>;
  readonly body: Record<string, unknown>;
}
interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** A BMC whose answers `rule` may replace. */
async function startBmc(rule: (asked: Asked) => Answer | undefined = () => undefined, pair = PAIRS[0]) {
  const state = {
    power: 'Off',
    boot: {
      BootSourceOverrideEnabled: 'Disabled',
      BootSourceOverrideTarget: 'None',
      BootSourceOverrideMode: 'Legacy',
      'BootSourceOverrideTarget@Redfish.AllowableValues': ['None', 'Pxe', 'Hdd', 'BiosSetup'],
    },
    etag: 1,
    sessions: 0,
    asked: [] as Asked[],
  };
  const answer = (asked: Asked): Answer => {
    const { method, path, headers, body } = asked;
    if (method === 'POST' && path === SESSIONS) {
      if (body.Password !== 'right') return { status: 401 };
      state.sessions++;
      return { status: 201, headers: { 'x-auth-token': 'token', location: `${SESSIONS}/7` } };
    }
    if (headers['x-auth-token'] !== 'token') return { status: 401 };
    if (method === 'DELETE') state.sessions--;
    if (path === '/redfish/v1/Systems') return { body: { Members: [{ '@odata.id': SYSTEM }] } };
    if (method === 'PATCH') {
      if (headers['if-match'] !== `"${state.etag}"`) return { status: 412 };
      state.etag++;
      Object.assign(state.boot, body.Boot);
    }
    if (path === `${SYSTEM}/Actions/ComputerSystem.Reset`)
      state.power = body.ResetType === 'ForceOff' ? 'Off' : 'On';
    const target = { target: `${SYSTEM}/Actions/ComputerSystem.Reset` };
    const reset = { ...target, 'ResetType@Redfish.AllowableValues': ['On', 'ForceOff', 'ForceRestart'] };
    return {
      headers: { etag: `W/"${state.etag}"` },
      body: { PowerState: state.power, Boot: state.boot, Actions: { '#ComputerSystem.Reset': reset } },
    };
  };
  const server = https.createServer({ cert: pair.certificate, key: pair.key }, (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const text = Buffer.concat(parts).toString();
      const { method = '', url: path = '', headers } = request;
      const asked = { method, path, headers, body: text ? JSON.parse(text) : {} } as Asked;
      state.asked.push(asked);
      const { status = 200, headers: own = {}, body = {} } = rule(asked) ?? answer(asked);
      response.writeHead(status, { 'content-type': 'application/json', ...own });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  started.push(server);
  return { state, server, port: (server.address() as AddressInfo).port };
}

const started: https.Server[] = [];
afterEach(() => {
  for (const server of started.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const access = (port: number, more: Partial<RedfishAccess> = {}): RedfishAccess => ({
  ...{ address: '127.0.0.1', port, user: 'ada', password: 'right', trust: { pinned: () => {} } },
  ...more,
});
async function asked<T>(to: RedfishAccess, ask: (bmc: Bmc) => Promise<T>): Promise<T> {
  const bmc = await openRedfish(to);
  try {
    return await ask(bmc);
  } finally {
    await bmc.close();
  }
}

test('power, boot once and its reading back work in one session, which is closed', async () => {
  const { state, port } = await startBmc();
  await asked(access(port), async (bmc) => {
    expect(await bmc.power()).toBe('off');
    await bmc.bootOnce('network', { uefi: true });
    expect(await bmc.boot()).toEqual({ target: 'network', uefi: true, persistent: false });
    await bmc.order('on');
    expect(await bmc.power()).toBe('on');
  });
  expect(state.sessions).toBe(0);
  // Target, enabled and mode arrive together; the weak tag is shown again as a strong one.
  const [first, second] = state.asked.filter(({ method }) => method === 'PATCH');
  expect(first?.headers['if-match']).toBe('W/"1"');
  expect(second?.body).toEqual({
    Boot: {
      BootSourceOverrideTarget: 'Pxe',
      BootSourceOverrideEnabled: 'Once',
      BootSourceOverrideMode: 'UEFI',
    },
  });
  expect(state.asked.every(({ headers }) => headers['accept-encoding'] === undefined)).toBe(true);
});

test('a wrong password ends at its first refusal, and leaves no session', async () => {
  const { state, port } = await startBmc();
  await expect(openRedfish(access(port, { password: 'wrong' }))).rejects.toMatchObject({ code: 'password' });
  expect(state.asked).toHaveLength(1);
});

test('the first certificate is pinned, and no password goes to another one', async () => {
  const pins: string[] = [];
  const { port } = await startBmc();
  await asked(access(port, { trust: { pinned: (pin) => pins.push(pin) } }), (bmc) => bmc.power());
  expect(new Set(pins).size).toBe(1);
  const other = await startBmc(undefined, PAIRS[1]);
  const pinned = access(other.port, { trust: { pin: pins[0], pinned: () => {} } });
  await expect(openRedfish(pinned)).rejects.toMatchObject({ code: 'pin-changed' });
  expect(other.state.asked).toEqual([]);
});

test('a certificate that changes within a session ends it, also one that was the first', async () => {
  const { port, state, server } = await startBmc();
  const bmc = await openRedfish(access(port));
  const asks = () => bmc.power().catch((error: BmcFault) => error.code);
  server.closeAllConnections();
  await expect.poll(asks).toBe('off');
  const before = state.asked.length;
  server.setSecureContext({ cert: PAIRS[1].certificate, key: PAIRS[1].key });
  server.closeAllConnections();
  await expect.poll(asks).toBe('pin-changed');
  for (let n = 0; n < 3; n++) await expect(bmc.power()).rejects.toMatchObject({ code: 'pin-changed' });
  expect(state.asked).toHaveLength(before);
  await bmc.close();
});

test('a certificate may be of a CA instead, for the address of the BMC', async () => {
  const { port, state } = await startBmc();
  const by = (ca: string) => access(port, { trust: { ca } });
  expect(await asked(by(PAIRS[0].certificate), (bmc) => bmc.power())).toBe('off');
  const before = state.asked.length;
  await expect(openRedfish(by(PAIRS[1].certificate))).rejects.toMatchObject({ code: 'pin-changed' });
  expect(state.asked).toHaveLength(before);
});

test('a CA may have signed a name instead of the address, which has to be the one of the document', async () => {
  const named = selfSigned('bmc', ['DNS:bmc-1.lab.example']);
  const { port, state } = await startBmc(undefined, named);
  const by = (name?: string) => access(port, { trust: { ca: named.certificate, ...(name && { name }) } });
  expect(await asked(by('bmc-1.lab.example'), (bmc) => bmc.power())).toBe('off');
  const before = state.asked.length;
  for (const name of ['bmc-2.lab.example', undefined])
    await expect(openRedfish(by(name))).rejects.toMatchObject({ code: 'pin-changed' });
  expect(state.asked).toHaveLength(before);
});

test('a redirect is not followed, nor a link to another host', async () => {
  const other = await startBmc();
  const away = { status: 302, headers: { location: `https://127.0.0.1:${other.port}${SYSTEM}` } };
  const { port } = await startBmc(({ path }) => (path === SYSTEM ? away : undefined));
  await expect(asked(access(port), (bmc) => bmc.power())).rejects.toMatchObject({ code: 'refused' });
  const members = { body: { Members: [{ '@odata.id': `//127.0.0.1:${other.port}${SYSTEM}` }] } };
  const linking = await startBmc(({ path }) => (path.endsWith('/Systems') ? members : undefined));
  await expect(openRedfish(access(linking.port))).rejects.toMatchObject({ code: 'not-understood' });
  expect(other.state.asked).toEqual([]);
});

test('an answer that does not end is cut off', async () => {
  const { port } = await startBmc(({ path }) =>
    path === SYSTEM ? { body: `{"PowerState":"${'n'.repeat(3 * 1024 * 1024)}"}` } : undefined,
  );
  await expect(asked(access(port), (bmc) => bmc.power())).rejects.toMatchObject({ code: 'unreachable' });
});

test('a BMC without room for a session says so by its name, and one that is busy is asked again', async () => {
  const full = {
    status: 503,
    body: { error: { '@Message.ExtendedInfo': [{ MessageId: 'Base.1.8.SessionLimitExceeded' }] } },
  };
  const { port } = await startBmc(({ path }) => (path === SESSIONS ? full : undefined));
  await expect(openRedfish(access(port))).rejects.toMatchObject({ code: 'sessions-exhausted' });
  let refusals = 1;
  const busy = await startBmc(({ path }) =>
    path === SYSTEM && refusals-- > 0 ? { status: 409 } : undefined,
  );
  expect(await asked(access(busy.port), (bmc) => bmc.power())).toBe('off');
});

test('a BMC that wants its password changed first is named, which is no refused log-in', async () => {
  const body = { error: { '@Message.ExtendedInfo': [{ MessageId: 'Base.1.8.PasswordChangeRequired' }] } };
  const { port, state } = await startBmc(({ path, method }) =>
    path !== SESSIONS && method === 'GET' ? { status: 403, body } : undefined,
  );
  await expect(openRedfish(access(port))).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining('the password of this account is changed'),
  });
  expect(state.sessions).toBe(0);
});

test('a refusal because of the present state is asked again', async () => {
  const body = {
    error: { '@Message.ExtendedInfo': [{ MessageId: 'iLO.2.14.InvalidOperationForSystemState' }] },
  };
  let refusals = 1;
  const { port, state } = await startBmc(({ path }) =>
    path.endsWith('.Reset') && refusals-- > 0 ? { status: 400, body } : undefined,
  );
  await asked(access(port), (bmc) => bmc.order('on'));
  expect(state.power).toBe('On');
});

test('several systems need a name, and a state between on and off is neither', async () => {
  const members = { body: { Members: [{ '@odata.id': SYSTEM }, { '@odata.id': '/redfish/v1/Systems/2' }] } };
  const { port, state } = await startBmc(({ path }) => (path.endsWith('/Systems') ? members : undefined));
  await expect(openRedfish(access(port))).rejects.toThrow(/2 systems \(1, 2\): name one in bmc.system/);
  state.power = 'PoweringOn';
  expect(await asked(access(port, { system: '1' }), (bmc) => bmc.power())).toBe('unknown');
});

test('a session that stays open resumes its TLS, with the certificate that it began with', async () => {
  const { port, state, server } = await startBmc();
  const resumed: boolean[] = [];
  server.on('secureConnection', (socket) => resumed.push(socket.isSessionReused()));
  const bmc = await openRedfish(access(port, { trust: { pin: pinOf(PAIRS[0]), pinned: () => {} } }));
  // The BMC closes what is idle, also just when it is asked again.
  server.closeAllConnections();
  expect(await bmc.power()).toBe('off');
  expect(await bmc.power()).toBe('off');
  expect(resumed).toEqual([false, true]);
  // Another one at its address, which does not know the session.
  server.setSecureContext({ cert: PAIRS[1].certificate, key: PAIRS[1].key });
  server.setTicketKeys(Buffer.alloc(48, 1));
  server.closeAllConnections();
  const before = state.asked.length;
  await expect(bmc.power()).rejects.toMatchObject({ code: 'pin-changed' });
  await bmc.close();
  expect(state.asked).toHaveLength(before);
});
