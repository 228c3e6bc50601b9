/**
 * Operators' orders change the membership of an etcd, with the real agent and real etcd: it is
 * grown, shrunk, reset, a dead member is exchanged, and it is restored after its quorum is lost. A
 * client writes all the time. See docs/operating.md.
 */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import {
  DEBIAN_13,
  type Name,
  PATIENCE_S,
  type Rack,
  type RackOptions,
  until,
  withRack,
} from './etcd/rack.ts';

const TIMEOUT = 1_200_000;

const ordered = async (rack: Rack, ...words: string[]): Promise<string> => {
  const { code, output } = await rack.muster('cluster', ...words);
  if (code !== 0) throw new Error(`${words.join(' ')}: ${output}`);
  return output;
};
const powerOn = (rack: Rack, ...names: Name[]) =>
  Promise.all(names.map((name) => rack.machines[name].powerOn()));
const hasLeft = (rack: Rack, ...names: Name[]) =>
  until(
    `${names.join(', ')} gave everything up`,
    async () => {
      const { leaving = {} } = (await rack.founding()).record!;
      return !names.some((name) => name in leaving);
    },
    rack.state,
    2 * PATIENCE_S,
  );

/**
 * Three machines found one etcd, which gets writes until the end of the test. Resolves with the
 * founding's id.
 */
async function written(rack: Rack): Promise<string> {
  rack.writer.start();
  await powerOn(rack, 'm1', 'm2', 'm3');
  await rack.healthy();
  await until('writes are acknowledged', () => rack.writer.acknowledged.size > 100, rack.state);
  return (await rack.founding()).record!.id;
}

test.concurrent(
  'an etcd of one member grows to three and five and shrinks to three, a dead member is exchanged, and a reset ends it',
  { timeout: TIMEOUT },
  withRack(
    async (rack) => {
      const { m1, m4, m5 } = rack.machines;
      rack.writer.start();
      await powerOn(rack, 'm1');
      await rack.voters(['m1']);

      expect(await rack.muster('cluster', 'add-node', 'one', 'm2', '--etcd')).toMatchObject({
        code: 1,
        output: expect.stringContaining('use an odd number'),
      });
      await ordered(rack, 'add-node', 'one', 'm2', 'm3', '--etcd');
      await powerOn(rack, 'm2', 'm3');
      await rack.voters(['m1', 'm2', 'm3'], 2 * PATIENCE_S);
      await ordered(rack, 'add-node', 'one', 'm4', 'm5', '--etcd');
      await powerOn(rack, 'm4', 'm5');
      await rack.voters(['m1', 'm2', 'm3', 'm4', 'm5'], 2 * PATIENCE_S);
      const well = await rack.muster('cluster', 'status', 'one', '--etcd');
      expect(well).toMatchObject({ code: 0, output: expect.stringContaining('5 of 5 voters answer') });

      // Two members are dead, so no other may be removed.
      await Promise.all([m4.powerOff(), m5.powerOff()]);
      const ill = await rack.muster('cluster', 'status', 'one', '--etcd');
      expect(ill).toMatchObject({
        code: 1,
        output: expect.stringMatching(/FAIL +etcd +m4 +member .* does not answer/),
      });
      expect(await rack.muster('cluster', 'remove-node', 'one', 'm1', 'm2')).toMatchObject({
        code: 1,
        output: expect.stringContaining('etcd would have no quorum'),
      });
      await Promise.all([m4.cycle(), m5.cycle()]);
      await rack.voters(['m1', 'm2', 'm3', 'm4', 'm5']);

      // The first member is removed like any other, and its data are cleared.
      await ordered(rack, 'remove-node', 'one', 'm1', 'm2', '--clear');
      await hasLeft(rack, 'm1', 'm2');
      await rack.voters(['m3', 'm4', 'm5']);
      expect(m1.has('/var/lib/muster/etcd') || m1.has('/var/lib/muster/marker')).toBe(false);
      expect(m1.has('/var/lib/muster/agent/agent.crt')).toBe(true);

      // A former member takes the place of a dead one; when the dead one comes back, it runs
      // nothing.
      await m5.powerOff();
      await ordered(rack, 'remove-node', 'one', 'm5', '--replace-with', 'm1');
      // It was removed, so its agent is accepted again only after an operator's order.
      expect(await rack.muster('machine', 'rearm', 'm1', '--keep')).toMatchObject({ code: 0 });
      await rack.voters(['m1', 'm3', 'm4'], 2 * PATIENCE_S);
      await m5.cycle();
      await hasLeft(rack, 'm5');
      expect(m5.has('/var/lib/muster/etcd/member')).toBe(true);
      await rack.nothingLost(['m1', 'm3', 'm4']);

      // Without the cluster's name the order is refused.
      expect(await rack.muster('cluster', 'reset', 'one')).toMatchObject({
        code: 2,
        output: expect.stringContaining('add --confirm one'),
      });
      const { id } = (await rack.founding()).record!;
      await ordered(rack, 'reset', 'one', '--confirm', 'one');
      await until(
        'all are cleared',
        async () => (await rack.founding()).record?.reset?.cleared.length === 3,
        rack.state,
      );
      expect(m4.has('/var/lib/muster/etcd') || m4.has('/var/lib/muster/marker')).toBe(false);
      await ordered(rack, 'found', 'one', '--confirm', 'one');
      await rack.voters(['m1', 'm3', 'm4'], 2 * PATIENCE_S);
      expect((await rack.founding()).record!.id).not.toBe(id);
      expect((await rack.writer.keys(m4)).size).toBe(0);
    },
    { members: ['m1'], document: 'api' },
  ),
);

test.concurrent(
  'a member in quarantine leaves etcd if that keeps the quorum, and joins again after its release, with a cleared disk',
  { timeout: TIMEOUT },
  withRack(
    async (rack) => {
      const { m2, m3 } = rack.machines;
      await written(rack);
      const quarantine = (name: Name) =>
        rack.muster('machine', 'quarantine', name, '--reason', 'was not locked');

      // With another member off, the quarantine counts, and says what stays and what to order.
      await m2.powerOff();
      const refused = await quarantine('m3');
      expect(refused).toMatchObject({ code: 0 });
      expect(refused.output).toMatch(/stays in the etcd of one, because .*etcd would have no quorum/);
      expect(refused.output).toContain('muster cluster remove-node one m3 --no-drain');
      expect((await rack.founding()).record!.leaving).toBeUndefined();
      await m2.cycle();
      await rack.voters(['m1', 'm2', 'm3']);

      expect((await quarantine('m3')).output).toContain('leaves the etcd of one');
      await rack.voters(['m1', 'm2']);
      const leaves = async () => (await rack.founding()).record!.leaving!.m3!;
      await until('m3 has left', async () => (await leaves()).stage === 'down', rack.state);
      expect((await leaves()).quarantine).toBe(true);
      expect(m3.has('/var/lib/muster/etcd/member')).toBe(true);

      expect(await rack.muster('machine', 'release', 'm3')).toMatchObject({ code: 0 });
      await m3.cycle();
      await rack.voters(['m1', 'm2', 'm3'], 2 * PATIENCE_S);
      await hasLeft(rack, 'm3');
      await rack.nothingLost(['m1', 'm2', 'm3']);
    },
    { document: 'api' },
  ),
);

test.concurrent(
  'with two of three members off for good, a restore that abandons them by name continues from the third, and others replace them',
  { timeout: TIMEOUT },
  withRack(
    async (rack) => {
      const { m1, m2, m3 } = rack.machines;
      const id = await written(rack);

      const fault = systemClock.monotonic();
      await Promise.all([m2.powerOff(), m3.powerOff()]);
      const restore = (...more: string[]) =>
        rack.muster('cluster', 'restore', 'one', '--from', 'm1', '--confirm', 'one', ...more);
      // The two may come back at any moment.
      expect(await restore('--without', 'm2', 'm3')).toMatchObject({
        code: 1,
        output: expect.stringContaining('a member that is heard is not abandoned'),
      });
      await until(
        'm2 and m3 are silent, and m1 is not',
        async () => {
          const { members } = await rack.founding();
          return members.every(({ name, silent = false }) => silent === (name !== 'm1'));
        },
        rack.state,
      );
      const { output } = await rack.muster('cluster', 'founding', 'one');
      expect(output).toMatch(/m2: silent, last heard \d+[sm] ago; its last report: data present, etcd \w+/);
      expect(await restore()).toMatchObject({
        code: 1,
        output: expect.stringMatching(/m2 \(with its data, last heard .* ago\).*--without m2 m3/s),
      });
      expect(await restore('--without', 'm2', 'm3')).toMatchObject({ code: 0 });
      await rack.voters(['m1'], 2 * PATIENCE_S);
      expect((await rack.founding()).record!.id).not.toBe(id);

      // A member that comes back although it was abandoned belongs to the old founding.
      await m2.powerOn();
      await rack.decision('m2', 'hold foreign-marker');
      await m2.powerOff();
      await ordered(rack, 'remove-node', 'one', 'm2', 'm3', '--replace-with', 'm4', 'm5');
      await powerOn(rack, 'm4', 'm5');
      await rack.voters(['m1', 'm4', 'm5'], 2 * PATIENCE_S);
      for (const machine of [m1, rack.machines.m4, rack.machines.m5])
        expect(await rack.writer.missing(machine, false, fault - 1000)).toEqual([]);
    },
    { document: 'api', diskMiB: 640 },
  ),
);

const restores = (etcd: string, options: RackOptions): void =>
  test.concurrent(
    `etcd ${etcd}: with two of three members wiped, an ordered restore has every write until a second before the fault`,
    { timeout: TIMEOUT },
    withRack(
      async (rack) => {
        const { m1, m2, m3 } = rack.machines;
        const id = await written(rack);

        const fault = systemClock.monotonic();
        const [old2] = await Promise.all([m2.change(rack.newDisk()), m3.change(rack.newDisk())]);
        await powerOn(rack, 'm2', 'm3');
        await Promise.all([rack.decision('m2', 'hold no-quorum'), rack.decision('m3', 'hold no-quorum')]);
        expect(await rack.muster('cluster', 'restore', 'one', '--from', 'm1')).toMatchObject({
          code: 2,
          output: expect.stringContaining('are lost'),
        });
        expect(
          await rack.muster('cluster', 'restore', 'one', '--from', 'm2', '--confirm', 'one'),
        ).toMatchObject({
          code: 1,
          output: expect.stringContaining('m2 does not have its data'),
        });
        await ordered(rack, 'restore', 'one', '--from', 'm1', '--confirm', 'one');
        await rack.healthy(2 * PATIENCE_S);
        const { record } = await rack.founding();
        expect(record!.id).not.toBe(id);
        expect(m1.has(`/var/lib/muster/etcd.before-${record!.id}/wal`)).toBe(true);
        for (const machine of [m1, m2, m3])
          expect(await rack.writer.missing(machine, false, fault - 1000)).toEqual([]);

        // A disk from before the restore belongs to no member.
        await m2.change(old2!);
        await m2.powerOn();
        await rack.decision('m2', 'hold foreign-marker');
      },
      { ...options, diskMiB: 640 },
    ),
  );

restores('3.4', {});
restores('3.5', { etcd: DEBIAN_13 });
