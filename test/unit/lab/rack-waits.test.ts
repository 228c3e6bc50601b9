/** The rack with boxes that run nothing: who is switched on when, and how waits end. */
import { afterEach, expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import type { EventKind, MusterEvent } from '../../../src/events/event.ts';
import type { Box } from '../../../src/lab/machine.files.ts';
import { openRack, type Rack } from '../../../src/lab/rack.files.ts';
import { readScenario } from '../../../src/lab/scenario.ts';

class FakeBox implements Box {
  readonly consoleFile = '/x/console';
  readonly serial = undefined;
  on = false;
  console = '';

  async powerOn(): Promise<void> {
    this.on = true;
  }

  async powerOff(): Promise<void> {
    this.on = false;
  }

  powerCut = this.powerOff;
  async shutDown(): Promise<void> {}
  hang(): void {}
  async wipe(): Promise<void> {}
  async newTpm(): Promise<void> {}
  async discard(): Promise<void> {}
  consoleSize = async (): Promise<number> => this.console.length;
  consoleText = async (): Promise<string> => this.console;
  factsText = async (): Promise<string> => '';
  diskHashes = async (): Promise<string[]> => [];
}

const { machines } = readScenario(
  {
    name: 'two',
    about: 'Two machines.',
    documents: [{ kind: 'Network' }],
    machines: [1, 2].map((n) => ({
      name: `m${n}`,
      firmware: 'bios',
      nics: [{ mac: `52:54:00:aa:00:0${n}` }],
    })),
    expect: [{ machine: 'm1', phase: 'ready' }],
  },
  'two.yaml',
);

let rack: Rack | undefined;
afterEach(() => rack?.close());

function open({ patienceMs = 60_000 } = {}) {
  const boxes = new Map([
    ['m1', new FakeBox()],
    ['m2', new FakeBox()],
  ]);
  const steps: string[] = [];
  const ending = new AbortController();
  const opened = openRack({
    boxes,
    machines,
    parallel: 1,
    patienceMs,
    captureFile: '/x/main.pcap',
    onStep: (_, machine, step) => steps.push(`${machine} ${step}`),
    signal: ending.signal,
  });
  rack = opened;
  let sequence = 0;
  const event = (kind: EventKind, subject: string, more: Partial<MusterEvent> = {}): void =>
    opened.event({ sequence: ++sequence, at: Date.now() as Millis, kind, subject, ...more });
  return { rack: opened, boxes, steps, ending, event };
}

test('only as many machines as allowed boot at a time; the next is switched on when one is held', async () => {
  const { rack, boxes, steps, event } = open();
  rack.powerOn(['m1', 'm2']);
  expect([...boxes.values()].map(({ on }) => on)).toEqual([true, false]);
  event('machine.held', '52:54:00:aa:00:01', { reason: { code: 'no_profile', text: '' }, session: 's1' });
  expect(await rack.wait({ machine: 'm1', held: 'no_profile' })).toBeUndefined();
  await expect.poll(() => boxes.get('m2')!.on).toBe(true);
  expect(steps).toEqual(['m1 power on', 'm1 hold', 'm2 power on']);
});

test('an event without a known subject belongs to the machine of its session', () => {
  const { rack, event } = open();
  event('boot.session', '52:54:00:aa:00:02', { session: 's2' });
  event('machine.accepted', 'another name', { session: 's2' });
  expect(rack.observed.get('m2')!.events.map(({ kind }) => kind)).toEqual([
    'boot.session',
    'machine.accepted',
  ]);
});

test('what a machine showed before its power was cut does not count after it is on again', async () => {
  const { rack, boxes, event, ending } = open();
  rack.powerOn(['m1']);
  boxes.get('m1')!.console = 'login:';
  event('machine.phase', 'm1', { fields: { to: 'ready' } });
  expect(await rack.wait({ machine: 'm1', phase: 'ready' })).toBeUndefined();
  expect(await rack.wait({ machine: 'm1', serial: 'login' })).toBeUndefined();
  await rack.powerCut(['m1']);
  rack.powerOn(['m1']);
  ending.abort();
  for (const wait of [{ phase: 'ready' as const }, { serial: 'login' }])
    expect(await rack.wait({ machine: 'm1', ...wait })).toContain('the run is over');
});

test('a wait ends without progress, with the last events, the console and the capture file', async () => {
  const { rack, boxes, event } = open({ patienceMs: 300 });
  rack.powerOn(['m1']);
  boxes.get('m1')!.console = 'kernel panic';
  event('dhcp.offer', 'm1');
  const fault = await rack.wait({ machine: 'm1', phase: 'ready' });
  expect(fault).toMatch(/^waited for m1 to be ready; nothing new from it for \d+ s/);
  for (const part of ['dhcp.offer', '| kernel panic', '/x/console', '/x/main.pcap'])
    expect(fault).toContain(part);
  expect(rack.stalled()).toContain('nothing new from any machine or cluster');
});

test('the first event of a cluster is seen, and its founding is shown as steps', async () => {
  const { rack, steps, event } = open();
  const seen = rack.clusterSeen('blue');
  event('cluster.founding', 'Cluster/blue', { reason: { code: 'opened_by_all', text: 'It is open.' } });
  await seen;
  expect(steps).toEqual(['blue It is open.']);
});
