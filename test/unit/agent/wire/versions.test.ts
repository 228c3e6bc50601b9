/** Plans for agents that are older than the server. */
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { probeName } from '../../../../src/agent/wire/evidence.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { AGENT_VERSION, linesFor } from '../../../../src/agent/wire/versions.ts';

const FETCH: PlanLine = { do: 'fetch', mode: 0o644, path: '/x', url: 'http://h/x', sha256: 'a', size: 7 };
const PROBE: PlanLine = {
  do: 'probe',
  listener: 'kubelet',
  address: '10.0.0.1',
  port: 10250,
  probes: [probeName('ca', '0123456789abcdef')],
};

test('an agent gets the lines of its own version, and one with an unknown version gets all', () => {
  const { size: _, ...sizeless } = FETCH;
  expect(linesFor('1', [FETCH, PROBE])).toEqual([sizeless]);
  expect(linesFor('2', [FETCH, PROBE])).toEqual([FETCH]);
  for (const version of ['3', '4', '12', 'x'])
    expect(linesFor(version, [FETCH, PROBE])).toEqual([FETCH, PROBE]);
});

test('an agent that cannot compare versions is not asked to', () => {
  const skew: PlanLine = { do: 'check', check: 'skew', of: ['1.36.3', '6443', '10.0.0.12'] };
  const memory: PlanLine = { do: 'check', check: 'memory', of: ['2048'] };
  expect(linesFor('4', [memory, skew])).toEqual([memory]);
  expect(linesFor('5', [memory, skew])).toEqual([memory, skew]);
});

test('an agent that knows no pairs gets certificate and key as two files', () => {
  const content = { text: 'certificate' };
  const pair = { do: 'put-pair', mode: 0o644, path: '/d/server.crt', content } as const;
  const own: PlanLine = { ...pair, key: { leaf: 'etcd-server' } };
  const given: PlanLine = { ...pair, key: { content: { text: 'key', secret: true } } };
  const certificate = { do: 'put', mode: 0o644, path: '/d/server.crt', content };
  expect(linesFor('5', [own])).toEqual([
    certificate,
    {
      do: 'put-with-key',
      mode: 0o600,
      path: '/d/server.key',
      content: { text: '' },
      leaf: 'etcd-server',
      append: 'pem',
    },
  ]);
  expect(linesFor('5', [given])).toEqual([
    certificate,
    { do: 'put', mode: 0o600, path: '/d/server.key', content: { text: 'key', secret: true } },
  ]);
  expect(linesFor('6', [own, given])).toEqual([own, given]);
});

test('an agent that cannot reboot its machine gets no line that says so', () => {
  const reboot: PlanLine = { do: 'reboot', id: 'b0-0t' };
  expect(linesFor('6', [FETCH, reboot])).toEqual([FETCH]);
  expect(linesFor('7', [FETCH, reboot])).toEqual([FETCH, reboot]);
});

test('the newest version is that of the scripts', () => {
  const script = fs.readFileSync('src/agent/scripts/muster-agent.sh', 'utf8');
  expect(script).toContain(`\nversion=${AGENT_VERSION}\n`);
});
