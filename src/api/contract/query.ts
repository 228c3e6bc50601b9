/** Checks the query of a request against its contract. Pure. */
import type { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { didYouMean } from '../../base/suggest.ts';

/**
 * Refuses parameters that the route does not have: a misspelt `dryRun` must not become a change. A
 * contract with a loose object takes all.
 *
 * @throws {MusterError} E_USAGE
 */
export function checkQuery(contract: z.ZodObject | undefined, query: URLSearchParams): void {
  if (contract?.def.catchall?._zod.def.type === 'unknown') return;
  const known = Object.keys(contract?.shape ?? {});
  for (const name of query.keys()) {
    if (known.includes(name)) continue;
    const all = known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`;
    const meant = didYouMean(name, known) || `; ${all}`;
    throw new MusterError('E_USAGE', `the route has no parameter "${name}" in its query${meant}`);
  }
}
