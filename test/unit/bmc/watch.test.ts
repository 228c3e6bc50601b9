/** BMCs are asked regularly, and those that do not answer less often. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import type { PowerState } from '../../../src/bmc/bmc.ts';
import { newOrder } from '../../../src/bmc/order.ts';
import { LOOK_EVERY, watchPower } from '../../../src/bmc/watch.ts';

test('each BMC is asked every 30 seconds, none during an order, and a silent one less and less often', async () => {
  const clock = new ManualClock();
  const asked: string[] = [];
  const order = newOrder({ id: '1', machine: 'busy', want: 'on', by: 'ada', at: 0 });
  const close = watchPower({
    machines: () => ['good', 'silent', 'busy'],
    orders: {
      last: (machine) => (machine === 'busy' ? { ...order, step: 'sign' } : undefined),
      look: async (machine) => {
        asked.push(machine);
        return { state: (machine === 'good' ? 'on' : 'unknown') satisfies PowerState, at: 0 };
      },
    },
    clock,
  });
  const rounds = async (count: number) => {
    for (let n = 0; n < count; n++) {
      clock.advance(LOOK_EVERY);
      for (let turn = 0; turn < 3; turn++) await new Promise((done) => setImmediate(done));
    }
  };
  await rounds(30);
  const times = (machine: string) => asked.filter((one) => one === machine).length;
  expect([times('good'), times('busy')]).toEqual([30, 0]);
  expect(times('silent')).toBeLessThan(8);
  expect(times('silent')).toBeGreaterThan(3);
  close();
  await rounds(3);
  expect(times('good')).toBe(30);
});
