/** Operators log in at an identity provider: oidc-provider on loopback, by HTTPS. */
import { createSign, generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openProvider } from '../../../../src/api/accounts/provider.socket.ts';
import { ProviderLogins } from '../../../../src/api/accounts/provider-logins.ts';
import { decodeProvider } from '../../../../src/api/accounts/provider-settings.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { Secret } from '../../../../src/base/secret.ts';
import { connectApi } from '../../../../src/cli/client.socket.ts';
import {
  CLIENT,
  type IdentityProvider,
  openIdentityProvider,
  TestBrowser,
} from '../../../identity-provider.ts';
import { run } from '../../cli/run.ts';
import { openWorld, type World } from '../world.ts';

let identity: IdentityProvider;
let world: World;
let page: string;
let browser: TestBrowser;

const settingsText = (issuer: string): string => `
issuer: ${issuer}
name: Example
clientId: ${CLIENT.id}
roles:
  - {role: admin, claims: {groups: rack-admins}}
  - {role: operator, clusters: [blue], claims: {groups: blue-team}}
`;

beforeEach(async () => {
  identity = await openIdentityProvider();
  const settings = decodeProvider(settingsText(identity.issuer), 'oidc.yaml');
  world = await openWorld(undefined, {
    https: true,
    provider: (clock) => {
      const { authority } = identity;
      const provider = openProvider({ settings, secret: new Secret(CLIENT.secret), authority, clock });
      return new ProviderLogins({ provider, settings, clock });
    },
  });
  page = `https://127.0.0.1:${world.httpsPort}`;
  identity.open(page);
  clockApart(0);
  browser = newBrowser();
});
afterEach(async () => {
  await world.close();
  await identity.close();
});

const newBrowser = () => new TestBrowser(identity.authority, world.authority);
/** Sets the clock of the boot host, as it differs from that of the provider. */
const clockApart = (ms: number) => world.clock.leap((Date.now() + ms - world.clock.now()) as Millis);

const session = (from = browser) => from.cookie(page, '__Host-muster');
const whoIs = (from = browser) =>
  connectApi({ url: page, authority: world.authority, session: session(from)! }).call<{
    name: string;
    grants: unknown;
  }>('GET', '/v1/whoami');

/** Logs in, and catches where the provider sends the browser. */
async function logIn(as: string, from = browser): Promise<void> {
  await from.visit(`${page}/v1/login/provider`, as).catch((error: Error) => {
    // The world has no files of the page: what counts is where the browser ended.
    if (!/answers with 404/.test(error.message)) throw error;
  });
}
const refusal = (from = browser) => /#refused=(\w+)/.exec(from.url)?.[1];
const because = () =>
  world.deps.events.list({}).findLast(({ kind }) => kind === 'operator.login-refused')?.fields?.because;

/** A token with other claims, signed by this key. */
function signedAgain(token: unknown, change: object, key: KeyObject): string {
  const [head, body] = String(token).split('.');
  const claims = { ...JSON.parse(Buffer.from(body!, 'base64url').toString()), ...change };
  const text = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  const signature = createSign('sha256').update(text).sign({ key, dsaEncoding: 'ieee-p1363' });
  return `${text}.${signature.toString('base64url')}`;
}

describe('somebody whom the identity provider knows', () => {
  it('logs in and has the roles of the groups, under a name that no account can have', async () => {
    await logIn('ada');
    expect(await whoIs()).toMatchObject({ name: 'oidc+ada', grants: [{ role: 'admin' }] });
    expect(world.deps.events.list({}).findLast(({ kind }) => kind === 'operator.login')).toMatchObject({
      subject: 'Operator/oidc+ada',
      actor: { user: 'operator oidc+ada' },
      fields: { by: 'identity-provider', subject: 'ada' },
    });
    const other = newBrowser();
    await logIn('bob', other);
    expect(await whoIs(other)).toMatchObject({ grants: [{ role: 'operator', clusters: ['blue'] }] });
  });

  it('but has no role here is refused', async () => {
    await logIn('eve');
    expect([session(), refusal()]).toEqual([undefined, 'E_FORBIDDEN']);
  });

  it('logs in after the provider has changed its keys, at once', async () => {
    await logIn('ada');
    identity.rollOver();
    const later = newBrowser();
    await logIn('bob', later);
    expect(await whoIs(later)).toMatchObject({ name: 'oidc+bob' });
  });

  it('logs in while the clocks differ by less than five minutes, and not by more', async () => {
    for (const [apart, fits] of [
      [290_000, true],
      [-290_000, true],
      [330_000, false],
      [-330_000, false],
    ] as const) {
      clockApart(apart);
      const one = newBrowser();
      await logIn('ada', one);
      expect([apart, session(one) !== undefined]).toEqual([apart, fits]);
      if (!fits) expect(because()).toMatch(/clocks of identity provider and boot host differ by 3[23]\d s/);
    }
  });
});

describe('an answer of the provider', () => {
  it('that a browser brings which began no log-in is nobody’s failed log-in', async () => {
    const address = `${page}/v1/login/provider/return?code=x`;
    for (let n = 0; n < 7; n++)
      await newBrowser()
        .open(address)
        .catch(() => undefined);
    const kinds = world.deps.events.list({}).map(({ kind }) => kind);
    expect(kinds).not.toContain('operator.login-refused');
    await logIn('ada');
    expect(await whoIs()).toMatchObject({ name: 'oidc+ada' });
  });

  it('counts once', async () => {
    const stolen = newBrowser();
    stolen.stopAt = `${page}/v1/login/provider/return`;
    await logIn('ada', stolen);
    const address = stolen.url;
    expect(address).toContain('code=');
    // Another browser began no log-in, so the code is worth nothing to it.
    await browser.open(address).catch(() => undefined);
    expect([session(), refusal()]).toEqual([undefined, 'E_PROVIDER_LOGIN']);
    stolen.stopAt = undefined;
    await stolen.open(address).catch(() => undefined);
    expect(await whoIs(stolen)).toMatchObject({ name: 'oidc+ada' });
    await stolen.open(address).catch(() => undefined);
    expect(refusal(stolen)).toBe('E_PROVIDER_LOGIN');
    expect(because()).toBe('this answer was used before');
  });

  it('with a code that was used before is refused by the provider', async () => {
    browser.stopAt = `${page}/v1/login/provider/return`;
    await logIn('ada');
    const used = new URL(browser.url).searchParams.get('code')!;
    browser.stopAt = undefined;
    await browser.open(browser.url).catch(() => undefined);
    const second = newBrowser();
    second.stopAt = `${page}/v1/login/provider/return`;
    await logIn('bob', second);
    const replayed = new URL(second.url);
    replayed.searchParams.set('code', used);
    second.stopAt = undefined;
    await second.open(replayed.href).catch(() => undefined);
    expect([session(second), refusal(second)]).toEqual([undefined, 'E_PROVIDER_LOGIN']);
    expect(because()).toContain('invalid_grant');
  });

  it('for another client, of another issuer, or signed by somebody else, logs nobody in', async () => {
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    for (const [change, key, reason] of [
      [{ aud: 'other' }, identity.key, /aud/],
      [{ iss: 'https://elsewhere.example' }, identity.key, /iss/],
      [{ nonce: 'another' }, identity.key, /nonce/],
      [{ exp: 1 }, identity.key, /exp/],
      [{}, other, /signature/],
    ] as const) {
      identity.tamper = (answer) => ({ ...answer, id_token: signedAgain(answer.id_token, change, key) });
      const one = newBrowser();
      await logIn('ada', one);
      expect([session(one), refusal(one)]).toEqual([undefined, 'E_PROVIDER_LOGIN']);
      expect(because()).toMatch(reason);
    }
  });
});

describe('a program', () => {
  const client = () => connectApi({ url: page, authority: world.authority });
  const begin = () =>
    client().call<{ device: string; complete: string }>('POST', '/v1/login/device', { body: { json: {} } });
  const finish = (device: string) =>
    client().call<{ waits?: true; session?: string; operator?: string }>('POST', '/v1/login/device/finish', {
      body: { json: { device } },
    });

  it('gets a session when its person has logged in, once', async () => {
    const { device, complete } = await begin();
    expect(await finish(device)).toMatchObject({ waits: true });
    await browser.visit(complete, 'ada');
    const done = await finish(device);
    expect(done.operator).toBe('oidc+ada');
    await expect(finish(device)).rejects.toMatchObject({ code: 'E_PROVIDER_LOGIN' });
    await expect(finish('invented')).rejects.toMatchObject({ code: 'E_PROVIDER_LOGIN' });
  });
});

it('`muster login --sso` shows an address, waits for its person, and keeps the session as a context', async () => {
  const env = { XDG_CONFIG_HOME: world.directory };
  const { fingerprint256 } = new X509Certificate(world.authority);
  let shown = '';
  let visited = false;
  const login = await run(['login', page, '--fingerprint', fingerprint256, '--sso'], {
    env,
    onErr: (text) => {
      shown += text;
    },
    onPause: async () => {
      if (!visited) await browser.visit(/Open (\S+)/.exec(shown)![1]!, 'ada');
      visited = true;
    },
  });
  expect([login.code, login.err]).toEqual([0, expect.stringContaining(`You are oidc+ada on ${page}`)]);
  expect((await run(['whoami'], { env })).out).toBe('oidc+ada by session: admin\n');
  const contexts = JSON.parse((await run(['context', 'ls', '-o', 'json'], { env })).out);
  expect(contexts).toEqual([{ url: page, current: true, operator: 'oidc+ada', until: expect.any(String) }]);
  expect((await run(['context', 'use', 'https://elsewhere:1'], { env })).err).toContain('E_NOT_FOUND');
  expect((await run(['context', 'use', page], { env })).code).toBe(0);
});

it('a provider that is away keeps nobody out who has a password', async () => {
  await identity.close();
  await expect(browser.open(`${page}/v1/login/provider`)).rejects.toThrow('502');
  const client = connectApi({ url: page, authority: world.authority });
  expect(await client.call('GET', '/v1/login')).toEqual({ provider: { name: 'Example' } });
  identity = await openIdentityProvider();
});
