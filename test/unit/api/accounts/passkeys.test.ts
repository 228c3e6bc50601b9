/** Operators add passkeys and log in with them: real HTTPS, and an authenticator in software. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Challenges, LASTS } from '../../../../src/api/accounts/challenges.ts';
import { siteOf } from '../../../../src/api/accounts/passkey-logins.ts';
import { openPasskeys } from '../../../../src/api/accounts/passkeys.ts';
import type { Answer } from '../../../../src/api/operations.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { type ApiClient, connectApi } from '../../../../src/cli/client.socket.ts';
import { KEYS } from '../../../../src/store/keys.ts';
import { openWorld, type World } from '../world.ts';
import { Authenticator, type Wrong } from './authenticator.ts';

const PASSWORD = 'correct horse battery';
let world: World;
let origin: string;
beforeEach(async () => {
  world = await openWorld(undefined, { https: true, name: 'boot.example' });
  origin = `https://boot.example:${world.httpsPort}`;
});
afterEach(() => world.close());

const client = (session?: string): ApiClient =>
  connectApi({
    url: `https://127.0.0.1:${world.httpsPort}`,
    authority: world.authority,
    ...(session !== undefined && { session }),
  });

const HERE = '127.0.0.1';

/** An operator who is logged in, without a password: hashes take long. */
async function operator(name: string): Promise<ApiClient> {
  const { accounts } = world.deps;
  await accounts.operators.put(name, [{ role: 'viewer' }]);
  return client((await accounts.logInAt(async () => name, HERE))!.session.reveal());
}

/** Redeems a new invitation of an operator, and returns the log-in. */
async function redeemed(name: string): Promise<ApiClient> {
  const { accounts } = world.deps;
  const invitation = (await accounts.operators.invite(name)).text.reveal();
  return client((await accounts.redeem(invitation, PASSWORD, HERE)).session.reveal());
}

const begin = (who: ApiClient, password = PASSWORD) =>
  who.call<Answer<'POST /v1/passkeys/begin'>>('POST', '/v1/passkeys/begin', { body: { json: { password } } });

/** What the server asks the browser, without the password that the API wants first. */
const asked = (name: string) => {
  const { accounts, page } = world.deps;
  return accounts.passkeyLogins.beginAdding(siteOf(page), accounts.operators.get(name)!, HERE);
};

async function add(who: ApiClient, name: string, wrong?: Wrong, authenticator = new Authenticator(origin)) {
  const credential = authenticator.create(asked(name), wrong);
  await who.call('POST', '/v1/passkeys', { body: { json: { label: 'laptop', credential } } });
  return authenticator;
}

const ask = () =>
  client().call<Answer<'POST /v1/login/passkey'>>('POST', '/v1/login/passkey', { body: { json: {} } });
const answer = (credential: unknown) =>
  client().call<{ operator: string; session: string }>('POST', '/v1/login/passkey/finish', {
    body: { json: { credential, client: 'program' } },
  });
const logIn = async (authenticator: Authenticator, wrong?: Wrong) =>
  answer(authenticator.get(await ask(), wrong));

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof MusterError ? error.code : String(error)),
  );
const passkeys = (who: ApiClient) => who.call<Answer<'GET /v1/passkeys'>>('GET', '/v1/passkeys');

describe('a passkey', () => {
  it('is added with the password, and logs its owner in by nothing else', async () => {
    await operator('ada');
    const ada = await redeemed('ada');
    expect(await codeOf(begin(ada, 'wrong horse battery'))).toBe('E_LOGIN');
    const authenticator = new Authenticator(origin);
    const credential = authenticator.create((await begin(ada)) as never);
    await ada.call('POST', '/v1/passkeys', { body: { json: { label: 'laptop', credential } } });
    const done = await logIn(authenticator);
    expect(done).toMatchObject({ operator: 'ada', grants: [{ role: 'viewer' }] });
    expect(await client(done.session).call('GET', '/v1/whoami')).toMatchObject({ by: 'session' });
    const { items, page } = await passkeys(ada);
    expect(page).toBe(origin);
    expect(items).toMatchObject([{ label: 'laptop', usedAt: new Date(world.clock.now()).toISOString() }]);
    const event = world.deps.events.list({}).findLast(({ kind }) => kind === 'operator.login');
    expect(event).toMatchObject({ subject: 'Operator/ada', fields: { by: 'passkey' } });
    expect(JSON.stringify(world.deps.events.list({}))).not.toContain(PASSWORD);
  });

  it('is removed by its owner only, and then logs nobody in', async () => {
    const ada = await operator('ada');
    const authenticator = await add(ada, 'ada');
    const [{ id } = { id: '' }] = (await passkeys(ada)).items;
    const bob = await operator('bob');
    expect(await codeOf(bob.call('DELETE', `/v1/passkeys/${id}`))).toBe('E_NOT_FOUND');
    expect(await codeOf(ada.call('DELETE', `/v1/passkeys/${id}`))).toBe('done');
    expect(await codeOf(logIn(authenticator))).toBe('E_PASSKEY_LOGIN');
    const actions = world.deps.events.list({}).filter(({ kind }) => kind === 'operator.action');
    expect(actions.map(({ fields, reason }) => [fields?.action, reason?.code])).toEqual(
      expect.arrayContaining([
        ['POST /v1/passkeys', 'done'],
        ['DELETE /v1/passkeys/:id', 'done'],
      ]),
    );
  });

  it('outlives a restart, but not an invitation, and does not count for a later account', async () => {
    const authenticator = await add(await operator('ada'), 'ada');
    await logIn(authenticator);
    const { store, deps, clock } = world;
    await store.commit([{ key: KEYS.passkey.key('damaged'), put: '{"v":1}' }]);
    const again = await openPasskeys({ store, clock, log: silentLog });
    const account = deps.accounts.operators.get('ada')!;
    expect(again.of(account)).toEqual(deps.accounts.passkeys.of(account));
    expect(again.of(account)).toMatchObject([{ counter: authenticator.counter }]);
    expect(again.of({ ...account, createdAt: (account.createdAt + 1) as Millis })).toEqual([]);
    await redeemed('ada');
    expect(await codeOf(logIn(authenticator))).toBe('E_PASSKEY_LOGIN');
    const next = await add(await operator('bob'), 'bob');
    await world.client.call('DELETE', '/v1/operators/bob');
    expect(await codeOf(logIn(next))).toBe('E_PASSKEY_LOGIN');
    expect((await openPasskeys({ store, clock, log: silentLog })).of(account)).toEqual([]);
  });
});

describe('a log-in with a passkey', () => {
  it('is refused with one text for all faults, and the event says why', async () => {
    const ada = await add(await operator('ada'), 'ada');
    const bob = await add(await operator('bob'), 'bob');
    const adding = asked('bob');
    const replayed = ada.get(await ask());
    await answer(replayed);
    const elsewhere = (wrong: Wrong) => async () => answer(ada.get(await ask(), wrong));
    const faults: Record<string, () => Promise<unknown>> = {
      'no account has this passkey': () => logIn(new Authenticator(origin)),
      'it names another account': elsewhere({ userHandle: bob.handle }),
      'response origin "https://boot.example:1"': elsewhere({ origin: 'https://boot.example:1' }),
      'Unexpected RP ID hash': elsewhere({ rpId: 'example' }),
      'Unexpected authentication response type': elsewhere({ type: 'webauthn.create' }),
      'user could not be verified': elsewhere({ unverified: true }),
      'Response counter value 1 was lower': elsewhere({ counter: 1 }),
      'challenge verifier returned false (of another purpose)': elsewhere({ challenge: adding.challenge }),
      'challenge verifier returned false (replayed)': () => answer(replayed),
      'challenge verifier returned false (late)': async () => {
        const late = ada.get(await ask());
        world.clock.advance(LASTS);
        return answer(late);
      },
      'signature is wrong': async () => {
        const own = ada.get(await ask());
        const { signature } = bob.get(await ask()).response;
        return answer({ ...own, response: { ...own.response, signature } });
      },
    };
    const seen: string[] = [];
    for (const [because, work] of Object.entries(faults)) {
      world.clock.advance(600_000 as Millis);
      const error = await work().then(
        () => new Error('it was answered'),
        (thrown: MusterError) => thrown,
      );
      expect([because, error]).toMatchObject([because, { code: 'E_PASSKEY_LOGIN' }]);
      seen.push(error.message);
      const event = world.deps.events.list({}).findLast(({ kind }) => kind === 'operator.login-refused');
      expect(event?.fields?.because).toContain(because.replace(/ \(.*/, ''));
    }
    expect(new Set(seen).size).toBe(1);
    world.clock.advance(600_000 as Millis);
    ada.counter = 100;
    expect(await codeOf(logIn(ada))).toBe('done');
  });

  it('says to nobody which operators exist, and is limited as other log-ins are', async () => {
    const before = await ask();
    await add(await operator('ada'), 'ada');
    const { challenge, ...rest } = await ask();
    expect(rest).toEqual({ timeout: LASTS, rpId: 'boot.example', userVerification: 'required' });
    expect(before).toEqual({ ...rest, challenge: expect.not.stringContaining(challenge) });
    const stranger = new Authenticator(origin);
    const codes: string[] = [];
    for (let n = 0; n < 6; n++) codes.push(await codeOf(logIn(stranger)));
    expect(codes.slice(4)).toEqual(['E_PASSKEY_LOGIN', 'E_LOGIN_LIMIT']);
  });
});

describe('adding a passkey', () => {
  it('is refused for another page, another operator, and what the authenticator did not check', async () => {
    const ada = await operator('ada');
    await operator('bob');
    for (const wrong of [
      { origin: 'https://evil.example' },
      { rpId: 'evil.example' },
      { type: 'webauthn.get' },
      { unverified: true },
      { challenge: asked('bob').challenge },
      { attestation: ['packed', new Map<string, never>([['x5c', [Buffer.from('x')] as never]])] as const },
      { attestation: ['apple', new Map()] as const },
      { attestation: ['packed', new Map([['sig', Buffer.from('x')]])] as const },
    ] satisfies Wrong[])
      expect([wrong, await codeOf(add(ada, 'ada', wrong))]).toEqual([wrong, 'E_PASSKEY']);
    const authenticator = await add(ada, 'ada');
    expect(await codeOf(add(ada, 'ada', {}, authenticator))).toBe('E_PASSKEY');
    expect((await passkeys(ada)).items).toHaveLength(1);
    const { excludeCredentials, user } = asked('ada');
    expect(excludeCredentials.map(({ id }) => id)).toEqual([authenticator.id]);
    expect(user.id).toBe(authenticator.handle);
    for (let n = 1; n < 10; n++) await add(ada, 'ada');
    expect(() => asked('ada')).toThrow('10 passkeys');
  });

  it('is for people who logged in to an account of Muster, and never for a token', async () => {
    await operator('ada');
    const { accounts } = world.deps;
    const order = { operator: 'ada', label: 'test', grants: [{ role: 'viewer' }] as const };
    const until = (world.clock.now() + 60_000) as Millis;
    const token = client((await accounts.operators.addToken({ ...order, until })).text.reveal());
    const user = { name: 'oidc+ada', subject: 'ada', grants: [{ role: 'admin' }] as const };
    const remote = client((await accounts.logInAt(async () => user, '10.0.0.1'))!.session.reveal());
    for (const who of [token, remote, world.client]) {
      expect((await passkeys(who)).refused).toMatchObject({ code: 'E_PASSKEY_ACCOUNT' });
      expect(await codeOf(begin(who))).toBe('E_PASSKEY_ACCOUNT');
    }
    expect(await codeOf(passkeys(client()))).toBe('E_UNAUTHENTICATED');
  });
});

it('a page at an address has no passkeys, and says that it needs a name', async () => {
  await world.close();
  world = await openWorld(undefined, { https: true });
  const ada = await operator('ada');
  const { refused } = await passkeys(ada);
  expect(refused).toMatchObject({
    code: 'E_PASSKEY_NAME',
    detail: 'the page is at 127.0.0.1, which is an address and no name',
    fix: expect.stringContaining('--operators-name NAME'),
  });
  expect(await codeOf(begin(ada))).toBe('E_PASSKEY_NAME');
  expect(await codeOf(ask())).toBe('E_PASSKEY_NAME');
  expect(await client().call('GET', '/v1/login')).toEqual({});
  expect(() => siteOf('https://[fd00::1]:8444')).toThrow('[fd00::1]');
  expect(siteOf('https://boot:443')).toEqual({ id: 'boot', origin: 'https://boot' });
});

it('challenges have a fixed number of places, and a network that asks for many loses its own', () => {
  const challenges = new Challenges<number>(new ManualClock());
  const mine = challenges.begin('10.0.0.1', 1);
  for (let n = 0; n < 100; n++) challenges.begin('10.0.0.66', n);
  expect(challenges.take(mine, '10.0.0.2')).toBeUndefined();
  expect(challenges.take(mine, '10.0.0.1')).toBe(1);
  expect(challenges.take(mine, '10.0.0.1')).toBeUndefined();
  for (let n = 0; n < 2_000; n++) challenges.begin(`network-${n}`, n);
  expect(challenges.size).toBeLessThanOrEqual(1024);
});
