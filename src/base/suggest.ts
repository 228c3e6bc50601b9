/** "Did you mean": the nearest of some names. */

/**
 * The candidate that differs from `text` by the fewest typing errors, if few enough to be meant.
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

/** `; did you mean "x"?` or nothing, to be put behind a message. */
export function didYouMean(text: string, candidates: Iterable<string>): string {
  const found = suggest(text, candidates);
  return found === undefined ? '' : `; did you mean "${found}"?`;
}

/**
 * Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b`; `limit`
 * when not fewer.
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
    // No row has less than the one before it, and a swap adds one to what the row before that had:
    // nothing can become fewer.
    if (least >= limit) return limit;
    before = previous;
    previous = row;
  }
  return Math.min(limit, previous[b.length]!);
}
