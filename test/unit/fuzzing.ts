/** Hundreds of thousands of damaged inputs for readers of foreign data. */

import { jsonMutants, mutant, xorshift } from './pxe/tftp/mutate.ts';
import { random } from './resources/fuzz.ts';
import { withoutTraces } from './traces.ts';

/** How many inputs each reader gets: 200,000, or a quarter of them in `make test`. */
export const INPUTS = 200_000 / Number(process.env.MUSTER_FUZZ_SHARE ?? 1);

/** A generator whose seed is fixed by `name` and printed, so that a failure can be repeated. */
const generator = (name: string): (() => number) => xorshift(random(name)(0xffffffff));

/** Uses one input; a returned promise is awaited. */
type Use<T> = (input: T) => void | Promise<void>;

/**
 * Calls `use` with {@link INPUTS} copies of `seeds` with octets changed, cut off, repeated or
 * inserted. An error names its input.
 *
 * @param inputs fewer, where one takes long
 */
export function damagedOctets(
  name: string,
  seeds: readonly (string | Buffer)[],
  use: Use<Buffer>,
  inputs?: number,
): Promise<void> {
  const octets = seeds.map((seed) => Buffer.from(seed as string));
  const next = generator(name);
  return repeat(() => mutant(octets, next), use, inputs);
}

/** Like {@link damagedOctets}, for texts with one octet per character. */
export const damagedTexts = (name: string, seeds: readonly string[], use: Use<string>): Promise<void> =>
  damagedOctets(name, seeds, (octets) => use(octets.toString('latin1')));

/** Calls `use` with {@link INPUTS} JSON texts with other values and names in them; few are torn. */
export const damagedRecords = (
  name: string,
  seeds: readonly object[],
  use: Use<string>,
  inputs?: number,
): Promise<void> => repeat(jsonMutants(seeds, generator(name)), use, inputs);

function repeat<T extends Buffer | string>(next: () => T, use: Use<T>, inputs = INPUTS): Promise<void> {
  return withoutTraces(async () => {
    for (let n = 0; n < inputs; n++) {
      const input = next();
      try {
        const done = use(input);
        if (done !== undefined) await done;
      } catch (error) {
        throw named(error, input);
      }
    }
  });
}

function named(error: unknown, input: Buffer | string): Error {
  const text = JSON.stringify(typeof input === 'string' ? input : input.toString('latin1'));
  return new Error(`${error instanceof Error ? error.message : String(error)}, of ${text}`);
}

/**
 * Returns the result of `read`, or undefined if it throws an error with one of `codes`; other
 * errors are thrown on.
 */
export function unless<T>(codes: readonly string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (codes.includes((error as { code?: string }).code ?? '')) return undefined;
    throw error;
  }
}
