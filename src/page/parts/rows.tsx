/**
 * A table of which only the rows on the screen exist. All rows have the same height, so that the
 * rest is arithmetic; screen readers get the number of all rows and of each row.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface Column<T> {
  readonly key: string;
  readonly label: string;
  readonly cell: (row: T) => ComponentChildren;
  /** Whether the heading sorts by it. */
  readonly sorts?: boolean;
  readonly class?: string;
}

interface RowsProps<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly keyOf: (row: T) => string;
  readonly sort?: { readonly by: string; readonly down: boolean; readonly set: (by: string) => void };
  readonly selected?: {
    readonly has: (key: string) => boolean;
    readonly toggle: (key: string, at: number, range: boolean) => void;
    readonly all: boolean;
    readonly toggleAll: () => void;
  };
  /** Called with the keys of the rows that are on the screen. */
  readonly shown?: (keys: readonly string[]) => void;
}

/** Rows beyond both ends of the screen, so that scrolling shows no gaps. */
const BEYOND = 8;
/** On these screens rows are cards; style.css has the same widths and heights. */
const [CARDS, PHONE] = [matchMedia('(max-width: 75rem)'), matchMedia('(max-width: 40rem)')];
const heightOf = (): number => (PHONE.matches ? 132 : CARDS.matches ? 80 : 36);

function useRowHeight(): number {
  const [height, setHeight] = useState(heightOf);
  useEffect(() => {
    const change = (): void => setHeight(heightOf());
    for (const width of [CARDS, PHONE]) width.addEventListener('change', change);
    return () => {
      for (const width of [CARDS, PHONE]) width.removeEventListener('change', change);
    };
  }, []);
  return height;
}

export function Rows<T>({ label, rows, columns, keyOf, sort, selected, shown }: RowsProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const height = useRowHeight();
  useLayoutEffect(() => {
    const element = box.current!;
    const look = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, []);
  const from = Math.max(0, Math.min(Math.floor(view.top / height) - BEYOND, rows.length));
  const to = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + BEYOND);
  const visible = rows.slice(from, to);
  const keys = visible.map(keyOf);
  const joined = keys.join(' ');
  useEffect(() => shown?.(keys), [joined]);
  const width = columns.length + (selected ? 1 : 0);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the keyboard
    <section class="rows" ref={box} tabIndex={0} aria-label={label} onKeyDown={moveByArrows}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {selected && (
              <th class="select">
                <input
                  type="checkbox"
                  aria-label="Select all rows that the filters leave"
                  checked={selected.all}
                  onChange={selected.toggleAll}
                />
              </th>
            )}
            {columns.map((column) => (
              <Heading key={column.key} column={column} sort={sort} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={from} height={height} width={width} />
          {visible.map((row, n) => {
            const key = keys[n]!;
            return (
              <tr key={key} aria-rowindex={from + n + 2} aria-selected={selected?.has(key)}>
                {selected && (
                  <td class="select">
                    <input
                      type="checkbox"
                      aria-label={`Select ${key}`}
                      checked={selected.has(key)}
                      onClick={(event) => selected.toggle(key, from + n, event.shiftKey)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.key} class={column.class ?? ''}>
                    <div class="cell">{column.cell(row)}</div>
                  </td>
                ))}
              </tr>
            );
          })}
          <Gap rows={rows.length - to} height={height} width={width} />
        </tbody>
      </table>
    </section>
  );
}

function Heading<T>({ column, sort }: { readonly column: Column<T>; readonly sort: RowsProps<T>['sort'] }) {
  const sorting = sort?.by === column.key ? (sort.down ? 'descending' : 'ascending') : undefined;
  return (
    <th scope="col" class={column.class ?? ''} aria-sort={column.sorts ? (sorting ?? 'none') : undefined}>
      {column.sorts && sort ? (
        <button type="button" onClick={() => sort.set(column.key)}>
          {column.label}
          <span aria-hidden="true">{sorting === undefined ? '' : sorting === 'ascending' ? ' ↑' : ' ↓'}</span>
        </button>
      ) : (
        column.label
      )}
    </th>
  );
}

/** Takes the place of rows that are not on the screen. */
function Gap({
  rows,
  height,
  width,
}: {
  readonly rows: number;
  readonly height: number;
  readonly width: number;
}) {
  if (rows <= 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it takes the focus
    <tr aria-hidden="true" class="gap" style={{ height: `${rows * height}px` }}>
      <td colSpan={width} />
    </tr>
  );
}

/** The arrow keys move between the links of the rows. */
function moveByArrows(event: KeyboardEvent & { readonly currentTarget: HTMLElement }): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !(event.target instanceof HTMLAnchorElement)) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>('tbody a.row')];
  links[links.indexOf(event.target) + step]?.focus();
  event.preventDefault();
}
