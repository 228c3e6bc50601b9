/** Each role, with each credential, gets each kind of route that its row allows, and no other. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { ACCESS, type Access, ROLES, type Role } from '../../../src/api/access.ts';
import type { Millis } from '../../../src/base/duration.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { type ApiClient, connectApi } from '../../../src/cli/client.socket.ts';
import { selfSigned } from '../../self-signed.ts';
import { openWorld, type World } from './world.ts';

/** A route of each kind, which changes nothing. */
const ROUTES: Readonly<Record<Access, readonly [string, string]>> = {
  open: ['GET', '/v1/login'],
  own: ['GET', '/v1/passkeys'],
  view: ['GET', '/v1/status'],
  operate: ['POST', '/v1/reload'],
  administer: ['GET', '/v1/operators'],
  audit: ['GET', '/v1/audit'],
};

/** What each role gets, by every credential. Without any, only what is open. */
const ANSWERED: Readonly<Record<Role, readonly Access[]>> = {
  viewer: ['open', 'own', 'view'],
  operator: ['open', 'own', 'view', 'operate'],
  admin: ['open', 'own', 'view', 'operate', 'administer'],
  auditor: ['open', 'own', 'audit'],
};

const NAMES = Object.keys(ROLES) as Role[];
const PAIRS = new Map(NAMES.map((role) => [role as string, selfSigned(role)]));

let world: World;
afterEach(() => world.close());

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'answered',
    (error: unknown) => (error instanceof MusterError ? error.code : String(error)),
  );

async function answers(client: ApiClient): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const access of Object.keys(ACCESS) as Access[])
    found[access] = await codeOf(client.call(...ROUTES[access]));
  return found;
}

const expected = (allowed: readonly Access[], otherwise: string): Record<string, string> =>
  Object.fromEntries(
    Object.keys(ACCESS).map((access) => [
      access,
      allowed.includes(access as Access) ? 'answered' : otherwise,
    ]),
  );

it('every role is answered as the table says, by session, token, certificate and identity provider', async () => {
  const clientAuthority = [...PAIRS.values()].map(({ certificate }) => certificate).join('');
  world = await openWorld(undefined, { https: true, clientAuthority });
  world.clock.leap((Date.now() - world.clock.now()) as Millis);
  const { accounts } = world.deps;
  const target = { url: `https://127.0.0.1:${world.httpsPort}`, authority: world.authority };
  for (const role of NAMES) {
    await accounts.operators.put(role, [{ role }]);
    const invitation = (await accounts.operators.invite(role)).text.reveal();
    const local = await accounts.redeem(invitation, 'correct horse battery', '10.0.0.1');
    const user = { name: `oidc+${role}`, subject: role, grants: [{ role }] };
    const remote = (await accounts.logInAt(async () => user, '10.0.0.1'))!;
    const until = (world.clock.now() + 60_000) as Millis;
    const order = { operator: role, label: 'test', grants: [{ role }], until };
    const { text } = await accounts.operators.addToken(order);
    const files = {
      certificate: join(world.directory, `${role}.crt`),
      key: join(world.directory, `${role}.key`),
    };
    writeFileSync(files.certificate, PAIRS.get(role)!.certificate);
    writeFileSync(files.key, PAIRS.get(role)!.key);
    for (const [by, shown] of Object.entries({
      session: { session: local.session.reveal() },
      provider: { session: remote.session.reveal() },
      token: { session: text.reveal() },
      certificate: files,
    }))
      expect([role, by, await answers(connectApi({ ...target, ...shown }))]).toEqual([
        role,
        by,
        expected(ANSWERED[role], 'E_FORBIDDEN'),
      ]);
  }
  expect(await answers(connectApi(target))).toEqual(expected(['open'], 'E_UNAUTHENTICATED'));
  expect(await answers(world.client)).toEqual(expected(Object.keys(ACCESS) as Access[], ''));
});

it('a certificate of another CA, of nobody, or that has ended, shows nothing', async () => {
  const known = PAIRS.get('viewer')!;
  world = await openWorld(undefined, { https: true, clientAuthority: known.certificate });
  world.clock.leap((Date.now() - world.clock.now()) as Millis);
  const { operators } = world.deps.accounts;
  const target = { url: `https://127.0.0.1:${world.httpsPort}`, authority: world.authority };
  const by = (pair: { certificate: string; key: string }) => {
    const files = { certificate: join(world.directory, 'c.crt'), key: join(world.directory, 'c.key') };
    writeFileSync(files.certificate, pair.certificate);
    writeFileSync(files.key, pair.key);
    return codeOf(connectApi({ ...target, ...files }).call('GET', '/v1/status'));
  };
  expect(await by(known)).toBe('E_UNAUTHENTICATED');
  await operators.put('viewer', [{ role: 'viewer' }]);
  expect(await by(known)).toBe('answered');
  expect(await by(selfSigned('viewer'))).toBe('E_UNAUTHENTICATED');
  world.clock.leap((3 * 86_400_000) as Millis);
  expect(await by(known)).toBe('E_UNAUTHENTICATED');
  world.clock.leap((-3 * 86_400_000) as Millis);
  await operators.remove('viewer');
  expect(await by(known)).toBe('E_UNAUTHENTICATED');
});
