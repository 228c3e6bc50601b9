/** A table of things; on a narrow screen each row is a card whose cells have their headings. */
import type { ComponentChildren } from 'preact';

export interface Cell<T> {
  readonly heading: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly number?: true;
}

interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Cell<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** The orders about a row, in a last column. */
  readonly orders?: ((row: T) => ComponentChildren) | undefined;
}

export function Table<T>({ label, columns, rows, keyOf, orders }: TableProps<T>) {
  return (
    <table class="listing">
      <caption class="hidden">{label}</caption>
      <thead>
        <tr>
          {columns.map(({ heading, number }) => (
            <th key={heading} scope="col" class={number ? 'number' : ''}>
              {heading}
            </th>
          ))}
          {orders && (
            <th scope="col">
              <span class="hidden">Orders</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ heading, cell, number }) => (
              <td key={heading} class={number ? 'number' : ''} data-heading={heading}>
                {cell(row)}
              </td>
            ))}
            {orders && (
              <td>
                <div class="line">{orders(row)}</div>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
