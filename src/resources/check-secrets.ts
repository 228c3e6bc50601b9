/** Checks that the Secrets exist to which documents refer. */
import { type Candidate, type CrossFault, type DocumentId, idOf, report } from './candidate.ts';
import type { ConfigCheck } from './catalog.ts';
import { hostSecretsOf, secretsOf } from './secret-references.ts';

/**
 * Makes the check. A missing Secret is a warning: documents and Secrets come in any order, and an
 * agent waits until the value is there.
 */
export const secretCheck =
  (has: (secret: string, key: string) => boolean): ConfigCheck =>
  (candidates, changed) => {
    const found: CrossFault[] = [];
    const check = (candidate: Candidate, id: DocumentId): void => {
      if (changed !== undefined && !changed.has(id)) return;
      for (const { secret, key, path } of [
        ...secretsOf(candidate.document),
        ...hostSecretsOf(candidate.document),
      ]) {
        if (has(secret, key)) continue;
        const text = `Secret "${secret}" has no key "${key}" yet; \`muster secret put ${secret} ${key}\` writes it`;
        report(found, candidate, path, text, { code: 'E_REFERENCE', severity: 'warning' });
      }
    };
    for (const kind of ['Network', 'Cluster', 'Profile', 'Machine', 'Webhook'] as const)
      for (const candidate of candidates[kind].values()) check(candidate, idOf(candidate.document));
    return found;
  };
