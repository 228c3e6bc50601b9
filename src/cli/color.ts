/** Colours on terminals. */

const COLORS = { red: 31, green: 32, yellow: 33, cyan: 36, bold: 1 } as const;
export type Color = keyof typeof COLORS;

/** Returns `text` in a colour if colours are allowed, otherwise unchanged. */
export function painted(text: string, color: Color, allowed: boolean): string {
  return allowed ? `\x1b[${COLORS[color]}m${text}\x1b[0m` : text;
}
