/**
 * Certificates that the boot host makes for itself: how long each is used, and what is left of them
 * in the ledger.
 */
import { expect, test } from 'vitest';
import { duration } from '../../../src/base/duration.ts';
import { bootHostCredentials } from '../../../src/cluster/boot-host.ts';
import { world } from '../pki/kit.ts';

test('a certificate is used for half of its hour, and those that have ended are taken out of the ledger with the next', async () => {
  const { pki, clock } = await world();
  const credentials = bootHostCredentials({ pki, clock }, 'muster-admin', 'ca');
  const first = await credentials('golden');
  clock.advance(duration('20m'));
  expect((await credentials('golden')).cert).toBe(first.cert);
  const kept: number[] = [];
  for (let n = 0; n < 6; n++) {
    clock.advance(duration('31m'));
    await credentials('golden');
    kept.push((await pki.issued('golden')).filter(({ leaf }) => leaf === 'muster-admin').length);
  }
  expect(kept).toEqual([2, 2, 2, 2, 2, 2]);
});
