/** `muster support`: writes a bundle for those who help, without secrets. */
import { writeFile } from 'node:fs/promises';
import { arch, cpus, networkInterfaces, release, totalmem } from 'node:os';
import { gzipSync } from 'node:zlib';
import { tar } from '../../artifacts/tar.ts';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { collect } from './bundle.ts';

export interface SupportOptions extends ServerOptions {
  readonly output: string;
}

/**
 * `muster support -o FILE`: collects status, events, leases, inventory, PKI without keys, and
 * timelines of machines that are not well, into a `.tar.gz` that must not exist yet.
 *
 * @throws {MusterError} E_USAGE when the file exists or cannot be written
 */
export async function support(options: SupportOptions, io: Io): Promise<number> {
  const host = {
    node: process.version,
    kernel: release(),
    architecture: arch(),
    processors: cpus().length,
    memoryBytes: totalmem(),
    interfaces: networkInterfaces(),
  };
  const files = await collect(openClient(options, io), host);
  const entries = files.map(({ name, text }) => ({ name, content: Buffer.from(text) }));
  try {
    await writeFile(options.output, gzipSync(tar(entries)), { mode: 0o600, flag: 'wx' });
  } catch (cause) {
    throw new MusterError('E_USAGE', `${options.output} cannot be made: ${messageOf(cause)}`, {
      cause,
    });
  }
  io.out(`${options.output}: ${files.length} files\n`);
  io.err('It holds names, addresses and events, and no secrets. Look through it before you give it away.\n');
  return EXIT.ok;
}
