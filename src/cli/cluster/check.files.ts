/** `muster cluster check NAME --config DIR --with-binaries DIR`. */
import fs from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { runConfined } from '../../cluster/judge/confine.files.ts';
import { askProgram } from '../../cluster/judge/judge.ts';
import { type Judged, placedIn } from '../../cluster/judge/placed.ts';
import { shown } from '../../cluster/judge/verdict.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
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

/** What a component said to its values. */
export interface Verdict {
  readonly component: Judged;
  readonly machine: string;
  /** unasked: there is no binary, or it did not get as far as to read its values. */
  readonly says: 'taken' | 'refused' | 'unasked';
  readonly text: string;
}

/** How long one component may take. */
const EACH_MS = 20_000;

/** Asks each component of a cluster that has a binary in a directory, one after another. */
export async function askBinaries(
  resolved: ResolvedCluster,
  directory: string,
  only?: Judged,
): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const placed of placedIn(resolved)) {
    const { component, machine } = placed;
    if (only !== undefined && component !== only) continue;
    const binary = path.resolve(directory, component);
    const { refuses, unasked } = fs.existsSync(binary)
      ? await askProgram(runConfined, binary, placed, resolved, AbortSignal.timeout(EACH_MS))
      : { unasked: `there is no ${binary}` };
    const says = refuses !== undefined ? 'refused' : unasked !== undefined ? 'unasked' : 'taken';
    verdicts.push({ component, machine, says, text: unasked ?? shown(refuses ?? '') });
  }
  return verdicts;
}

/**
 * Resolves a Cluster of a directory of documents, and asks its components about their values.
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
    const verdicts = await askBinaries(found.resolved, withBinaries);
    for (const { component, machine, says, text } of verdicts)
      io.out(`${component} of ${machine}: ${says}${text === '' ? '' : `: ${text}`}\n`);
    return verdicts.some(({ says }) => says === 'refused') ? EXIT.failure : EXIT.ok;
  } finally {
    await world.close();
  }
}
