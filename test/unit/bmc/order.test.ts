/** Orders about power, as a table and against ten thousand bad BMCs. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BmcFault, type BootOnce, type PowerOrder, type PowerState } from '../../../src/bmc/bmc.ts';
import {
  type Ask,
  answered,
  commandFor,
  EVERY,
  type Heard,
  newOrder,
  nextOf,
  type Order,
  type Reply,
  type Sign,
  sending,
  signsFrom,
  WANTS,
  type Want,
} from '../../../src/bmc/order.ts';

/** What a BMC and its machine do wrong. Numbers are parts of a hundred, for each question. */
interface Faults {
  readonly unknown: number;
  readonly lost: number;
  readonly lostAfter: number;
  readonly busy: number;
  readonly refused: number;
  readonly does: 'all' | 'nothing' | 'at-the-second-time' | 'only-off-and-on';
  readonly boots: 'right' | 'stuck' | 'from-disk' | 'another-machine';
  readonly keepsBoot: boolean;
  readonly dice: readonly number[];
}

/** A machine behind a BMC in memory, whose time passes as it is asked. */
class Machine {
  now = 1000;
  power: PowerState;
  readonly #faults: Faults;
  #n = 0;
  #commands = 0;
  #boot: BootOnce = { target: 'none', uefi: false, persistent: false };
  sign: { readonly is: Sign; readonly at: number } | undefined;
  other: number | undefined;
  readonly commands: { readonly order: PowerOrder; readonly reads: readonly string[] }[] = [];
  /** What the last questions about the state were answered with. */
  reads: string[] = [];

  constructor(power: PowerState, faults: Faults) {
    this.power = power;
    this.#faults = faults;
  }

  #chance(of: number): boolean {
    return this.#faults.dice[this.#n++ % this.#faults.dice.length]! < of;
  }

  ask(ask: Ask): Reply {
    this.now += 50;
    const fail = (code: BmcFault['code']): Reply => {
      if (ask.is === 'power') this.reads.push(code);
      return { ok: false, fault: new BmcFault(code, code) };
    };
    const { lost, busy, refused, lostAfter, unknown } = this.#faults;
    if (this.#chance(lost)) return fail('unreachable');
    if (this.#chance(busy)) return fail('busy');
    if (ask.is !== 'power' && this.#chance(refused)) return fail('refused');
    const value = this.#do(ask, unknown);
    return this.#chance(lostAfter) ? fail('unreachable') : { ok: true, value };
  }

  #do(ask: Ask, unknown: number): PowerState | BootOnce | undefined {
    switch (ask.is) {
      case 'power': {
        const read = this.#chance(unknown) ? 'unknown' : this.power;
        this.reads.push(read);
        return read;
      }
      case 'boot':
        return this.#boot;
      case 'boot-once':
        if (this.#faults.keepsBoot) this.#boot = { target: ask.target, uefi: ask.uefi, persistent: false };
        return undefined;
      case 'order':
        this.commands.push({ order: ask.order, reads: this.reads.slice(-2) });
        return this.#switch(ask.order);
    }
  }

  #switch(order: PowerOrder): undefined {
    this.#commands++;
    const { does, boots } = this.#faults;
    if (does === 'nothing' || (does === 'at-the-second-time' && this.#commands < 2)) return;
    if (order === 'off' || order === 'shut-down') this.power = 'off';
    else if (order === 'on' || this.power !== 'off') {
      if (does === 'only-off-and-on' && order !== 'on') return;
      this.power = 'on';
      const at = this.now + 7000;
      if (boots === 'right') this.sign = { is: 'network', at };
      if (boots === 'from-disk') this.sign = { is: 'system', at };
      if (boots === 'another-machine') this.other = at;
    }
  }

  heard(order: Order): Heard {
    const since = signsFrom(order);
    if (since === undefined) return { others: [] };
    const isSince = (at: number): boolean => at >= since && at <= this.now;
    return {
      ...(this.sign && isSince(this.sign.at) && { own: this.sign.is }),
      others: this.other !== undefined && isSince(this.other) ? ['m-525400aa0009'] : [],
    };
  }
}

/** Carries an order out; throws when it does not end. */
function carriedOut(given: Order, machine: Machine): Order {
  let order = given;
  for (let moves = 0; moves < 2000; moves++) {
    if (order.end) return order;
    const move = nextOf(order, machine.heard(order), machine.now);
    if (move.do === 'wait') machine.now += Math.min(move.ms, EVERY);
    else if (move.do === 'become') order = move.order;
    else {
      const { step } = order;
      if (move.ask.is === 'order') order = sending(order, machine.now);
      order = answered(order, move.ask, machine.ask(move.ask), machine.now);
      if (order.step === step) machine.now += EVERY;
    }
  }
  throw new Error(`it does not end: ${JSON.stringify(order)}`);
}

const part = fc.integer({ min: 0, max: 99 });
const rarely = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 60 }));
const faults: fc.Arbitrary<Faults> = fc.record({
  ...{ unknown: rarely, lost: rarely, lostAfter: rarely, busy: rarely },
  refused: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: rarely }),
  does: fc.constantFrom('all', 'all', 'nothing', 'at-the-second-time', 'only-off-and-on'),
  boots: fc.constantFrom('right', 'right', 'stuck', 'from-disk', 'another-machine'),
  keepsBoot: fc.boolean(),
  dice: fc.array(part, { minLength: 7, maxLength: 60 }),
});
const boot = fc.option(
  fc.record({ target: fc.constantFrom('network', 'disk', 'setup'), uefi: fc.boolean() }),
  { nil: undefined },
);

test('a boot by HTTP is read back as such, and stands for PXE where a system has none', () => {
  const order = (boot: 'network' | 'http') => ({
    ...newOrder({
      ...{ id: '', machine: 'm', want: 'boot', by: 'a', at: 0 },
      boot: { target: boot, uefi: true },
    }),
    ...{ step: 'read-back' as const, state: 'on' as const },
  });
  const said = (target: 'network' | 'http') => ({
    ok: true as const,
    value: { target, uefi: true, persistent: false },
  });
  const end = (wanted: 'network' | 'http', found: 'network' | 'http') =>
    answered({ ...order(wanted), sets: 9 }, { is: 'boot' }, said(found), 1).end?.code;
  expect(end('http', 'http')).toBe('proved');
  expect(end('network', 'http')).toBe('proved');
  expect(end('http', 'network')).toBe('boot-once-ignored');
});

test('ten thousand orders to bad BMCs each end proved or named, and none restarts what is not known', () => {
  let proved = 0;
  const names = new Set<string>();
  fc.assert(
    fc.property(
      fc.constantFrom(...WANTS),
      fc.constantFrom<PowerState>('on', 'off', 'paused'),
      boot,
      faults,
      (want, power, next, wrong) => {
        const machine = new Machine(power, wrong);
        const known = want === 'boot' ? { target: 'network' as const, uefi: true } : next;
        const isOff = want === 'off' || want === 'shut-down';
        const given = newOrder({
          ...{ id: '1', machine: 'node-1', want, by: 'ada', at: machine.now, patience: 20_000 },
          ...(known && !isOff && { boot: known }),
        });
        const { end } = carriedOut(given, machine);
        names.add(end!.code);
        if (end!.proved) proved++;
        for (const { order, reads } of machine.commands) {
          // Switching on harms nothing; everything else follows two equal reads of a known state.
          if (order === 'on') continue;
          const [one, other] = reads;
          expect([one, ['on', 'paused'].includes(one ?? '')]).toEqual([other, true]);
        }
        // A machine that is on is not restarted by an order that it be on.
        if (want === 'on' && power === 'on') expect(machine.commands).toEqual([]);
        if (want === 'boot') expect(machine.commands).toEqual([]);
        if (!end!.proved) return;
        if (isOff) expect(machine.power).toBe('off');
        const started = want === 'cycle' || want === 'reset' || (want === 'on' && power !== 'on');
        if (started && known?.target !== 'setup') expect(machine.sign).toBeDefined();
        if (known?.target === 'network' && started) expect(machine.sign?.is).toBe('network');
      },
    ),
    { numRuns: 10_000 },
  );
  expect(proved).toBeGreaterThan(1000);
  expect([...names].sort()).toEqual([
    'bmc-accepted-nothing-started',
    'bmc-refused',
    'bmc-state-unknown',
    'bmc-unreachable',
    'boot-once-ignored',
    'post-stuck',
    'proved',
    'still-on',
    'wrong-machine-booted',
  ]);
});

const GOOD: Faults = {
  ...{ unknown: 0, lost: 0, lostAfter: 0, busy: 0, refused: 0 },
  ...{ does: 'all', boots: 'right', keepsBoot: true, dice: [50] },
};
const orderOf = (want: Want, more: Partial<Parameters<typeof newOrder>[0]> = {}): Order =>
  newOrder({ id: '1', machine: 'node-1', want, by: 'ada', at: 1000, patience: 20_000, ...more });
const run = (want: Want, power: PowerState, wrong: Partial<Faults> = {}, more = {}) => {
  const machine = new Machine(power, { ...GOOD, ...wrong });
  const { end } = carriedOut(orderOf(want, more), machine);
  return { code: end!.code, text: end!.text, commands: machine.commands.map(({ order }) => order) };
};
const NETWORK = { boot: { target: 'network', uefi: true } } as const;

test('a machine that is off is switched on, and its first packet proves it', () => {
  expect(run('on', 'off', {}, NETWORK)).toEqual({
    code: 'proved',
    text: 'its firmware asked for a boot after the order',
    commands: ['on'],
  });
});

test('what is already so needs no command', () => {
  expect(run('on', 'on')).toMatchObject({ code: 'proved', commands: [] });
  expect(run('off', 'off')).toMatchObject({ code: 'proved', commands: [] });
});

test('a state that is never known ends the order without a command', () => {
  for (const want of WANTS) {
    const more = want === 'boot' ? NETWORK : {};
    expect(run(want, 'on', { unknown: 100 }, more)).toMatchObject({
      code: 'bmc-state-unknown',
      commands: [],
    });
  }
});

test('a BMC that accepts and does nothing is tried by the ladder, and named', () => {
  expect(run('on', 'off', { does: 'nothing' })).toMatchObject({
    code: 'bmc-accepted-nothing-started',
    commands: ['on', 'on', 'on'],
  });
  expect(run('on', 'off', { boots: 'stuck' })).toMatchObject({
    code: 'post-stuck',
    commands: ['on', 'reset', 'off', 'on'],
  });
  expect(run('off', 'on', { does: 'nothing' })).toMatchObject({
    code: 'still-on',
    commands: ['off', 'off', 'off'],
  });
});

test('a machine that boots from its disk instead has its name, and one whose BMC forgets it too', () => {
  expect(run('cycle', 'on', { boots: 'from-disk' }, NETWORK).code).toBe('boot-once-ignored');
  expect(run('cycle', 'on', { keepsBoot: false }, NETWORK)).toMatchObject({
    code: 'boot-once-ignored',
    text: expect.stringContaining('The BMC took network, and says none'),
    commands: [],
  });
});

test('a swapped cable is found by the packet of the other machine, which is not restarted again', () => {
  expect(run('on', 'off', { boots: 'another-machine' })).toEqual({
    code: 'wrong-machine-booted',
    text: expect.stringContaining('m-525400aa0009'),
    commands: ['on'],
  });
});

test('a system that does not end itself is switched off where the order says so', () => {
  const stays = { does: 'at-the-second-time' } as const;
  expect(run('shut-down', 'on', stays)).toMatchObject({ code: 'still-on', commands: ['shut-down'] });
  expect(run('shut-down', 'on', stays, { hardAfter: 30_000 })).toMatchObject({
    code: 'proved',
    commands: ['shut-down', 'off'],
  });
});

test('a machine that is off is not reset but switched on, and one that is stopped is reset', () => {
  const rung = 0;
  expect(commandFor({ want: 'reset', rung }, 'off')).toBe('on');
  expect(commandFor({ want: 'cycle', rung }, 'off')).toBe('on');
  expect(commandFor({ want: 'on', rung }, 'paused')).toBe('reset');
});
