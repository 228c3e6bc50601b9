/** Forms of agents, the only input that is read before a client is authenticated. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readForm } from '../../../../src/agent/wire/form.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { anyText } from '../../texts.ts';

test('forms of any octets are read or refused with E_USAGE, and what is read is what was written', () => {
  fc.assert(
    fc.property(anyText({ maxLength: 300 }), (text) => {
      try {
        readForm(text);
      } catch (error) {
        expect(error).toBeInstanceOf(MusterError);
        expect((error as MusterError).code).toBe('E_USAGE');
      }
    }),
    { numRuns: 3000, seed: 7 },
  );
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9.-]{0,20}$/), anyText(), {
        maxKeys: 20,
      }),
      (fields) => {
        const wanted = Object.entries(fields).filter(
          ([, value]) => !value.includes('\0') && value.isWellFormed(),
        );
        const body = wanted.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
        expect([...readForm(body)]).toEqual(wanted);
      },
    ),
    { numRuns: 500, seed: 7 },
  );
  for (const twice of ['a=1&a=2', 'a', '=1', 'a=%', 'a=%ff', 'a=%00', 'A=1', 'a=1&'])
    expect(() => readForm(twice), twice).toThrow(MusterError);
});
