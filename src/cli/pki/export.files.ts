/** `muster pki export`: copies all keys into one file that a passphrase opens. */
import fs from 'node:fs';
import path from 'node:path';
import { tar } from '../../artifacts/tar.ts';
import { MusterError } from '../../base/errors.ts';
import { syncDirectorySync } from '../../base/replace-file.files.ts';
import { ageDecrypt, ageEncrypt } from '../../pki/age.ts';
import { type ExportedScope, generationsOf } from '../../pki/exported.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';
import { askHidden } from './passphrase.files.ts';

interface ExportOptions extends ServerOptions {
  readonly cluster?: string;
  readonly all?: boolean;
  readonly output: string;
  readonly passphraseFile?: string;
}

/** Shorter passphrases are refused: the file is worth trying many. */
const SHORTEST = 12;

/**
 * Writes the file, reads it back, decrypts it, and only then tells the server that there is a copy.
 *
 * @throws {MusterError} E_USAGE for options that do not fit, a file that exists, and a passphrase
 *   that is too short; E_EXPORT when what was written does not open
 */
export async function exportKeys(options: ExportOptions, io: Io): Promise<number> {
  const { cluster, all, output } = options;
  if ((cluster === undefined) === (all !== true))
    throw new MusterError('E_USAGE', 'say which keys: --cluster NAME, or --all');
  if (fs.existsSync(output)) throw new MusterError('E_USAGE', `${output} exists; name another file`);
  const passphrase = await passphraseOf(options);
  const client = openClient(options, io);
  const exported = await client.ask('POST /v1/pki/export', { query: { cluster } });
  if (exported.scopes.length === 0) throw new MusterError('E_NO_KEYS', 'there are no keys yet');
  const archive = tar(exported.scopes.flatMap((scope) => entriesOf(scope)));
  writeDurably(output, await ageEncrypt(archive, { passphrase }, io.scryptWork));
  if (!(await ageDecrypt(fs.readFileSync(output), { passphrase })).equals(archive))
    throw new MusterError('E_EXPORT', `${output} does not hold what was written to it`);
  const scopes = exported.scopes.map((one) => ({ scope: one.scope, generations: generationsOf(one) }));
  const { warnings } = await client.ask('POST /v1/pki/exported', { body: { scopes } });
  io.out(`${output} has the keys of ${scopes.map(({ scope }) => scope).join(', ')}\n`);
  printWarnings(warnings, io);
  return EXIT.ok;
}

async function passphraseOf({ passphraseFile }: ExportOptions): Promise<string> {
  const passphrase =
    passphraseFile === undefined
      ? await askHidden('Passphrase: ', { again: 'The same again: ', instead: '--passphrase-file FILE' })
      : (fs.readFileSync(passphraseFile, 'utf8').split('\n')[0] ?? '').replace(/\r$/, '');
  if (passphrase.length < SHORTEST)
    throw new MusterError('E_USAGE', `a passphrase has at least ${SHORTEST} characters`);
  return passphrase;
}

/** The files of one scope: keys and certificates by generation, and what each generation is. */
function entriesOf({ scope, keysets }: ExportedScope): { name: string; content: Buffer }[] {
  const generations = keysets.flatMap(({ name, generations: all }) =>
    all.flatMap(({ id, key, certificate }) => [
      { name: `${scope}/${name}/${id}.key`, content: Buffer.from(key) },
      ...(certificate === undefined
        ? []
        : [{ name: `${scope}/${name}/${id}.crt`, content: Buffer.from(certificate) }]),
    ]),
  );
  const index = keysets.map(({ name, primary, distrusted, generations: all }) => ({
    name,
    primary,
    distrusted,
    generations: all.map(({ id, createdAt }) => ({ id, createdAt: new Date(createdAt).toISOString() })),
  }));
  const content = Buffer.from(`${JSON.stringify({ v: 1, scope, keysets: index }, null, 2)}\n`);
  return [{ name: `${scope}/keysets.json`, content }, ...generations];
}

/** Writes the file so that it is whole and on the disk, or not there. */
function writeDurably(file: string, octets: Buffer): void {
  const directory = path.dirname(path.resolve(file));
  const begun = path.join(directory, `.${path.basename(file)}.${process.pid}`);
  try {
    fs.writeFileSync(begun, octets, { mode: 0o600, flag: 'wx', flush: true });
    // Unlike a rename, a link fails if the file has appeared meanwhile.
    fs.linkSync(begun, file);
  } finally {
    fs.rmSync(begun, { force: true });
  }
  syncDirectorySync(directory);
}
