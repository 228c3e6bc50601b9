/** The verbs of `muster operator` and `muster token`. */
import type { Grant, Role } from '../../api/access.ts';
import type { OperatorView, TokenView } from '../../api/accounts/routes.ts';
import { requestOf } from '../../api/contract/request.ts';
import type { Answer } from '../../api/contract/table.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, type Format, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface GrantOptions extends ServerOptions {
  readonly role: readonly Role[];
  readonly cluster?: readonly string[];
}

interface ListOptions extends ServerOptions {
  readonly output?: string;
}

const grantsOf = ({ role, cluster }: GrantOptions): readonly Grant[] =>
  role.map((one) => ({ role: one, ...(cluster && { clusters: cluster }) }));

const grantsText = (grants: readonly Grant[]): string =>
  grants.map(({ role, clusters }) => (clusters ? `${role}:${clusters.join('+')}` : role)).join(', ');

const route = (noun: 'operators' | 'tokens', ...parts: readonly string[]): string =>
  ['/v1', noun, ...parts.map(encodeURIComponent)].join('/');

/** `muster operator add`: makes an account with an invitation, or replaces its roles. */
export async function add(name: string, options: GrantOptions, io: Io): Promise<number> {
  const view = await openClient(options, io).call<OperatorView>('PUT', route('operators', name), {
    body: { json: { grants: grantsOf(options) } },
  });
  io.err(`operator/${view.name} has the roles ${grantsText(view.grants)}\n`);
  return view.password ? EXIT.ok : invite(name, options, io);
}

/** `muster operator invite`: prints an invitation, which is secret. */
export async function invite(name: string, options: ServerOptions, io: Io): Promise<number> {
  const { invitation, link, until } = await openClient(options, io).call<{
    invitation: string;
    link?: string;
    until: string;
  }>('POST', route('operators', name, 'invite'));
  io.err(`Give this to ${name} and nobody else; it counts once, until ${timeText(until)}:\n`);
  io.out(`${link ?? invitation}\n`);
  return EXIT.ok;
}

/** `muster operator ls` */
export async function list(options: ListOptions, io: Io): Promise<number> {
  const columns: readonly Column<OperatorView>[] = [
    { heading: 'NAME', cell: ({ name }) => name },
    { heading: 'ROLES', cell: ({ grants }) => grantsText(grants) },
    {
      heading: 'STATE',
      cell: ({ password, invitedUntil }) =>
        password ? 'active' : invitedUntil ? `invited until ${timeText(invitedUntil)}` : 'without password',
    },
  ];
  return printList(route('operators'), columns, options, io);
}

/** `muster operator rm` */
export async function remove(name: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).call('DELETE', route('operators', name));
  io.err(`operator/${name} removed\n`);
  return EXIT.ok;
}

/** `muster token add`: prints the token, once. */
export async function addToken(
  operator: string,
  options: GrantOptions & { readonly label: string; readonly expires: string },
  io: Io,
): Promise<number> {
  const { label, expires } = options;
  const made = await openClient(options, io).call<TokenView & { token: string }>('POST', route('tokens'), {
    body: { json: { operator, label, expires, grants: grantsOf(options) } },
  });
  io.err(`token/${made.id} for ${operator} counts until ${timeText(made.until)}:\n`);
  io.out(`${made.token}\n`);
  return EXIT.ok;
}

/** `muster token ls` */
export async function tokens(options: ListOptions, io: Io): Promise<number> {
  const columns: readonly Column<TokenView>[] = [
    { heading: 'ID', cell: ({ id }) => id },
    { heading: 'OPERATOR', cell: ({ operator }) => operator },
    { heading: 'LABEL', cell: ({ label }) => label },
    { heading: 'ROLES', cell: ({ grants }) => grantsText(grants) },
    { heading: 'UNTIL', cell: ({ until }) => timeText(until) },
  ];
  return printList(route('tokens'), columns, options, io);
}

/** `muster token rm` */
export async function removeToken(id: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).call('DELETE', route('tokens', id));
  io.err(`token/${id} ended\n`);
  return EXIT.ok;
}

async function printList<T>(
  path: string,
  columns: readonly Column<T>[],
  options: ListOptions,
  io: Io,
): Promise<number> {
  const format: Format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { items } = await openClient(options, io).call<{ items: readonly T[] }>('GET', path);
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else io.out(tableText(columns, items, lookOf(io)));
  return EXIT.ok;
}

type PendingView = Answer<'GET /v1/pending'>['items'][number];

/** `muster pending ls`: lists orders that wait for a second person. */
export async function pending(options: ListOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const path = requestOf('GET /v1/pending').path;
  const { items } = await openClient(options, io).call<Answer<'GET /v1/pending'>>('GET', path);
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err('No order waits.\n');
  else io.out(tableText(PENDING_COLUMNS, items, lookOf(io)));
  return EXIT.ok;
}

const PENDING_COLUMNS: readonly Column<PendingView>[] = [
  { heading: 'ID', cell: ({ id }) => id },
  { heading: 'BY', cell: ({ by }) => by },
  { heading: 'UNTIL', cell: ({ until }) => timeText(until) },
  { heading: 'ORDER', cell: ({ path, body }) => `${path} ${JSON.stringify(body)}` },
];

/** `muster pending confirm`: carries out the order of another operator. */
export async function confirm(id: string, options: ServerOptions, io: Io): Promise<number> {
  const { method, path } = requestOf('POST /v1/pending/:id/confirm', { params: { id } });
  await openClient(options, io).call(method, path, { works: true });
  io.err(`order/${id} is carried out\n`);
  return EXIT.ok;
}

/** `muster pending withdraw`: forgets an order that waits. */
export async function withdraw(id: string, options: ServerOptions, io: Io): Promise<number> {
  const { method, path } = requestOf('DELETE /v1/pending/:id', { params: { id } });
  await openClient(options, io).call(method, path);
  io.err(`order/${id} is withdrawn\n`);
  return EXIT.ok;
}
