/** Reads the forms that agents post. It is strict, because Muster writes both ends. Pure. */
import { MusterError } from '../../base/errors.ts';

/** The most fields of a form; a machine that sends all its certificate requests has some dozens. */
const MAX_FIELDS = 128;

const malformed = (why: string): never => {
  throw new MusterError('E_USAGE', `the form ${why}`);
};

/**
 * Reads `application/x-www-form-urlencoded` with all values percent-encoded; a blank may come as
 * `+` (newer curls).
 *
 * @throws {MusterError} E_USAGE for anything else: a field twice, a broken escape, octets that are
 *   not UTF-8, a NUL.
 */
export function readForm(body: string): ReadonlyMap<string, string> {
  const form = new Map<string, string>();
  if (body === '') return form;
  const pairs = body.split('&');
  if (pairs.length > MAX_FIELDS) malformed(`has more than ${MAX_FIELDS} fields`);
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const name = pair.slice(0, Math.max(0, equals));
    if (!/^[a-z][a-z0-9.-]{0,63}$/.test(name)) malformed('has a field without a proper name');
    if (form.has(name)) malformed(`says ${name} twice`);
    form.set(name, decoded(name, pair.slice(equals + 1)));
  }
  return form;
}

function decoded(name: string, raw: string): string {
  let text: string;
  try {
    text = decodeURIComponent(raw.replaceAll('+', ' '));
  } catch {
    return malformed(`has a broken escape in ${name}`);
  }
  return text.includes('\0') ? malformed(`has a NUL in ${name}`) : text;
}
