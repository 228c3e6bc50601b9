import { describe, expect, it } from 'vitest';
import { ANY } from '../../../src/base/ipv4.ts';
import type { FleetResult, MachineResult } from '../../../src/lab/simulated/fleet.files.ts';
import { STEPS, type Step } from '../../../src/lab/simulated/machine.socket.ts';
import {
  assign,
  DEFAULT_MIX,
  PERSONALITIES,
  readMix,
  saysOf,
} from '../../../src/lab/simulated/personalities.ts';
import { stormFigures, stormText } from '../../../src/lab/simulated/storm.ts';
import { stormPlot } from '../../../src/lab/simulated/storm-plot.ts';
import { classify } from '../../../src/pxe/dhcp/classify.ts';

describe('a mix of firmware', () => {
  it('has each kind by its share, in any hundred machines', () => {
    const all = assign(readMix(DEFAULT_MIX), 1000);
    for (const from of [0, 100, 900]) {
      const counted = Object.groupBy(all.slice(from, from + 100), (name) => name);
      expect(Object.fromEntries(Object.entries(counted).map(([name, some]) => [name, some!.length]))).toEqual(
        {
          uefi: 50,
          bios: 20,
          'uefi-4011': 10,
          'uefi-http': 10,
          ipxe: 10,
        },
      );
    }
  });

  it('names a kind once or with a share, and adds up what is named twice', () => {
    expect([...readMix('bios')]).toEqual([['bios', 1]]);
    expect([...readMix('bios=2, uefi , bios=1')]).toEqual([
      ['bios', 3],
      ['uefi', 1],
    ]);
  });

  it.each([
    ['uefy=1', 'did you mean uefi?'],
    ['zzz', 'there are: bios, uefi'],
    ['', 'there are: bios, uefi'],
    ['bios=0', 'not a number from 1 to 9999'],
    ['bios=x', 'not a number from 1 to 9999'],
  ])('refuses "%s"', (mix, why) => {
    expect(() => readMix(mix)).toThrow(why);
  });

  it.each(Object.entries(PERSONALITIES))('%s is recognised as what it is', (_, personality) => {
    const none = { ciaddr: ANY, yiaddr: ANY, siaddr: ANY, giaddr: ANY, sname: '', file: '' };
    const head = { op: 1, htype: 1, hlen: 6, hops: 0, xid: 1, secs: 0, flags: 0 } as const;
    const client = classify({
      ...head,
      ...none,
      chaddr: Buffer.alloc(16),
      options: new Map(saysOf(personality)),
    });
    expect(client.stage).toBe({ PXEClient: 'pxe', HTTPClient: 'http', iPXE: 'ipxe' }[personality.asks]);
    expect(client.arch).toBe('x86_64');
  });
});

/** Ten machines: the n-th got its configuration after n seconds; the last one never did. */
function result(): FleetResult {
  const machines = Array.from({ length: 10 }, (_, n) => ({
    name: `worker-${n}`,
    ...(n === 9 ? { error: 'no answer to 4 packets\n  at somewhere' } : {}),
    elapsedMs: 1000 * (n + 1),
    startedOver: n === 9 ? 2 : 0,
    reached: { address: 10 * n, ...(n < 9 ? { configuration: 1000 * (n + 1) } : {}) },
  })) as unknown as MachineResult[];
  const steps = Object.fromEntries(STEPS.map((step) => [step, [] as number[]])) as Record<Step, number[]>;
  steps.dhcp = Array.from({ length: 100 }, (_, n) => 100 - n);
  return { machines, steps, retransmitted: 7, again: { loader: 3 }, cut: 1, seconds: 10 };
}

const order = {
  firmware: assign(readMix('bios'), 10),
  overSeconds: 0,
  server: { peakMiB: 200, processorSeconds: 3 },
};

describe('the figures of a storm', () => {
  it('say when half of the machines and the last one reached a stage, and who did not', () => {
    const { stages, lost, faults, startedOver } = stormFigures(result(), order);
    expect(stages.configuration).toEqual({ machines: 9, halfSeconds: 5, lastSeconds: 9 });
    expect(stages.ticket).toBeUndefined();
    expect({ lost, faults, startedOver }).toEqual({
      lost: 1,
      faults: ['worker-9: no answer to 4 packets'],
      startedOver: 2,
    });
  });

  it('have quantiles of each kind of request, and what was sent again', () => {
    const { steps } = stormFigures(result(), order);
    expect(steps).toEqual({ dhcp: { answers: 100, p50Ms: 51, p99Ms: 100, maxMs: 100, again: 7 } });
  });

  it('are 1 for fairness when all machines take equally long, and less otherwise', () => {
    const { machines, ...rest } = result();
    const equal = machines.map((one) => ({ ...one, elapsedMs: 500 }));
    expect(stormFigures({ ...rest, machines: equal }, order).fairness).toBeCloseTo(1);
    expect(stormFigures(result(), order).fairness).toBeCloseTo(55 ** 2 / (10 * 385));
  });

  it('are printed as tables', () => {
    const text = stormText(stormFigures(result(), order));
    expect(text).toContain('10 machines powered on at once: 10 bios');
    expect(text).toMatch(/^configuration +9 +5\.0 +9\.0$/m);
    expect(text).toMatch(/^dhcp +100 +51\.0 +100 +100 +7$/m);
    expect(text).toContain('machines without a configuration: 1');
  });
});

describe('the plot', () => {
  it('draws each line within its frame, and names it', () => {
    const svg = stormPlot('a & b', 4, [
      { label: 'script', at: [1, 2, 3, 4] },
      { label: 'nothing yet', at: [], dashed: true },
    ]);
    expect(svg).toContain('a &amp; b');
    expect(svg).toContain('>script</text>');
    const numbers = [...svg.matchAll(/ d="M([\d. L]+)"/g)].flatMap(([, path]) =>
      path!.split(/[ L]/).map(Number),
    );
    expect(numbers.length).toBeGreaterThan(5);
    for (const number of numbers) expect(number).toBeLessThanOrEqual(760);
  });
});
