/**
 * etcd is founded once, with the real agent, real etcd and the shipped boot host, although each of
 * them is killed at every step. A client writes all the time; every acknowledged write is there at
 * the end. See docs/decisions/0024-founded-once.md; etcd-ha.test.ts moves and damages disks.
 */
import { expect, test } from 'vitest';
import { NAMES, type Name, type Rack, until, withRack } from './etcd/rack.ts';

const TIMEOUT = 1_200_000;

const asked = (rack: Rack, name: Name) =>
  until(
    `${name} asks`,
    async () => (await rack.founding()).members.find((one) => one.name === name)?.asked,
    rack.state,
  );

test.concurrent(
  'three machines found one etcd although the boot host is killed at every step of the founding',
  { timeout: TIMEOUT },
  withRack(async (rack) => {
    rack.writer.start();
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    const killed = async (step: string, reached: () => Promise<unknown>) => {
      await until(step, async () => (await reached()) !== undefined, rack.state);
      await rack.host.restart();
    };
    const members = async () => (await rack.founding()).members;
    await killed('one has asked', async () => (await members()).find((one) => one.asked));
    await killed('it is opened', async () => (await rack.founding()).record);
    const { id } = (await rack.founding()).record!;
    await killed('one member has the order to found', async () =>
      rack.all.find(
        (machine) => machine.has('/run/muster/etcd-founding.env') || machine.has('/var/lib/etcd/member/wal'),
      ),
    );
    await killed('one has data', async () =>
      rack.all.find((machine) => machine.has('/var/lib/etcd/member/wal')),
    );
    await killed('it is founded', async () => (await rack.founding()).record?.founded);
    await rack.healthy();
    expect((await rack.founding()).record!.id).toBe(id);
    await rack.nothingLost();
  }),
);

test.concurrent(
  'three machines found one etcd although a machine loses power at every step of the founding',
  { timeout: TIMEOUT },
  withRack(async (rack) => {
    rack.writer.start();
    const { m1, m2, m3 } = rack.machines;
    await m1.powerOn();
    const cut = async (step: string, reached: () => unknown) => {
      await until(step, async () => (await reached()) as boolean, rack.state);
      await m1.cycle();
    };
    await cut('the data filesystem is there', () => m1.has('/var/lib/muster/lost+found'));
    await asked(rack, 'm1');
    await Promise.all([m2.powerOn(), m3.powerOn()]);
    await cut('it is marked', () => m1.has('/var/lib/muster/marker'));
    await cut('it has data', () => m1.has('/var/lib/etcd/member/wal'));
    await cut('it serves', async () => (await rack.founding()).members[0]!.health === 'serving');
    await rack.healthy();
    await rack.nothingLost();
  }),
);

/** The model in test/unit/cluster/etcd has all orders. */
const ORDERS: readonly (readonly Name[])[] = [
  ['m1', 'm2', 'm3'],
  ['m3', 'm1', 'm2'],
];

for (const order of ORDERS)
  test.concurrent(
    `three machines that are powered on in the order ${order.join(' ')} wait for the last and found one etcd`,
    {
      timeout: TIMEOUT,
    },
    withRack(async (rack) => {
      rack.writer.start();
      for (const name of order) {
        await rack.machines[name].powerOn();
        await asked(rack, name);
        if (name !== order.at(-1)) expect((await rack.founding()).record).toBeUndefined();
      }
      await rack.healthy();
      expect((await rack.founding()).record).toMatchObject({
        openedBy: 'all-asked',
        members: NAMES.map((name) => ({ name })),
      });
      await rack.nothingLost();
    }),
  );
