/** "Did you mean …?": finds the name that a mistyped text resembles most. */

/**
 * The candidate that differs from `text` by the fewest typing errors; undefined when each differs
 * by more than a third of the text.
 */
export function suggest(text: string, candidates: Iterable<string>): string | undefined {
  if (text.length > 64) return undefined;
  const wanted = text.toLowerCase();
  let best: string | undefined;
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = typingErrors(wanted, candidate.toLowerCase(), least);
    if (distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

/** Returns `; did you mean "x"?` for the end of a message, or an empty text. */
export function didYouMean(text: string, candidates: Iterable<string>): string {
  const found = suggest(text, candidates);
  return found === undefined ? '' : `; did you mean "${found}"?`;
}

/**
 * Counts the insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, up
 * to `limit`.
 */
function typingErrors(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let cost = Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, before[j - 2]! + 1);
      row.push(cost);
      if (cost < least) least = cost;
    }
    // No row has a smaller minimum than the row before it, and a swap adds one to the row before
    // that: the distance cannot fall below the limit any more.
    if (least >= limit) return limit;
    before = previous;
    previous = row;
  }
  return Math.min(limit, previous[b.length]!);
}
