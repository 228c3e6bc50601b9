/**
 * What a machine's kernel and system printed: a machine's claim, read as hostile text. Pure.
 *
 * A machine sends a form with `boot`, the kernel's boot id, and `lines`.
 */

import { MusterError } from '../base/errors.ts';
import { plainText } from '../base/plain-text.ts';

/** How many characters of a line are kept. */
export const MAX_LINE = 1000;
/** How many octets of lines one request may bring. */
const MAX_LINES_OCTETS = 32 * 1024;

/** What a machine sends of its console at once. */
export interface ConsolePart {
  /** The kernel's boot id. */
  readonly boot: string;
  readonly lines: readonly string[];
}

const BOOT_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const isBootId = (text: string): boolean => BOOT_ID.test(text);

/** What is hidden in a line. Our own programs print none of it; the kernel prints its arguments. */
const HIDDEN: readonly { readonly pattern: RegExp; readonly shown: string }[] = [
  { pattern: /\bmuster\.url=\S+/g, shown: 'muster.url=[hidden]' },
  { pattern: /(https?:\/\/[^/\s]+\/boot)\/[\w-]+/g, shown: '$1/[hidden]' },
  { pattern: /\b(\w*(?:password|passwd|secret|token|ticket))=\S+/gi, shown: '$1=[hidden]' },
  { pattern: /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g, shown: '[hidden]' },
  { pattern: /\bAGE-SECRET-KEY-\S+/gi, shown: '[hidden]' },
  { pattern: /\bBearer \S+/gi, shown: 'Bearer [hidden]' },
];

/**
 * Reads the two fields of the form. Control characters and escape sequences are removed, long lines
 * are cut, and what is secret is hidden.
 *
 * @param secrets texts that this boot host knows to be secret, such as the id of the boot session
 * @throws {MusterError} E_USAGE for a boot id that is none, E_TOO_LARGE for too many octets.
 */
export function consolePart(
  given: { readonly boot: string | undefined; readonly lines: string | undefined },
  secrets: readonly string[] = [],
): ConsolePart {
  const { boot = '', lines = '' } = given;
  if (!isBootId(boot)) throw new MusterError('E_USAGE', 'boot must be the boot id of the kernel');
  if (Buffer.byteLength(lines) > MAX_LINES_OCTETS)
    throw new MusterError('E_TOO_LARGE', `lines have at most ${MAX_LINES_OCTETS} octets`);
  const read = plainText(lines)
    .split('\n')
    .map((line) => withoutSecrets(line.trimEnd(), secrets).slice(0, MAX_LINE))
    .filter((line) => line !== '');
  return { boot, lines: read };
}

/** A text of a machine without what is secret in it, and without these texts. */
export function withoutSecrets(line: string, secrets: readonly string[]): string {
  let text = line;
  for (const secret of secrets) text = text.replaceAll(secret, '[hidden]');
  for (const { pattern, shown } of HIDDEN) text = text.replace(pattern, shown);
  return text;
}
