/** Readers of accounts and of the file of log-ins, against damaged records. */
import { expect, it } from 'vitest';
import { decideAccess } from '../../../../src/api/access.ts';
import { readOperator, readToken } from '../../../../src/api/accounts/operators.ts';
import { decodeProvider, grantsOf } from '../../../../src/api/accounts/provider-settings.ts';
import { Sealed } from '../../../../src/api/accounts/sealed.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { decodeContexts } from '../../../../src/cli/login/contexts.files.ts';
import { decodeCredential } from '../../../../src/cli/pki/credential.files.ts';
import { damagedRecords, damagedTexts } from '../../fuzzing.ts';

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
  const text = sealed.seal({ state: 'a' }, (clock.now() + 1000) as Millis);
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
