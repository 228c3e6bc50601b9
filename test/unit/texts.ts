/** Texts of any characters for property tests. */
import fc from 'fast-check';

const character = fc
  .oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 0x10f7ff }) },
    { weight: 2, arbitrary: fc.nat(0xff) },
  )
  // Surrogates are no characters, so the code points above them move down.
  .map((n) => String.fromCodePoint(n < 0xd800 ? n : n + 0x800));

/**
 * Well-formed texts, and names that objects already have (`__proto__`). fast-check's own unit
 * `binary` gives the same but first makes a table of all characters, which takes a second.
 */
export const anyText = (constraints: { readonly maxLength?: number } = {}): fc.Arbitrary<string> =>
  fc.oneof({ weight: 4, arbitrary: fc.string({ ...constraints, unit: character }) }, fc.string(constraints));
