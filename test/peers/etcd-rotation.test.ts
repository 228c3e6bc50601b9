/**
 * The CA of a running etcd is replaced under a client that writes all the time and clients that
 * watch: with the shipped boot host, the real agent and real etcd. See docs/rotation.md.
 */
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { ChangeView } from '../../src/api/operations/changes.ts';
import { DEBIAN_13, type Machine, type Rack, until, withRack } from './etcd/rack.ts';
import { caOf, rotationOf, starts } from './etcd/rotation.ts';
import { Watch } from './etcd/watch.ts';

const PKI = '/etc/kubernetes/pki/etcd';

/** Waits until the rotation is at a step, or has ended when `step` is absent. */
async function reaches(rack: Rack, step?: string): Promise<ChangeView> {
  return until(
    `the rotation reaches ${step ?? 'its end'}`,
    async () => {
      const view = await rotationOf(rack);
      return (step === undefined ? view.ended !== undefined : view.step === step || view.ended) && view;
    },
    async () => `${JSON.stringify(await rotationOf(rack), undefined, 1)}\n${await rack.state()}`,
  );
}

const rotate = async (rack: Rack, ...more: string[]): Promise<void> => {
  // The control plane of this Cluster is not there.
  const words = ['pki', 'rotate', 'etcd-ca', '--cluster', 'one', '--without', 'cp', ...more];
  const { code, output } = await rack.muster(...words);
  expect(code, output).toBe(0);
};

/**
 * A member that is not etcd's leader. If the leader lost its power, the other members would lose
 * the writes that they pass to it before they notice, and even a second attempt could fail.
 */
const follower = (rack: Rack): Promise<Machine> =>
  until(
    'a member follows a leader',
    async () => {
      for (const machine of rack.all.toReversed()) if (!(await rack.writer.leads(machine))) return machine;
      return undefined;
    },
    rack.state,
  );

/** Runs everything, with a client that writes and one that watches on each member. */
async function founded(rack: Rack): Promise<readonly Watch[]> {
  await Promise.all(rack.all.map((machine) => machine.powerOn()));
  await rack.healthy();
  rack.writer.start();
  return rack.all.map((machine) => new Watch(machine, rack.writer));
}

/** Checks that the clients noticed nothing, apart from the restart of each member. */
async function nobodyNoticed(rack: Rack, watches: readonly Watch[]): Promise<void> {
  await rack.nothingLost();
  expect(rack.writer.failedTwice).toEqual([]);
  for (const watch of watches)
    await until('a watch has seen every write', () =>
      [...rack.writer.acknowledged.keys()].every((key) => watch.seen.has(key)),
    );
  await Promise.all(watches.map((watch) => watch.stop()));
}

test.concurrent(
  "etcd's CA is replaced through a signer with one restart of each member, although the boot host dies twice",
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const watches = await founded(rack);
      const before = rack.all.map(starts);
      const old = caOf(rack.all[0]!);
      await rotate(rack);
      await reaches(rack, 'issue');
      await rack.host.restart();
      await reaches(rack, 'distrust');
      await until(
        'one member restarted',
        () => rack.all.some((one, n) => starts(one) > before[n]!),
        rack.state,
      );
      await rack.host.restart();
      const { ended, steps } = await reaches(rack);
      expect(ended?.as).toBe('done');
      expect(steps.map(({ name }) => name)).toEqual(['generate', 'issue', 'distrust', 'forget']);
      await rack.healthy();
      expect(rack.all.map((machine, n) => starts(machine) - before[n]!)).toEqual([1, 1, 1]);
      expect(fs.existsSync(path.join(rack.host.state, 'vault.key')), "the server has the vault's key").toBe(
        false,
      );
      const trusted = new X509Certificate(caOf(rack.all[0]!));
      expect(trusted.fingerprint256).not.toBe(new X509Certificate(old).fingerprint256);
      for (const machine of rack.all) {
        expect(caOf(machine)).toBe(caOf(rack.all[0]!));
        const leaf = new X509Certificate(machine.read(`${PKI}/server.crt`)!);
        expect(leaf.verify(trusted.publicKey)).toBe(true);
      }
      await nobodyNoticed(rack, watches);
    },
    { etcd: DEBIAN_13, signer: true },
  ),
);

test.concurrent(
  "a rotation of etcd's CA that paused before the old one ends is rolled back without a restart, although a machine lost its power",
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const watches = await founded(rack);
      const old = caOf(rack.all[0]!);
      await rotate(rack, '--pause-before', 'distrust');
      await until('it pauses', async () => (await rotationOf(rack)).paused !== undefined, rack.state);
      // The machine starts with certificates of the new CA while the others trust the old one.
      await (await follower(rack)).cycle();
      await rack.healthy();
      const before = rack.all.map(starts);
      const { code, output } = await rack.muster('change', 'one', 'roll-back');
      expect(code, output).toBe(0);
      expect((await reaches(rack)).ended?.as).toBe('rolled-back');
      expect(rack.all.map(starts)).toEqual(before);
      const trusted = new X509Certificate(old);
      for (const machine of rack.all) {
        expect(caOf(machine)).toBe(old);
        const leaf = new X509Certificate(machine.read(`${PKI}/server.crt`)!);
        expect(leaf.verify(trusted.publicKey)).toBe(true);
      }
      await nobodyNoticed(rack, watches);
    },
    { etcd: DEBIAN_13 },
  ),
);

test.concurrent(
  'in an emergency every key of etcd is replaced, and its clients notice nothing',
  { timeout: 1_200_000 },
  withRack(
    async (rack) => {
      const watches = await founded(rack);
      const old = rack.writer.credentials();
      const keys = rack.all.map((machine) => machine.read(`${PKI}/server.key`));
      const words = ['pki', 'distrust', 'etcd-ca', '--cluster', 'one', '--without', 'cp', '--now'];
      const asked = await rack.muster(...words);
      expect(asked.code).not.toBe(0);
      expect(asked.output).toContain('restarts etcd on m1, m2, m3');
      expect(asked.output).toContain('--confirm one');
      const { code, output } = await rack.muster(...words, '--confirm', 'one');
      expect(code, output).toBe(0);
      expect((await reaches(rack)).ended?.as).toBe('done');
      await rack.healthy();
      for (const [n, machine] of rack.all.entries()) {
        expect(machine.read(`${PKI}/server.key`)).not.toBe(keys[n]);
        expect(caOf(machine)).not.toContain(old.ca);
      }
      await nobodyNoticed(rack, watches);
    },
    { etcd: DEBIAN_13 },
  ),
);
