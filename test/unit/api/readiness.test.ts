import { expect, test } from 'vitest';
import { type ReadinessFacts, readinessOf } from '../../../src/api/readiness.ts';

const WELL: ReadinessFacts = {
  served: ['lan'],
  networks: 1,
  storeFailure: undefined,
  unrecorded: 0,
  journalFailing: false,
  securityLogFailing: false,
  firmware: ['bios'],
  agentsFault: undefined,
  faults: [],
};

const failing = (more: Partial<ReadinessFacts>) => {
  const { ready, checks } = readinessOf({ ...WELL, ...more });
  return { ready, names: checks.flatMap(({ name, ok }) => (ok ? [] : [name])) };
};

test('a server that serves its networks and can store is ready', () => {
  expect(failing({})).toEqual({ ready: true, names: [] });
});

test('a server without Network documents is ready', () => {
  expect(failing({ served: [], networks: 0 })).toEqual({ ready: true, names: [] });
});

test.each<[string, Partial<ReadinessFacts>]>([
  ['networks', { served: [] }],
  ['store', { storeFailure: 'disk full' }],
])('%s: the server is not ready', (name, more) => {
  expect(failing(more)).toEqual({ ready: false, names: [name] });
});

test.each<[string, Partial<ReadinessFacts>]>([
  ['loaders', { firmware: [] }],
  ['event journal', { journalFailing: true }],
  ['security log', { securityLogFailing: true }],
  ["agents' listener", { agentsFault: 'port in use' }],
  ['E_YAML', { faults: [{ code: 'E_YAML', message: 'a.yaml:1' }] }],
])('%s: the fault is shown and the server is ready', (name, more) => {
  expect(failing(more)).toEqual({ ready: true, names: [name] });
});
