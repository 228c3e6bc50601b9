/** What clusters are made of, brought to the rack's boot host as an operator brings it: `muster artifacts import`. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';
import type { BootHost } from './muster.files.ts';
import type { Scenario } from './scenario.ts';

/** Names a directory of binaries and images that no test may bring by itself. */
export const GIVEN = 'MUSTER_ARTIFACTS';
/** Gigabytes of images, hashed twice. */
const LIMIT_MS = 900_000;

/** Throws E_LAB_TOOL when something is not there, E_LAB_SERVE when Muster does not take it. */
export async function addArtifacts(
  { artifacts }: Scenario,
  host: BootHost,
  places: { readonly project: string; readonly say: (text: string) => void },
): Promise<void> {
  if (artifacts === undefined) return;
  const words = ['artifacts', 'import'];
  for (const { name, version, package: unpacked, file } of artifacts.binaries) {
    const path = join(places.project, '.cache/peers', unpacked, file);
    if (!existsSync(path))
      throw new MusterError('E_LAB_TOOL', `${path} is not there; run scripts/packages.sh install`);
    words.push('--binary', `${name}:${version}=${path}`);
  }
  if (artifacts.given) {
    const given = process.env[GIVEN];
    if (!given)
      throw new MusterError('E_LAB_TOOL', `${GIVEN} names no directory of binaries and images; set it`);
    words.push(given);
  }
  const { code, out, err } = await host.muster(words, { limitMs: LIMIT_MS });
  if (code !== 0) throw new MusterError('E_LAB_SERVE', `muster ${words.join(' ')}: ${err.trim()}`);
  places.say(out.replace(/^/gm, '          '));
}
