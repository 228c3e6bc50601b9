/** The verb `muster get KIND [NAME…]`. */

import type { LeaseView } from '../../api/operations/inventory.ts';
import type { NameItem } from '../../api/operations/names.ts';
import { byLabels } from '../../api/selectors.ts';
import type { Shown } from '../../api/shown.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import { taintText } from '../../cluster/components/nodes.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
import { type Kind, PLURAL } from '../../resources/kinds.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { events, subjectOf } from '../events/events.ts';
import { EXIT, errorText, type Io } from '../io.ts';
import { type Asked, askedFor, kindOf, OTHER_LISTS, type OtherList, otherListNamed } from '../names.ts';
import {
  type Column,
  FORMATS,
  type Format,
  formatOf,
  jsonText,
  lookOf,
  type TableLook,
  tablePrinter,
  yamlText,
} from '../output.ts';
import { JSON_PATH } from '../register.ts';
import { COLUMNS, EVENT_COLUMNS, LEASE_COLUMNS, NAME_COLUMNS } from './columns.ts';
import { INVENTORY_COLUMNS, inventoryText } from './inventory.ts';
import { jsonPath } from './jsonpath.ts';
import { isMachineList, MACHINE_LISTS } from './lists.ts';
import { watchDocuments } from './watch.ts';

export interface GetOptions extends ServerOptions {
  readonly output?: string;
  /** `key=value`, several separated by commas. */
  readonly selector?: string;
  readonly watch?: boolean;
  /** False with --no-headers. */
  readonly headers?: boolean;
  /** The resolved specification of a cluster. */
  readonly full?: boolean;
}

/** The format of the output, and whether tables have headings. */
interface Look {
  readonly format: Format;
  readonly headings: boolean;
}

/** The settings of tables for this output. */
const tableLook = ({ format, headings }: Look, io: Io): TableLook => ({
  ...lookOf(io, format === 'wide'),
  headings,
});

/**
 * `muster get`: prints documents, leases or events; with --watch, also what changes. Exit code 1
 * when a name does not exist.
 */
export async function get(words: readonly string[], options: GetOptions, io: Io): Promise<number> {
  if (options.output?.startsWith(JSON_PATH)) return await getPath(words, options, options.output, io);
  if (isMachineList(options.output)) return await getList(words, options.output, options, io);
  const format = formatOf(options.output, FORMATS, 'table');
  const look: Look = { format, headings: options.headers ?? true };
  const client = openClient(options, io);
  const asked = askedFor(words);
  if (asked.length > 1) return await getSeveral(client, asked, options, look, io);
  const { kind: word, names } = asked[0]!;
  const other = otherListNamed(word);
  if (other !== undefined && options.watch) return await watchOther(other, names, options, io);
  if (other === 'leases') return await getLeases(client, names, look, io);
  if (other === 'events') return await getEvents(client, names, look, io);
  if (other === 'names') return await getNames(client, names, look, io);
  if (other === 'inventory') return await getInventory(client, names, look, io);
  const kind = kindOf(word, Object.keys(OTHER_LISTS));
  if (options.full) return await getFull(client, kind, names, look, io);
  const fits = selected(options.selector);
  if (options.watch) {
    const show = printer(kind, look, io);
    const said = new Set<string>();
    await watchDocuments({
      client,
      kind,
      names,
      signal: io.signal,
      show: (items) => {
        const wanted = items.filter(fits);
        for (const item of wanted) said.add(item.metadata.name);
        if (wanted.length > 0) show(wanted);
      },
      gone: (name) => {
        if (said.delete(name)) io.err(`${kind.toLowerCase()}/${name} is gone\n`);
      },
    });
    return EXIT.ok;
  }
  const { items: found, missing } = await fetchItems(client, kind, names);
  const items = found.filter(fits);
  if (found.length > 0 || missing.length === 0)
    if (format === 'name') io.out(items.map(nameLine).join(''));
    else print(items, COLUMNS[kind], { ...look, format, single: names.length === 1, what: PLURAL[kind] }, io);
  return missingCode(missing, io);
}

/** `-o jsonpath=TEMPLATE`: fills the template with what `-o json` prints. */
async function getPath(
  words: readonly string[],
  options: GetOptions,
  output: string,
  io: Io,
): Promise<number> {
  if (options.watch) throw new MusterError('E_USAGE', '--watch does not work with -o jsonpath');
  const fill = jsonPath(output.slice(JSON_PATH.length));
  const texts: string[] = [];
  const code = await get(words, { ...options, output: 'json' }, { ...io, out: (text) => texts.push(text) });
  if (texts.length > 0) io.out(fill(JSON.parse(texts.join(''))));
  return code;
}

/** `muster get machines -o ansible` and the other lists for other programs. */
async function getList(
  words: readonly string[],
  output: keyof typeof MACHINE_LISTS,
  { watch, full, selector, ...options }: GetOptions,
  io: Io,
): Promise<number> {
  const [asked, ...more] = askedFor(words);
  if (more.length > 0 || watch || full || kindOf(asked!.kind, Object.keys(OTHER_LISTS)) !== 'Machine')
    throw new MusterError('E_USAGE', `-o ${output} is for machines: muster get machines -o ${output}`);
  const { items, missing } = await fetchItems(openClient(options, io), 'Machine', asked!.names);
  io.out(MACHINE_LISTS[output](items.filter(selected(selector))));
  return missingCode(missing, io);
}

const nameLine = ({ kind, metadata }: Shown): string => `${kind.toLowerCase()}/${metadata.name}\n`;

/** Prints documents of several kinds: a table for each kind, or one list of all. */
async function getSeveral(
  client: ApiClient,
  asked: readonly Asked[],
  { watch, full, selector }: GetOptions,
  { format, headings }: Look,
  io: Io,
): Promise<number> {
  if (watch || full) throw new MusterError('E_USAGE', '--watch and --full work with one kind only');
  const wanted = asked.map(({ kind, names }) => ({ kind: kindOf(kind, Object.keys(OTHER_LISTS)), names }));
  const fits = selected(selector);
  const found = await Promise.all(
    wanted.map(async ({ kind, names }) => ({ kind, ...(await fetchItems(client, kind, names)) })),
  );
  const groups = found.map(({ kind, items }) => ({ kind, items: items.filter(fits) }));
  const items = groups.flatMap((group) => group.items);
  if (format === 'name') io.out(items.map(nameLine).join(''));
  else if (format === 'json' || format === 'yaml')
    print(items, [], { format, headings, single: false, what: 'documents' }, io);
  else if (items.length === 0) io.err('No documents found.\n');
  else {
    const tables = groups
      .filter((group) => group.items.length > 0)
      .map((group) => tablePrinter(COLUMNS[group.kind], tableLook({ format, headings }, io))(group.items));
    io.out(tables.join('\n'));
  }
  return missingCode(
    found.flatMap(({ missing }) => missing),
    io,
  );
}

/** Prints an error for each missing name, and returns the exit code. */
function missingCode(missing: readonly MusterError[], io: Io): number {
  for (const error of missing) io.err(errorText(error));
  return missing.length > 0 ? EXIT.failure : EXIT.ok;
}

interface FullRow {
  readonly path: string;
  readonly value: string;
  readonly from: string;
  readonly by: string;
}

const FULL_COLUMNS: readonly Column<FullRow>[] = [
  { heading: 'PATH', cell: ({ path }) => path },
  { heading: 'VALUE', cell: ({ value }) => value, cuts: true },
  { heading: 'FROM', cell: ({ from }) => from },
  { heading: 'BY', cell: ({ by }) => by, cuts: true },
];

/** `muster get cluster NAME --full`: a line for each value; faults go to standard error. */
async function getFull(
  client: ApiClient,
  kind: Kind,
  [name, ...more]: readonly string[],
  { format, headings }: Look,
  io: Io,
): Promise<number> {
  if (kind !== 'Cluster' || name === undefined || more.length > 0 || format === 'name')
    throw new MusterError(
      'E_USAGE',
      'write it `muster get cluster NAME --full`, with -o table, json or yaml',
    );
  const answer = await client.ask('GET /v1/clusters/:name/full', { params: { name } });
  // The contract leaves open what a resolved Cluster has.
  const view = answer as typeof answer & { readonly full?: ResolvedCluster };
  for (const { fault, severity } of view.faults)
    io.err(`${severity}: ${fault.path === undefined ? '' : `${fault.path}: `}${fault.message}\n`);
  if (format === 'json' || format === 'yaml') io.out((format === 'json' ? jsonText : yamlText)(view));
  else if (view.full) {
    const rows = Object.entries(view.provenance).map(([path, { from, by }]) => {
      const value = valueAt(view.full, path);
      return { path, value: typeof value === 'string' ? value : JSON.stringify(value), from, by };
    });
    for (const { name, roles, addresses, labels = {}, taints = [] } of view.full.machines)
      rows.push({
        path: `machines.${name}`,
        value: [
          ...roles,
          ...addresses,
          ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
          ...taints.map(taintText),
        ].join(' '),
        from: 'spec',
        by: `Machine/${name}`,
      });
    io.out(tablePrinter(FULL_COLUMNS, tableLook({ format, headings }, io))(rows));
  }
  return view.full ? EXIT.ok : EXIT.failure;
}

/** The value at a path. Names of flags have no dots, so the path can be split at its dots. */
const valueAt = (value: unknown, path: string): unknown =>
  path.split('.').reduce((here, step) => (here as Readonly<Record<string, unknown>>)[step], value);

/**
 * Returns a function that prints items of a kind as they arrive: rows of one table, or one document
 * after the other.
 */
function printer(kind: Kind, { format, headings }: Look, io: Io): (items: readonly Shown[]) => void {
  const table = tablePrinter(COLUMNS[kind], tableLook({ format, headings }, io));
  const one: Partial<Record<Format, (item: Shown) => string>> = {
    json: jsonText,
    yaml: (item) => `---\n${yamlText(item)}`,
    name: ({ metadata }) => `${kind.toLowerCase()}/${metadata.name}\n`,
  };
  return (items) => io.out(one[format] ? items.map(one[format]).join('') : table(items));
}

/**
 * Watches a list that is not one of documents. Events can be followed; leases change with every
 * packet, and have no stream.
 */
async function watchOther(
  list: OtherList,
  names: readonly string[],
  { socket, output }: GetOptions,
  io: Io,
): Promise<number> {
  if (list !== 'events')
    throw new MusterError(
      'E_USAGE',
      `${list} cannot be watched; \`muster events --follow\` shows what happens`,
    );
  const options = { follow: true, ...(socket === undefined ? {} : { socket }) };
  return await events(names[0], { ...options, ...(output === undefined ? {} : { output }) }, io);
}

interface Fetched {
  readonly items: readonly Shown[];
  /** An error for each name for which there is no document. */
  readonly missing: readonly MusterError[];
}

/** All documents of a kind, or those of `names` that exist. */
export async function fetchItems(
  client: ApiClient,
  kind: Kind,
  names: readonly string[] = [],
): Promise<Fetched> {
  const base = `/v1/${PLURAL[kind]}`;
  if (names.length === 0)
    return { items: (await client.call<{ items: Shown[] }>('GET', base)).items, missing: [] };
  const answers = await Promise.all(
    names.map(async (name) => {
      try {
        return await client.call<Shown>('GET', `${base}/${encodeURIComponent(name)}`);
      } catch (error) {
        if (error instanceof MusterError && error.code === 'E_NOT_FOUND') return error;
        throw error;
      }
    }),
  );
  return {
    items: answers.flatMap((answer) => (answer instanceof MusterError ? [] : [answer])),
    missing: answers.flatMap((answer) => (answer instanceof MusterError ? [answer] : [])),
  };
}

/**
 * Makes a filter for labels such as `a=b,c!=d`.
 *
 * @throws {MusterError} E_USAGE when the selector is malformed
 */
export const selected = (selector: string | undefined): ((item: Shown) => boolean) =>
  byLabels(selector, '-l');

async function getLeases(client: ApiClient, names: readonly string[], look: Look, io: Io): Promise<number> {
  const { format } = look;
  const { items } = await client.ask('GET /v1/leases');
  const has = ({ address, mac, machine }: LeaseView, name: string): boolean =>
    address === name || machine === name || mac === (parseMac(name) ?? name);
  const missing = names
    .filter((name) => !items.some((lease) => has(lease, name)))
    .map(
      (name) =>
        new MusterError(
          'E_NOT_FOUND',
          `no lease has the address, MAC or machine "${name}"; \`muster get leases\` lists them`,
        ),
    );
  const wanted = items.filter((lease) => names.length === 0 || names.some((name) => has(lease, name)));
  if (format === 'name') io.out(wanted.map((lease) => `lease/${lease.network}/${lease.address}\n`).join(''));
  else if (wanted.length > 0 || missing.length === 0)
    print(wanted, LEASE_COLUMNS, { ...look, format, single: false, what: 'leases' }, io);
  return missingCode(missing, io);
}

/** Names of machines and clusters at name servers; asked for by name, document or machine. */
async function getNames(client: ApiClient, names: readonly string[], look: Look, io: Io): Promise<number> {
  const { items } = await client.ask('GET /v1/names');
  const has = ({ name, subject }: NameItem, wanted: string): boolean =>
    [name, subject, subject.replace(/^.*\//, '')].includes(wanted);
  const missing = names
    .filter((wanted) => !items.some((one) => has(one, wanted)))
    .map(
      (wanted) => new MusterError('E_NOT_FOUND', `"${wanted}" has no name; \`muster get names\` lists all`),
    );
  const shown = items.filter((one) => names.length === 0 || names.some((wanted) => has(one, wanted)));
  const { format } = look;
  if (format === 'name') io.out(shown.map(({ name }) => `name/${name}\n`).join(''));
  else if (shown.length > 0 || missing.length === 0)
    print(shown, NAME_COLUMNS, { ...look, format, single: false, what: 'names' }, io);
  return missingCode(missing, io);
}

async function getInventory(
  client: ApiClient,
  names: readonly string[],
  look: Look,
  io: Io,
): Promise<number> {
  const { format } = look;
  const { items } = await client.ask('GET /v1/inventory');
  const missing = names
    .filter((name) => !items.some(({ machine }) => machine === name))
    .map(
      (name) =>
        new MusterError(
          'E_NOT_FOUND',
          `no inventory of "${name}" is known: its agent reports one when it has its certificate, and an unknown machine in the discovery system`,
        ),
    );
  const wanted = items.filter(({ machine }) => names.length === 0 || names.includes(machine));
  const single = names.length === 1 && wanted.length === 1;
  if (format === 'name') io.out(wanted.map(({ machine }) => `inventory/${machine}\n`).join(''));
  else if (single && format === 'table') io.out(inventoryText(wanted[0]!));
  else if (wanted.length > 0 || missing.length === 0)
    print(wanted, INVENTORY_COLUMNS, { ...look, format, single, what: 'inventory' }, io);
  return missingCode(missing, io);
}

async function getEvents(client: ApiClient, names: readonly string[], look: Look, io: Io): Promise<number> {
  const { format } = look;
  if (names.length > 1) throw new MusterError('E_USAGE', 'events are listed for one subject at a time');
  const { items } = await client.ask('GET /v1/events', {
    query: { subject: names[0] === undefined ? undefined : subjectOf(names[0]) },
  });
  if (format === 'name') io.out(items.map((event) => `event/${event.sequence}\n`).join(''));
  else print(items, EVENT_COLUMNS, { ...look, format, single: false, what: 'events' }, io);
  return EXIT.ok;
}

/**
 * Prints items. In JSON and YAML, a single item that was asked for by name is printed by itself,
 * and several items are printed as a list, as kubectl does.
 */
function print<T>(
  items: readonly T[],
  columns: readonly Column<T>[],
  how: Look & {
    readonly format: Exclude<Format, 'name'>;
    readonly single: boolean;
    readonly what: string;
  },
  io: Io,
): void {
  if (how.format === 'table' || how.format === 'wide') {
    if (items.length === 0) io.err(`No ${how.what} found.\n`);
    else io.out(tablePrinter(columns, tableLook(how, io))(items));
    return;
  }
  const value = how.single ? items[0] : { apiVersion: 'muster/v1', kind: 'List', items };
  io.out(how.format === 'json' ? jsonText(value) : yamlText(value));
}
