/**
 * A founded etcd stays one, with the real agent, real etcd and the shipped boot host, when machines
 * are absent and disks are moved, lost, damaged and return. A client writes all the time; every
 * acknowledged write is there at the end. See docs/decisions/0024-founded-once.md.
 */
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DEBIAN_13, type Name, PATIENCE_S, pause, type Rack, until, withRack } from './etcd/rack.ts';

const TIMEOUT = 1_200_000;

// The longest test comes first, since three run at a time.

test.concurrent(
  'while one of three machines is absent the others wait for an operator; later a lost disk is replaced, and returns',
  {
    timeout: TIMEOUT,
  },
  withRack(async (rack) => {
    const { m1, m2, m3 } = rack.machines;
    rack.writer.start();

    await Promise.all([m1.powerOn(), m2.powerOn()]);
    await Promise.all([
      rack.decision('m1', 'hold waiting-for-members'),
      rack.decision('m2', 'hold waiting-for-members'),
    ]);
    expect(await rack.muster('cluster', 'found', 'one')).toMatchObject({ code: 2 });
    expect(await rack.muster('cluster', 'found', 'one', '--confirm', 'two')).toMatchObject({ code: 2 });
    const opened = await rack.muster('cluster', 'found', 'one', '--confirm', 'one');
    expect(opened).toMatchObject({
      code: 0,
      output: expect.stringMatching(/opened: founding \S+ with m1, m2/),
    });
    await until('it is founded by two', async () => (await rack.founding()).record?.founded, rack.state);
    await until('writes are acknowledged', () => rack.writer.acknowledged.size > 0, rack.state);

    // The third machine comes later: it is added and does not found.
    await m3.powerOn();
    await rack.healthy();
    expect((await rack.founding()).record!.lists.m3).toBeDefined();

    // A member's disk is lost; the boot host is killed at those steps of the replacement that are
    // seen.
    const first = (await rack.founding()).record!.joined.m2;
    const lost = await m2.change(rack.newDisk());
    const killedAt = new Set<string>();
    let replaced = false;
    const killing = (async () => {
      while (!replaced) {
        const stage = (await rack.founding()).record?.replacing?.stage;
        if (stage === undefined || killedAt.has(stage)) {
          await pause();
          continue;
        }
        killedAt.add(stage);
        await rack.host.restart();
      }
    })();
    await m2.powerOn();
    await rack.healthy(2 * PATIENCE_S);
    replaced = true;
    await killing;
    expect((await rack.founding()).record!.joined.m2).not.toBe(first);
    // Most stages are over in an instant, and how many are seen depends on the host; `make torture`
    // aims at each stage and fails if it misses one.
    expect(killedAt.size).toBeGreaterThanOrEqual(1);

    // The lost disk comes back: its data stay as they are, and belong to no member.
    const present = await m2.change(lost);
    await m2.powerOn();
    await rack.decision('m2', 'hold removed-disk');
    await m2.change(present);
    await m2.powerOn();
    await rack.healthy();
    await rack.nothingLost();
  }),
);

test.concurrent(
  "with two machines' disks swapped, or a disk of another cluster, etcd does not start there; with the right disks it does and nothing is lost",
  {
    timeout: TIMEOUT,
  },
  withRack(async (rack) => {
    const { m2 } = rack.machines;
    rack.writer.start();
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    await rack.healthy();

    // Neither starts; with the right disks both do.
    await swap(rack, 'm1', 'm3');
    await Promise.all([
      rack.decision('m1', 'hold foreign-marker'),
      rack.decision('m3', 'hold foreign-marker'),
    ]);
    await swap(rack, 'm1', 'm3');
    await rack.healthy();

    // A disk of another cluster is not touched.
    const own = await m2.change(rack.newDisk());
    m2.disk.mark('two f0123456789 m2 m2');
    await m2.powerOn();
    await rack.decision('m2', 'hold foreign-marker');
    await m2.change(own);
    await m2.powerOn();
    await rack.healthy();
    await rack.nothingLost();
  }),
);

async function swap(rack: Rack, a: Name, b: Name): Promise<void> {
  const [left, right] = [rack.machines[a], rack.machines[b]];
  await right.powerOff();
  const disk = await left.change(right.disk);
  await right.change(disk);
  await Promise.all([left.powerOn(), right.powerOn()]);
}

test.concurrent(
  'with two of three members wiped, no second etcd is founded, not even with a store from before the founding',
  {
    timeout: TIMEOUT,
  },
  withRack(async (rack) => {
    const { m1, m2, m3 } = rack.machines;
    await rack.host.kill();
    const backup = join(rack.host.home, 'backup');
    cpSync(rack.host.state, backup, { recursive: true });
    await rack.host.start();
    rack.writer.start();
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    await rack.healthy();
    await until('writes are acknowledged', () => rack.writer.acknowledged.size > 50, rack.state);
    await rack.nothingLost();

    await Promise.all([m2.change(rack.newDisk()), m3.change(rack.newDisk())]);
    await Promise.all([m2.powerOn(), m3.powerOn()]);
    await Promise.all([rack.decision('m2', 'hold no-quorum'), rack.decision('m3', 'hold no-quorum')]);
    expect(await rack.writer.missing(m1, true)).toEqual([]);

    await rack.host.kill();
    rmSync(rack.host.state, { recursive: true });
    cpSync(backup, rack.host.state, { recursive: true });
    await rack.host.start();
    // The machines have seen later states than this store has ever had.
    await Promise.all([m2.reboot(), m3.reboot()]);
    await Promise.all([
      rack.decision('m2', 'hold store-rolled-back'),
      rack.decision('m3', 'hold store-rolled-back'),
    ]);
    // The machines are wiped again and know nothing, and neither does the boot host: everything
    // looks like a new rack in which one machine is absent.
    await Promise.all([m1.powerOff(), m2.change(rack.newDisk()), m3.change(rack.newDisk())]);
    await rack.host.restart();
    await Promise.all([m2.powerOn(), m3.powerOn()]);
    await Promise.all([
      rack.decision('m2', 'hold waiting-for-members'),
      rack.decision('m3', 'hold waiting-for-members'),
    ]);
    await m1.powerOn();
    await rack.decision('m1', 'hold data-without-record');
    // How long this took decides whether the restored store has passed what m1 saw.
    await rack.decision('m2', 'hold waiting-for-members', 'hold store-rolled-back');
    expect(await rack.muster('cluster', 'found', 'one', '--confirm', 'one')).toMatchObject({
      code: 1,
      output: expect.stringContaining('these members have data on their data disks: m1'),
    });
    expect((await rack.founding()).record).toBeUndefined();
    expect(m2.has('/var/lib/etcd/member') || m3.has('/var/lib/etcd/member')).toBe(false);
  }),
);

test.concurrent(
  'with etcd 3.5 a member with a damaged database is told with its last words, and replaced when its disk is blank',
  { timeout: TIMEOUT },
  withRack(
    async (rack) => {
      const { m1 } = rack.machines;
      rack.writer.start();
      await Promise.all(rack.all.map((machine) => machine.powerOn()));
      await rack.healthy();
      await m1.cycle(() => m1.disk.damage('etcd/member/snap/db'));
      const told = async () => {
        const { output } = await rack.muster('cluster', 'status', 'one', '--etcd');
        return /etcd +m1 .*/.exec(output)?.[0].includes('failed to open database') && output;
      };
      const status = await until('the status says why it ends', told, rack.state);
      expect(status).toContain(
        'does not answer; it ended and wrote: panic: failed to open database; its data are damaged: blank its data disk and boot it',
      );
      expect((await rack.muster('events', 'm1')).output).toMatch(/agent\.ended.*failed to open database/);

      await m1.change(rack.newDisk());
      await m1.powerOn();
      await until('it joined', async () => (await rack.founding()).record?.lists.m1, rack.state);
      await rack.healthy();
      await rack.nothingLost();
    },
    { etcd: DEBIAN_13 },
  ),
);
