/** Prints values: as tables like kubectl's, as JSON, as YAML. */
import { dump } from 'js-yaml';
import { MusterError } from '../base/errors.ts';
import { type Color, painted } from './color.ts';
import type { Io } from './io.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type Format = (typeof FORMATS)[number];

/**
 * The format that `-o` names; `fallback` without `-o`.
 *
 * @throws {MusterError} E_USAGE when `text` is not one of `formats`.
 */
export function formatOf<F extends Format>(text: string | undefined, formats: readonly F[], fallback: F): F {
  if (text === undefined) return fallback;
  if (!formats.includes(text as F))
    throw new MusterError('E_USAGE', `-o ${text}: the formats are ${formats.join(', ')}`);
  return text as F;
}

/**
 * The key of `orders` that an argument names.
 *
 * @param others What the caller takes besides, for the message: before and after the orders.
 * @throws {MusterError} E_USAGE when `text` is none of them
 */
export function orderOf<O extends string>(
  orders: Readonly<Record<O, unknown>>,
  text: string,
  others: { readonly first?: string; readonly last?: string } = {},
): O {
  if (Object.hasOwn(orders, text)) return text as O;
  const { first, last } = others;
  const all = [...(first ? [first] : []), ...Object.keys(orders), ...(last ? [last] : [])];
  throw new MusterError('E_USAGE', `"${text}" is not an order; the orders are ${all.join(', ')}`);
}

export const jsonText = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;

export const yamlText = (value: unknown): string =>
  dump(JSON.parse(JSON.stringify(value)), { lineWidth: -1, noRefs: true });

/** A number of octets, as people read it: `512 B`, `12.0 MiB`. */
export function sizeText(octets: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = octets;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/**
 * A column of a table: its heading, and the cell that it has for an item. An empty cell is shown as
 * `<none>`, as kubectl does.
 */
export interface Column<T> {
  readonly heading: string;
  readonly cell: (item: T) => string | number | undefined;
  /** The column is shown only with `-o wide`. */
  readonly wide?: true;
  /** Its cells may be cut when the terminal is too narrow, and then end with `…`. */
  readonly cuts?: true;
  /** The colour of an item's cell on a terminal. */
  readonly color?: (item: T) => Color | undefined;
}

export interface TableLook {
  readonly wide: boolean;
  /** Whether a line of headings is printed first. */
  readonly headings: boolean;
  /** Width of the terminal, in columns; undefined when the output does not go to a terminal. */
  readonly columns?: number | undefined;
  /** Whether cells may be coloured. */
  readonly color?: boolean;
}

/** The settings of tables for the output of `io`. */
export const lookOf = (io: Pick<Io, 'columns' | 'color'>, wide = false): TableLook => ({
  wide,
  headings: true,
  columns: io.columns,
  color: io.color,
});

/**
 * Formats a table: three spaces between columns, no spaces at the end of a line. Control characters
 * are replaced, because cells can contain text that a machine sent.
 */
export function tableText<T>(
  columns: readonly Column<T>[],
  items: readonly T[],
  look: TableLook = { wide: false, headings: true },
): string {
  return tablePrinter(columns, look)(items);
}

const GAP = '   ';
/** Cells that may be cut keep at least this many columns. */
const MIN_CUT = 12;

/**
 * Returns a function that prints a table in parts. Headings are printed once, and columns never
 * become narrower than in an earlier part.
 */
export function tablePrinter<T>(
  columns: readonly Column<T>[],
  { wide, headings, columns: terminal, color = false }: TableLook,
): (items: readonly T[]) => string {
  const shown = columns.filter((column) => wide || !column.wide);
  let before = shown.map(({ heading }) => (headings ? heading.length : 0));
  let head = headings;
  return (items) => {
    const cells = items.map((item) => shown.map((column) => cellText(column.cell(item))));
    const wanted = before.map((width, n) =>
      cells.reduce((most, row) => Math.max(most, row[n]!.length), width),
    );
    before = wanted;
    const widths = terminal === undefined ? wanted : fitted(shown, wanted, terminal);
    const padded = (text: string, n: number) => cut(text, widths[n]!).padEnd(widths[n]!);
    const lines = cells.map((row, at) =>
      row.map((text, n) => {
        const paint = color ? shown[n]!.color?.(items[at]!) : undefined;
        return paint === undefined ? padded(text, n) : painted(padded(text, n), paint, true);
      }),
    );
    if (head) lines.unshift(shown.map(({ heading }, n) => padded(heading, n)));
    head = false;
    return lines.map((line) => `${line.join(GAP).trimEnd()}\n`).join('');
  };
}

/**
 * The widths of columns. Columns that may be cut are made narrower until a line fits the terminal.
 */
function fitted<T>(
  columns: readonly Column<T>[],
  wanted: readonly number[],
  terminal: number,
): readonly number[] {
  const widths = [...wanted];
  const least = columns.map(({ heading, cuts }, n) =>
    cuts ? Math.min(widths[n]!, Math.max(heading.length, MIN_CUT)) : widths[n]!,
  );
  let excess = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1) - terminal;
  while (excess > 0) {
    // The widest column is cut first, by one column of the terminal at a time, so that widths stay
    // as equal as possible.
    let widest = -1;
    for (const [n, width] of widths.entries())
      if (width > least[n]! && (widest < 0 || width > widths[widest]!)) widest = n;
    if (widest < 0) break;
    widths[widest]!--;
    excess--;
  }
  return widths;
}

/** A text in at most `width` columns. */
export const cut = (text: string, width: number): string =>
  text.length > width ? `${text.slice(0, Math.max(1, width - 1))}…` : text;

function cellText(value: string | number | undefined): string {
  if (value === undefined || value === '') return '<none>';
  return withoutControls(String(value));
}

/** Replaces control characters, which would steer the terminal. */
export const withoutControls = (text: string): string => text.replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
