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

/** Octets as people read them. */
export function sizeText(octets: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = octets;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/**
 * A column: its heading and what it shows of an item; `<none>` where there is nothing, as kubectl
 * does.
 */
export interface Column<T> {
  readonly heading: string;
  readonly cell: (item: T) => string | number | undefined;
  /** Only with `-o wide`. */
  readonly wide?: true;
}

export interface TableLook {
  readonly wide: boolean;
  /** Whether a line of headings comes first. */
  readonly headings: boolean;
}

/**
 * Three spaces between columns, none at the end of a line. Control characters cannot reach the
 * terminal.
 */
export function tableText<T>(columns: readonly Column<T>[], items: readonly T[], wide = false): string {
  return tablePrinter(columns, { wide, headings: true })(items);
}

/** A table that goes on: headings come once, and columns stay as wide as they have become. */
export function tablePrinter<T>(
  columns: readonly Column<T>[],
  { wide, headings }: TableLook,
): (items: readonly T[]) => string {
  const shown = columns.filter((column) => wide || !column.wide);
  let head = headings ? [shown.map((column) => column.heading)] : [];
  let widths = shown.map(() => 0);
  return (items) => {
    const rows = [...head, ...items.map((item) => shown.map((column) => cellText(column.cell(item))))];
    head = [];
    widths = widths.map((width, n) => rows.reduce((most, row) => Math.max(most, row[n]!.length), width));
    const line = (row: readonly string[]) => row.map((cell, n) => cell.padEnd(widths[n]!)).join('   ');
    return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
  };
}

function cellText(value: string | number | undefined): string {
  if (value === undefined || value === '') return '<none>';
  // What a machine says of itself ends up here.
  return String(value).replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
}

const COLORS = { red: 31, green: 32, yellow: 33, cyan: 36, bold: 1 } as const;

/** `text` in a colour when colours may be used. */
export function painted(text: string, color: keyof typeof COLORS, allowed: boolean): string {
  return allowed ? `\x1b[${COLORS[color]}m${text}\x1b[0m` : text;
}
