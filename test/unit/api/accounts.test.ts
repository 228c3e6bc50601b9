/** Operators log in over HTTPS: real TLS, scrypt, the whole table of routes. */
import type http from 'node:http';
import https from 'node:https';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decideAccess, type Grant, grantOf, type Role } from '../../../src/api/access.ts';
import { narrowed } from '../../../src/api/accounts/accounts.ts';
import { Attempts, networkOf } from '../../../src/api/accounts/attempts.ts';
import { firstLink } from '../../../src/api/accounts/first-link.ts';
import { Passwords, type Standing } from '../../../src/api/accounts/passwords.ts';
import { LIFETIME } from '../../../src/api/accounts/sessions.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { ipv4 } from '../../../src/base/ipv4.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import { readInventory } from '../../../src/machines/inventory.ts';
import { CHEAP, openWorld, type World } from './world.ts';

/** Leases of the tests end at this time. */
const LATER = millis(Date.UTC(2100, 0));
const PASSWORD = 'correct horse battery';
let world: World;
let url: string;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true });
  url = `https://127.0.0.1:${world.httpsPort}`;
});
afterEach(() => world.close());

const client = (session?: string): ApiClient =>
  connectApi({ url, authority: world.authority, ...(session !== undefined && { session }) });

async function operator(name: string, ...grants: Grant[]): Promise<string> {
  await world.client.call('PUT', `/v1/operators/${name}`, { body: { json: { grants } } });
  const { invitation } = await world.client.call<{ invitation: string }>(
    'POST',
    `/v1/operators/${name}/invite`,
  );
  const body = { json: { invitation, password: PASSWORD } };
  return (await client().call<{ session: string }>('POST', '/v1/invitation', { body })).session;
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof MusterError ? error.code : String(error)),
  );

describe('an operator', () => {
  it('sets a password by an invitation, once, and then logs in with it', async () => {
    await operator('ada', { role: 'viewer' });
    const log = (password: string) =>
      client().call<{ operator: string }>('POST', '/v1/login', {
        body: { json: { operator: 'ada', password } },
      });
    expect(await log(PASSWORD)).toMatchObject({ operator: 'ada', grants: [{ role: 'viewer' }] });
    expect(await codeOf(log('wrong horse battery'))).toBe('E_LOGIN');
    expect(await codeOf(operator('ada', { role: 'viewer' }))).toBe('done');
  });

  it('cannot redeem an invitation twice, nor one that has ended', async () => {
    const put = { body: { json: { grants: [{ role: 'viewer' }] } } };
    await world.client.call('PUT', '/v1/operators/ada', put);
    const invite = () => world.client.call<{ invitation: string }>('POST', '/v1/operators/ada/invite');
    const redeem = (invitation: string) =>
      client().call('POST', '/v1/invitation', { body: { json: { invitation, password: PASSWORD } } });
    const first = (await invite()).invitation;
    expect(await codeOf(redeem(first))).toBe('done');
    expect(await codeOf(redeem(first))).toBe('E_LOGIN');
    const second = (await invite()).invitation;
    world.clock.advance((25 * 3_600_000) as never);
    expect(await codeOf(redeem(second))).toBe('E_LOGIN');
  });

  it('sets another password with the present one, which ends all other sessions', async () => {
    const other = await operator('ada', { role: 'viewer' });
    const log = (password: string) =>
      client().call<{ session: string }>('POST', '/v1/login', {
        body: { json: { operator: 'ada', password } },
      });
    const { session } = await log(PASSWORD);
    const change = (password: string, next: string) =>
      client(session).call<{ session: string }>('PUT', '/v1/whoami/password', {
        body: { json: { password, next } },
      });
    expect(await codeOf(change('wrong horse battery', 'another horse battery'))).toBe('E_LOGIN');
    expect(await codeOf(change(PASSWORD, 'short'))).toBe('E_USAGE');
    // An administrator who invites wants the password replaced, whatever its bearer does.
    const { invitation } = await world.client.call<{ invitation: string }>(
      'POST',
      '/v1/operators/ada/invite',
    );
    const changed = await change(PASSWORD, 'another horse battery');
    expect(await codeOf(log(PASSWORD))).toBe('E_LOGIN');
    for (const ended of [other, session])
      expect(await codeOf(client(ended).call('GET', '/v1/whoami'))).toBe('E_UNAUTHENTICATED');
    expect(await codeOf(client(changed.session).call('GET', '/v1/whoami'))).toBe('done');
    const redeem = { body: { json: { invitation, password: PASSWORD } } };
    expect(await codeOf(client().call('POST', '/v1/invitation', redeem))).toBe('done');
  });

  it('sees and ends own sessions, and nobody else by them', async () => {
    const others = await operator('bob', { role: 'viewer' });
    const [session, theirs] = [await operator('ada', { role: 'auditor' }), client(others)];
    await client().call('POST', '/v1/login', { body: { json: { operator: 'ada', password: PASSWORD } } });
    type List = { readonly items: readonly { readonly id: string; readonly here: boolean }[] };
    const { items } = await client(session).call<List>('GET', '/v1/whoami/sessions');
    expect(items.map(({ here }) => here).sort()).toEqual([false, true]);
    const [{ id: elsewhere } = { id: '' }] = items.filter(({ here }) => !here);
    expect(await codeOf(theirs.call('DELETE', `/v1/whoami/sessions/${elsewhere}`))).toBe('E_NOT_FOUND');
    expect(await codeOf(client(session).call('DELETE', `/v1/whoami/sessions/${elsewhere}`))).toBe('done');
    expect((await client(session).call<List>('GET', '/v1/whoami/sessions')).items).toHaveLength(1);
  });

  it('cannot change the password by a token', async () => {
    const session = await operator('ada', { role: 'admin' });
    const body = { operator: 'ada', label: 'ci', grants: [{ role: 'viewer' }], expires: '1d' };
    const { token } = await client(session).call<{ token: string }>('POST', '/v1/tokens', {
      body: { json: body },
    });
    const json = { password: PASSWORD, next: 'another horse battery' };
    expect(await codeOf(client(token).call('PUT', '/v1/whoami/password', { body: { json } }))).toBe(
      'E_FORBIDDEN',
    );
  });

  it('gets what the roles allow, and nothing without a log-in', async () => {
    const session = await operator('ada', { role: 'viewer' });
    expect(await codeOf(client().call('GET', '/v1/machines'))).toBe('E_UNAUTHENTICATED');
    expect(await codeOf(client('invented').call('GET', '/v1/machines'))).toBe('E_UNAUTHENTICATED');
    expect(await codeOf(client(session).call('GET', '/v1/machines'))).toBe('done');
    expect(await codeOf(client(session).call('POST', '/v1/reload'))).toBe('E_FORBIDDEN');
    expect(await codeOf(client(session).call('GET', '/v1/audit'))).toBe('E_FORBIDDEN');
  });

  it('is logged out by a change of roles, by removal, and when the session ends', async () => {
    const session = await operator('ada', { role: 'viewer' });
    const put = { body: { json: { grants: [{ role: 'admin' }] } } };
    await world.client.call('PUT', '/v1/operators/ada', put);
    expect(await codeOf(client(session).call('GET', '/v1/whoami'))).toBe('E_UNAUTHENTICATED');
    const body = { json: { operator: 'ada', password: PASSWORD } };
    const again = (await client().call<{ session: string }>('POST', '/v1/login', { body })).session;
    expect(await codeOf(client(again).call('POST', '/v1/reload'))).toBe('done');
    world.clock.advance(LIFETIME);
    expect(await codeOf(client(again).call('GET', '/v1/whoami'))).toBe('E_UNAUTHENTICATED');
    await world.client.call('DELETE', '/v1/operators/ada');
    expect(await codeOf(client().call('POST', '/v1/login', { body }))).toBe('E_LOGIN');
  });

  it('learns by a stable word why nobody is logged in any more', async () => {
    const why = (session?: string): Promise<string | undefined> =>
      client(session)
        .call('GET', '/v1/machines')
        .then(
          () => 'answered',
          (error: MusterError) => {
            expect(error.code).toBe('E_UNAUTHENTICATED');
            return error.reason;
          },
        );
    const grants: Grant[] = [{ role: 'viewer' }];
    const begin = () => operator('ada', ...grants);
    const call = (method: string, path: string, json?: object) =>
      world.client.call(method, path, json && { body: { json } });
    const ends: Readonly<Record<string, (session: string) => unknown>> = {
      ended: async () => {
        for (const { id } of world.deps.accounts.sessions.list()) await call('DELETE', `/v1/sessions/${id}`);
      },
      roles: () => call('PUT', '/v1/operators/ada', { grants }),
      password: async () => {
        const { text } = await world.deps.accounts.operators.invite('ada');
        await client().call('POST', '/v1/invitation', {
          body: { json: { invitation: text.reveal(), password: PASSWORD } },
        });
      },
      logged_out: (session) => client(session).call('POST', '/v1/logout'),
      idle: () => world.clock.advance(millis(3_600_000)),
      over: (session) => {
        for (let hour = 0; hour < 12; hour += 0.5) {
          world.deps.accounts.sessions.owner(session);
          world.clock.advance(millis(1_800_000));
        }
      },
      removed: () => call('DELETE', '/v1/operators/ada'),
    };
    for (const [reason, end] of Object.entries(ends)) {
      const session = await begin();
      expect(await why(session)).toBe('answered');
      await end(session);
      expect(await why(session)).toBe(reason);
    }
    expect([await why(), await why('invented')]).toEqual([undefined, 'unknown']);
    await begin();
    const json = { operator: 'ada', label: 't', grants, expires: '1d' };
    const { id, token } = await world.client.call<{ id: string; token: string }>('POST', '/v1/tokens', {
      body: { json },
    });
    await call('DELETE', `/v1/tokens/${id}`);
    expect(await why(token)).toBe('token');
  });

  it('is named by the security log, with the log-ins that were refused', async () => {
    const session = await operator('ada', { role: 'operator' });
    await client(session).call('POST', '/v1/reload');
    const body = { json: { operator: 'ada\nroot', password: 'x' } };
    expect(await codeOf(client().call('POST', '/v1/login', { body }))).toBe('E_LOGIN');
    const kept = world.deps.events.list({});
    expect(kept.findLast(({ kind }) => kind === 'operator.action')).toMatchObject({
      actor: { user: 'operator ada' },
      fields: { action: 'POST /v1/reload' },
    });
    expect(kept.findLast(({ kind }) => kind === 'operator.login-refused')?.reason?.text).toContain(
      '"ada?root"',
    );
    expect(kept.find(({ kind }) => kind === 'operator.login')?.actor).toEqual({ user: 'operator ada' });
    expect(JSON.stringify(kept)).not.toContain(PASSWORD);
    expect(JSON.stringify(kept)).not.toContain(session);
  });
});

describe('the first administrator', () => {
  it('gets a one-time link while nobody can log in, and then nobody does', async () => {
    const { operators } = world.deps.accounts;
    const lost = (await firstLink(operators, url))!.link.split('=')[1]!;
    const { link } = (await firstLink(operators, url))!;
    const redeem = (invitation: string) =>
      client().call<{ session: string }>('POST', '/v1/invitation', {
        body: { json: { invitation, password: PASSWORD } },
      });
    expect(await codeOf(redeem(lost))).toBe('E_LOGIN');
    const { session } = await redeem(link.split('=')[1]!);
    expect(await client(session).call('GET', '/v1/whoami')).toMatchObject({
      name: 'admin',
      grants: [{ role: 'admin' }, { role: 'auditor' }],
    });
    expect(await codeOf(redeem(link.split('=')[1]!))).toBe('E_LOGIN');
    expect(await firstLink(operators, url)).toBeUndefined();
  });

  it('is the one whom somebody on the boot host named, if there is one', async () => {
    await operator('ada', { role: 'admin' });
    expect(await firstLink(world.deps.accounts.operators, url)).toBeUndefined();
  });

  it('loses the link when somebody else can log in', async () => {
    const { link } = (await firstLink(world.deps.accounts.operators, url))!;
    await operator('ada', { role: 'admin' });
    const json = { invitation: link.split('=')[1]!, password: PASSWORD };
    expect(await codeOf(client().call('POST', '/v1/invitation', { body: { json } }))).toBe('E_LOGIN');
  });

  it('loses the link after an hour', async () => {
    const { link, until } = (await firstLink(world.deps.accounts.operators, url))!;
    expect(until - world.clock.now()).toBe(3_600_000);
    world.clock.advance(3_600_000 as never);
    const body = { json: { invitation: link.split('=')[1]!, password: PASSWORD } };
    expect(await codeOf(client().call('POST', '/v1/invitation', { body }))).toBe('E_LOGIN');
  });
});

describe('a session in a cookie', () => {
  const ask = (method: string, where: string, headers: Record<string, string>, body?: string) =>
    new Promise<{ status: number; cookie: string }>((resolve, reject) => {
      const options = { method, headers, ca: world.authority, agent: false };
      const request = https.request(`${url}${where}`, options, (response) => {
        response.resume();
        resolve({ status: response.statusCode!, cookie: response.headers['set-cookie']?.[0] ?? '' });
      });
      request.once('error', reject);
      request.end(body);
    });

  it('is sent to this server only, cannot be read by scripts, and serves no other site', async () => {
    await operator('ada', { role: 'operator' });
    const body = JSON.stringify({ operator: 'ada', password: PASSWORD, client: 'page' });
    const { cookie } = await ask('POST', '/v1/login', {}, body);
    expect(cookie).toMatch(
      /^__Host-muster=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    const held = cookie.split(';')[0]!;
    const origin = `https://127.0.0.1:${world.httpsPort}`;
    expect((await ask('GET', '/v1/whoami', { cookie: held })).status).toBe(200);
    expect((await ask('POST', '/v1/reload', { cookie: held, origin })).status).toBe(200);
    expect((await ask('POST', '/v1/reload', { cookie: held, origin: 'https://evil.example' })).status).toBe(
      403,
    );
    expect((await ask('POST', '/v1/reload', { cookie: held })).status).toBe(403);
    expect((await ask('POST', '/v1/logout', { cookie: held, origin })).status).toBe(200);
    expect((await ask('GET', '/v1/whoami', { cookie: held })).status).toBe(401);
  });
});

describe('a role for one cluster', () => {
  it('shows this cluster, its machines and their events, and nothing else', async () => {
    const machine = (name: string, n: number) =>
      `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: ${name}}\nspec: {macs: ["52:54:00:bb:00:0${n}"], profile: worker}\n`;
    const cluster = (name: string, cp: string) =>
      `apiVersion: muster/v1\nkind: Cluster\nmetadata: {name: ${name}}\nspec: {trust: segment, dataDisk: {serial: D}, kubernetes: {version: "1.36", endpoint: api.${name}.test, controlPlanes: [${cp}]}}\n`;
    const documents = [machine('b1', 1), machine('g1', 2), cluster('blue', 'b1'), cluster('green', 'g1')];
    await world.client.call('POST', '/v1/apply', { body: documents.join('---\n') });
    const session = await operator('bob', { role: 'operator', clusters: ['blue'] });
    const bob = client(session);
    const names = async (path: string): Promise<string[]> => {
      const { items } = await bob.call<{ items: { metadata: { name: string } }[] }>('GET', path);
      return items.map(({ metadata }) => metadata.name);
    };
    expect(await names('/v1/machines')).toEqual(['b1']);
    expect(await names('/v1/clusters')).toEqual(['blue']);
    const { items } = await bob.call<{ items: { subject: string }[] }>('GET', '/v1/events');
    const subjects = new Set(items.map(({ subject }) => subject));
    expect(subjects).toContain('Cluster/blue');
    expect([...subjects].filter((one) => /green|g1|node-1|Profile|Operator/.test(one))).toEqual([]);
    for (const [path, code] of [
      ['/v1/machines/b1', 'done'],
      ['/v1/machines/g1', 'E_FORBIDDEN'],
      ['/v1/machines/absent', 'E_FORBIDDEN'],
      ['/v1/clusters/green', 'E_FORBIDDEN'],
      ['/v1/explain?machine=b1', 'done'],
      ['/v1/explain?machine=g1', 'E_FORBIDDEN'],
      ['/v1/explain?mac=52:54:00:bb:00:02', 'E_FORBIDDEN'],
      ['/v1/waiting', 'done'],
      ['/v1/profiles', 'E_FORBIDDEN'],
      ['/v1/profiles/worker', 'E_FORBIDDEN'],
    ] as const)
      expect([path, await codeOf(bob.call('GET', path))]).toEqual([path, code]);
    const put = { body: machine('b1', 1) };
    expect(await codeOf(bob.call('PUT', '/v1/machines/b1', put))).toBe('E_FORBIDDEN');
    for (const [n, name] of ['b1', 'g1', 'node-1'].entries()) {
      const address = ipv4(`10.77.0.10${n}`);
      const mac = parseMac(`52:54:00:bb:00:0${n}`)!;
      const lease = { v: 1, mac, state: 'bound', since: millis(0), expires: LATER, machine: name } as const;
      await world.inventories.take(name, readInventory('cpu threads 8\n')!);
      await world.leases.write({ kind: 'write', network: 'lan', address, lease, writes: [] });
    }
    const inventory = await bob.ask('GET /v1/inventory');
    expect(inventory.items.map(({ machine }) => machine)).toEqual(['b1']);
    const leases = await bob.ask('GET /v1/leases');
    expect(leases.items.map(({ machine }) => machine)).toEqual(['b1']);
    for (const name of ['blue', 'green']) await world.pki.found(name);
    expect((await bob.ask('GET /v1/pki')).items.map(({ scope }) => scope)).toEqual(['blue']);
    expect(await codeOf(bob.call('GET', '/v1/inventory?machine=g1'))).toBe('E_FORBIDDEN');
  });
});

describe('a token', () => {
  it('gives a part of the roles of its operator, until it ends or is removed', async () => {
    await operator('ada', { role: 'operator' });
    const make = (role: Role, expires = '1h') =>
      world.client.call<{ id: string; token: string }>('POST', '/v1/tokens', {
        body: { json: { operator: 'ada', label: 'test', expires, grants: [{ role }] } },
      });
    expect(await codeOf(make('admin'))).toBe('E_USAGE');
    expect(await codeOf(make('viewer', '900d'))).toBe('E_USAGE');
    const { id, token } = await make('viewer');
    expect(await codeOf(client(token).call('GET', '/v1/machines'))).toBe('done');
    expect(await codeOf(client(token).call('POST', '/v1/reload'))).toBe('E_FORBIDDEN');
    await world.client.call('DELETE', `/v1/tokens/${id}`);
    expect(await codeOf(client(token).call('GET', '/v1/machines'))).toBe('E_UNAUTHENTICATED');
    const short = await make('viewer');
    world.clock.advance((2 * 3_600_000) as never);
    expect(await codeOf(client(short.token).call('GET', '/v1/machines'))).toBe('E_UNAUTHENTICATED');
  });

  it('never gives more than its operator has now', () => {
    const some = (...names: string[]) =>
      fc.option(fc.uniqueArray(fc.constantFrom(...names), { minLength: 1 }), { nil: undefined });
    const grants: fc.Arbitrary<Grant> = fc
      .record({
        role: fc.constantFrom<Role>('viewer', 'operator', 'admin', 'auditor'),
        clusters: some('blue', 'green'),
        pools: some('spare', 'lent'),
      })
      .map(({ role, ...limits }) => grantOf(role, limits));
    const placeOf = (name: string): string | undefined =>
      ({ b: 'blue', g: 'green', s: 'pool/spare', l: 'pool/lent' })[name];
    fc.assert(
      fc.property(fc.array(grants), fc.array(grants), fc.constantFrom(...ROUTES), (wanted, had, row) => {
        for (const name of ['b', 'g', 's', 'l', 'blue', 'green']) {
          const may = (all: readonly Grant[]): boolean =>
            decideAccess(
              row,
              { name, machine: name, cluster: name },
              { name: 'a', by: 'token', grants: all },
              placeOf,
            ).do === 'answer';
          if (may(narrowed(wanted, had))) expect([may(wanted), may(had)]).toEqual([true, true]);
        }
      }),
    );
  });
});

const from = (address: string, standing: Standing = 'trusted') => ({ address, standing: () => standing });

describe('wrong log-ins', () => {
  it('are limited by address and never by the name alone', () => {
    const clock = new ManualClock();
    const attempts = new Attempts(clock);
    for (let n = 0; n < 50; n++) attempts.failed('10.0.0.9', 'ada');
    expect(attempts.wait('10.0.0.9', 'ada')).toBeGreaterThan(0);
    expect(attempts.wait('10.0.0.7', 'ada')).toBe(0);
    for (let n = 0; n < 20_000; n++) attempts.failed(`10.${n >> 8}.0.${n & 255}`, `name-${n}`);
    expect(attempts.size).toBeLessThan(5_000);
    expect(networkOf('fd00::1')).toBe(networkOf('fd00::ffff:1'));
    expect(networkOf('::ffff:10.0.0.1')).toBe('10.0.0.1');
  });

  it('from one address delay no other address', async () => {
    const passwords = new Passwords({ cost: CHEAP });
    const stored = await passwords.hash(PASSWORD, from('home'));
    const flood = Array.from({ length: 200 }, () =>
      codeOf(passwords.fits('wrong', stored, from('flood', 'unknown'))),
    );
    const order: string[] = [];
    const first = Promise.all(flood).then(() => order.push('flood'));
    const mine = passwords.fits(PASSWORD, stored, from('home')).then((fits) => order.push(`home ${fits}`));
    await Promise.all([first, mine]);
    expect(order).toEqual(['home true', 'flood']);
    const refused = (await Promise.all(flood)).filter((code) => code === 'E_LOGIN_LIMIT');
    expect(refused.length).toBeGreaterThan(190);
  });

  it('from many addresses leave a place for one from which somebody logged in before', async () => {
    const passwords = new Passwords({ cost: CHEAP });
    const stored = await passwords.hash(PASSWORD, from('home'));
    const begun: string[] = [];
    const flood = Array.from({ length: 5 }, (_, n) => {
      const asker = from(`flood-${n}`, n % 2 === 0 ? 'unknown' : 'suspect');
      return passwords.fits('wrong', stored, asker).then(() => begun.push(`flood ${n}`));
    });
    await passwords.fits(PASSWORD, stored, from('home'));
    // A busy host may finish more than one of the flood meanwhile, but never all.
    expect(begun.length).toBeLessThan(flood.length - 1);
    await Promise.all(flood);
    // Those of whom nothing is known come before those that failed.
    expect(begun).toEqual([0, 2, 4, 1, 3].map((n) => `flood ${n}`));
  });

  it('are not computed beside a log-in from an address from which somebody logged in before', async () => {
    const passwords = new Passwords({ cost: { ...CHEAP, N: 2 ** 14 } });
    const dear = await passwords.hash(PASSWORD, from('home'));
    const cheap = { ...dear, ...CHEAP };
    const ended: string[] = [];
    const home = passwords.fits(PASSWORD, dear, from('home')).then(() => ended.push('home'));
    const flood = passwords.fits('wrong', cheap, from('flood', 'unknown')).then(() => ended.push('flood'));
    await Promise.all([home, flood]);
    expect(ended).toEqual(['home', 'flood']);
  });

  it('are answered with the time after which the next one is possible', async () => {
    await operator('ada', { role: 'viewer' });
    const wrong = JSON.stringify({ operator: 'ada', password: 'wrong horse battery' });
    const asked = () =>
      new Promise<http.IncomingMessage>((resolve, reject) => {
        const options = { method: 'POST', ca: world.authority, agent: false };
        const request = https.request(`${url}/v1/login`, options, (response) => resolve(response.resume()));
        request.once('error', reject);
        request.end(wrong);
      });
    for (let n = 0; n < 5; n++) expect((await asked()).statusCode).toBe(401);
    const { statusCode, headers } = await asked();
    expect([statusCode, headers['retry-after']]).toEqual([429, '30']);
  });

  it('do not say whether an operator exists', async () => {
    const passwords = new Passwords({ cost: CHEAP });
    expect(await passwords.fits('anything', undefined, from('x'))).toBe(false);
  });
});

it('a hash of a password is as dear as OWASP asks, and keeps what it cost', async () => {
  const passwords = new Passwords();
  const stored = await passwords.hash(PASSWORD, from('home'));
  expect(stored).toMatchObject({ N: 2 ** 15, r: 8, p: 3 });
  expect(await new Passwords({ cost: CHEAP }).fits(PASSWORD, stored, from('home'))).toBe(true);
});

it('no secret of an account is in the store in the clear', async () => {
  const session = await operator('ada', { role: 'viewer' });
  const body = { json: { operator: 'ada', label: 't', expires: '1h', grants: [{ role: 'viewer' }] } };
  const { token } = await world.client.call<{ token: string }>('POST', '/v1/tokens', { body });
  const { invitation } = await world.client.call<{ invitation: string }>('POST', '/v1/operators/ada/invite');
  const text = JSON.stringify((await world.store.list('operator')).records);
  for (const secret of [session, token, invitation, PASSWORD]) expect(text).not.toContain(secret);
});
