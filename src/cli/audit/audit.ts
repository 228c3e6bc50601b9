/** `muster audit export`, `muster audit key`, `muster audit checkpoint` */
import { MusterError } from '../../base/errors.ts';
import { checkpointText } from '../../events/audit-chain.ts';
import type { AuditStatus } from '../../events/security-log.files.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

const statusOf = (options: ServerOptions, io: Io): Promise<AuditStatus> =>
  openClient(options, io).ask('GET /v1/audit');

/** Prints all lines of the log. */
export async function exportAudit(options: ServerOptions, io: Io): Promise<number> {
  for await (const piece of openClient(options, io).stream('/v1/audit/export')) io.out(piece);
  return EXIT.ok;
}

/** Prints the public key in PEM. */
export async function auditKey(options: ServerOptions, io: Io): Promise<number> {
  io.out((await statusOf(options, io)).key.pem);
  return EXIT.ok;
}

/**
 * Prints the newest checkpoint.
 * @throws {MusterError} E_AUDIT_LOG when the log has none, because it could not be written yet.
 */
export async function auditCheckpoint(options: ServerOptions, io: Io): Promise<number> {
  const { checkpoint } = await statusOf(options, io);
  if (checkpoint === undefined)
    throw new MusterError('E_AUDIT_LOG', 'the security log has no checkpoint yet');
  io.out(`${checkpointText(checkpoint)}\n`);
  return EXIT.ok;
}
