/** Addresses in config.network are compared with those of all other machines and with Networks. */
import { expect, test } from 'vitest';
import type { Candidate, CandidateSet } from '../../../src/resources/candidate.ts';
import { checkDocuments } from '../../../src/resources/check.ts';
import { parseDocuments } from '../../../src/resources/document.ts';

const document = (kind: string, name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
let count = 0;
const mac = () => `"52:54:00:00:01:${(++count % 256).toString(16).padStart(2, '0')}"`;
const nic = (...addresses: string[]) => `{name: eth0, addresses: [${addresses.join(', ')}]}`;
const config = (...interfaces: string[]) => `config: {network: {interfaces: [${interfaces.join(', ')}]}}`;
const machine = (name: string, ...more: string[]) =>
  document('Machine', name, `{${[`macs: [${mac()}]`, ...more].join(', ')}}`);
const LAB = document(
  'Network',
  'lab',
  '{subnet: 10.77.0.0/24, gateway: 10.77.0.1, address: 10.77.0.2, dhcp: {mode: server, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}}',
);

function shown(text: string): readonly string[] {
  const { documents, faults } = parseDocuments(text, 'd.yaml');
  expect(faults).toEqual([]);
  const set: Record<string, Map<string, Candidate>> = {};
  for (const kind of ['Network', 'Image', 'Cluster', 'Profile', 'Machine', 'Webhook']) set[kind] = new Map();
  for (const one of documents) set[one.document.kind]!.set(one.document.metadata.name, one);
  return checkDocuments(set as unknown as CandidateSet)
    .filter(({ fault }) => /address|reserv/.test(fault.message))
    .map(({ fault, severity }) => `${severity} ${fault.at?.line} ${fault.path}: ${fault.message}`);
}
const PLACE = 'spec.config.network.interfaces[0].addresses[0]';

test.for([
  ['the reserved address of another machine', 'addresses: [10.77.0.10]', config(nic('10.77.0.10/24'))],
  ['reserved for a later machine', config(nic('10.77.0.10/24')), 'addresses: [10.77.0.10]'],
  ['an address of another configuration', config(nic('10.77.0.10/24')), config(nic('10.77.0.10/24'))],
  [
    'an address of IPv6, in another notation',
    'addresses: [10.77.0.9, "fd00::9"]',
    config(nic('"fd00:0::9/64"')),
  ],
  [
    'an address of a bond and of a VLAN',
    config(
      '{name: bond0, bond: {mode: active-backup, interfaces: [eth0, eth1]}, addresses: [10.77.0.10/24]}',
    ),
    config('{name: v7, vlan: {id: 7, link: eth0}, addresses: [10.77.0.10/24]}'),
  ],
])('a machine has %s: a fault of the later one', ([, first, second]) => {
  expect(shown(LAB + machine('one', first!) + machine('two', second!))).toEqual([
    expect.stringMatching(
      /^error \d+ spec\..*: Machine\/two: address \S+ is also claimed by Machine\/one \(d\.yaml:\d+\)$/,
    ),
  ]);
});

test("a machine's own reserved address may stand in its configuration, also inside a pool", () => {
  expect(
    shown(LAB + machine('one', 'addresses: [10.77.0.110]', config(nic('10.77.0.110/24', '10.77.0.20/24')))),
  ).toEqual([]);
});

test.for([
  ['10.77.0.2/24', 'error', 'is the address of Network/lab'],
  ['10.77.0.255/24', 'error', 'is the network address or the broadcast address (Network/lab)'],
  ['10.77.0.1/24', 'warning', 'is the gateway of Network/lab'],
  ['10.77.0.150/24', 'warning', 'is inside the pool 10.77.0.100 to 10.77.0.199 of Network/lab'],
])('%s of a network is told: %s', ([address, severity, message]) => {
  expect(shown(LAB + machine('one', config(nic(address!))))).toEqual([
    expect.stringContaining(
      `${severity} 10 ${PLACE}: Machine/one: address ${address!.split('/')[0]} ${message}`,
    ),
  ]);
});

test('a machine with one address reserved and another one configured is warned of', () => {
  const of = (...interfaces: string[]) =>
    shown(LAB + machine('one', 'addresses: [10.77.0.12]', config(...interfaces)));
  expect(of(nic('10.77.0.77/24'))).toEqual([
    expect.stringContaining(
      'Machine/one: address 10.77.0.77 is in Network/lab, where `addresses` has 10.77.0.12; correct one of the two',
    ),
  ]);
  expect(of(nic('10.77.0.77/24'), '{name: eth1, dhcp4: true}')).toEqual([]);
  expect(of(nic('10.80.0.77/24'))).toEqual([]);
});

test('an address that no Network has is told once for all machines that repeat it, as a warning', () => {
  const many = ['one', 'two', 'three', 'four'].map((name) => machine(name, config(nic('192.168.9.1/24'))));
  expect(shown(LAB + many.join(''))).toEqual([
    expect.stringMatching(
      /^warning .*Machine\/two: address 192\.168\.9\.1 is also claimed by Machine\/one .*, and so do three, four; no Network has it/,
    ),
  ]);
});

test('anycast addresses, bridges without ports, links of one machine and templates are not compared', () => {
  const same = config(
    '{name: dummy0, addresses: [10.77.0.9/32]}',
    '{name: br0, bridge: {}, addresses: [10.77.0.8/24]}',
    '{name: eth0, addresses: [169.254.7.1/30, "fe80::1/64", "${machine.address}/24"]}',
  );
  expect(shown(LAB + machine('one', same) + machine('two', same))).toEqual([]);
});

test('an address of a Profile that two machines would have is told once, at the Profile', () => {
  const text = (address: string, second = '') =>
    shown(
      LAB +
        document('Profile', 'node', `{boot: hold, ${config(nic(address))}}`) +
        machine('one', 'profile: node') +
        machine('two', 'profile: node', ...(second ? [second] : [])),
    );
  expect(text('10.77.0.30/24')).toEqual([
    expect.stringMatching(
      `^error 10 ${PLACE.replace(/[[\]]/g, '\\$&')}: Profile/node: address 10.77.0.30 is given to 2 machines: one, two; write it in one Machine$`,
    ),
  ]);
  expect(text('192.168.9.1/24')).toEqual([expect.stringMatching(/^warning .*Profile\/node/)]);
  expect(text('10.77.0.30/24', config(nic('10.77.0.31/24')))).toEqual([]);
});
