/** Readers of accounts and of the file of log-ins, against damaged records. */
import { expect, it } from 'vitest';
import { decideAccess } from '../../../../src/api/access.ts';
import { openOperators, readOperator, readToken } from '../../../../src/api/accounts/operators.ts';
import { PasskeyLogins } from '../../../../src/api/accounts/passkey-logins.ts';
import { openPasskeys, readPasskey } from '../../../../src/api/accounts/passkeys.ts';
import { decodeProvider, grantsOf } from '../../../../src/api/accounts/provider-settings.ts';
import { Sealed } from '../../../../src/api/accounts/sealed.ts';
import { asserted } from '../../../../src/api/contract/passkeys.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { parsed } from '../../../../src/base/foreign-json.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { decodeContexts } from '../../../../src/cli/login/contexts.files.ts';
import { decodeCredential } from '../../../../src/cli/pki/credential.files.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { damagedOctets, damagedRecords, damagedTexts, INPUTS } from '../../fuzzing.ts';
import { Authenticator } from './authenticator.ts';

const OPERATOR = {
  v: 1,
  grants: [{ role: 'operator', clusters: ['blue'] }, { role: 'viewer' }],
  createdAt: 1,
  password: { kind: 'scrypt', N: 32768, r: 8, p: 3, salt: 'AAAA', hash: 'AAAA' },
  invitation: { hash: 'x', until: 2 },
};
const TOKEN = { v: 1, operator: 'a', label: 'b', hash: 'c', grants: OPERATOR.grants, createdAt: 1, until: 2 };
const ROUTE = { path: '/v1/reload', access: 'administer' } as const;

it('a damaged record of an operator or token is refused, or has grants that can be decided about', async () => {
  await damagedRecords('accounts', [OPERATOR, TOKEN], (text) => {
    for (const read of [readOperator('a', text), readToken('a', text)])
      if (read !== undefined) {
        const who = { name: 'a', by: 'token', grants: read.grants } as const;
        expect(['answer', 'refuse']).toContain(decideAccess(ROUTE, {}, who, () => undefined).do);
      }
  });
});

it('a damaged file of log-ins gives servers by HTTPS only', async () => {
  const file = JSON.stringify({
    current: 'https://boot:8444',
    contexts: [{ url: 'https://boot:8444', authority: 'x', operator: 'a', session: 's', until: 'u' }],
  });
  await damagedTexts('contexts', [file], (text) => {
    for (const { url } of decodeContexts(text).contexts)
      if (new URL(url).protocol !== 'https:') throw new Error(url);
  });
});

it('a damaged file of a certificate for kubectl is not used', async () => {
  const file = JSON.stringify({
    ...{ user: 'ada', certificate: 'c', key: 'k' },
    until: '2026-01-01T01:00:00.000Z',
  });
  await damagedTexts('credential', [file], (text) => {
    const read = decodeCredential(text, Date.UTC(2026, 0, 1));
    if (read && !(Date.parse(read.until) > Date.UTC(2026, 0, 1) && typeof read.key === 'string'))
      throw new Error(text);
  });
});

it('a damaged description of an identity provider is refused, or gives only roles that it names', async () => {
  const text = `issuer: https://login.example/realms/site
clientId: muster
roles:
  - {role: viewer, clusters: [blue], claims: {groups: a}}
`;
  await damagedTexts('provider', [text], (damaged) => {
    try {
      const { issuer, scopes, roles } = decodeProvider(damaged, 'oidc.yaml');
      if (!issuer.startsWith('https://') || !scopes.includes('openid')) throw new Error(damaged);
      expect(grantsOf(roles, {})).toEqual([]);
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
    }
  });
});

it('a sealed value that was changed does not open', async () => {
  const clock = new ManualClock();
  const sealed = new Sealed('a test', clock);
  const text = sealed.seal({ state: 'a' }, 1000 as Millis);
  expect(sealed.open(text)).toEqual({ state: 'a' });
  expect(new Sealed('a test', clock).open(text)).toBeUndefined();
  const octets = Buffer.from(text, 'base64url');
  await damagedTexts('sealed', [text], (damaged) => {
    const same = Buffer.from(damaged, 'base64url').equals(octets);
    if (!same && sealed.open(damaged) !== undefined) throw new Error(damaged);
  });
  clock.advance(1000 as Millis);
  expect(sealed.open(text)).toBeUndefined();
});

/** The library takes a third of a millisecond for each. */
const ANSWERS = INPUTS / 10;

const SITE = { id: 'boot', origin: 'https://boot' };

async function openLogins() {
  const deps = { store: openMemoryStore(), clock: new ManualClock(), log: silentLog };
  const operators = await openOperators(deps);
  const passkeys = await openPasskeys(deps);
  const ada = await operators.put('ada', [{ role: 'viewer' }]);
  return { ada, passkeys, logins: new PasskeyLogins({ passkeys, operators, clock: deps.clock }) };
}

const refused = (code: string) => (error: unknown) => {
  if (!(error instanceof MusterError) || error.code !== code) throw error;
};

it('a damaged attestation makes no passkey, or one that logs nobody else in', async () => {
  const { ada, passkeys, logins } = await openLogins();
  const authenticator = new Authenticator(SITE.origin);
  const options = logins.beginAdding(SITE, ada, 'here');
  const { response } = authenticator.create(options);
  const seed = Buffer.from(response.attestationObject, 'base64url');
  await damagedOctets(
    'attestation',
    [seed],
    async (octets) => {
      const made = authenticator.create(logins.beginAdding(SITE, ada, 'here'));
      const attestationObject = octets.toString('base64url');
      const credential = { ...made, response: { ...made.response, attestationObject } };
      const what = { label: 'a', credential, network: 'here' };
      const added = await logins.add(SITE, ada, what).catch(refused('E_PASSKEY'));
      if (!added) return;
      if (added.operator !== 'ada') throw new Error(added.operator);
      await passkeys.removeAll('ada');
    },
    ANSWERS,
  );
});

it('a damaged answer of a browser logs nobody in', async () => {
  const { ada, logins } = await openLogins();
  const authenticator = new Authenticator(SITE.origin);
  const credential = authenticator.create(logins.beginAdding(SITE, ada, 'here'));
  await logins.add(SITE, ada, { label: 'a', credential, network: 'here' });
  const answer = authenticator.get(logins.begin(SITE, 'here'));
  await logins.finish(SITE, answer, 'here');
  await damagedRecords(
    'assertion',
    [{ credential: answer, client: 'page' }],
    async (text) => {
      const read = asserted.safeParse((parsed(text) as { credential?: unknown } | null)?.credential);
      if (!read.success) return;
      await logins.finish(SITE, read.data, 'here').then(() => {
        throw new Error('it logged somebody in');
      }, refused('E_PASSKEY_LOGIN'));
    },
    ANSWERS,
  );
});

it('a damaged record of a passkey is refused, or has a counter that can be compared', async () => {
  const record = {
    ...{ v: 1, operator: 'a', account: 1, label: 'b', credential: 'AAAA', publicKey: 'AAAA' },
    ...{ counter: 0, handle: 'AAAA', transports: ['usb'], createdAt: 1, usedAt: 2 },
  };
  await damagedRecords('passkeys', [record], (text) => {
    const read = readPasskey('a', text);
    if (read && !(read.counter >= 0 && read.credential.length > 0)) throw new Error(text);
  });
});
