/**
 * Preloaded into the boot host of a rack by `NODE_OPTIONS=--import`, so that a test sees keys grow
 * old: CAs live as long as MUSTER_TEST_LIVES says, and a Cluster may rotate keys at any age.
 */
import { duration } from '../../../src/base/duration.ts';
import { PKI_TIMES } from '../../../src/cluster/resolve/check.ts';
import { AUTHORITIES } from '../../../src/pki/hierarchy.ts';
import type { AuthorityName } from '../../../src/pki/keysets.ts';

/** CA → how long it lives. */
export type Lives = Readonly<Partial<Record<AuthorityName, string>>>;

/** What makes a boot host preload this file. */
export const shortLives = (lives: Lives): Readonly<Record<string, string>> => ({
  NODE_OPTIONS: `--import=${import.meta.filename}`,
  MUSTER_TEST_LIVES: JSON.stringify(lives),
});

const { MUSTER_TEST_LIVES: given } = process.env;
if (given !== undefined) {
  for (const [name, life] of Object.entries(JSON.parse(given) as Lives))
    Object.assign(AUTHORITIES[name as AuthorityName], { lifetime: duration(life) });
  Object.assign(PKI_TIMES.rotateAfter, { least: duration('1s') });
}
