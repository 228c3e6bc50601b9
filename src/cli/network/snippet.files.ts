/** `muster network snippet`: configuration for the DHCP servers of others. */
import { readFile } from 'node:fs/promises';
import type { DhcpProgram } from '../../pxe/firmware/snippets.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { unifiedDiff } from '../documents/diff.ts';
import { EXIT, type Io } from '../io.ts';

interface SnippetOptions extends ServerOptions {
  readonly for: DhcpProgram;
  readonly check?: string;
}

/**
 * Prints a snippet; with `--check`, how a file differs from it.
 *
 * @returns 1 when the file differs
 * @throws {MusterError} what the server answers, E_NOT_FOUND for a network that it does not serve
 */
export async function snippet(network: string, options: SnippetOptions, io: Io): Promise<number> {
  const { for: program, check } = options;
  const asked = { params: { network }, query: { for: program } };
  const { text } = await openClient(options, io).ask('GET /v1/networks/:network/snippet', asked);
  if (check === undefined) {
    io.out(text);
    return EXIT.ok;
  }
  const difference = unifiedDiff(await readFile(check, 'utf8'), text, check, `Network/${network}`);
  io.out(difference);
  return difference === '' ? EXIT.ok : EXIT.failure;
}
