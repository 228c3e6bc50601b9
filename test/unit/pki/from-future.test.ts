/** What was made while the clock was ahead, after it is right again. */
import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { openCertificates } from '../../../src/cluster/plan/certificates.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { notYetValid, redate } from '../../../src/pki/redate.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { certificateView } from '../../../src/pki/views.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { CP1, GOLDEN } from './kit.ts';

const NOW = Date.UTC(2027, 0, 1) as Millis;
const AHEAD = (NOW + duration('365d')) as Millis;

/** A cluster whose keys and one certificate were made at a time, and the same store later. */
async function madeAt(at: Millis) {
  const store = openMemoryStore();
  const vault = vaultFrom(newVaultKey(), 'test');
  const of = (now: Millis) => {
    const clock = new ManualClock(now);
    const pki = openPki({ store, vault, clock });
    return { clock, pki, certificates: openCertificates({ pki, clock }) };
  };
  const then = of(at);
  const founded = await then.pki.found('golden');
  const key = (await PrivateKey.generate()).publicKey();
  const order = {
    leaf: 'etcd-server',
    holder: CP1,
    cluster: GOLDEN,
    pin: key.pin(),
    publicKey: key,
  } as const;
  const get = async ({ pki, certificates }: ReturnType<typeof of>) => {
    const made = await certificates.get(
      'golden',
      { keysets: await pki.keysets('golden'), renewals: [] },
      order,
    );
    if (made === undefined || made === 'new-key') throw new Error('no certificate');
    return made;
  };
  return { of, then, founded, get, first: await get(then) };
}

test('CAs and certificates of a clock that was a year ahead are made again for the same keys', async () => {
  const { of, founded, get, first } = await madeAt(AHEAD);
  const later = of(NOW);
  expect(certificateView(first, NOW).state).toBe('not yet valid');
  // Its CA begins in the future as well: another certificate would not help, and none is made.
  expect((await get(later)).serial).toBe(first.serial);
  expect(await redate(later, 'golden')).toEqual(['ca', 'etcd-ca', 'front-proxy-ca']);
  const made = await get(later);
  const ca = (await later.pki.keysets('golden')).get('etcd-ca')!;
  expect(ca.primary).toBe(founded.get('etcd-ca')!.primary);
  const authority = new X509Certificate(ca.trusted[0]!.certificate!);
  for (const one of [authority, new X509Certificate(made.certificate)]) {
    expect(Date.parse(one.validFrom)).toBeLessThan(NOW);
    expect(one.verify(authority.publicKey)).toBe(true);
  }
  // The order of issue counts, also after a restart, although the first one ends later.
  expect((await get(of(NOW))).serial).toBe(made.serial);
  expect(await redate(later, 'golden')).toEqual([]);
});

test('while the clock is in doubt nothing is issued, and what there is stays', async () => {
  const { then, get, first } = await madeAt(NOW);
  then.clock.advance(duration('300d'));
  then.clock.setDoubt({ code: 'machines', text: 'ahead', offMs: 1, contradicted: true });
  expect((await get(then)).serial).toBe(first.serial);
  const key = (await PrivateKey.generate()).publicKey();
  const order = { leaf: 'etcd-peer', holder: CP1, cluster: GOLDEN, publicKey: key } as const;
  for (const work of [
    () => then.pki.issue('golden', order),
    () => then.pki.found('other'),
    () => then.pki.renew('golden', { newKeys: false }),
    () => then.pki.transition('golden', 'ca', { do: 'make' }),
  ])
    await expect(work()).rejects.toMatchObject({ code: 'E_CLOCK' });
  expect(await then.pki.prune('golden')).toBe(0);
  then.clock.setDoubt(undefined);
  expect((await get(then)).serial).not.toBe(first.serial);
});

test('a CA of the future that is in a rotation is left alone, and named', async () => {
  const { of, then } = await madeAt(AHEAD);
  const { generation } = await then.pki.transition('golden', 'ca', { do: 'make' });
  await then.pki.transition('golden', 'ca', { do: 'trust', generation });
  const later = of(NOW);
  expect(await redate(later, 'golden')).toEqual(['etcd-ca', 'front-proxy-ca']);
  expect(notYetValid(await later.pki.keysets('golden'), NOW)).toEqual(['ca']);
});
