/** Opens the security log, below the state directory. */
import { join } from 'node:path';
import type { EventLog } from '../events/event.ts';
import { openSecurityLog, type SecurityLog } from '../events/security-log.files.ts';
import { auditHead, openAuditKey } from '../pki/audit-key.ts';
import type { Secrets } from '../pki/secrets.ts';
import type { Common } from './common.ts';

/**
 * @param state the state directory
 * @throws {MusterError} when the log's key cannot be opened; a disk that fails is only logged.
 */
export async function openSecurity(
  state: string,
  limitBytes: number,
  { clock, log, metrics, outside }: Common,
  { events, secrets }: { readonly events: EventLog; readonly secrets: Secrets },
): Promise<SecurityLog> {
  return openSecurityLog({
    directory: join(state, 'audit'),
    key: await openAuditKey(secrets),
    head: auditHead(secrets, outside.hosts.sharedAs),
    limitBytes,
    events,
    clock,
    log,
    metrics,
  });
}
