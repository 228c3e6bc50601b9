/** Machines from a table of comma-separated values (RFC 4180). Pure. */
import { CsvError, parse } from 'csv-parse/sync';
import { MusterError } from '../../base/errors.ts';

/** Columns that a table may have; `name` and `mac` it must have. */
const COLUMNS = ['name', 'mac', 'address', 'profile', 'cluster', 'serial', 'uuid', 'labels'] as const;
type Column = (typeof COLUMNS)[number];

/** A document before it is checked against its schema. */
export interface Draft {
  readonly apiVersion: 'muster/v1';
  readonly kind: 'Machine' | 'Cluster';
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: object;
}

const QUOTES: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote does not end',
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote; double quotes inside of fields',
  INVALID_OPENING_QUOTE: 'a quote is inside of a field; quote the whole field',
};

/**
 * Splits a table into rows of fields. Fields may be quoted, and a quoted field may hold commas,
 * line breaks and doubled quotes. Rows without any value are left out.
 *
 * @throws {MusterError} E_USAGE for a quote that does not end, or stands inside of a field
 */
export function csvRows(text: string): readonly (readonly string[])[] {
  try {
    const rows = parse(text, {
      bom: true,
      trim: true,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      skip_empty_lines: true,
    });
    return rows.filter((row) => row.some((one) => one !== ''));
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new MusterError('E_USAGE', `line ${error.lines}: ${QUOTES[error.code] ?? error.message}`);
  }
}

const listOf = (text: string): readonly string[] => text.split(/[\s;]+/).filter((one) => one !== '');
/** With a semicolon anywhere, blanks are part of values. */
const labelsOf = (text: string): readonly string[] =>
  text.includes(';')
    ? text
        .split(';')
        .map((one) => one.trim())
        .filter((one) => one !== '')
    : listOf(text);

/**
 * Makes Machine documents. The first row names the columns. Several MACs or addresses in a field
 * are separated by blanks or semicolons; labels are written `rack=1 row=b`, or `rack=1; row=b c`
 * where values have blanks.
 *
 * @throws {MusterError} E_USAGE for a column that is not known or missing, or a row that does not
 *   fit
 */
export function machinesFromCsv(text: string): readonly Draft[] {
  const [head, ...rows] = csvRows(text);
  if (head === undefined) throw new MusterError('E_USAGE', 'the table is empty');
  const columns = head.map((name) => name.toLowerCase());
  const unknown = columns.find((name) => !COLUMNS.includes(name as Column));
  if (unknown !== undefined)
    throw new MusterError('E_USAGE', `"${unknown}" is not a column; there are ${COLUMNS.join(', ')}`);
  for (const needed of ['name', 'mac'])
    if (!columns.includes(needed)) throw new MusterError('E_USAGE', `the table has no column "${needed}"`);
  if (new Set(columns).size < columns.length) throw new MusterError('E_USAGE', 'a column is there twice');
  return rows.map((row, n) => {
    if (row.length > columns.length)
      throw new MusterError(
        'E_USAGE',
        `row ${n + 2} has ${row.length} fields, and there are ${columns.length} columns`,
      );
    const field = (name: Column): string | undefined => row[columns.indexOf(name)] || undefined;
    const labels = labelsOf(field('labels') ?? '').map((pair) => {
      const equals = pair.indexOf('=');
      if (equals < 1) throw new MusterError('E_USAGE', `row ${n + 2}: label "${pair}" is not NAME=VALUE`);
      return [pair.slice(0, equals), pair.slice(equals + 1)] as const;
    });
    const addresses = listOf(field('address') ?? '');
    return {
      apiVersion: 'muster/v1',
      kind: 'Machine',
      metadata: {
        name: field('name') ?? '',
        ...(labels.length > 0 && { labels: Object.fromEntries(labels) }),
      },
      spec: {
        macs: listOf(field('mac') ?? ''),
        uuid: field('uuid'),
        serial: field('serial'),
        profile: field('profile'),
        cluster: field('cluster'),
        ...(addresses.length > 0 && { addresses }),
      },
    };
  });
}
