/** How many certificates one machine gets, and what the ledger forgets. */
import { expect, test } from 'vitest';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { type LeafName, leafOf } from '../../../src/pki/hierarchy.ts';
import { BURST, IssueLimit, ONE_EVERY } from '../../../src/pki/issue-limit.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { GOLDEN, type World, world } from './kit.ts';

const key = (await PrivateKey.generate()).publicKey();

const issue = (of: World, leaf: LeafName, name: string) =>
  of.pki.issue(leafOf(leaf).parent === 'transport-ca' ? MUSTER_SCOPE : 'golden', {
    leaf,
    holder: { name, addresses: ['10.0.0.21'] },
    cluster: GOLDEN,
    publicKey: key,
  });

/** Asks until it is refused; returns how many certificates there were. */
async function asMany(of: World, leaf: LeafName, name: string): Promise<number> {
  for (let count = 0; ; count++) {
    const refused = await issue(of, leaf, name).then(
      () => undefined,
      (error: { code: string; message: string }) => error,
    );
    if (refused === undefined) continue;
    expect(refused.code).toBe('E_CERTIFICATE_LIMIT');
    expect(refused.message).toMatch(/^w1 got many certificates "kubelet" lately; the next one in \d+ min$/);
    return count;
  }
}

test('a machine that asks again and again gets as many certificates as a day of reboots needs, then six an hour', async () => {
  const of = await world();
  expect(await asMany(of, 'kubelet', 'w1')).toBe(BURST);
  of.clock.advance(duration('1h'));
  expect(await asMany(of, 'kubelet', 'w1')).toBe(6);
  expect((await of.pki.issued('golden')).filter(({ to }) => to === 'w1')).toHaveLength(BURST + 6);
});

test('the limit of one machine costs no other machine and no other kind of certificate anything', async () => {
  const of = await world();
  await asMany(of, 'kubelet', 'w1');
  for (const leaf of ['kubelet-serving', 'agent'] as const)
    expect((await issue(of, leaf, 'w1')).to).toBe('w1');
  expect((await issue(of, 'kubelet', 'w2')).to).toBe('w2');
});

test('operators are not limited', async () => {
  const of = await world();
  for (let count = 0; count < BURST * 2; count++) await issue(of, 'person', 'jane');
  expect(await of.pki.issued('golden')).toHaveLength(BURST * 2);
});

test('a machine that was quiet gets no more than its burst, and machines that are long gone are forgotten', () => {
  const limit = new IssueLimit();
  const take = (who: string, now: number) => limit.take(who, now as Millis);
  for (let count = 0; count < BURST; count++) expect(take('w1', 0)).toBeUndefined();
  expect(take('w1', 0)).toBe(ONE_EVERY);
  expect(take('w1', ONE_EVERY / 2)).toBe(ONE_EVERY / 2);
  const later = ONE_EVERY * BURST * 10;
  for (let count = 0; count < BURST; count++) expect(take('w1', later)).toBeUndefined();
  expect(take('w1', later)).toBe(ONE_EVERY);
  for (let other = 0; other < 5000; other++) take(`m${other}`, later);
  // Those that were counted lately are not forgotten with the others.
  expect(take('w1', later)).toBe(ONE_EVERY);
});

test('the ledger forgets certificates a week after their end, but not the newest that a machine or user had', async () => {
  const of = await world();
  const serials = async () => (await of.pki.issued(MUSTER_SCOPE)).map(({ serial }) => serial).sort();
  const old = await issue(of, 'agent', 'w1');
  of.clock.advance(duration('16d'));
  const newer = await issue(of, 'agent', 'w1');
  const only = await issue(of, 'agent', 'w2');
  of.clock.advance(duration('20d'));
  expect(await of.pki.prune(MUSTER_SCOPE)).toBe(0);
  of.clock.advance(duration('2d'));
  expect(await of.pki.prune(MUSTER_SCOPE)).toBe(1);
  expect(await serials()).toEqual([newer.serial, only.serial].sort());
  expect(await of.pki.issuedOne(MUSTER_SCOPE, old.serial)).toBeUndefined();
  of.clock.advance(duration('300d'));
  expect(await of.pki.prune(MUSTER_SCOPE)).toBe(0);
  // More than one commit can hold.
  for (let count = 0; count < 300; count++) await issue(of, 'muster-server', 'muster');
  of.clock.advance(duration('400d'));
  await issue(of, 'muster-server', 'muster');
  expect(await of.pki.prune(MUSTER_SCOPE)).toBe(300);
});
