/** Asks the components of a cluster, one after another, whether they take their values. */
import fs from 'node:fs';
import path from 'node:path';
import { runConfined } from '../../src/cluster/judge/confine.files.ts';
import { askProgram } from '../../src/cluster/judge/judge.ts';
import { type Judged, placedIn } from '../../src/cluster/judge/placed.ts';
import { shown } from '../../src/cluster/judge/verdict.ts';
import type { ResolvedCluster } from '../../src/cluster/model/resolved-cluster.ts';

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
