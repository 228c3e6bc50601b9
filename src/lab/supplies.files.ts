/**
 * Brings binaries and container images to the rack's boot host as an operator does, with `muster
 * artifacts import`.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { withGiven } from './given.ts';
import type { BootHost } from './muster.files.ts';
import type { Scenario } from './scenario.ts';

/**
 * The environment variable that names a directory of binaries and images, because a test must not
 * download them.
 */
const GIVEN = 'MUSTER_ARTIFACTS';
/** How long the import may take: it hashes gigabytes of images twice. */
const LIMIT_MS = 900_000;

/**
 * Imports the artifacts of a scenario.
 *
 * @throws {MusterError} E_LAB_TOOL when a file is missing, E_LAB_SERVE when Muster refuses it.
 */
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
      throw new MusterError('E_LAB_TOOL', `${path} is missing; run scripts/packages.sh install`);
    words.push('--binary', `${name}:${version}=${path}`);
  }
  if (artifacts.given) words.push(givenDirectory());
  const { code, out, err } = await host.muster(words, { limitMs: LIMIT_MS });
  if (code !== 0) throw new MusterError('E_LAB_SERVE', `muster ${words.join(' ')}: ${err.trim()}`);
  places.say(out.replace(/^/gm, '          '));
}

/** @throws {MusterError} E_LAB_TOOL when the variable is not set. */
function givenDirectory(): string {
  const given = process.env[GIVEN];
  if (!given)
    throw new MusterError('E_LAB_TOOL', `${GIVEN} names no directory of binaries and images; set it`);
  return given;
}

/**
 * The scenario with all its Clusters, including those that steps apply, set to the version in the
 * directory of artifacts.
 *
 * @throws {MusterError} E_LAB_TOOL when the directory cannot be read, E_YAML when its
 * `kubernetes.yaml` is not valid.
 */
export async function ofGivenVersion(scenario: Scenario): Promise<Scenario> {
  if (!scenario.artifacts?.given) return scenario;
  const file = join(givenDirectory(), 'kubernetes.yaml');
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw new MusterError('E_LAB_TOOL', `${file}: ${error.message}`, { cause: error });
  });
  if (text === '') return scenario;
  try {
    const given = load(text) as Record<string, unknown>;
    return {
      ...scenario,
      documents: withGiven(scenario.documents, given),
      steps: scenario.steps.map((step) =>
        step.apply ? { ...step, apply: withGiven(step.apply, given) } : step,
      ),
    };
  } catch (cause) {
    throw new MusterError('E_YAML', `${file}: ${messageOf(cause)}`, { cause });
  }
}
