/**
 * The servers that this user has logged in to, in a file that only this user may read. The one that
 * was used last is the one that commands call, unless MUSTER_SERVER names another or --socket is
 * given.
 */
import fs from 'node:fs';
import path from 'node:path';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { replaceFile } from '../../base/replace-file.files.ts';
import type { Io } from '../io.ts';

/** One server. */
export interface Context {
  /** `https://HOST:PORT` */
  readonly url: string;
  /** The server's CA, PEM; absent where the site's own CA is trusted by this host. */
  readonly authority?: string;
  readonly operator?: string;
  /** Secret: the session, or a token. */
  readonly session?: string;
  /** The files of a client certificate and its key, instead of a session. */
  readonly certificate?: string;
  readonly key?: string;
  /** When the session ends, RFC 3339. */
  readonly until?: string;
}

interface Contexts {
  /** The URL of the server that commands call. */
  readonly current?: string;
  readonly contexts: readonly Context[];
}

const NONE: Contexts = { contexts: [] };

const fileOf = (env: Io['env']): string | undefined => {
  const base = env.XDG_CONFIG_HOME || (env.HOME ? path.join(env.HOME, '.config') : undefined);
  return base === undefined ? undefined : path.join(base, 'muster', 'login.json');
};

/** All servers; none when there is no file, or it is not ours. */
export function readContexts(env: Io['env']): Contexts {
  const file = fileOf(env);
  if (file === undefined) return NONE;
  try {
    const { uid, mode } = fs.statSync(file);
    // A file that others can write could send this user's commands to another server.
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0) return NONE;
    return decodeContexts(fs.readFileSync(file, 'utf8'));
  } catch {
    return NONE;
  }
}

/** Reads the text of the file; entries that are not understood are left out. */
export function decodeContexts(text: string): Contexts {
  const value = parsed(text) as Partial<Contexts> | null | undefined;
  const given: readonly unknown[] = Array.isArray(value?.contexts) ? value.contexts : [];
  const contexts = given.flatMap((one) => contextOf(one) ?? []);
  return typeof value?.current === 'string' ? { current: value.current, contexts } : { contexts };
}

function contextOf(value: unknown): Context | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { url, ...rest } = value as Record<string, unknown>;
  const isUrl = typeof url === 'string' && /^https:\/\/[^/\s]+$/.test(url) && URL.canParse(url);
  const texts = ['authority', 'operator', 'session', 'certificate', 'key', 'until'].flatMap((name) =>
    typeof rest[name] === 'string' ? [[name, rest[name]]] : [],
  );
  return isUrl ? { url, ...Object.fromEntries(texts) } : undefined;
}

/**
 * The server that commands call; undefined: the one on this host's socket.
 *
 * @throws {MusterError} E_UNAUTHENTICATED when MUSTER_SERVER names one that nobody logged in to
 */
export function currentContext(env: Io['env']): Context | undefined {
  if (env.MUSTER_SOCKET) return undefined;
  const { current, contexts } = readContexts(env);
  const wanted = env.MUSTER_SERVER || current;
  if (wanted === undefined) return undefined;
  const found = contexts.find(({ url }) => url === wanted);
  if (found === undefined && env.MUSTER_SERVER)
    throw new MusterError(
      'E_UNAUTHENTICATED',
      `MUSTER_SERVER: nobody is logged in; run \`muster login ${wanted}\``,
    );
  return found;
}

/**
 * Makes a server the one that commands call.
 *
 * @throws {MusterError} E_NOT_FOUND when nobody logged in to it
 */
export function selectContext(env: Io['env'], url: string): void {
  const found = readContexts(env).contexts.find((one) => one.url === url);
  if (found === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `you are not logged in to ${url}; \`muster context ls\` lists servers`,
    );
  keepContext(env, url, found);
}

/**
 * Keeps a server, or forgets one (`context` undefined), and makes it the current one.
 *
 * @throws {MusterError} E_UNREADABLE when the file cannot be written
 */
export function keepContext(env: Io['env'], url: string, context: Context | undefined): void {
  const file = fileOf(env);
  if (file === undefined) throw new MusterError('E_UNREADABLE', 'neither HOME nor XDG_CONFIG_HOME is set');
  const others = readContexts(env).contexts.filter((one) => one.url !== url);
  const contexts = context === undefined ? others : [...others, context];
  const value: Contexts = { ...(context && { current: url }), contexts };
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    replaceFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
  } catch (cause) {
    throw new MusterError('E_UNREADABLE', `${file} cannot be written: ${messageOf(cause)}`, {
      cause,
    });
  }
}
