/**
 * Machines from a table that was pasted: from a spreadsheet (tabs) or a file (commas). The columns
 * are those of `muster import csv`, and a test holds that both make the same documents. Pure.
 */

export const COLUMNS = ['name', 'mac', 'address', 'profile', 'cluster', 'serial', 'uuid', 'labels'] as const;
type Column = (typeof COLUMNS)[number];

/** A Machine document before the server checks it. */
export interface Draft {
  readonly apiVersion: 'muster/v1';
  readonly kind: 'Machine';
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: object;
}

export type Pasted =
  | { readonly ok: true; readonly machines: readonly Draft[] }
  | { readonly ok: false; readonly fault: string };

const listOf = (text: string): readonly string[] => text.split(/[\s;]+/).filter((one) => one !== '');

export function machinesFrom(text: string): Pasted {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  const [head, ...rows] = lines.map(fieldsOf);
  if (head === undefined || rows.length === 0)
    return { ok: false, fault: 'Paste a heading and at least one row.' };
  const columns = head.map((name) => name.toLowerCase());
  const unknown = columns.find((name) => !COLUMNS.includes(name as Column));
  if (unknown !== undefined)
    return { ok: false, fault: `"${unknown}" is not a column; there are ${COLUMNS.join(', ')}.` };
  const lacking = ['name', 'mac'].find((name) => !columns.includes(name));
  if (lacking !== undefined) return { ok: false, fault: `The table has no column "${lacking}".` };
  const long = rows.findIndex((row) => row.length > columns.length);
  if (long >= 0) return { ok: false, fault: `Row ${long + 2} has more fields than the heading.` };
  return {
    ok: true,
    machines: rows.map((row) => draftOf((name) => row[columns.indexOf(name)] || undefined)),
  };
}

/** The fields of a line. A field in quotes may hold separators and doubled quotes. */
function fieldsOf(line: string): readonly string[] {
  const separator = line.includes('\t') ? '\t' : ',';
  const fields: string[] = [];
  let rest = line;
  for (;;) {
    const quoted = /^\s*"((?:[^"]|"")*)"\s*/.exec(rest);
    const end = quoted
      ? quoted[0].length
      : rest.indexOf(separator) < 0
        ? rest.length
        : rest.indexOf(separator);
    fields.push(quoted ? quoted[1]!.replaceAll('""', '"') : rest.slice(0, end).trim());
    if (rest[end] !== separator) return fields;
    rest = rest.slice(end + 1);
  }
}

function draftOf(field: (name: Column) => string | undefined): Draft {
  const labels = listOf(field('labels') ?? '').map((pair) => {
    const [key = '', ...value] = pair.split('=');
    return [key, value.join('=')] as const;
  });
  const addresses = listOf(field('address') ?? '');
  const [uuid, serial, profile, cluster] = [
    field('uuid'),
    field('serial'),
    field('profile'),
    field('cluster'),
  ];
  return {
    apiVersion: 'muster/v1',
    kind: 'Machine',
    metadata: { name: field('name') ?? '', ...(labels.length > 0 && { labels: Object.fromEntries(labels) }) },
    spec: {
      macs: listOf(field('mac') ?? ''),
      ...(uuid && { uuid }),
      ...(serial && { serial }),
      ...(profile && { profile }),
      ...(cluster && { cluster }),
      ...(addresses.length > 0 && { addresses }),
    },
  };
}
