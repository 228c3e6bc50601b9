/**
 * Finds passwords, tokens and private keys that are written in documents in the clear, by the names
 * that such values usually have. It warns: a value that only looks like one does no harm.
 */

import type { Candidate, CrossFault } from './candidate.ts';
import { idOf, report } from './candidate.ts';
import type { ConfigCheck } from './catalog.ts';
import type { Path } from './yaml.ts';

const PRIVATE_KEY = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----/;
/** The end of a name whose value is secret. */
const NAME =
  '[A-Za-z0-9_.-]*(?:password|passwd|passphrase|token|secret|api[_-]?key|secret[_-]?access[_-]?key)';
const SECRET_NAME = new RegExp(`^${NAME}$`, 'i');
/** `NAME=VALUE`, `NAME: VALUE`, `"NAME": "VALUE"`, also behind `export` and `Environment=`. */
const ASSIGNED = new RegExp(
  `(?:^|[\\s"'{,])(?:Environment="?)?(${NAME})["']?[ \\t]*[:=][ \\t]*["']?([^\\s"',;]+)`,
  'gim',
);
/**
 * Values that are none: references (`$x`, `{{x}}`, `<x>`, `%s`), paths, switches, and hashes of
 * crypt(3), which begin with `$`.
 */
const NO_VALUE =
  /^(?:[$<{%/~!*[(|>&]|file:|https?:|\.{1,2}\/|(?:true|false|yes|no|on|off|none|null|nil|required|optional|sufficient)$|\d{1,3}$)|^.{1,3}$/i;

/** A comment of several words only speaks of a setting: `# lock_passwd: Defaults to true`. */
const COMMENT = /^[ \t]*#[ \t].*[:=][ \t]*["']?[^\s"',;]+[ \t]+[^\s#].*$/gm;

/** What a text holds in the clear; undefined when nothing is recognised. Never the value itself. */
export function plainSecretIn(text: string): string | undefined {
  if (PRIVATE_KEY.test(text)) return 'a private key';
  for (const [, name, value] of text.replace(COMMENT, '').matchAll(ASSIGNED))
    if (name !== undefined && value !== undefined && !NO_VALUE.test(value)) return `the value of "${name}"`;
  return undefined;
}

/** Warns of each text of a document that holds a secret in the clear. */
export const plainSecretCheck: ConfigCheck = (candidates, changed) => {
  const found: CrossFault[] = [];
  for (const kind of ['Cluster', 'Profile', 'Machine', 'Webhook'] as const)
    for (const candidate of candidates[kind].values())
      if (changed === undefined || changed.has(idOf(candidate.document))) look(candidate, found);
  return found;
};

const memoFound = new WeakMap<object, readonly (readonly [path: Path, what: string])[]>();

function look(candidate: Candidate, found: CrossFault[]): void {
  const { document } = candidate;
  let known = memoFound.get(document);
  if (known === undefined) {
    known = [...search(document.spec, ['spec'])];
    memoFound.set(document, known);
  }
  for (const [path, what] of known) {
    if (document.kind === 'Webhook' || path[1] === 'hooks') {
      report(
        found,
        candidate,
        path,
        `this holds ${what} in the clear, for everybody who reads documents; requests are signed, so leave it out where the server checks signatures`,
        { code: 'E_CONFIG', severity: 'warning' },
      );
      continue;
    }
    const file = path[1] === 'config' && path[2] === 'files' && /^content/.test(String(path[4]));
    const { name } = document.metadata;
    const how = file
      ? `move it with \`muster secret put ${name} KEY --from-file FILE\` and write content: {valueFrom: {secret: ${name}, key: KEY}}`
      : `write it into a file of its own that takes it from a Secret: \`muster secret put ${name} KEY\`, then content: {valueFrom: {secret: ${name}, key: KEY}} below config.files`;
    report(
      found,
      candidate,
      path,
      `this holds ${what} in the clear, for everybody who reads documents or first configurations; ${how}`,
      { code: 'E_CONFIG', severity: 'warning' },
    );
  }
}

function* search(value: unknown, path: Path): Generator<readonly [Path, string]> {
  if (typeof value === 'string') {
    const what = inField(String(path.at(-1)), value);
    if (what !== undefined) yield [path, what];
  } else if (Array.isArray(value)) {
    for (const [n, item] of value.entries()) yield* search(item, [...path, n]);
  } else if (typeof value === 'object' && value !== null)
    // A reference names a Secret; it holds no value.
    for (const [key, inner] of Object.entries(value))
      if (key !== 'valueFrom') yield* search(inner, [...path, key]);
}

function inField(field: string, text: string): string | undefined {
  if (field === 'contentBase64') return plainSecretIn(Buffer.from(text, 'base64').toString('latin1'));
  if (field === 'passwordHash') return undefined;
  if (field === 'url') return plainSecretIn(text.replace(/[?&#]/g, ' '));
  // The kind of etcd's tokens, and the files of their keys.
  if (field === 'auth-token' && /^(simple|jwt)(,|$)/.test(text)) return undefined;
  if (SECRET_NAME.test(field) && !NO_VALUE.test(text)) return `the value of "${field}"`;
  return plainSecretIn(text);
}
