/** `muster pki import` and `muster pki reseal`. */
import fs from 'node:fs';
import type { Body } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

/**
 * Sends a CA's certificate and private key to the server.
 *
 * @throws {MusterError} E_USAGE for a file that cannot be read
 */
export async function importAuthority(
  cluster: string,
  keyset: string,
  options: ServerOptions & { readonly certificate: string; readonly key: string },
  io: Io,
): Promise<number> {
  const [certificate, key] = [readFile(options.certificate), readFile(options.key)];
  const made = await openClient(options, io).ask('POST /v1/pki/:cluster/import', {
    params: { cluster },
    body: { keyset: keyset as Body<'POST /v1/pki/:cluster/import'>['keyset'], certificate, key },
  });
  const what = `${keyset} of ${cluster}: the CA is generation ${made.generation}`;
  io.out(
    made.signs
      ? `${what}, and signs from now on\n`
      : `${what}; it signs after a rotation: muster pki rotate ${keyset} --cluster ${cluster}\n`,
  );
  for (const note of made.notes) io.err(`  note: ${note}\n`);
  return EXIT.ok;
}

function readFile(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new MusterError('E_USAGE', `${file} cannot be read: ${code}`, { cause });
  }
}

/** Seals the store again with the vault's first key, and says which lines of its file may go. */
export async function reseal(
  options: ServerOptions & { readonly dryRun?: boolean },
  io: Io,
): Promise<number> {
  const { primary, records, written, unneeded } = await openClient(options, io).ask('POST /v1/pki/reseal', {
    query: { dryRun: options.dryRun || undefined },
  });
  const others = Object.entries(records).filter(([id]) => id !== primary);
  for (const [id, count] of [[primary, records[primary] ?? 0] as const, ...others])
    io.out(`vault key ${id}: ${count} records${id === primary ? ', seals' : ''}\n`);
  if (options.dryRun) return EXIT.ok;
  io.out(`${written} were sealed again\n`);
  if (others.length === 0)
    io.err(
      '  the vault has one key; to change it, put a new line first in its file and restart the server\n',
    );
  for (const id of unneeded)
    io.out(`nothing needs vault key ${id} any more: its line may go, once no backup needs it\n`);
  return EXIT.ok;
}
