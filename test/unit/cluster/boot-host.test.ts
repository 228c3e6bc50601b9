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

test('a step of a rotation takes effect with the next request', async () => {
  const { pki, clock } = await world();
  const credentials = bootHostCredentials({ pki, clock }, 'muster-admin', 'ca');
  const first = await credentials('golden');
  const { generation } = await pki.transition('golden', 'ca', { do: 'make' });
  expect(await credentials('golden')).toBe(first);
  await pki.transition('golden', 'ca', { do: 'trust', generation });
  expect((await credentials('golden')).ca.match(/BEGIN/g)).toHaveLength(2);
  await pki.transition('golden', 'ca', { do: 'promote', generation });
  // The certificate, and the bridge for API servers that know the old CA alone.
  expect((await credentials('golden')).cert.match(/BEGIN/g)).toHaveLength(2);
});
