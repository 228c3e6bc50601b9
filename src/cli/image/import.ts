/** `muster image import`: makes an Image of what a distribution's publisher offers. */
import { CHANGES, summary, warnings } from '../../artifacts/import/judge.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { withProgress } from '../progress.files.ts';
import { addBuilt } from './add.ts';
import { importImage, inScratch, keepFiles } from './import.files.ts';
import { checkHost } from './import-tools.files.ts';
import { hashOf, localCopy, localFile, sourceOf } from './sources.files.ts';

export interface ImportOptions extends ServerOptions {
  readonly name?: string;
  readonly root?: number;
  readonly to?: string;
  readonly sha256?: string;
  readonly trustOnFirstUse?: boolean;
}

/**
 * `muster image import`.
 *
 * @throws {MusterError} E_IMPORT_… for what is wrong with the image, E_ASSET_HASH when it does not
 *   have the hash of --sha256.
 */
export async function importVerb(text: string, options: ImportOptions, io: Io): Promise<number> {
  await checkHost();
  const client = options.to === undefined ? openClient(options, io) : undefined;
  // Without a server the command fails here, and not after the work.
  await client?.ask('GET /v1/assets', { query: { limit: 0 } });
  const { file, remove } = await localImage(text, options, io);
  try {
    await inScratch(async (work) => {
      const { facts, findings } = await importImage({
        file,
        work,
        name: options.name,
        root: options.root,
        signal: io.signal,
        say: (line) => io.err(`${line}\n`),
      });
      io.out(`${summary(findings)}\n`);
      for (const change of CHANGES) io.out(`at boot: ${change}\n`);
      for (const warning of warnings(findings)) io.err(`warning: ${warning}\n`);
      if (client) await addBuilt(work, undefined, client, io);
      else io.out(`image/${facts.name} written to ${await keepFiles(work, options.to!)}\n`);
    });
  } finally {
    await remove();
  }
  return EXIT.ok;
}

/** The operator's file on this host's disk: as it is, or fetched. */
async function localImage(
  text: string,
  { sha256: wanted, trustOnFirstUse }: ImportOptions,
  io: Io,
): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const source = sourceOf(text);
  if (source.remote && wanted === undefined && !trustOnFirstUse)
    throw new MusterError(
      'E_USAGE',
      `${text}: give the hash that its publisher names (--sha256), or accept the file unverified with --trust-on-first-use`,
    );
  if (!source.remote) {
    if (wanted !== undefined) sameHash(text, (await hashOf(source, io.signal)).sha256, wanted);
    return { file: await localFile(text), remove: async () => undefined };
  }
  const got = await withProgress(text, 'starts the download again', io, (how) =>
    localCopy(source, how.io, how.onProgress),
  );
  try {
    if (wanted !== undefined) sameHash(text, got.sha256, wanted);
    else io.err(`${text}: accepted without a check; its SHA-256 is ${got.sha256}\n`);
  } catch (error) {
    await got.remove();
    throw error;
  }
  return got;
}

function sameHash(text: string, sha256: string, wanted: string): void {
  if (sha256 !== wanted.toLowerCase())
    throw new MusterError('E_ASSET_HASH', `${text} has SHA-256 ${sha256}, not ${wanted} as --sha256 says`);
}
