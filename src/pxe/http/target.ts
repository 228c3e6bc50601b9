/** Finds the route of a request line. Pure, and the only place that reads a path from a machine. */
import { MACHINE_ROUTES, type MachineRoute } from './routes.ts';

/** Longer request targets are malformed. A script's query has about 1 KiB. */
const MAX_TARGET = 8192;

export type Target =
  | {
      readonly kind: 'route';
      readonly route: MachineRoute;
      readonly params: Readonly<Record<string, string>>;
      /** The part behind `?`, undecoded. */
      readonly query: string;
    }
  | { readonly kind: 'nowhere'; readonly path: string }
  /** Not a path, or one that no file name could have. */
  | { readonly kind: 'malformed'; readonly why: string };

/** The routes by number of segments: `['boot', ':session', 'user-data']`. */
const BY_LENGTH = new Map<number, { readonly route: MachineRoute; readonly segments: readonly string[] }[]>();
for (const [route, { path }] of Object.entries(MACHINE_ROUTES) as [MachineRoute, { path: string }][]) {
  const segments = path.slice(1).split('/');
  const list = BY_LENGTH.get(segments.length) ?? [];
  list.push({ route, segments });
  BY_LENGTH.set(segments.length, list);
}

/**
 * Finds what `url` (the request target as sent) asks for. Never throws. Doubled slashes count as
 * one, because firmware joins URLs carelessly and does not follow redirects (quirk
 * http-no-redirect). The host of the absolute form `http://host/path` is ignored (RFC 9112
 * §3.2.2). A segment that is `.` or `..`, or that has a slash, a backslash or a control character
 * when it is decoded, is malformed.
 */
export function parseTarget(url: string): Target {
  if (url.length > MAX_TARGET) return { kind: 'malformed', why: 'the path is too long' };
  let path = url;
  if (!path.startsWith('/')) {
    const absolute = /^https?:\/\/[^/?#]*/i.exec(path);
    if (!absolute) return { kind: 'malformed', why: 'the request names no path' };
    path = path.slice(absolute[0].length) || '/';
  }
  const hash = path.indexOf('#');
  if (hash >= 0) path = path.slice(0, hash);
  const mark = path.indexOf('?');
  const query = mark < 0 ? '' : path.slice(mark + 1);
  if (mark >= 0) path = path.slice(0, mark);
  const segments: string[] = [];
  for (const raw of path.split('/')) {
    if (raw === '') continue;
    const segment = decodeSegment(raw);
    if (segment === undefined)
      return { kind: 'malformed', why: 'the path has a character that no file name may have' };
    segments.push(segment);
  }
  for (const { route, segments: wanted } of BY_LENGTH.get(segments.length) ?? []) {
    const params = matched(wanted, segments);
    if (params) return { kind: 'route', route, params, query };
  }
  return { kind: 'nowhere', path: `/${segments.join('/')}` };
}

function decodeSegment(raw: string): string | undefined {
  let segment = raw;
  if (raw.includes('%')) {
    try {
      segment = decodeURIComponent(raw);
    } catch {
      return undefined;
    }
  }
  return segment === '.' || segment === '..' || /[/\\\x00-\x1f\x7f]/.test(segment) ? undefined : segment;
}

function matched(wanted: readonly string[], given: readonly string[]): Record<string, string> | undefined {
  const params: Record<string, string> = {};
  for (let i = 0; i < wanted.length; i++) {
    const want = wanted[i]!;
    if (want.startsWith(':')) params[want.slice(1)] = given[i]!;
    else if (want !== given[i]) return undefined;
  }
  return params;
}

/**
 * The fields of a query or form, percent-decoded. The first of equal names counts. Octets that are
 * not UTF-8 are read as Latin-1, because SMBIOS texts are whatever a vendor typed. `form`: `+`
 * means a blank; otherwise it means a plus.
 */
export function fields(text: string, options: { readonly form: boolean }): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const pair of text.split('&')) {
    const equals = pair.indexOf('=');
    if (equals < 0) continue;
    const key = pair.slice(0, equals);
    if (!found.has(key)) found.set(key, decodeField(pair.slice(equals + 1), options.form));
  }
  return found;
}

/**
 * As {@link fields}, for a query that iPXE has built: a value extends to the next of `keys` that
 * was not found yet, because iPXE does not encode the `&` of a serial number.
 */
export function fieldsOf(text: string, keys: readonly string[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  let key: string | undefined;
  let value = '';
  for (const pair of text.split('&')) {
    const equals = pair.indexOf('=');
    const name = pair.slice(0, Math.max(equals, 0));
    if (equals >= 0 && keys.includes(name) && name !== key && !found.has(name)) {
      if (key !== undefined) found.set(key, decodeField(value, false));
      key = name;
      value = pair.slice(equals + 1);
    } else if (key !== undefined) value += `&${pair}`;
  }
  if (key !== undefined) found.set(key, decodeField(value, false));
  return found;
}

function decodeField(raw: string, plus: boolean): string {
  const text = plus ? raw.replaceAll('+', ' ') : raw;
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/%([0-9a-fA-F]{2})/g, (_, octet: string) =>
      String.fromCharCode(Number.parseInt(octet, 16)),
    );
  }
}
