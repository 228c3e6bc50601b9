/**
 * Generates hundreds of thousands of broken texts from valid ones. The random seed is fixed and
 * printed, so that every run has the same texts.
 */
import { withoutTraces } from '../traces.ts';

/** Returns a random number from 0 to `below` - 1 (xorshift32). */
export type Random = (below: number) => number;

/** A generator whose seed is fixed by `name` and printed, so that a failure can be repeated. */
export function random(name: string): Random {
  let state = 0x9e3779b9;
  for (const char of name) state = Math.imul(state ^ char.charCodeAt(0), 0x01000193) >>> 0;
  console.log(`fuzz seed of ${name}: 0x${state.toString(16)}`);
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

/**
 * Pieces that often break parsers: structure of YAML, templates, paths, control characters, lone
 * surrogates.
 */
const PIECES = [
  ...': - ? , [ ] { } & * ! | > \' " % @ ` # \n \t \r \0 \x1b \x7f \x85 \u2028 \ufeff \ud800 \udc00 \\ $ ${ $${ } . /'.split(
    ' ',
  ),
  '\n  ',
  ': ',
  ' #',
  '---\n',
  '...\n',
  '<<: ',
  '0644',
  '99999999999999999999',
  '__proto__',
  'constructor',
  '${machine.name}',
  '../',
  '\u{1f600}',
];

/**
 * Calls `use` with `count` mutations of the seeds: inserts pieces, removes, doubles and moves
 * parts, and crosses seeds.
 */
export function fuzz(
  count: number,
  rng: Random,
  seeds: readonly string[],
  use: (text: string) => void,
): void {
  withoutTraces(() => {
    for (let n = 0; n < count; n++) {
      let text = seeds[rng(seeds.length)]!;
      for (let times = 1 + rng(4); times > 0; times--) text = mutate(text, rng, seeds);
      use(text);
    }
  });
}

function mutate(text: string, rng: Random, seeds: readonly string[]): string {
  const at = rng(text.length + 1);
  const to = Math.min(text.length, at + 1 + rng(8));
  switch (rng(6)) {
    case 0:
      return text.slice(0, at) + PIECES[rng(PIECES.length)]! + text.slice(at);
    case 1:
      return text.slice(0, at) + text.slice(to);
    case 2:
      return text.slice(0, at) + text.slice(at, to).repeat(1 + rng(5)) + text.slice(to);
    case 3:
      return text.slice(0, at) + String.fromCharCode(rng(rng(2) === 0 ? 128 : 65536)) + text.slice(at + 1);
    case 4: {
      const other = seeds[rng(seeds.length)]!;
      return text.slice(0, at) + other.slice(rng(other.length + 1));
    }
    default:
      return text.slice(0, at) + PIECES[rng(PIECES.length)]! + text.slice(to);
  }
}
