/** How values are printed: tables as kubectl's, JSON, YAML. */
import { dump } from 'js-yaml';
import { MusterError } from '../base/errors.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type Format = (typeof FORMATS)[number];

/** Throws E_USAGE when `text` is not one of `formats`. */
export function formatOf<F extends Format>(text: string | undefined, formats: readonly F[], fallback: F): F {
  if (text === undefined) return fallback;
  if (!formats.includes(text as F))
    throw new MusterError('E_USAGE', `-o ${text}: the formats are ${formats.join(', ')}`);
  return text as F;
}

export const jsonText = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

export const yamlText = (value: unknown): string =>
  dump(JSON.parse(JSON.stringify(value)), { lineWidth: -1, noRefs: true });

/** A column: its heading and what it shows of an item; `<none>` where there is nothing, as kubectl does. */
export interface Column<T> {
  readonly heading: string;
  readonly cell: (item: T) => string | number | undefined;
  /** Only with `-o wide`. */
  readonly wide?: true;
}

/** Three spaces between columns, none at the end of a line. Control characters cannot reach the terminal. */
export function tableText<T>(columns: readonly Column<T>[], items: readonly T[], wide = false): string {
  const shown = columns.filter((column) => wide || !column.wide);
  const rows = [
    shown.map((column) => column.heading),
    ...items.map((item) => shown.map((column) => cellText(column.cell(item)))),
  ];
  const widths = shown.map((_, n) => Math.max(...rows.map((row) => row[n]!.length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, n) => cell.padEnd(widths[n]!))
          .join('   ')
          .trimEnd()}\n`,
    )
    .join('');
}

function cellText(value: string | number | undefined): string {
  if (value === undefined || value === '') return '<none>';
  // What a machine says of itself ends up here.
  return String(value).replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
}

/** A span as kubectl's AGE: the largest unit, two below a certain size. `5s`, `3m`, `2h`, `4d`. */
export function ageText(milliseconds: number): string {
  const s = Math.max(0, Math.floor(milliseconds / 1000));
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (m < 180) return `${m}m`;
  const h = Math.floor(m / 60);
  if (h < 8) return m % 60 ? `${h}h${m % 60}m` : `${h}h`;
  if (h < 48) return `${h}h`;
  const d = Math.floor(h / 24);
  return d < 8 && h % 24 ? `${d}d${h % 24}h` : `${d}d`;
}

const COLORS = { red: 31, green: 32, yellow: 33, cyan: 36, bold: 1 } as const;

/** `text` in a colour when colours may be used. */
export function painted(text: string, color: keyof typeof COLORS, allowed: boolean): string {
  return allowed ? `\x1b[${COLORS[color]}m${text}\x1b[0m` : text;
}
