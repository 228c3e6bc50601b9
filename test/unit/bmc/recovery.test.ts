/** Machines that hang are restarted where their Profiles say so, and only where that is safe. */
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { PowerState } from '../../../src/bmc/bmc.ts';
import { newOrder, type Order } from '../../../src/bmc/order.ts';
import { recoveriesOf } from '../../../src/bmc/orders.ts';
import { type RecoverRule, staysSilent } from '../../../src/bmc/recover.ts';
import { Recovery } from '../../../src/bmc/recovery.ts';
import type { NewEvent } from '../../../src/events/event.ts';

const RULE: RecoverRule = { after: duration('10m'), perHour: 2, silentAtMost: 3 };
const MINUTE = duration('1m');
const ORDER = { id: '', machine: 'm1', want: 'cycle', by: 'ops', at: 0 } as const;

let now: number;
let silent: string[];
let rules: Record<string, RecoverRule | undefined>;
let power: Record<string, PowerState>;
let answering: string[];
let needed: string[];
let ordered: string[];
/** The last order about each machine, which the store keeps. */
let last: Record<string, Order | undefined>;
/** Orders end at once, unless a test says otherwise. */
let isOpen: boolean;
let said: string[];
let recovery: Recovery;

beforeEach(() => {
  [now, silent, rules, power, answering, needed, ordered, last, isOpen, said] = [
    0,
    [],
    {},
    {},
    [],
    [],
    [],
    {},
    false,
    [],
  ];
  start();
});

/** A server that starts: it knows the orders, and nothing else. */
function start(): void {
  recovery = new Recovery({
    silent: () => silent,
    rule: (machine) => rules[machine] ?? RULE,
    answers: async (machine) => answering.includes(machine),
    needed: async (machine) => (needed.includes(machine) ? 'another member is down' : undefined),
    orders: {
      give: async ([machine], { by }) => {
        ordered.push(machine!);
        last[machine!] = {
          ...newOrder({ id: '', machine: machine!, want: 'cycle', by, at: now }),
          recovered: recoveriesOf(last[machine!], now),
        };
        return [];
      },
      last: (machine) => {
        const order = last[machine];
        return order && !isOpen
          ? { ...order, end: { proved: true, code: 'proved', text: '', at: now } }
          : order;
      },
      read: (machine) => ({ state: power[machine] ?? 'on', at: 0 }),
    },
    events: {
      record: ({ subject, reason }: NewEvent) => {
        said.push(`${subject} ${reason?.code}`);
      },
    },
    clock: { monotonic: () => now as Millis, now: () => now as Millis, after: () => () => {} },
    log: silentLog,
  });
}

/** Minutes pass, with a round in each quarter of them. */
async function pass(minutes: number): Promise<void> {
  for (let n = 0; n < minutes * 4; n++) {
    now += MINUTE / 4;
    await recovery.round();
  }
}

test('a machine of which nothing answers for ten minutes is restarted, twice in an hour at most', async () => {
  silent = ['m1'];
  await pass(9);
  expect(ordered).toEqual([]);
  await pass(2);
  expect(ordered).toEqual(['m1']);
  await pass(40);
  expect(ordered).toEqual(['m1', 'm1']);
  expect(said).toEqual(['m1 restarted', 'm1 often']);
  await pass(20);
  expect(ordered).toEqual(['m1', 'm1', 'm1']);
});

test('a server that starts again remembers how often a machine was restarted', async () => {
  silent = ['m1'];
  await pass(25);
  expect(ordered).toEqual(['m1', 'm1']);
  start();
  await pass(15);
  expect(ordered).toEqual(['m1', 'm1']);
  // An operator's order in between does not begin the count again.
  last.m1 = { ...newOrder(ORDER), recovered: recoveriesOf(last.m1, now) };
  await pass(10);
  expect(ordered).toEqual(['m1', 'm1']);
  expect(said).toEqual(['m1 restarted', 'm1 often']);
});

test('a machine that is heard again counts its silence anew', async () => {
  silent = ['m1'];
  await pass(9);
  silent = [];
  await pass(1);
  silent = ['m1'];
  await pass(9);
  expect(ordered).toEqual([]);
});

test('a rack that falls silent together is not restarted: a switch has failed', async () => {
  silent = ['m1', 'm2', 'm3', 'm4'];
  await pass(30);
  expect(ordered).toEqual([]);
  expect(said).toContain('m1 many-silent');
  silent = ['m1'];
  await pass(1);
  expect(ordered).toEqual(['m1']);
});

test('two machines are restarted one after the other', async () => {
  silent = ['m1', 'm2'];
  isOpen = true;
  await pass(15);
  expect(ordered).toEqual(['m1']);
  isOpen = false;
  await pass(1);
  expect(ordered).toEqual(['m1', 'm2']);
});

describe('it is left alone', () => {
  test.each<[string, () => void, string]>([
    ['its BMC does not say whether it is on', () => void Object.assign(power, { m1: 'unknown' }), 'not-on'],
    ['its BMC says that it is off', () => void Object.assign(power, { m1: 'off' }), 'not-on'],
    ['it answers on the network', () => void answering.push('m1'), 'answers'],
    ['its cluster cannot do without it', () => void needed.push('m1'), 'needed'],
  ])('while %s', async (_, arrange, code) => {
    silent = ['m1'];
    arrange();
    await pass(30);
    expect(ordered).toEqual([]);
    expect(said).toEqual([`m1 ${code}`]);
  });

  test('while an order about it is under way', async () => {
    silent = ['m1'];
    isOpen = true;
    last = { m1: newOrder(ORDER) };
    await pass(60);
    expect(ordered).toEqual([]);
  });
});

test('whatever happens, nothing is restarted on an unknown state, early, too often, or with many others', () => {
  const states = fc.constantFrom<PowerState>('on', 'off', 'paused', 'unknown');
  fc.assert(
    fc.property(
      fc.nat(2 * RULE.after),
      states,
      fc.array(fc.nat(2 * 3_600_000), { maxLength: 5 }),
      fc.nat(10),
      fc.boolean(),
      (silentFor, state, ago, count, isOrdered) => {
        const at = 10 * 3_600_000;
        const recovered = ago.map((one) => at - one);
        const restarts = recoveriesOf({ ...newOrder(ORDER), recovered }, at).length;
        const one = { rule: RULE, silentFor: silentFor as Millis, power: state, restarts, isOrdered };
        if (staysSilent(one, count) !== undefined) return;
        expect(['on', 'paused']).toContain(state);
        expect(silentFor).toBeGreaterThanOrEqual(RULE.after);
        expect(count).toBeLessThanOrEqual(RULE.silentAtMost);
        expect(ago.filter((one) => one < 3_600_000).length).toBeLessThan(RULE.perHour);
        expect(isOrdered).toBe(false);
      },
    ),
  );
});
