/** The verbs `muster login`, `logout` and `whoami`. */

import { resolve } from 'node:path';
import { placesOf } from '../../api/access.ts';
import type { LoggedInView } from '../../api/contract/accounts.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { type ApiClient, connectApi, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { askHidden } from '../pki/passphrase.files.ts';
import { timeText } from '../times.ts';
import { type Context, currentContext, keepContext, readContexts, selectContext } from './contexts.files.ts';
import { shownAuthority } from './fingerprint.socket.ts';

interface LoginOptions {
  readonly operator?: string;
  readonly fingerprint?: string;
  readonly siteCa?: boolean;
  readonly invitation?: string;
  readonly token?: boolean;
  readonly sso?: boolean;
  readonly certificate?: string;
  readonly key?: string;
  readonly passwordFile?: string;
}

/**
 * `muster login`: checks the server's CA by its fingerprint, asks for the password, and keeps the
 * session in a file that only this user may read.
 *
 * @throws {MusterError} E_USAGE for a URL or fingerprint that is none, and what the server answers
 */
export async function login(text: string, options: LoginOptions, io: Io): Promise<number> {
  const url = urlOf(text);
  const { siteCa, fingerprint, operator, invitation, token, sso } = options;
  const authority = siteCa ? undefined : await checkedAuthority(url, fingerprint, io);
  const target = { url, ...(authority && { authority }) };
  const client = connectApi(target, { signal: io.signal });
  if (sso) return keep(target, await byDevice(client, io), io);
  if (options.certificate !== undefined) return byCertificate(target, options, io);
  if (token) {
    const session = await secretOf('Token: ', undefined, options, io);
    const who = await connectApi({ ...target, session }).ask('GET /v1/whoami');
    keepContext(io.env, url, { ...target, operator: who.name, session });
    io.err(`You are ${who.name} on ${url}, by a token.\n`);
    return EXIT.ok;
  }
  const name = operator ?? io.env.USER;
  if (invitation === undefined && !name)
    throw new MusterError('E_USAGE', 'say who you are with --operator NAME');
  const password = await secretOf(
    'Password: ',
    invitation === undefined ? undefined : 'The same again: ',
    options,
    io,
  );
  const done =
    invitation === undefined
      ? await client.ask('POST /v1/login', { body: { operator: name!, password } })
      : await client.ask('POST /v1/invitation', { body: { invitation, password } });
  return keep(target, done, io);
}

/** Keeps where a client certificate and its key are; each command shows it to the server. */
async function byCertificate(
  target: Context,
  { certificate = '', key }: LoginOptions,
  io: Io,
): Promise<number> {
  if (key === undefined) throw new MusterError('E_USAGE', '--certificate and --key are given together');
  const shown = { ...target, certificate: resolve(certificate), key: resolve(key) };
  const who = await connectApi(shown, { signal: io.signal }).ask('GET /v1/whoami');
  keepContext(io.env, target.url, { ...shown, operator: who.name });
  io.err(`You are ${who.name} on ${target.url}, by a certificate.\n`);
  return EXIT.ok;
}

/** Keeps the session, and says who it is. */
function keep(target: Context, done: LoggedInView, io: Io): number {
  keepContext(io.env, target.url, {
    ...target,
    operator: done.operator,
    until: done.until,
    ...(done.session !== undefined && { session: done.session }),
  });
  io.err(`You are ${done.operator} on ${target.url} until ${timeText(done.until)}.\n`);
  return EXIT.ok;
}

/** So much is added when the provider finds the questions too frequent (RFC 8628 section 3.5). */
const SLOWER = duration('5s');

/**
 * Logs in at the site's identity provider: shows an address and a code, and waits until the person
 * has logged in there with any browser.
 *
 * @throws {MusterError} E_PROVIDER_LOGIN when nobody does in time, or somebody without a role
 */
async function byDevice(client: ApiClient, io: Io): Promise<LoggedInView> {
  const begun = await client.ask('POST /v1/login/device', { body: {} });
  const { device, code, url, complete, until } = begun;
  io.err(`Open ${complete ?? url} in a browser and log in there; it shows or asks for ${code}.\n`);
  io.err(`The address is good until ${timeText(until)}.\n`);
  let interval = begun.interval as Millis;
  for (;;) {
    await io.pause(interval);
    if (io.signal.aborted) throw new MusterError('E_PROVIDER_LOGIN', 'you interrupted the log-in');
    const answer = await client.ask('POST /v1/login/device/finish', { body: { device } });
    if (!('waits' in answer)) return answer as LoggedInView;
    if (answer.slower) interval = (interval + SLOWER) as Millis;
  }
}

/**
 * `muster logout`: ends the session, on the server and here.
 *
 * @throws {MusterError} E_USAGE when nobody is logged in
 */
export async function logout(io: Io): Promise<number> {
  const context = currentContext(io.env);
  if (context === undefined) throw new MusterError('E_USAGE', 'you are not logged in to a server');
  try {
    await connectApi(context, { signal: io.signal }).ask('POST /v1/logout');
  } finally {
    keepContext(io.env, context.url, undefined);
  }
  io.err(`You are logged out of ${context.url}.\n`);
  return EXIT.ok;
}

/** `muster whoami`: prints who the server takes this user for. */
export async function whoami(options: ServerOptions, io: Io): Promise<number> {
  const { name, by, grants } = await openClient(options, io).ask('GET /v1/whoami');
  const roles = grants.map((one) => {
    const places = placesOf(one);
    return places ? `${one.role} (${places.join(', ')})` : one.role;
  });
  io.out(`${name} by ${by}: ${roles.join(', ') || 'no role'}\n`);
  return EXIT.ok;
}

/** The first line of the file, or what is typed at the terminal. */
async function secretOf(
  question: string,
  again: string | undefined,
  { passwordFile }: LoginOptions,
  io: Io,
): Promise<string> {
  if (passwordFile === undefined)
    return askHidden(question, { ...(again !== undefined && { again }), instead: '--password-file FILE' });
  const { readOctets } = await import('../documents/sources.files.ts');
  const text = Buffer.from(await readOctets(passwordFile, io.signal)).toString('utf8');
  return text.split(/\r?\n/, 1)[0] ?? '';
}

function urlOf(text: string): string {
  const given = text.includes('://') ? text : `https://${text}`;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url?.protocol !== 'https:' || url.pathname !== '/' || url.username !== '')
    throw new MusterError('E_USAGE', `"${text}" is not an address such as https://boot.example:8444`);
  return url.origin;
}

/**
 * The CA that the server shows, if its fingerprint is the one that the operator was given. Without
 * one, the fingerprint is printed for the operator to compare, and nothing is sent.
 */
async function checkedAuthority(url: string, wanted: string | undefined, io: Io): Promise<string> {
  const { pem, fingerprint } = await shownAuthority(url, io.signal);
  if (wanted === undefined)
    throw new MusterError(
      'E_USAGE',
      `${url} shows a CA with the fingerprint ${fingerprint}; compare it with \`muster status\` on the boot host, then add --fingerprint ${fingerprint}`,
    );
  const plain = (hex: string): string => hex.replaceAll(':', '').toLowerCase();
  if (plain(wanted) !== plain(fingerprint))
    throw new MusterError(
      'E_UNREACHABLE',
      `the CA of ${url} has the fingerprint ${fingerprint} and not the one that was given; somebody may be in between`,
    );
  return pem;
}

/** `muster context ls`: lists the servers that this user has logged in to. */
export function listContexts(options: { readonly output?: string }, io: Io): number {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const { contexts, current } = readContexts(io.env);
  const shown = contexts.map(({ url, operator, until }) => ({
    url,
    current: url === (io.env.MUSTER_SERVER || current),
    ...(operator !== undefined && { operator }),
    ...(until !== undefined && { until }),
  }));
  if (format === 'json') io.out(jsonText(shown));
  else if (format === 'yaml') io.out(yamlText(shown));
  else if (shown.length === 0) io.err('You are logged in to no server; `muster login URL` does that.\n');
  else io.out(tableText(CONTEXT_COLUMNS, shown, lookOf(io)));
  return EXIT.ok;
}

interface ShownContext {
  readonly url: string;
  readonly current: boolean;
  readonly operator?: string;
  readonly until?: string;
}

const CONTEXT_COLUMNS: readonly Column<ShownContext>[] = [
  { heading: 'CURRENT', cell: ({ current }) => (current ? '*' : '') },
  { heading: 'SERVER', cell: ({ url }) => url },
  { heading: 'OPERATOR', cell: ({ operator = '' }) => operator },
  { heading: 'UNTIL', cell: ({ until }) => (until === undefined ? '' : timeText(until)) },
];

/** `muster context use`: makes another server the one that commands call. */
export function useContext(text: string, io: Io): number {
  const url = urlOf(text);
  selectContext(io.env, url);
  io.err(`Commands call ${url} now.\n`);
  return EXIT.ok;
}
