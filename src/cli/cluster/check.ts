/** `muster cluster check NAME --config DIR --with-binaries DIR`. */

import { systemClock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { followClusters } from '../../cluster/resolve/resolved-clusters.ts';
import { followMemberships } from '../../machines/membership.ts';
import { openLocal } from '../documents/local.ts';
import { EXIT, type Io } from '../io.ts';

export interface CheckOptions {
  /** Directory of documents. */
  readonly config: string;
  /** Directory of binaries. */
  readonly withBinaries: string;
}

/**
 * Resolves a Cluster of a directory of documents, and starts its components with their flags.
 *
 * @throws {MusterError} E_NOT_FOUND for an unknown cluster, and the faults of the documents
 */
export async function check(name: string, options: CheckOptions, io: Io): Promise<number> {
  const { config, withBinaries } = options;
  const world = await openLocal({ directory: config, now: systemClock.now() });
  try {
    const found = followClusters(world.catalog, followMemberships(world.catalog)).get(name);
    if (found?.resolved === undefined)
      throw new MusterError('E_NOT_FOUND', `there is no Cluster "${name}" in ${config}`);
    const verdicts = await (await import('./binaries.files.ts')).judgeBinaries(found.resolved, withBinaries);
    for (const { component, machine, says, text } of verdicts)
      io.out(`${component} of ${machine}: ${says}${text === '' ? '' : `: ${text}`}\n`);
    return verdicts.some(({ says }) => says === 'refused') ? EXIT.failure : EXIT.ok;
  } finally {
    await world.close();
  }
}
