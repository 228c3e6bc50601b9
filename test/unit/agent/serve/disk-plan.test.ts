import { expect, test } from 'vitest';
import { withDiskChoice } from '../../../../src/agent/serve/disk-plan.ts';
import { parseSelector, selectorText } from '../../../../src/agent/serve/layer.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import type { Plan } from '../../../../src/agent/wire/plan.ts';

const PLAN: Plan = { lines: [{ do: 'step', step: 'kubelet' }], pollSeconds: 30 };
const planOf = (dataSelector: string | undefined, undecided: string | undefined) =>
  withDiskChoice(async () => PLAN, { undecidedDisk: () => undecided })(
    { machine: 'w1', serial: '01', address: '10.0.0.2' },
    { bootId: 'B', ...(dataSelector !== undefined && { dataSelector }) } as AgentFacts,
  );

test('a machine that booted before its data disk was chosen reboots when it is, and waits with the reason until then', async () => {
  expect(await planOf('serial=not-chosen-yet', undefined)).toEqual({
    lines: [{ do: 'reboot', id: 'B' }],
    pollSeconds: 10,
  });
  expect((await planOf('serial=not-chosen-yet', '2 disks fit')).lines).toEqual([
    { do: 'hold', code: 'no-data-disk', text: 'The data disk is not chosen: 2 disks fit' },
  ]);
});

test('every other machine gets its plan', async () => {
  for (const selector of [undefined, 'serial=S1', 'path=/dev/vdb'])
    expect(await planOf(selector, 'anything')).toBe(PLAN);
});

test('a selector that an agent reports is read as it was written, and nothing else', () => {
  for (const selector of [
    { serial: 'S1' },
    { path: '/dev/disk/by-id/nvme-A_B' },
    { minMiB: 10 },
    { serial: 'S1', minMiB: 10, maxMiB: 20 },
  ])
    expect(parseSelector(selectorText(selector))).toEqual(selector);
  for (const text of [
    '',
    'serial=',
    'serial=S1\nserver=x',
    'serial=S1 ',
    'other=1',
    'size=-',
    'serial=S1 other=1',
  ])
    expect(parseSelector(text), text).toBeUndefined();
});
