/** Fast random input with a fixed seed, for fuzzing where fast-check would take minutes. */

/** xorshift32: a number in 0..2^32-1 at each call. */
export function xorshift(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}

/** A copy of one of `seeds` with a few octets changed, removed, repeated or inserted. */
export function mutant(seeds: readonly Buffer[], random: () => number): Buffer {
  let bytes = Buffer.from(seeds[random() % seeds.length]!);
  for (let changes = 1 + (random() % 4); changes > 0; changes--) {
    const at = bytes.length === 0 ? 0 : random() % bytes.length;
    switch (random() % 5) {
      case 0:
        if (bytes.length > 0) bytes[at] = random() & 255;
        break;
      case 1:
        bytes = bytes.subarray(0, at);
        break;
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from([random() & 255]), bytes.subarray(at)]);
        break;
      case 3:
        bytes = Buffer.concat([bytes, bytes.subarray(at)]).subarray(0, 2048);
        break;
      default:
        if (bytes.length > 0) bytes[at] = [0, 0xff, 0x7f, 0x80][random() % 4]!;
    }
  }
  return bytes;
}

const VALUES = [
  'null',
  '1',
  '-1',
  '1e999',
  '"x"',
  '""',
  '[]',
  '{}',
  'true',
  '[null]',
  '{"a":{}}',
  '"__proto__"',
];
const NAMES = ['"a"', '"__proto__"', '"constructor"', '""'];

/** The positions of the names and values in a JSON text. */
interface Tokens {
  readonly tokens: readonly string[];
  readonly names: readonly number[];
  readonly values: readonly (readonly [number, number])[];
}

function tokensOf(seed: object): Tokens {
  const tokens = JSON.stringify(seed).match(/"(?:[^"\\]|\\.)*"|[0-9.e+-]+|true|false|null|[{}[\],:]/g)!;
  const names: number[] = [];
  const values: [number, number][] = [];
  const open: number[] = [];
  tokens.forEach((token, at) => {
    if (token === '{' || token === '[') open.push(at);
    else if (token === '}' || token === ']') values.push([open.pop()!, at + 1]);
    else if (tokens[at + 1] === ':') names.push(at);
    else if (token !== ',' && token !== ':') values.push([at, at + 1]);
  });
  return { tokens, names, values };
}

/**
 * Copies of JSON records with other values, of any type, and other names. Only one change in eight
 * breaks the JSON, because broken JSON does not test the readers of records.
 */
export function jsonMutants(seeds: readonly object[], random: () => number): () => string {
  const all = seeds.map(tokensOf);
  return () => {
    const { tokens, names, values } = all[random() % all.length]!;
    const changed = [...tokens];
    for (let changes = 1 + (random() % 3); changes > 0; changes--) {
      const kind = random() % 16;
      const at = random() % tokens.length;
      if (kind === 0) changed.fill('', at, at + 1 + (random() % 4));
      else if (kind === 1) changed[at] = tokens[random() % tokens.length]!;
      else if (kind < 5 && names.length > 0) {
        const other = random() % (names.length + NAMES.length);
        changed[names[random() % names.length]!] = NAMES[other] ?? tokens[names[other - NAMES.length]!]!;
      } else {
        const [from, to] = values[random() % values.length]!;
        const other = random() % (values.length + VALUES.length);
        const put = VALUES[other] ?? tokens.slice(...values[other - VALUES.length]!).join('');
        // Another change has removed it.
        if (changed[from] !== '') changed.fill('', from, to)[from] = put;
      }
    }
    return changed.join('');
  };
}
