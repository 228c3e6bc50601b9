/**
 * Lines of authorized_keys: options, type, key, comment.
 *
 * @see sshd(8), AUTHORIZED_KEYS FILE FORMAT
 */
import { suggest } from '../base/suggest.ts';

/** The options that sshd knows; their names are not case-sensitive. */
const OPTIONS = [
  'agent-forwarding',
  'cert-authority',
  'command',
  'environment',
  'expiry-time',
  'from',
  'no-agent-forwarding',
  'no-port-forwarding',
  'no-pty',
  'no-touch-required',
  'no-user-rc',
  'no-x11-forwarding',
  'permitlisten',
  'permitopen',
  'port-forwarding',
  'principals',
  'pty',
  'restrict',
  'tunnel',
  'user-rc',
  'verify-required',
  'x11-forwarding',
];

const TYPE = /^(ssh|ecdsa|sk-)[-a-z0-9@.]+$/;
/** Options up to the first blank outside of quotes. */
const OPTION_LIST = /^(?:[^\s",]+(?:="(?:[^"\\]|\\.)*")?)(?:,[^\s",]+(?:="(?:[^"\\]|\\.)*")?)*(?=[ \t])/;

/** The line without blanks and line breaks around it, which pasting adds. */
export const trimmedKey = (text: string): string => text.trim();

/** Why a text is not one line of authorized_keys; undefined when it is one. */
export function sshKeyFault(text: string): string | undefined {
  if (/PRIVATE KEY/.test(text)) return 'this is a private key; write the public one, from the file NAME.pub';
  if (/BEGIN SSH2 PUBLIC KEY/.test(text))
    return 'this is a key as RFC 4716 writes it; `ssh-keygen -i -f FILE` prints it as OpenSSH does';
  if (/[\n\r]/.test(text))
    return 'this has several lines; write each key as an item of its own, or all of them as authorizedKeys';
  if (/[\0-\x08\x0b-\x1f\x7f]/.test(text)) return 'there is a control character in this; copy the line again';
  const { rest, fault } = withoutOptions(text);
  if (fault !== undefined) return fault;
  const [type = '', body = ''] = rest.split(/[ \t]+/);
  if (!TYPE.test(type))
    return 'not an OpenSSH public key; write a line as in NAME.pub: options if any, type, key, comment';
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(body))
    return `not an OpenSSH public key: after ${type} comes the key in base64`;
  if (typeInside(body) !== type) return `the key is cut off, or is not of type ${type}; copy it again`;
  return type.includes('-cert-')
    ? 'sshd does not look for a certificate here, so nobody could log in with it; write the key of its CA with the option cert-authority, or the plain key'
    : undefined;
}

/** The keys of a whole file of that form, without blank lines and comments; one a line. */
export const keysIn = (file: string): readonly string[] =>
  file
    .split(/[\n\r]+/)
    .map(trimmedKey)
    .filter((line) => line !== '' && !line.startsWith('#'));

/** Why a text is not such a file; undefined when it is one. */
export function authorizedKeysFault(file: string): string | undefined {
  if (keysIn(file).length === 0) return 'there is no key in this; write lines as in authorized_keys';
  if (/PRIVATE KEY/.test(file)) return sshKeyFault(file);
  for (const [n, line] of file.split(/\r\n|\n|\r/).entries()) {
    const fault = keysIn(line).map(sshKeyFault)[0];
    if (fault !== undefined) return `line ${n + 1}: ${fault}`;
  }
  return undefined;
}

function withoutOptions(text: string): { readonly rest: string; readonly fault?: string } {
  if (TYPE.test(text.split(/[ \t]/)[0]!)) return { rest: text };
  const list = OPTION_LIST.exec(text)?.[0];
  if (list === undefined) return { rest: text };
  const rest = text.slice(list.length).trimStart();
  for (const [, name] of list.matchAll(/([^\s",=]+)(?:="(?:[^"\\]|\\.)*")?,?/g)) {
    if (OPTIONS.includes(name!.toLowerCase())) continue;
    // Without a type behind it, this was not meant as a list of options.
    if (!TYPE.test(rest.split(/[ \t]/)[0]!)) return { rest: text };
    const meant = suggest(name!.toLowerCase(), OPTIONS);
    return {
      rest,
      fault: `sshd has no option "${name}" for keys${meant ? `; did you mean "${meant}"?` : ''}`,
    };
  }
  return { rest };
}

/**
 * The type that the key itself names: its first string (RFC 4253, section 6.6). Undefined for a key
 * that was cut off: each of its strings must be whole. Certificates also have numbers.
 */
function typeInside(body: string): string | undefined {
  const blob = Buffer.from(body, 'base64');
  let first: string | undefined;
  for (let at = 0; at < blob.length && !first?.includes('-cert-'); ) {
    const end = at + 4 > blob.length ? undefined : at + 4 + blob.readUInt32BE(at);
    if (end === undefined || end > blob.length) return undefined;
    first ??= blob.toString('latin1', at + 4, end);
    at = end;
  }
  return first;
}
