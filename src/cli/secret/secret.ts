/** The verbs `muster secret put`, `ls` and `rm`. */
import { randomBytes } from 'node:crypto';
import type { SecretView } from '../../api/operations/secrets.ts';
import { MusterError } from '../../base/errors.ts';
import { newSalt, sha512Crypt } from '../../pki/password-hash.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, sizeText, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';
import type { GENERATED } from './kinds.ts';

export interface PutOptions extends ServerOptions {
  readonly fromFile?: string;
  readonly generate?: (typeof GENERATED)[number];
  readonly print?: boolean;
}

/**
 * `muster secret put`: writes a value from a file, from standard input, or a new one. A new value
 * is printed only with `--print`; the password behind a new hash always, because a person has to
 * know it and nothing else does.
 *
 * @throws {MusterError} E_USAGE for two sources, and what the server answers.
 */
export async function put(name: string, key: string, options: PutOptions, io: Io): Promise<number> {
  const { fromFile, generate, print } = options;
  if (fromFile !== undefined && generate !== undefined)
    throw new MusterError('E_USAGE', 'give --from-file or --generate, not both');
  if (print && generate === undefined)
    throw new MusterError('E_USAGE', '--print shows a value that --generate made; this one you have');
  const made = generate === undefined ? undefined : generated(generate);
  const { readOctets } = await import('../documents/sources.files.ts');
  const body = made ? Buffer.from(made.value) : await readOctets(fromFile ?? '-', io.signal);
  const view = await openClient(options, io).ask(
    'PUT /v1/secrets/:name/:key',
    { params: { name, key } },
    { content: body },
  );
  if (made && (print || made.known !== made.value)) io.out(`${made.known}\n`);
  io.err(`secret/${name} ${key} written\n${stillOld(view, key)}`);
  return EXIT.ok;
}

/** A new value, and what a person has to know of it. */
function generated(kind: (typeof GENERATED)[number]): { readonly value: string; readonly known: string } {
  const one = (value: string) => ({ value, known: value });
  switch (kind) {
    case 'password':
      return one(newPassword());
    case 'token':
      return one(randomBytes(32).toString('base64url'));
    case 'hex':
      return one(randomBytes(32).toString('hex'));
    case 'password-hash': {
      const known = newPassword();
      return { value: sha512Crypt(known, newSalt()), known };
    }
  }
}

/** 32 characters without those that are mistaken for each other. */
const READABLE = 'abcdefghijkmnopqrstuvwxyz23456789';

/** A password of 120 bits that can be read aloud: groups of letters and digits. */
function newPassword(): string {
  const letters = Array.from(randomBytes(24), (octet) => READABLE[octet & 31]).join('');
  return letters.match(/.{6}/g)!.join('-');
}

/** Which machines work with another value than the present one, as a line. */
function stillOld({ machines }: SecretView, key: string): string {
  const waiting = machines.filter((one) => one.key === key && one.state !== 'current');
  if (waiting.length === 0) return '';
  const names = waiting.map(({ machine, state }) => (state === 'old' ? `${machine} (old value)` : machine));
  return `until their agents poll, without it: ${names.join(', ')}\n`;
}

type Row = SecretView & {
  readonly row: { readonly key: string; readonly octets?: number; readonly since?: string };
};

const countOf = ({ machines, row }: Row, state: SecretView['machines'][number]['state']): string =>
  machines
    .filter((one) => one.key === row.key && one.state === state)
    .map(({ machine }) => machine)
    .join(',');

const COLUMNS: readonly Column<Row>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'KEY', cell: ({ row }) => row.key },
  { heading: 'SIZE', cell: ({ row }) => (row.octets === undefined ? 'missing' : sizeText(row.octets)) },
  { heading: 'SINCE', cell: ({ row }) => row.since && timeText(row.since) },
  {
    heading: 'USED BY',
    cell: ({ usedBy, row }) =>
      [...new Set(usedBy.filter(({ key }) => key === row.key).map(({ document }) => document))].join(','),
    cuts: true,
  },
  { heading: 'OLD ON', cell: (row) => countOf(row, 'old'), cuts: true },
  { heading: 'NOT YET ON', cell: (row) => countOf(row, 'none'), cuts: true },
  { heading: 'ON', wide: true, cell: (row) => countOf(row, 'current'), cuts: true },
];

/**
 * `muster secret ls`: lists Secrets, or shows one: a line for each key, never a value.
 */
export async function list(
  name: string | undefined,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const client = openClient(options, io);
  const items =
    name === undefined
      ? (await client.ask('GET /v1/secrets')).items
      : [await client.ask('GET /v1/secrets/:name', { params: { name } })];
  if (format === 'json') io.out(jsonText(name === undefined ? items : items[0]));
  else if (format === 'yaml') io.out(yamlText(name === undefined ? items : items[0]));
  else if (items.length === 0) io.err('No Secrets yet: `muster secret put NAME KEY` writes one.\n');
  else io.out(tableText(COLUMNS, items.flatMap(rowsOf), lookOf(io, format === 'wide')));
  return EXIT.ok;
}

const rowsOf = (view: SecretView): Row[] =>
  [...view.keys, ...view.missing.map((key) => ({ key }))].map((row) => ({ ...view, row }));

/** `muster secret rm`: removes a Secret, or one of its keys. */
export async function remove(
  name: string,
  key: string | undefined,
  options: ServerOptions,
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  if (key === undefined) await client.ask('DELETE /v1/secrets/:name', { params: { name } });
  else await client.ask('DELETE /v1/secrets/:name/:key', { params: { name, key } });
  io.err(`secret/${name}${key === undefined ? '' : ` ${key}`} removed\n`);
  return EXIT.ok;
}
