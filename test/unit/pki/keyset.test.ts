/** Generations of a keyset: after any steps, exactly one signs, and it is trusted. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import {
  addTrusted,
  distrust,
  forget,
  foundKeyset,
  type Generation,
  generationId,
  type Keyset,
  keysetFault,
  promote,
  trustAgain,
  verifiers,
} from '../../../src/pki/keyset.ts';
import { decodeKeyset, encodeKeyset } from '../../../src/pki/records.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { KEYS } from '../../../src/store/keys.ts';

const generations: Generation[] = await Promise.all(
  Array.from({ length: 5 }, async (_, n) => {
    const key = await PrivateKey.generate();
    const publicKey = key.publicKey();
    return { id: generationId(publicKey), createdAt: n as never, publicKey, key };
  }),
);

const STEPS = {
  add: (keyset: Keyset, n: number) => addTrusted(keyset, generations[n]!),
  promote: (keyset: Keyset, n: number) => promote(keyset, generations[n]!.id),
  distrust: (keyset: Keyset, n: number) => distrust(keyset, generations[n]!.id),
  trustAgain: (keyset: Keyset, n: number) => trustAgain(keyset, generations[n]!.id),
  forget: (keyset: Keyset, n: number) => forget(keyset, generations[n]!.id),
} as const;

const steps = fc.array(
  fc.tuple(fc.constantFrom(...(Object.keys(STEPS) as (keyof typeof STEPS)[])), fc.nat({ max: 4 })),
  { maxLength: 40 },
);

/** Runs the steps; refused steps change nothing. */
function run(
  todo: readonly (readonly [keyof typeof STEPS, number])[],
  each: (keyset: Keyset) => void,
): Keyset {
  let keyset: Keyset = foundKeyset('ca', generations[0]!);
  for (const [step, n] of todo) {
    try {
      keyset = STEPS[step](keyset, n);
    } catch (error) {
      expect(error).toBeInstanceOf(MusterError);
      expect((error as MusterError).code).toBe('E_KEYSET');
    }
    each(keyset);
  }
  return keyset;
}

test('after any steps, the generation that signs is trusted and none is listed twice', () => {
  fc.assert(
    fc.property(steps, (todo) => {
      run(todo, (keyset) => {
        expect(keysetFault(keyset)).toBeUndefined();
        expect(keyset.trusted.length).toBeGreaterThan(0);
      });
    }),
    { seed: 1, numRuns: 300 },
  );
});

test('a keyset is read back from its record unchanged, and the record holds no private key', () => {
  const vault = vaultFrom(newVaultKey(), 'test');
  fc.assert(
    fc.property(steps, (todo) => {
      const keyset = run(todo, () => {});
      const text = encodeKeyset('c', keyset, vault);
      expect(text).not.toContain('PRIVATE');
      const again = decodeKeyset(KEYS.keyset.key('c', 'ca'), text, vault);
      expect(again.primary).toBe(keyset.primary);
      for (const list of ['trusted', 'distrusted'] as const)
        expect(again[list].map(({ id, key }) => [id, key.pem()])).toEqual(
          keyset[list].map(({ id, key }) => [id, key.pem()]),
        );
    }),
    { seed: 2, numRuns: 60 },
  );
});

test('the generation that signs cannot be distrusted, and one that is not trusted cannot sign', () => {
  const keyset = addTrusted(foundKeyset('sa', generations[0]!), generations[1]!);
  expect(() => distrust(keyset, generations[0]!.id)).toThrow(/signs; promote another first/);
  const turned = distrust(promote(keyset, generations[1]!.id), generations[0]!.id);
  expect(() => promote(turned, generations[0]!.id)).toThrow(/not trusted/);
  expect(() => addTrusted(turned, generations[0]!)).toThrow(/there already/);
});

test('verifiers are all trusted public keys, and the signing key is the first', () => {
  const keyset = promote(addTrusted(foundKeyset('sa', generations[0]!), generations[1]!), generations[1]!.id);
  expect(verifiers(keyset)).toBe(generations[1]!.publicKey.pem() + generations[0]!.publicKey.pem());
});

test('a record whose key was replaced with another is refused', () => {
  const vault = vaultFrom(newVaultKey(), 'test');
  const keyset = addTrusted(foundKeyset('ca', generations[0]!), generations[1]!);
  const record = KEYS.keyset.key('c', 'ca');
  const value = JSON.parse(encodeKeyset('c', keyset, vault));
  const swapped = structuredClone(value);
  [swapped.trusted[0].sealed, swapped.trusted[1].sealed] = [value.trusted[1].sealed, value.trusted[0].sealed];
  expect(() => decodeKeyset(record, JSON.stringify(swapped), vault)).toThrow(/belongs to another record/);
  const renamed = structuredClone(value);
  renamed.trusted[0].publicKey = value.trusted[1].publicKey;
  expect(() => decodeKeyset(record, JSON.stringify(renamed), vault)).toThrow(/do not belong together/);
  const orphan = { ...value, primary: 'nobody' };
  expect(() => decodeKeyset(record, JSON.stringify(orphan), vault)).toThrow(/primary is not trusted/);
  const newer = { ...value, v: 2 };
  expect(() => decodeKeyset(record, JSON.stringify(newer), vault)).toThrow(/version known here/);
});
