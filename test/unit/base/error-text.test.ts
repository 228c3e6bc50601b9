/** What operators read of errors: the texts of expected ones, and a code instead of all others. */
import { expect, test } from 'vitest';
import { errorTexts, UNEXPECTED } from '../../../src/base/error-text.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { KubeRefusal } from '../../../src/cluster/kube.ts';

const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:6443'), { code: 'ECONNREFUSED' });

test('errors that are expected keep their texts, and those of the program give way to a stable code', () => {
  const lines: object[] = [];
  const textOf = errorTexts({ error: (fields) => lines.push(fields) });
  expect(textOf(new MusterError('E_CHANGE', 'it has ended'), {})).toBe('it has ended');
  expect(textOf(new KubeRefusal(403, 'forbidden'), {})).toBe('forbidden');
  expect(textOf(refused, {})).toBe('connect ECONNREFUSED 10.0.0.1:6443');
  expect(lines).toEqual([]);
  const inside = new ReferenceError("Cannot access 'changes' before initialization");
  for (const error of [inside, inside, new TypeError('x is not a function'), 'a text', undefined])
    expect(textOf(error, { cluster: 'one' })).toBe(UNEXPECTED);
  expect(UNEXPECTED).toContain('E_INTERNAL');
  expect(lines).toHaveLength(4);
  expect(lines[0]).toEqual({ cluster: 'one', err: inside, code: 'E_INTERNAL' });
});
