/** The verbs of `muster operator` and `muster token`. */
import { type Grant, grantOf, placesOf, type Role } from '../../api/access.ts';
import type { OperatorView, ShownSession, TokenView } from '../../api/operations/operators.ts';
import type { Answer } from '../../api/operations.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, type Format, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface GrantOptions extends ServerOptions {
  readonly role: readonly Role[];
  readonly cluster?: readonly string[];
  readonly pool?: readonly string[];
}

interface ListOptions extends ServerOptions {
  readonly output?: string;
}

const grantsOf = ({ role, cluster, pool }: GrantOptions): readonly Grant[] =>
  role.map((one) => grantOf(one, { clusters: cluster, pools: pool }));

const grantsText = (grants: readonly Grant[]): string =>
  grants.map((one) => [one.role, placesOf(one)?.join('+')].filter(Boolean).join(':')).join(', ');

/** `muster operator add`: makes an account with an invitation, or replaces its roles. */
export async function add(name: string, options: GrantOptions, io: Io): Promise<number> {
  const view = await openClient(options, io).ask('PUT /v1/operators/:name', {
    params: { name },
    body: { grants: grantsOf(options) },
  });
  io.err(`operator/${view.name} has the roles ${grantsText(view.grants)}\n`);
  return view.password ? EXIT.ok : invite(name, options, io);
}

/** `muster operator invite`: prints an invitation, which is secret. */
export async function invite(name: string, options: ServerOptions, io: Io): Promise<number> {
  const { invitation, link, until } = await openClient(options, io).ask('POST /v1/operators/:name/invite', {
    params: { name },
  });
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
  return printList((client) => client.ask('GET /v1/operators'), columns, options, io);
}

/** `muster operator rm` */
export async function remove(name: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).ask('DELETE /v1/operators/:name', { params: { name } });
  io.err(`operator/${name} removed\n`);
  return EXIT.ok;
}

/** `muster operator sessions ls` */
export async function sessions(options: ListOptions, io: Io): Promise<number> {
  const columns: readonly Column<ShownSession>[] = [
    { heading: 'ID', cell: ({ id }) => id },
    { heading: 'OPERATOR', cell: ({ operator }) => operator },
    { heading: 'BEGUN', cell: ({ begun }) => timeText(begun) },
    { heading: 'USED', cell: ({ used }) => timeText(used) },
  ];
  return printList((client) => client.ask('GET /v1/sessions'), columns, options, io);
}

/** `muster operator sessions end` */
export async function endSession(id: string, options: ServerOptions, io: Io): Promise<number> {
  const { operator } = await openClient(options, io).ask('DELETE /v1/sessions/:id', { params: { id } });
  io.err(`session/${id} of ${operator} ended\n`);
  return EXIT.ok;
}

/** `muster token add`: prints the token, once. */
export async function addToken(
  operator: string,
  options: GrantOptions & { readonly label: string; readonly expires: string },
  io: Io,
): Promise<number> {
  const { label, expires } = options;
  const made = await openClient(options, io).ask('POST /v1/tokens', {
    body: { operator, label, expires, grants: grantsOf(options) },
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
  return printList((client) => client.ask('GET /v1/tokens'), columns, options, io);
}

/** `muster token rm` */
export async function removeToken(id: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).ask('DELETE /v1/tokens/:id', { params: { id } });
  io.err(`token/${id} ended\n`);
  return EXIT.ok;
}

async function printList<T>(
  ask: (client: ApiClient) => Promise<{ readonly items: readonly T[] }>,
  columns: readonly Column<T>[],
  options: ListOptions,
  io: Io,
): Promise<number> {
  const format: Format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { items } = await ask(openClient(options, io));
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else io.out(tableText(columns, items, lookOf(io)));
  return EXIT.ok;
}

type PendingView = Answer<'GET /v1/pending'>['items'][number];

/** `muster pending ls`: lists orders that wait for a second person. */
export async function pending(options: ListOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { items } = await openClient(options, io).ask('GET /v1/pending');
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
  await openClient(options, io).ask('POST /v1/pending/:id/confirm', { params: { id } }, { works: true });
  io.err(`order/${id} is carried out\n`);
  return EXIT.ok;
}

/** `muster pending withdraw`: forgets an order that waits. */
export async function withdraw(id: string, options: ServerOptions, io: Io): Promise<number> {
  await openClient(options, io).ask('DELETE /v1/pending/:id', { params: { id } });
  io.err(`order/${id} is withdrawn\n`);
  return EXIT.ok;
}
