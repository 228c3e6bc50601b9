/** The differences of two texts, line by line (longest common subsequence). Pure. */

export interface Line {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** Longer texts are shown as removed and added as a whole. */
const MOST_LINES = 2000;

export function differences(before: string, after: string): readonly Line[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  if (a.length > MOST_LINES || b.length > MOST_LINES)
    return [...a.map(line('removed')), ...b.map(line('added'))];
  const width = b.length + 1;
  /** Length of the longest common part of what begins at line i of a and line j of b. */
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(line('same')(a[i]!));
      i++;
      j++;
    } else if (i < a.length && (j === b.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      found.push(line('removed')(a[i++]!));
    else found.push(line('added')(b[j++]!));
  }
  return found;
}

const linesOf = (text: string): readonly string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));
const line =
  (kind: Line['kind']) =>
  (text: string): Line => ({ kind, text });

/** How many lines around a change are shown. */
const AROUND = 3;

/** Leaves out what is the same, apart from some lines around each change. */
export function shortened(lines: readonly Line[]): readonly (Line | undefined)[] {
  const near = lines.map((_, n) =>
    lines.slice(Math.max(0, n - AROUND), n + AROUND + 1).some((one) => one.kind !== 'same'),
  );
  return lines.flatMap((one, n) => (near[n] ? [one] : n === 0 || near[n - 1] ? [undefined] : []));
}
