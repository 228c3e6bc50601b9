/** Arithmetic of drawings whose width is time. Pure. */

export interface Tick {
  readonly at: number;
  readonly text: string;
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000, 7_776_000_000,
  31_536_000_000,
];

/** Marks at round times from 0 to `length`, at most `most` of them besides 0. */
export function ticks(length: number, most: number, text: (ms: number) => string): readonly Tick[] {
  const step = STEPS_MS.find((one) => length / one <= most) ?? STEPS_MS.at(-1)!;
  const marks: Tick[] = [];
  for (let at = 0; at <= length; at += step) marks.push({ at, text: text(at) });
  return marks;
}

/** `0`, `250 ms`, `5 s`, `2 min`, `3 h`: a round time. */
export function mark(ms: number): string {
  if (ms === 0) return '0';
  if (ms % 3_600_000 === 0) return `${ms / 3_600_000} h`;
  if (ms % 60_000 === 0) return `${ms / 60_000} min`;
  return ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`;
}
