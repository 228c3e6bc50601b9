/** Machine documents are compared with the machines that run a founded cluster. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { identityChanges } from '../../../../src/cluster/resolve/check-identities.ts';
import { fixedOf, type RunningMachine, releaseOf } from '../../../../src/cluster/resolve/release.ts';
import type { CandidateSet } from '../../../../src/resources/candidate.ts';
import { resolved } from '../kit.ts';

const FOUNDED = resolved();
const mac = (n: number): string => `52:54:00:00:00:0${n}`;
const NAMES = ['m1', 'm2', 'm3'];
const runs = (n: number, more: Partial<RunningMachine> = {}): RunningMachine => ({
  ...{ serves: true, member: true, versions: {}, address: `10.0.0.1${n}`, macs: [mac(n)] },
  ...more,
});
const RUNNING = { m1: runs(1), m2: runs(2), m3: runs(3) };
type Spec = { macs: string[]; addresses?: string[] };
const SPECS: Record<string, Spec> = {
  m1: { macs: [mac(1)], addresses: ['10.0.0.11'] },
  m2: { macs: [mac(2)], addresses: ['10.0.0.12'] },
  m3: { macs: [mac(3)], addresses: ['10.0.0.13'] },
};

/** `CODE machine` of each change, with `?` where a person may accept it. */
function changes(specs: Record<string, Spec>, running: Record<string, RunningMachine> = RUNNING) {
  const machines = Object.entries(specs).map(([name, spec]) => [name, { document: { spec } }] as const);
  const candidates = { Machine: new Map(machines) } as unknown as CandidateSet;
  const known = {
    release: releaseOf(FOUNDED),
    fixed: fixedOf(FOUNDED),
    machines: new Map(Object.entries(running)),
  };
  return identityChanges('blue', new Set(NAMES), known, candidates, (name) => specs[name]?.addresses?.[0]);
}
const texts = (...given: Parameters<typeof changes>) =>
  changes(...given).map(({ code, machine, survivable }) => `${code} ${machine}${survivable ? '?' : ''}`);

test('documents that fit what runs, and cards that are added, are no change', () => {
  expect(texts(SPECS)).toEqual([]);
  expect(texts({ ...SPECS, m1: { ...SPECS.m1!, macs: [mac(1), mac(9)] } })).toEqual([]);
  expect(texts({ ...SPECS, w1: { macs: [mac(8)] } })).toEqual([]);
});

test('another address of a member of etcd is refused, with the address to put back and the procedure', () => {
  const moved = { ...SPECS, m2: { macs: [mac(2)], addresses: ['10.0.0.22'] } };
  expect(texts(moved)).toEqual(['E_FOUNDED m2']);
  expect(changes(moved)[0]!.message).toContain('Put 10.0.0.12 back; to move it, `muster cluster remove-node');
  expect(texts({ ...SPECS, m2: { macs: [mac(2)] } })).toEqual(['E_FOUNDED m2']);
  // Two that swap their addresses, and all at once.
  const swapped = {
    ...SPECS,
    m1: { ...SPECS.m1!, addresses: ['10.0.0.12'] },
    m2: { ...SPECS.m2!, addresses: ['10.0.0.11'] },
  };
  expect(texts(swapped)).toEqual(['E_FOUNDED m1', 'E_FOUNDED m2']);
});

test('a control plane without etcd, and a worker, can get another address', () => {
  const { member: _, ...plain } = runs(2);
  const moved = { ...SPECS, m2: { macs: [mac(2)], addresses: ['10.0.0.22'] } };
  expect(texts(moved, { ...RUNNING, m2: plain })).toEqual(['E_CONFIRM m2?']);
  expect(texts(moved, { ...RUNNING, m2: { ...plain, serves: false } })).toEqual([]);
});

test('hardware addresses that move to another machine, and a document that is renamed or gone, need its word', () => {
  const swapped = {
    ...SPECS,
    m1: { ...SPECS.m1!, macs: [mac(2)] },
    m2: { ...SPECS.m2!, macs: [mac(1)] },
  };
  expect(texts(swapped)).toEqual(['E_CONFIRM m1?', 'E_CONFIRM m2?']);
  expect(changes(swapped)[0]!.message).toContain('Machine "m2" lists one of them');
  const { m1, ...others } = SPECS;
  expect(texts(others)).toEqual(['E_CONFIRM m1?']);
  expect(changes({ ...others, 'm1-new': m1! })[0]!.message).toContain(
    'its hardware address is in Machine "m1-new", and a machine keeps its name',
  );
});

test('no change of a member’s documents that moves its address passes', () => {
  const octet = fc.integer({ min: 1, max: 60 });
  fc.assert(
    fc.property(fc.tuple(octet, octet, octet), (last) => {
      const specs = Object.fromEntries(
        NAMES.map((name, n) => [name, { macs: [mac(n + 1)], addresses: [`10.0.0.${last[n]}`] }]),
      );
      const moved = NAMES.filter((_, n) => last[n] !== 11 + n);
      expect(changes(specs).map(({ machine }) => machine)).toEqual(moved);
    }),
  );
});
