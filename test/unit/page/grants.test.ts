/** Roles as forms have them, and the commands that give the same ones. */
import { expect, test } from 'vitest';
import { fieldsOf, grantOf, grantsText, grantWords } from '../../../src/page/base/grants.ts';

const BLUE = { role: 'operator', clusters: ['blue', 'red'], pools: ['spare'] } as const;

test('a role reads back from a form as it was shown there', () => {
  expect(fieldsOf(BLUE)).toEqual({ role: 'operator', clusters: 'blue, red', pools: 'spare' });
  for (const grant of [BLUE, { role: 'viewer' } as const]) expect(grantOf(fieldsOf(grant))).toEqual(grant);
  expect(grantOf({ role: 'viewer', clusters: ' a  b,,c ', pools: ' ' })).toEqual({
    role: 'viewer',
    clusters: ['a', 'b', 'c'],
  });
});

test('roles are shown with what limits them', () => {
  expect(grantsText([BLUE, { role: 'auditor' }])).toBe('operator of blue, red, pool spare; auditor');
});

test('a command says roles with the same limits, and there is none for others', () => {
  expect(grantWords([{ role: 'admin' }, { role: 'auditor' }])).toEqual([
    '--role',
    'admin',
    '--role',
    'auditor',
  ]);
  expect(grantWords([BLUE])?.join(' ')).toBe('--role operator --cluster blue --cluster red --pool spare');
  expect(grantWords([BLUE, { role: 'auditor' }])).toBeUndefined();
});
