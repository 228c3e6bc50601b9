/** Orders that are carried out: durable, one a machine, in groups, with events. */
import { beforeEach, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis, seconds, toMillis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { BmcFault } from '../../../src/bmc/bmc.ts';
import { openConnections } from '../../../src/bmc/connect.ts';
import { openPowerOrders, type PowerOrders } from '../../../src/bmc/orders.ts';
import { followSigns } from '../../../src/bmc/signs.ts';
import type { EventListener, MusterEvent, NewEvent } from '../../../src/events/event.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { bmcsOf, MemoryBmc, memoryVault } from './memory.ts';

const MACHINES = ['node-1', 'node-2', 'node-3'];
const addressOf = (machine: string): string => `10.78.0.${machine.slice(-1)}`;

let clock: ManualClock;
let store: ReturnType<typeof openMemoryStore>;
let bmcs: ReadonlyMap<string, MemoryBmc>;
let events: MusterEvent[];
let listeners: Set<EventListener>;
let orders: PowerOrders;

const record = (event: NewEvent): void => {
  const whole = { ...event, at: clock.now(), sequence: events.length };
  events.push(whole);
  for (const listener of listeners) listener(whole, '');
};
/** The firmware of a machine asks for a boot. */
const discover = (subject: string) => record({ kind: 'dhcp.offer', subject, fields: { stage: 'pxe' } });

/** A server with these BMCs. */
async function start(): Promise<PowerOrders> {
  const protocols = bmcsOf(bmcs);
  const secret = () => ({ value: Buffer.from('right'), since: 1 });
  const log = {
    list: () => events,
    subscribe(listener: EventListener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const password = { valueFrom: { secret: 'bmc', key: 'password' } };
  return openPowerOrders({
    ...{ store, clock, log: silentLog, events: { record } },
    connections: await openConnections({
      ...{ store, protocols, secret, clock, log: silentLog },
      vault: memoryVault(),
    }),
    signs: followSigns(log, (subject) => (subject === '52:54:00:aa:00:01' ? 'node-1' : subject)),
    reach: (machine) =>
      MACHINES.includes(machine)
        ? { address: addressOf(machine), credentials: { user: 'a', password }, protocol: 'auto' }
        : undefined,
    isUefi: () => true,
    told: () => {},
  });
}

/** Lets time pass. */
async function pass(count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    clock.advance(toMillis(seconds(1)));
    for (let turn = 0; turn < 4; turn++) await new Promise((done) => setImmediate(done));
  }
}

beforeEach(async () => {
  clock = new ManualClock();
  store = openMemoryStore();
  events = [];
  listeners = new Set();
  bmcs = new Map(MACHINES.map((machine) => [addressOf(machine), new MemoryBmc()]));
  for (const machine of MACHINES)
    bmcs.get(addressOf(machine))!.after = () =>
      void clock.after(toMillis(seconds(8)), () => discover(machine));
  orders = await start();
});

const bmcOf = (machine: string): MemoryBmc => bmcs.get(addressOf(machine))!;
const ends = () => MACHINES.map((machine) => orders.last(machine)?.end?.code);
const told = () => events.flatMap(({ kind, reason }) => (kind === 'machine.power' ? [reason?.code] : []));

test('an order is proved by the first packet of its machine, and both are events', async () => {
  await orders.give(['node-1'], { want: 'on', boot: 'network', by: 'ada' });
  await pass(30);
  expect(orders.last('node-1')).toMatchObject({ by: 'ada', end: { proved: true }, rung: 0 });
  expect(bmcOf('node-1').did).toEqual(['boot network', 'on']);
  expect(told()).toEqual(['ordered', 'proved']);
  expect(orders.read('node-1')).toMatchObject({ state: 'on' });
});

test('a packet that got no answer proves it as well, by its address', async () => {
  bmcOf('node-1').after = () =>
    record({ kind: 'dhcp.noted', subject: '52:54:00:aa:00:01', fields: { stage: 'pxe' } });
  await orders.give(['node-1'], { want: 'on', by: 'ada' });
  await pass(20);
  expect(orders.last('node-1')?.end?.code).toBe('proved');
});

test('a server that ends in the middle of an order goes on with it, and sends no command twice', async () => {
  for (let after = 0; after < 14; after++) {
    await orders.give(['node-1'], { want: 'cycle', by: 'ada' });
    bmcOf('node-1').power = 'on';
    const before = bmcOf('node-1').did.length;
    await pass(after);
    orders.close();
    await pass(1);
    orders = await start();
    await pass(30);
    expect(orders.last('node-1')?.end, `stopped after ${after} s`).toMatchObject({ proved: true });
    expect(bmcOf('node-1').did.slice(before), `stopped after ${after} s`).toEqual(['cycle']);
  }
});

test('a server that was away for long, or whose store was restored, leaves the orders of then', async () => {
  bmcOf('node-1').after = () => {};
  await orders.give(['node-1'], { want: 'on', by: 'ada' });
  await pass(5);
  orders.close();
  await pass(1);
  clock.leap(toMillis(seconds(11 * 60)));
  const before = [...bmcOf('node-1').did];
  orders = await start();
  await pass(30);
  expect(orders.last('node-1')?.end).toMatchObject({ proved: false, code: 'order-interrupted' });
  expect(bmcOf('node-1').did).toEqual(before);
  orders.close();
  expect((await start()).last('node-1')?.end?.code).toBe('order-interrupted');
});

test('a group begins one after the other, and no more at once than it may', async () => {
  for (const machine of MACHINES) bmcOf(machine).after = () => {};
  await orders.give(MACHINES, { want: 'on', by: 'ada', stagger: millis(3000), atOnce: 2 });
  await pass(2);
  expect(MACHINES.map((machine) => orders.last(machine)?.step !== 'queued')).toEqual([true, false, false]);
  await pass(8);
  expect(MACHINES.map((machine) => orders.last(machine)?.step !== 'queued')).toEqual([true, true, false]);
  discover('node-1');
  await pass(10);
  expect(bmcOf('node-3').did).toEqual(['on']);
  for (const machine of MACHINES) discover(machine);
  await pass(5);
  expect(ends()).toEqual(['proved', 'proved', 'proved']);
});

test('a new order takes the place of the one before, which is named', async () => {
  bmcOf('node-1').after = () => {};
  await orders.give(['node-1'], { want: 'on', by: 'ada' });
  await pass(8);
  await orders.give(['node-1'], { want: 'off', by: 'eve' });
  await pass(10);
  expect(told()).toEqual(['ordered', 'order-replaced', 'ordered', 'proved']);
  expect(bmcOf('node-1').did).toEqual(['on', 'off']);
});

test('a machine that boots for the order of another one gives that order its name', async () => {
  bmcOf('node-1').after = () => discover('m-525400aa0009');
  await orders.give(['node-1'], { want: 'on', by: 'ada', patience: millis(20_000) });
  await pass(40);
  expect(orders.last('node-1')?.end).toMatchObject({
    code: 'wrong-machine-booted',
    text: expect.stringContaining('m-525400aa0009'),
  });
  expect(bmcOf('node-1').did).toEqual(['on']);
});

test('what a BMC says is shown without control characters, and cut off', async () => {
  bmcOf('node-1').fault = new BmcFault('refused', `no\u001b[31m <b>${'x'.repeat(5000)}`);
  const { fault } = await orders.look('node-1');
  expect(fault).toMatch(/^no \[31m <b>x+$/);
  expect(fault!.length).toBeLessThanOrEqual(200);
});

test('machines without a BMC are refused before anything is ordered', async () => {
  await expect(orders.give(['node-1', 'node-9'], { want: 'on', by: 'ada' })).rejects.toMatchObject({
    code: 'E_BMC',
  });
  expect(events).toEqual([]);
  await expect(orders.look('node-9')).rejects.toMatchObject({ code: 'E_BMC' });
});
