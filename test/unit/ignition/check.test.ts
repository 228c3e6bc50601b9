/**
 * The check, when documents are applied, that the configurations of machines render, and the place
 * of each fault.
 */
import { describe, expect, test } from 'vitest';
import { checkedLayer } from '../../../src/agent/serve/machine-layer.ts';
import { configurationCheck } from '../../../src/ignition/check.ts';
import type { Candidate, CandidateSet, DocumentId } from '../../../src/resources/candidate.ts';
import { parseDocuments } from '../../../src/resources/document.ts';

const checkConfigurations = configurationCheck(checkedLayer);

/** The documents of a text as a set to check. */
function candidates(text: string): CandidateSet {
  const { documents, faults } = parseDocuments(text, 'd.yaml');
  expect(faults).toEqual([]);
  const set: Record<string, Map<string, Candidate>> = {
    Network: new Map(),
    Image: new Map(),
    Cluster: new Map(),
    Profile: new Map(),
    Machine: new Map(),
  };
  for (const one of documents) set[one.document.kind]!.set(one.document.metadata.name, one);
  return set as unknown as CandidateSet;
}

const shown = (set: CandidateSet, changed?: readonly DocumentId[]) =>
  checkConfigurations(set, changed && new Set(changed)).map(
    ({ fault, severity }) => `${severity} ${fault.at?.line} ${fault.message}`,
  );
const check = (text: string) => shown(candidates(text));

const document = (kind: string, name: string, spec: string, labels = '{}') =>
  `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}, labels: ${labels}}\nspec: ${spec}\n`;
const profile = (name: string, selector: string, content: string) =>
  document(
    'Profile',
    name,
    `{boot: hold, selector: ${selector}, config: {files: [{path: /a, content: "${content}"}]}}`,
  );
const machine = (more = '', labels = '{role: w}') =>
  document('Machine', 'a', `{macs: ["52:54:00:00:00:01"]${more}}`, labels);
const network = (name: string, subnet: string, more = '') =>
  document('Network', name, `{subnet: ${subnet}${more}, dhcp: {mode: server}}`);

const GATEWAY = 'via ${network.gateway}';
const A = network('a', '10.1.0.0/24', ', gateway: 10.1.0.1');
const B = network('b', '10.2.0.0/24');

describe('a machine without a profile of its own', () => {
  const W = profile('w', '{labels: {role: w}}', '${machine.address} ${machine.serial}');

  test.each([
    ['its labels', '{labels: {role: w}}'],
    ['its hardware address', '{mac: "52:54:00:*"}'],
  ])('is checked with the profile that selects it by %s', (_, selector) => {
    expect(check(profile('w', selector, '${machine.serial}') + machine())).toEqual([
      'error 5 Profile/w: "${machine.serial}" has no value for this machine (for Machine/a)',
    ]);
    expect(check(profile('w', selector, '${machine.serial}') + machine(', serial: S1'))).toEqual([]);
  });

  test('is not checked with a profile that does not select it', () => {
    expect(check(W + machine('', '{role: other}'))).toEqual([]);
    expect(
      check(W + profile('x', '{labels: {role: w, row: r}}', 'x') + machine('', '{role: w, row: r}')),
    ).toEqual([]);
  });

  test('is checked when a profile begins or ceases to select it', () => {
    const before = candidates(profile('w', '{labels: {role: v}}', '${machine.serial}') + machine());
    expect(shown(before)).toEqual([]);
    const wide = candidates(profile('w', '{labels: {role: w}}', '${machine.serial}')).Profile.get('w')!;
    const set = { ...before, Profile: new Map([['w', wide]]) };
    expect(shown(set, ['Profile/w'])).toHaveLength(1);
    const narrow = candidates(profile('x', '{labels: {role: w}, mac: "52:*"}', 'x')).Profile.get('x')!;
    const both = { ...before, Profile: new Map([...set.Profile, ['x', narrow]]) };
    expect(shown(both)).toEqual([]);
    for (const _ of ['as a trial', 'in earnest']) expect(shown(set, ['Profile/x'])).toHaveLength(1);
  });

  test('gets a warning about a profile that may select it by what its firmware reports', () => {
    const arch = profile('x', '{labels: {role: w}, arch: x86_64}', '${machine.serial}');
    const warning =
      'warning 5 Profile/x: "${machine.serial}" has no value for this machine, if Profile/x selects it (for Machine/a)';
    expect(check(arch + machine())).toEqual([warning]);
    expect(check(arch + profile('y', '{labels: {role: w}}', 'y') + machine())).toEqual([warning]);
    expect(check(profile('x', '{serial: S1}', '${machine.serial}') + machine())).toHaveLength(1);
    expect(check(profile('x', '{serial: S1}', '${machine.serial}') + machine(', serial: S2'))).toEqual([]);
  });

  test('is checked with the profile that selects it by the network of its address', () => {
    const there = profile('x', '{network: b}', '${network.gateway}');
    expect(check(A + B + there + machine(', addresses: [10.2.0.9]'))).toEqual([
      'error 15 Profile/x: "${network.gateway}" has no value for this machine (for Machine/a)',
    ]);
    expect(check(A + B + there + machine(', addresses: [10.1.0.9]'))).toEqual([]);
  });
});

describe('a machine without an address of its own', () => {
  const G = document('Profile', 'g', `{boot: hold, config: {files: [{path: /a, content: "${GATEWAY}"}]}}`);
  const M = machine(', profile: g');
  const FAULT = 'Profile/g: "${network.gateway}" has no value for this machine';

  test('is checked against every network, in any order', () => {
    const warned = `${FAULT}, if it boots from Network/b (for Machine/a)`;
    expect(check(G + M + A + B)).toEqual([`warning 5 ${warned}`]);
    expect(check(G + M + B + A)).toEqual([`warning 5 ${warned}`]);
  });

  test('is refused when no network has the value that its configuration names', () => {
    expect(check(G + M + B)).toEqual([`error 5 ${FAULT} (for Machine/a)`]);
    expect(check(G + M + B + network('c', '10.3.0.0/24'))).toEqual([`error 5 ${FAULT} (for Machine/a)`]);
    expect(check(G + M + A + network('c', '10.3.0.0/24', ', gateway: 10.3.0.1'))).toEqual([]);
  });

  test('is checked only against its own network once it has one', () => {
    expect(check(G + A + B + machine(', profile: g, addresses: [10.1.0.9]'))).toEqual([]);
    expect(check(G + A + B + machine(', profile: g, addresses: [10.2.0.9]'))).toEqual([
      `error 5 ${FAULT} (for Machine/a)`,
    ]);
  });
});

describe('a fault that Ignition would find', () => {
  const image = (more = '') =>
    document(
      'Image',
      'i',
      `{os: flatcar, arch: x86_64, configFormat: ignition${more}, kernel: {sha256: "${'0'.repeat(64)}"}}`,
    );
  const M = machine(', profile: p, config: {timezone: Etc/UTC}');
  const P = document(
    'Profile',
    'p',
    `
  image: i
  config:
    files:
      - {path: /a, content: a}
      - {path: /b, content: b,
         mode: "4755"}
    units:
      - name: u.service
        enabled: true
        contents: "[Service]\\nExecStart=/bin/true"`,
  );

  test('is reported at the value that caused it', () => {
    expect(check(image() + M + P)).toEqual([
      expect.stringMatching(/^error 21 Profile\/p: .*setuid/),
      expect.stringMatching(/^error 25 Profile\/p: .*u\.service is enabled but has no \[Install\]/),
    ]);
  });

  test('is reported once, at the image, when it is an unknown version', () => {
    const plain = document('Profile', 'p', '{image: i, config: {timezone: Etc/UTC}}');
    expect(check(image(', ignitionVersion: "9.9.9"') + M + plain)).toEqual([
      'error 5 Image/i: "9.9.9" is not a version of the Ignition spec that Muster writes; use one of 3.3.0, 3.4.0, 3.5.0, 3.6.0',
    ]);
  });
});

test('a machine with a disk that cannot be passed to the agent is refused when it is applied', () => {
  const cluster = document(
    'Cluster',
    'blue',
    '{kubernetes: {version: 1.36.2, endpoint: 10.1.0.9, controlPlanes: [a]}}',
  );
  const disk = (path: string) => cluster + machine(`, addresses: [10.1.0.9], dataDisk: {path: "${path}"}`);
  expect(check(disk('/dev/disk/by-id/a'))).toEqual([]);
  expect(check(disk('/dev/disk/by-id/a b'))).toEqual([
    'error 7 the disk "path=/dev/disk/by-id/a b" cannot be passed to the machine; use letters, digits and "@%+=:,._/-" alone',
  ]);
});

test('two default gateways with the same metric give a warning, and with different ones none', () => {
  const gateways = (metric: string) => `{boot: hold, config: {network: {interfaces: [
    {name: a, addresses: [10.1.0.2/24], gateway: 10.1.0.1},
    {name: b, addresses: [10.2.0.2/24], gateway: 10.2.0.1${metric}}]}}}`;
  expect(check(document('Profile', 'p', gateways('')))).toEqual([
    expect.stringMatching(
      /^warning .*a has a default gateway with the same metric, and Linux may keep only one/,
    ),
  ]);
  expect(check(document('Profile', 'p', gateways(', metric: 200')))).toEqual([]);
});

describe('an extra document for the other format', () => {
  const image = (format: string) =>
    document(
      'Image',
      'i',
      `{os: debian, arch: x86_64, kernel: {sha256: ${'a'.repeat(64)}}, initrds: [{sha256: ${'b'.repeat(64)}}], configFormat: ${format}}`,
    );
  const extra = (field: string) => `config: {extra: {${field}: "{}"}}`;
  const both = 'config: {extra: {cloudInit: "{}", ignition: "{}"}}';

  test.each([
    ['ignition', extra('cloudInit'), 'write it as extra.ignition'],
    ['cloud-init', extra('ignition'), 'write it as extra.cloudInit'],
    ['cloud-init', extra('cloudInit'), undefined],
    ['ignition', both, undefined],
    ['none', extra('cloudInit'), undefined],
  ])('%s with %s', (format, config, message) => {
    const told = message === undefined ? [] : [expect.stringContaining(message)];
    expect(check(image(format) + document('Profile', 'p', `{image: i, ${config}}`))).toEqual(told);
    const profile = document('Profile', 'p', '{image: i}');
    expect(check(image(format) + profile + machine(`, profile: p, ${config}`))).toEqual(told);
  });

  test('gives no warning at a Cluster, whose machines may boot different images', () => {
    const cluster = document('Cluster', 'c', `{${extra('ignition')}}`);
    expect(check(image('cloud-init') + cluster)).toEqual([]);
  });
});

test.each([
  ['gateway6', '{mac: "52:54:00:00:00:02", addresses: ["fd01::1/64"], gateway6: "fd01::2"}', 1],
  [
    'a route',
    '{mac: "52:54:00:00:00:02", addresses: [10.3.0.1/24], routes: [{to: 0.0.0.0/0, via: 10.3.0.2}]}',
    1,
  ],
  [
    'a route with a metric',
    '{mac: "52:54:00:00:00:02", addresses: [10.3.0.1/24], routes: [{to: 0.0.0.0/0, via: 10.3.0.2, metric: 9}]}',
    0,
  ],
])('a second default route on another interface, by %s, gives a warning', (_, second, warnings) => {
  const first =
    '{mac: "52:54:00:00:00:01", addresses: [10.2.0.1/24, "fd00::1/64"], gateway: 10.2.0.2, gateway6: "fd00::2"}';
  const told = check(
    document('Profile', 'p', `{boot: hold, config: {network: {interfaces: [${first}, ${second}]}}}`),
  );
  expect(told).toHaveLength(warnings);
  for (const one of told) expect(one).toMatch(/^warning .*the same metric/);
});
