/** Cheap random input with a fixed seed: for fuzzing by the hundred thousand, where fast-check would take minutes. */

/**
 * Runs what makes exceptions by the hundred thousand. Nobody reads the traces of those, and taking them is most of the time; what
 * fails must name its input.
 */
export async function withoutTraces(work: () => void | Promise<void>): Promise<void> {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    await work();
  } finally {
    Error.stackTraceLimit = limit;
  }
}

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

/** A copy of one of `seeds` with a few octets changed, cut off, repeated or put in. */
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
  ',',
];

/** Copies of JSON records in which values are other values, names other names, and some text is torn. */
export function jsonMutants(seeds: readonly object[], random: () => number): () => string {
  const split = seeds.map(
    (seed) => JSON.stringify(seed).match(/"[^"]*"|[0-9.e+-]+|true|false|null|[{}[\],:]/g)!,
  );
  return () => {
    const tokens = [...split[random() % split.length]!];
    for (let changes = 1 + (random() % 3); changes > 0; changes--) {
      const at = random() % tokens.length;
      if (random() % 8 === 0) tokens.splice(at, 1 + (random() % 4));
      else if (random() % 3 === 0) tokens[at] = tokens[random() % tokens.length]!;
      else tokens[at] = VALUES[random() % VALUES.length]!;
    }
    return tokens.join('');
  };
}
