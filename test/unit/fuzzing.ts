/** Damaged inputs by the hundred thousand for those who read what others wrote. */
import { random } from './resources/fuzz.ts';
import { jsonMutants, mutant, xorshift } from './tftp/mutate.ts';
import { withoutTraces } from './traces.ts';

/** Of each reader. */
const INPUTS = 200_000;

/** A generator whose seed is fixed by `name` and printed, so that a failure can be repeated. */
const generator = (name: string): (() => number) => xorshift(random(name)(0xffffffff));

/** Uses 200,000 copies of `seeds` with octets changed, cut off, repeated or put in. What throws names its input. */
export function damagedOctets(
  name: string,
  seeds: readonly (string | Buffer)[],
  use: (octets: Buffer) => void,
): void {
  const octets = seeds.map((seed) => Buffer.from(seed as string));
  const next = generator(name);
  repeat(() => mutant(octets, next), use);
}

/** As {@link damagedOctets}, of texts: one character an octet. */
export function damagedTexts(name: string, seeds: readonly string[], use: (text: string) => void): void {
  damagedOctets(name, seeds, (octets) => use(octets.toString('latin1')));
}

/** Uses 200,000 copies of JSON texts with other values and names in them; few are torn. */
export function damagedRecords(name: string, seeds: readonly object[], use: (text: string) => void): void {
  repeat(jsonMutants(seeds, generator(name)), use);
}

function repeat<T extends Buffer | string>(next: () => T, use: (input: T) => void): void {
  withoutTraces(() => {
    for (let n = 0; n < INPUTS; n++) {
      const input = next();
      try {
        use(input);
      } catch (error) {
        throw named(error, input);
      }
    }
  });
}

/** As {@link damagedOctets}, for who waits for something. */
export function damagedOctetsLater(
  name: string,
  seeds: readonly Buffer[],
  use: (octets: Buffer) => Promise<void>,
): Promise<void> {
  const next = generator(name);
  return repeatLater(() => mutant(seeds, next), use);
}

/** As {@link damagedRecords}, for who waits for something. */
export function damagedRecordsLater(
  name: string,
  seeds: readonly object[],
  use: (text: string) => Promise<void>,
): Promise<void> {
  return repeatLater(jsonMutants(seeds, generator(name)), use);
}

function repeatLater<T extends Buffer | string>(
  next: () => T,
  use: (input: T) => Promise<void>,
): Promise<void> {
  return withoutTraces(async () => {
    for (let n = 0; n < INPUTS; n++) {
      const input = next();
      await use(input).catch((error: unknown) => {
        throw named(error, input);
      });
    }
  });
}

function named(error: unknown, input: Buffer | string): Error {
  const text = JSON.stringify(typeof input === 'string' ? input : input.toString('latin1'));
  return new Error(`${error instanceof Error ? error.message : String(error)}, of ${text}`);
}

/** The result of `read`, or undefined if it throws an error with one of `codes`; another error goes on. */
export function unless<T>(codes: readonly string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (codes.includes((error as { code?: string }).code ?? '')) return undefined;
    throw error;
  }
}
