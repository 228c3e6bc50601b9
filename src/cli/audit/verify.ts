/** `muster audit verify` */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { MusterError } from '../../base/errors.ts';
import { type ChainPlace, isSigned, readCheckpoint } from '../../events/audit-chain.ts';
import { type AuditVerdict, type AuditVerifier, auditVerifier } from '../../events/audit-verify.ts';
import { auditKeyId } from '../../events/security-chain.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { painted } from '../color.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { type AuditFile, auditFiles, readTextFile } from './sources.files.ts';

export interface VerifyOptions extends ServerOptions {
  readonly key?: readonly string[];
  readonly checkpoint?: readonly string[];
  readonly output?: string;
}

type Keys = ReadonlyMap<string, KeyObject>;

/**
 * Checks the log of the server, or the one at `path`, and prints what was found.
 * @throws {MusterError} E_AUDIT_VERIFY when something does not fit, E_USAGE when a key or
 *   checkpoint is missing or malformed, E_AUDIT_FILE when a file cannot be read, and what calls of
 *   the server throw.
 */
export async function verifyAudit(path: string | undefined, options: VerifyOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const keys = await givenKeys(options.key ?? []);
  const kept = (options.checkpoint ?? []).map((text) => keptPlace(text, keys));
  const verdict =
    path === undefined ? await ofServer(options, keys, kept, io) : await ofFiles(path, keys, kept);
  if (format === 'json') io.out(jsonText(verdict));
  else if (format === 'yaml') io.out(yamlText(verdict));
  else printVerdict(verdict, io);
  return verdict.ok ? EXIT.ok : EXIT.failure;
}

/** The server's log. It is read here, so that checking it does not delay the server. */
async function ofServer(options: VerifyOptions, given: Keys, kept: readonly ChainPlace[], io: Io) {
  const client = openClient(options, io);
  const { key, head } = await client.ask('GET /v1/audit');
  const keys = given.size > 0 ? given : new Map([[key.id, publicKey(key.pem, 'the answer of the server')]]);
  const verifier = auditVerifier(keys, head === undefined ? kept : [...kept, head]);
  await readLines(verifier, { name: 'log', pieces: client.stream('/v1/audit/export') });
  return verifier.end();
}

async function ofFiles(path: string, keys: Keys, kept: readonly ChainPlace[]): Promise<AuditVerdict> {
  if (keys.size === 0)
    throw new MusterError(
      'E_USAGE',
      'say who signed the log: --key FILE, with what `muster audit key` printed',
    );
  const verifier = auditVerifier(keys, kept);
  for (const file of await auditFiles(path)) await readLines(verifier, file);
  return verifier.end();
}

/** A line longer than this is not collected further: it is reported as it is. */
const MAX_COLLECTED = 1024 * 1024;

async function readLines(verifier: AuditVerifier, { name, pieces }: AuditFile): Promise<void> {
  let rest = '';
  let count = 0;
  for await (const piece of pieces) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop()!;
    for (const line of lines) verifier.line(line, `${name}:${++count}`);
    if (rest.length > MAX_COLLECTED) {
      verifier.line(rest, `${name}:${++count}`);
      rest = '';
    }
  }
  if (rest !== '') verifier.torn(Buffer.byteLength(rest), name);
}

async function givenKeys(files: readonly string[]): Promise<Keys> {
  const keys = new Map<string, KeyObject>();
  for (const file of files) {
    const key = publicKey(await readTextFile(file), file);
    keys.set(auditKeyId(key), key);
  }
  return keys;
}

function publicKey(pem: string, source: string): KeyObject {
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // Reported below.
  }
  throw new MusterError('E_AUDIT_FILE', `${source} holds no Ed25519 public key in PEM`);
}

function keptPlace(text: string, keys: Keys): ChainPlace {
  const checkpoint = readCheckpoint(text.trim());
  if (checkpoint === undefined)
    throw new MusterError(
      'E_USAGE',
      '--checkpoint: write it as `muster audit checkpoint` prints it: NUMBER.HASH.SIGNATURE',
    );
  if (
    checkpoint.signature !== '' &&
    keys.size > 0 &&
    ![...keys.values()].some((key) => isSigned(checkpoint, key))
  )
    throw new MusterError('E_USAGE', '--checkpoint: none of the keys that were given signed it');
  return checkpoint;
}

/**
 * Longer texts than this are cut, and control characters are replaced: files may contain anything.
 */
const printable = (text: string): string => text.slice(0, 500).replace(/[\x00-\x1f\x7f-\x9f]/g, '?');

/**
 * Prints a verdict for people.
 * @throws {MusterError} E_AUDIT_VERIFY when the log does not fit.
 */
function printVerdict(verdict: AuditVerdict, io: Io): void {
  const { ok, entries, first, last, signedTo, checkpoints, problems, more, notes } = verdict;
  for (const { code, text } of problems) io.out(`${painted(code, 'yellow', io.color)}: ${printable(text)}\n`);
  if (more > 0) io.out(`${more} further problems are not shown\n`);
  for (const text of notes) io.out(`note: ${printable(text)}\n`);
  const span = first === undefined ? 'no entries' : `${entries} entries, ${first} to ${last}`;
  const signed =
    signedTo === undefined ? 'none is signed' : `signed up to ${signedTo} by ${checkpoints} checkpoints`;
  const whole = ok && first !== undefined ? `: the log is whole up to entry ${signedTo}` : '';
  io.out(`${span}; ${signed}${whole}\n`);
  const count = problems.length + more;
  if (!ok)
    throw new MusterError(
      'E_AUDIT_VERIFY',
      `the security log has ${count} ${count === 1 ? 'fault' : 'faults'}`,
    );
}
