/** `muster backup create`: writes an encrypted backup of the boot host. */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import { ageOpen, ageSeal, type Locks, readRecipient } from '../../pki/age.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { sizeText } from '../output.ts';
import { askHidden } from '../pki/passphrase.files.ts';
import { type BackupDescription, readArchive, readDescription } from './archive.ts';

interface CreateOptions extends ServerOptions {
  readonly output: string;
  readonly recipient?: readonly string[];
  readonly passphraseFile?: string;
  readonly assets?: boolean;
  readonly keep?: string;
}

/** Shorter passphrases are refused: the file is worth trying many. */
const SHORTEST = 12;
/** The last file of an archive, with what follows it, is shorter. */
const SIGNATURE_OCTETS = 4096;
const OURS = /^muster-[0-9]{8}T[0-9]{6}Z\.age$/;

/**
 * Writes the file; leaves none when that fails. With a passphrase it is read back and opened.
 *
 * @throws {MusterError} E_USAGE for options that do not fit and for a file that exists; E_BACKUP
 *   when the archive did not come whole
 */
export async function create(options: CreateOptions, io: Io): Promise<number> {
  const { recipient, passphraseFile, assets, keep } = options;
  if (recipient !== undefined && passphraseFile !== undefined)
    throw new MusterError('E_USAGE', 'a backup is for recipients or for a passphrase, not both');
  const directory = fs.existsSync(options.output) && fs.statSync(options.output).isDirectory();
  if (keep !== undefined && (!directory || !/^[1-9][0-9]{0,3}$/.test(keep)))
    throw new MusterError('E_USAGE', '--keep takes a number, and needs -o DIRECTORY');
  const stamp = new Date().toISOString().replace(/[-:]|\.[0-9]+/g, '');
  const output = directory ? path.join(options.output, `muster-${stamp}.age`) : options.output;
  if (fs.existsSync(output)) throw new MusterError('E_USAGE', `${output} exists; name another file`);
  const locks = await locksOf(recipient, passphraseFile);
  const begun = path.join(path.dirname(path.resolve(output)), `.${path.basename(output)}.${process.pid}`);
  try {
    const archive = openClient(options, io).download('POST', '/v1/backup', {
      query: assets ? { assets: 'true' } : {},
      works: true,
    });
    const signed: { by: string | undefined } = { by: undefined };
    await writeDurably(begun, ageSeal(noting(archive, signed), locks, io.scryptWork));
    const known = 'passphrase' in locks ? await readBack(begun, locks) : undefined;
    fs.linkSync(begun, output);
    const size = sizeText(fs.statSync(output).size);
    io.out(
      `${output}: ${size}${known ? `, ${known.assets.length} files of images and artifacts ${known.withAssets ? 'included' : 'listed'}` : ''}, ${signed.by === undefined ? 'not signed' : `signed with key ${signed.by}`}\n`,
    );
  } finally {
    fs.rmSync(begun, { force: true });
  }
  if (keep !== undefined) removeOldest(options.output, Number(keep));
  return EXIT.ok;
}

/** The archive; notes the key whose signature is the last file of it. */
async function* noting(
  archive: AsyncIterable<Uint8Array>,
  signed: { by: string | undefined },
): AsyncGenerator<Uint8Array> {
  let end: Buffer = Buffer.alloc(0);
  for await (const piece of archive) {
    end = Buffer.concat([end, piece]).subarray(-SIGNATURE_OCTETS);
    yield piece;
  }
  signed.by = /"key": "([0-9a-f]{32})"/.exec(end.toString('latin1'))?.[1];
}

async function locksOf(
  recipients: readonly string[] | undefined,
  passphraseFile: string | undefined,
): Promise<Locks> {
  const [first, ...others] = (recipients ?? []).map(readRecipient);
  if (first) return { recipients: [first, ...others] };
  const passphrase =
    passphraseFile === undefined
      ? await askHidden('Passphrase: ', { again: 'The same again: ', instead: '--passphrase-file FILE' })
      : passphraseIn(passphraseFile);
  if (passphrase.length < SHORTEST)
    throw new MusterError('E_USAGE', `a passphrase has at least ${SHORTEST} characters`);
  return { passphrase };
}

/** The first line of a file. */
export const passphraseIn = (file: string): string =>
  (fs.readFileSync(file, 'utf8').split('\n')[0] ?? '').replace(/\r$/, '');

async function writeDurably(file: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const handle = fs.openSync(file, 'wx', 0o600);
  try {
    for await (const piece of pieces) {
      for (let at = 0; at < piece.length; ) at += fs.writeSync(handle, piece, at);
    }
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

async function readBack(
  file: string,
  locks: { readonly passphrase: string },
): Promise<BackupDescription | undefined> {
  let known: BackupDescription | undefined;
  for await (const one of readArchive(ageOpen(fs.createReadStream(file), locks)))
    known ??= await readDescription(one);
  return known;
}

function removeOldest(directory: string, keep: number): void {
  const all = fs
    .readdirSync(directory)
    .filter((name) => OURS.test(name))
    .toSorted();
  for (const name of all.slice(0, Math.max(0, all.length - keep))) fs.rmSync(path.join(directory, name));
}
