/** Generations of a keyset: after any steps, exactly one signs, and it is trusted. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import {
  addTrusted,
  bridgesBehind,
  distrust,
  forget,
  foundKeyset,
  type Generation,
  generationId,
  type Keyset,
  keysetFault,
  make,
  primaryFirst,
  promote,
  trust,
  trustAgain,
  trustBundle,
  verifiers,
} from '../../../src/pki/keyset.ts';
import { decodeKeyset, encodeKeyset } from '../../../src/pki/records.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { KEYS } from '../../../src/store/keys.ts';

const vault = vaultFrom(newVaultKey(), 'test');
const generations: Generation[] = await Promise.all(
  Array.from({ length: 5 }, async (_, n) => {
    const key = await PrivateKey.generate();
    const publicKey = key.publicKey();
    const taken = { id: generationId(publicKey), createdAt: n as never, publicKey, key };
    return vault.take({ scope: 'c', keyset: 'ca', now: n as never, taken, bridgesFrom: [] });
  }),
);
// Every second one has bridges from all others, as a CA has whose elders have room for one.
for (const [n, one] of generations.entries())
  if (n % 2 === 1)
    generations[n] = {
      ...one,
      bridges: generations
        .filter((other) => other !== one)
        .map(({ id }) => ({ issuer: id, certificate: `bridge ${id} ${one.id}\n` })),
    };

const STEPS = {
  make: (keyset: Keyset, n: number) => make(keyset, generations[n]!),
  trust: (keyset: Keyset, n: number) => trust(keyset, generations[n]!.id),
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

test('after any steps, one generation is trusted, the one that signs is accepted, and none is listed twice', () => {
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
  fc.assert(
    fc.property(steps, (todo) => {
      const keyset = run(todo, () => {});
      const text = encodeKeyset(keyset);
      expect(text).not.toContain('PRIVATE');
      const again = decodeKeyset(KEYS.keyset.key('c', 'ca'), text);
      expect(again.primary).toBe(keyset.primary);
      for (const list of ['made', 'trusted', 'distrusted'] as const)
        expect(again[list].map(({ id, sealed, bridges }) => [id, sealed, bridges])).toEqual(
          keyset[list].map(({ id, sealed, bridges }) => [id, sealed, bridges]),
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

test('verifiers and bundles are in the order of creation, so that promoting changes neither', () => {
  const [first, second] = generations as [Generation, Generation];
  const both = addTrusted(foundKeyset('sa', first), second);
  const promoted = promote(both, second.id);
  expect(verifiers(promoted)).toBe(first.publicKey.pem() + second.publicKey.pem());
  expect(verifiers(promoted)).toBe(verifiers(both));
  // A generation that is trusted again takes its old place.
  expect(verifiers(trustAgain(distrust(promoted, first.id), first.id))).toBe(verifiers(both));
  // What encrypts Secrets is the first, whatever its age: Kubernetes encrypts with the first key.
  expect(primaryFirst(promoted).map(({ id }) => id)).toEqual([second.id, first.id]);
});

test('a CA with a bridge signs before it is in a bundle, and replaces the old one there at once', () => {
  const [first, second, third] = generations.map((one) => ({ ...one, certificate: `${one.id}\n` })) as [
    Generation,
    Generation,
    Generation,
  ];
  const made = make(foundKeyset('etcd-ca', first), second);
  expect(trustBundle(made)).toBe(first.certificate);
  const promoted = promote(made, second.id);
  expect(trustBundle(promoted)).toBe(first.certificate);
  expect(bridgesBehind(promoted, second)).toBe(`bridge ${first.id} ${second.id}\n`);
  const after = distrust(promoted, first.id);
  expect(trustBundle(after)).toBe(second.certificate);
  // Members that have not restarted yet still trust the first one.
  expect(bridgesBehind(after, second)).toBe(bridgesBehind(promoted, second));
  expect(bridgesBehind(forget(after, first.id), second)).toBe('');
  expect(forget(after, first.id)).toMatchObject({ made: [], distrusted: [] });
  // Without a bridge nobody would accept its leaves.
  expect(() => promote(make(foundKeyset('etcd-ca', first), third), third.id)).toThrow(/not trusted/);
  // The way back: the old one signs again, and the new one goes.
  expect(forget(promote(promoted, first.id), second.id)).toEqual(foundKeyset('etcd-ca', first));
  expect(() => forget(promoted, second.id)).toThrow(/stays/);
});

test('a record whose key was replaced with another is refused', async () => {
  const keyset = addTrusted(foundKeyset('ca', generations[0]!), generations[1]!);
  const record = KEYS.keyset.key('c', 'ca');
  const value = JSON.parse(encodeKeyset(keyset));
  const swapped = structuredClone(value);
  [swapped.trusted[0].sealed, swapped.trusted[1].sealed] = [value.trusted[1].sealed, value.trusted[0].sealed];
  const [generation] = decodeKeyset(record, JSON.stringify(swapped)).trusted as [Generation];
  const order = { scope: 'c', keyset: 'ca', machine: 'cp1', generation } as const;
  await expect(vault.handOut(order)).rejects.toThrow(/belongs to another record/);
  const renamed = structuredClone(value);
  renamed.trusted[0].publicKey = value.trusted[1].publicKey;
  expect(() => decodeKeyset(record, JSON.stringify(renamed))).toThrow(/do not belong together/);
  const orphan = { ...value, primary: 'nobody' };
  expect(() => decodeKeyset(record, JSON.stringify(orphan))).toThrow(/primary is not trusted/);
  const newer = { ...value, v: 2 };
  expect(() => decodeKeyset(record, JSON.stringify(newer))).toThrow(/version known here/);
});
