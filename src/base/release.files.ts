/**
 * What a release says of the tree that runs: `release.json` in its root, which
 * `scripts/release.sh` signs with Ed25519.
 */
import { createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { messageOf } from './error-text.ts';
import { VERSION } from './version.ts';

/** The signed file. */
const statement = z.strictObject({
  version: z.string(),
  /** The commit that was built. */
  revision: z.string(),
  /** SHA-256 of the agent's bundle, hex. */
  agent: z.string(),
});

export const RELEASE_FILE = 'release.json';
export const RELEASE_SIGNATURE = 'release.json.sig';

/** What `release.json` says of a tree. */
export const releaseText = (revision: string, agent: string): string =>
  `${JSON.stringify({ version: VERSION, revision, agent } satisfies z.input<typeof statement>)}\n`;

/**
 * Why the agent of this tree is not one that the holder of a key released; undefined when it is, or
 * when no key is given. Never throws: whatever cannot be read is a reason.
 *
 * @param root The directory with `release.json` and its signature.
 * @param key A file with the public key (PEM).
 * @param agent SHA-256 of the bundle that machines would get, hex.
 */
export function releaseFault(root: string, key: string | undefined, agent: string): string | undefined {
  if (key === undefined) return undefined;
  try {
    const pem = createPublicKey(readFileSync(key));
    if (pem.asymmetricKeyType !== 'ed25519') return `${key} is no Ed25519 key.`;
    const octets = readFileSync(join(root, RELEASE_FILE));
    const signature = readFileSync(join(root, RELEASE_SIGNATURE));
    if (!verify(null, octets, pem, signature))
      return `${join(root, RELEASE_SIGNATURE)} was not made with the key of ${key}.`;
    const said = statement.parse(JSON.parse(octets.toString()));
    if (said.version !== VERSION || said.agent !== agent)
      return `The release that is signed is ${said.version}, with another agent than this ${VERSION}.`;
    return undefined;
  } catch (error) {
    return `The release could not be verified: ${messageOf(error)}.`;
  }
}
