/** Texts of any characters for properties. */
import fc from 'fast-check';

const character = fc
  .oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 0x10f7ff }) },
    { weight: 2, arbitrary: fc.nat(0xff) },
  )
  // Half a surrogate pair is no character; what is above them moves down.
  .map((n) => String.fromCodePoint(n < 0xd800 ? n : n + 0x800));

/**
 * Well-formed texts, and names that objects have already (`__proto__`). fast-check's own unit
 * `binary` is the same, but makes a table of all characters first, which takes a second.
 */
export const anyText = (constraints: { readonly maxLength?: number } = {}): fc.Arbitrary<string> =>
  fc.oneof({ weight: 4, arbitrary: fc.string({ ...constraints, unit: character }) }, fc.string(constraints));
