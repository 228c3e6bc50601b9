import { expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import type { MusterEvent } from '../../../src/events/event.ts';
import { verdictOf } from '../../../src/lab/expectations.ts';
import type { Facts, MachineObserved } from '../../../src/lab/observed.ts';
import { heldFor, outcomeOf, phaseOf } from '../../../src/lab/observed.ts';
import type { LabMachine } from '../../../src/lab/scenario.ts';
import type { Expectation } from '../../../src/lab/steps.ts';

const machine: LabMachine = {
  name: 'node-1',
  firmware: 'bios',
  memoryMiB: 512,
  processors: 1,
  nics: [{ mac: '52:54:00:aa:00:01', segment: 'main' }],
  manufacturer: 'Lab',
  product: 'Rack',
  disks: [],
  bootOrder: 'network',
};

let sequence = 0;
function event(kind: MusterEvent['kind'], more: Partial<MusterEvent> = {}): MusterEvent {
  sequence++;
  return { sequence, at: sequence as Millis, kind, subject: 'node-1', ...more };
}

const facts: Facts = {
  hostname: 'node-1',
  addresses: { '52:54:00:aa:00:01': ['10.77.0.21/24'] },
  files: {
    '/etc/x': { absent: false, mode: '0640', owner: 'root', group: 'adm', content: 'x\n' },
    '/etc/none': { absent: true },
  },
  users: {
    ops: {
      uid: 1000,
      shell: '/bin/bash',
      home: '/srv/ops',
      groups: ['ops', 'adm'],
      sshKeys: ['k1'],
      sudo: true,
    },
  },
  units: { 'x.service': 'active' },
  commandLine: 'boot=muster BOOTIF=01-52-54-00-aa-00-01 quiet',
  clock: 1000,
  dhcpServer: '10.77.0.1',
  documents: { 'meta-data': { sha256: 'ab', text: 'local-hostname: node-1' } },
};

const seen = (more: Partial<MachineObserved> = {}): MachineObserved => ({
  machine,
  steps: [],
  events: [
    event('boot.session', { session: 's1', fields: { firmware: 'bios' } }),
    event('machine.phase', { fields: { from: 'registered', to: 'booting' } }),
    event('machine.phase', { fields: { from: 'booting', to: 'ready' } }),
  ],
  facts: { value: facts, hostAt: 1_002_000 },
  disks: [{ before: 'aa', after: 'aa' }],
  console: 'Muster: node-1 boots\n',
  lease: '10.77.0.21',
  ...more,
});

/** Each check when it holds and when it fails, with its message. */
const CASES: readonly [Omit<Expectation, 'machine'>, Omit<Expectation, 'machine'>, string][] = [
  [{ phase: 'ready' }, { phase: 'failed' }, 'found "ready"'],
  [{ address: '10.77.0.21' }, { address: '10.77.0.22' }, 'found "10.77.0.21"'],
  [
    { addresses: { '52:54:00:aa:00:01': ['10.77.0.21/24'], '52:54:00:aa:00:02': [] } },
    { addresses: { '52:54:00:aa:00:01': ['10.77.0.21/24', '10.0.0.1/8'] } },
    '52:54:00:aa:00:01: found ["10.77.0.21/24"]',
  ],
  [{ hostname: 'node-1' }, { hostname: 'node-2' }, 'found "node-1"'],
  [
    { file: { path: '/etc/x', mode: '0640', owner: 'root', group: 'adm', content: 'x\n' } },
    { file: { path: '/etc/x', mode: '0644' } },
    'mode: found "0640"',
  ],
  [{ file: { path: '/etc/none', absent: true } }, { file: { path: '/etc/none' } }, 'the file does not exist'],
  [
    { user: { name: 'ops', groups: ['adm'], sshKeys: ['k1'], sudo: true } },
    { user: { name: 'ops', groups: ['wheel'] } },
    'not in wheel, only in ops, adm',
  ],
  [{ user: { name: 'ops' } }, { user: { name: 'eve' } }, 'there is no such user'],
  [
    { unit: { name: 'x.service', state: 'active' } },
    { unit: { name: 'x.service', state: 'failed' } },
    'found "active"',
  ],
  [{ clockWithin: '3s' }, { clockWithin: '1s' }, 'its clock is off by -2.0 s'],
  [{ sessions: 1 }, { sessions: 2 }, 'found 1'],
  [{ firmware: 'bios' }, { firmware: 'uefi' }, 'found bios'],
  [
    { event: { kind: 'boot.session', count: 1 } },
    { event: { kind: 'boot.session', count: 2 } },
    'events found: 1',
  ],
  [{ noEvent: { kind: 'tftp.served' } }, { noEvent: { kind: 'boot.session' } }, 'found {"firmware":"bios"}'],
  [{ dhcpServer: '10.77.0.1' }, { dhcpServer: '10.77.0.2' }, 'found "10.77.0.1"'],
  [{ bootedFrom: '52:54:00:aa:00:01' }, { bootedFrom: '52:54:00:aa:00:02' }, 'found "01-52-54-00-aa-00-01"'],
  [
    { document: { name: 'meta-data', contains: 'node-1' } },
    { document: { name: 'user-data', contains: 'x' } },
    'it received none',
  ],
  [{ serial: 'node-1 boots' }, { serial: 'panic' }, 'the console never showed it'],
  [{ noSerial: 'panic' }, { noSerial: 'node-\\d' }, 'it showed "node-1"'],
] as never;

test.each(CASES)('%j holds, and %j does not', (right, wrong, detail) => {
  expect(verdictOf({ machine: 'node-1', ...right } as Expectation, seen())).toMatchObject({ ok: true });
  expect(verdictOf({ machine: 'node-1', ...wrong } as Expectation, seen())).toMatchObject({
    ok: false,
    detail,
  });
});

test('a disk that changed by one octet is a failure, and so is a machine without disks', () => {
  const untouched: Expectation = { machine: 'node-1', disksUntouched: true };
  expect(verdictOf(untouched, seen())).toMatchObject({ ok: true });
  expect(verdictOf(untouched, seen({ disks: [{ before: 'aa', after: 'ab' }] }))).toMatchObject({ ok: false });
  expect(verdictOf(untouched, seen({ disks: [] }))).toMatchObject({ ok: false });
});

test('no check holds for a machine that never reported', () => {
  const { facts: _silent, ...mute } = seen();
  for (const check of [
    { hostname: 'node-1' },
    { clockWithin: '1h' },
    { file: { path: '/etc/none', absent: true } },
  ])
    expect(verdictOf({ machine: 'node-1', ...check } as Expectation, mute)).toMatchObject({ ok: false });
});

test('a machine is held until it gets a script that boots', () => {
  const held = event('machine.held', { reason: { code: 'unknown_machine', text: 'No document knows it.' } });
  const waiting = { events: [event('machine.discovered'), held] };
  expect([phaseOf(waiting), heldFor(waiting)]).toEqual(['discovered', 'unknown_machine']);
  expect(outcomeOf(seen(waiting))).toBe('held (unknown_machine)');
  const booting = { events: [...waiting.events, event('boot.script')] };
  expect(heldFor(booting)).toBeUndefined();
});
