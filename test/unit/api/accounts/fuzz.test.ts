/** Readers of accounts and of the file of log-ins, against damaged records. */
import { expect, it } from 'vitest';
import { decideAccess } from '../../../../src/api/access.ts';
import { readOperator, readToken } from '../../../../src/api/accounts/operators.ts';
import { decodeContexts } from '../../../../src/cli/login/contexts.files.ts';
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
