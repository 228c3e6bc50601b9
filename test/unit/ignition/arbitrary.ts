/**
 * Arbitrary configurations that the schema accepts, for property tests: awkward texts, many
 * combinations, and only literal templates.
 */
import fc from 'fast-check';
import { networkFaults } from '../../../src/ignition/network-faults.ts';
import { nodeFaults } from '../../../src/ignition/node-faults.ts';
import { templateLiteral } from '../../../src/ignition/template.ts';
import { type NodeConfig, nodeConfig } from '../../../src/resources/nodeconfig.ts';

/** Characters with a special meaning in YAML, shells or cloud-init. */
export const awkward = fc.constantFrom(
  'a',
  'Z',
  '0',
  ' ',
  '\n',
  '\t',
  ':',
  '#',
  '-',
  '"',
  "'",
  '\\',
  '|',
  '>',
  '%',
  '&',
  '*',
  '!',
  '?',
  '{',
  '}',
  '[',
  ']',
  '$',
  '`',
  '\r',
  '\u0085',
  '\u2028',
  '\ufeff',
  '\x7f',
  '\x01',
  '😀',
  'é',
);
/** The certificate of a CA that signs nothing. */
export const SITE_CA = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUDmyhx1X8qu4FYPqJ8u2LnFeY4agwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHU2l0ZSBDQTAgFw0yNjExMjcwMTUyNTRaGA8yMTI2MTEwMzAx
NTI1NFowEjEQMA4GA1UEAwwHU2l0ZSBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABE18ivwVA3ka1idbGYY0Vl4UlDLWf2hLyrJGxN1YQTgjdiQdh6PruOWGiLAN
Qdxho9IwbaMtm8QeZB6JdPakV3ujUzBRMB0GA1UdDgQWBBRX9d+ZZfS4ZinHXOH3
qcH3NCKCIDAfBgNVHSMEGDAWgBRX9d+ZZfS4ZinHXOH3qcH3NCKCIDAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIBRhxh5c9zjH1NWMubeenD7oTYrG
09EWkB3okcC6yAcJAiEAzG7KIlTStyvLCkY7tPzp8UgYIvpoEEq+oGYeWiyzQZE=
-----END CERTIFICATE-----
`;
const text = fc.string({ unit: awkward, maxLength: 40 }).map(templateLiteral);
const word = fc.stringMatching(/^[a-z][a-z0-9]{0,7}$/);
const path = fc
  .array(
    fc.stringMatching(/^[a-zA-Z0-9 '._-]{1,8}$/).filter((one) => !/^\.+$/.test(one)),
    { minLength: 1, maxLength: 3 },
  )
  .map((parts) => `/${parts.join('/')}`);
const octet = fc.integer({ min: 1, max: 254 });
const address = fc.tuple(octet, octet, octet).map(([a, b, c]) => `10.${a}.${b}.${c}`);
const mac = fc
  .tuple(octet, octet)
  .map(([a, b]) => `52:54:00:00:${a.toString(16).padStart(2, '0')}:${b.toString(16).padStart(2, '0')}`);
/** The body of an Ed25519 key: its type and 32 octets, each behind its length. */
const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((octets) => {
  const part = (data: Uint8Array) => Buffer.concat([Buffer.from([0, 0, 0, data.length]), data]);
  const body = Buffer.concat([part(Buffer.from('ssh-ed25519')), part(octets)]);
  return `ssh-ed25519 ${body.toString('base64')} someone`;
});
const optional = <T extends object>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }, required: (keyof T)[]) =>
  fc.record(shape, { requiredKeys: required as never });
const unique = <T>(item: fc.Arbitrary<T>, by: (one: T) => unknown, maxLength = 4) =>
  fc.uniqueArray(item, { selector: by, maxLength });

const owner = fc.oneof(word, fc.constantFrom('0', '65534'));
const file = fc.oneof(
  optional({ path, content: text, mode: fc.constantFrom('0644', '755', '4755'), owner, group: owner }, [
    'path',
    'content',
  ]),
  optional({ path, contentBase64: fc.base64String(), mode: fc.constantFrom('0600') }, [
    'path',
    'contentBase64',
  ]),
  optional(
    {
      path,
      source: fc.record({
        url: fc.constantFrom('http://h/x', 'https://h:8/a?b=c&d'),
        sha256: fc.constant('a'.repeat(64)),
      }),
    },
    ['path', 'source'],
  ),
);
const unitText = fc
  .tuple(
    word,
    text.map((one) => one.replace(/[\n\r\\\u0085\u2028]/g, '')),
  )
  .map(
    ([name, value]) =>
      `[Service]\nExecStart=/bin/true\n${name}=${value}\n[Install]\nWantedBy=multi-user.target\n`,
  );
const unit = optional(
  {
    name: word.map((one) => `${one}.service`),
    contents: unitText,
    enabled: fc.boolean(),
    mask: fc.boolean(),
    dropins: unique(
      fc.record({ name: word.map((one) => `${one}.conf`), contents: unitText }),
      (one) => one.name,
      2,
    ),
  },
  ['name'],
);
const user = optional(
  {
    name: word,
    sshKeys: fc.uniqueArray(key, { maxLength: 2 }),
    groups: fc.uniqueArray(word, { maxLength: 3 }),
    primaryGroup: word,
    gecos: fc.constantFrom('Ops', 'Ända "x", Room 7'),
    passwordHash: fc.constant(
      '$6$salt$wZU8LXJfJJqoagopbB7RuK6JEotEMZ0CQDy0phpPAuLMYQFcmf6L6BdAbs/Q7w7o1qsZ9pFqFVY4yuUSWgaYt1',
    ),
    uid: fc.integer({ min: 1000, max: 60_000 }),
    sudo: fc.boolean(),
    system: fc.boolean(),
    shell: fc.constant('/bin/sh'),
    home: fc.constant('/srv/home'),
  },
  ['name'],
);
const nic = optional(
  {
    mac,
    name: word,
    dhcp4: fc.boolean(),
    addresses: fc.uniqueArray(
      address.map((one) => `${one}/24`),
      { maxLength: 2 },
    ),
    gateway: address,
    nameservers: fc.uniqueArray(address, { maxLength: 2 }),
    search: fc.uniqueArray(word, { maxLength: 2 }),
    mtu: fc.integer({ min: 576, max: 9216 }),
    optional: fc.boolean(),
  },
  ['mac'],
).map((one) =>
  one.gateway && one.addresses?.[0]
    ? { ...one, gateway: one.addresses[0].replace(/\.[0-9]+\/24$/, '.253') }
    : // Without an address, the gateway is in a network that DHCP gives.
      { ...one, dhcp4: one.gateway === undefined ? one.dhcp4 : true },
);
const six = fc.integer({ min: 1, max: 0xfffe }).map((n) => `fd00:77::${n.toString(16)}`);
const route = fc.oneof(
  optional(
    {
      to: fc.constantFrom('0.0.0.0/0', '10.9.0.0/16', '192.0.2.7/32'),
      via: address,
      onLink: fc.constant(true),
      metric: fc.nat(),
      table: fc.integer({ min: 1, max: 4294967295 }),
      source: address,
    },
    ['to', 'via', 'onLink'],
  ),
  optional({ to: fc.constantFrom('::/0', 'fd00:9::/48'), via: six, onLink: fc.constant(true), source: six }, [
    'to',
    'via',
    'onLink',
  ]),
  fc.record({ to: fc.constantFrom('203.0.113.0/24', 'fd00:8::/64') }),
);
const rule = optional(
  {
    from: fc.constantFrom('10.0.0.0/8', '192.0.2.1/32', 'fd00::/16'),
    mark: fc.integer({ min: 1, max: 4294967295 }),
    priority: fc.integer({ min: 1, max: 32765 }),
    table: fc.integer({ min: 1, max: 4294967295 }),
  },
  ['from', 'table'],
);
const filesystem = fc.record(
  {
    device: fc.constantFrom('/dev/disk/by-label/data', '/dev/md/one', '/dev/vdz'),
    format: fc.constantFrom('ext4', 'xfs'),
    options: fc.constantFrom([], ['noatime'], ['ro', 'uid=1000']),
  },
  { requiredKeys: ['device', 'format'] },
);
const delay = fc.constantFrom('100ms', '500ms', '1s', '1m30s');
/** Settings of the IP of any interface. */
const settings = {
  dhcp4: fc.boolean(),
  dhcp6: fc.boolean(),
  fromDhcp: optional(
    { routes: fc.boolean(), dns: fc.boolean(), domains: fc.boolean(), ntp: fc.boolean(), mtu: fc.boolean() },
    [],
  ),
  addresses: fc.uniqueArray(
    fc.oneof(
      address.map((one) => `${one}/16`),
      six.map((one) => `${one}/64`),
    ),
    { maxLength: 2 },
  ),
  gateway: address,
  gateway6: six,
  gatewayOnLink: fc.constant(true),
  metric: fc.nat(),
  acceptRa: fc.boolean(),
  fromRa: optional(
    { gateway: fc.boolean(), dns: fc.boolean(), domains: fc.boolean(), addresses: fc.boolean() },
    [],
  ),
  linkLocal: fc.boolean(),
  nameservers: fc.uniqueArray(address, { maxLength: 2 }),
  search: fc.uniqueArray(word, { maxLength: 2 }),
  mtu: fc.integer({ min: 1280, max: 9216 }),
  routes: fc.array(route, { maxLength: 2 }),
  rules: fc.array(rule, { maxLength: 2 }),
  optional: fc.boolean(),
};
const bond = fc.oneof(
  optional(
    {
      mode: fc.constant('802.3ad'),
      interfaces: fc.constant(['eno1', 'eno2']),
      lacpRate: fc.constantFrom('slow', 'fast'),
      hashPolicy: fc.constantFrom('layer2', 'layer2+3', 'layer3+4', 'encap2+3', 'encap3+4'),
      minLinks: fc.nat(3),
      monitor: fc.constant('100ms'),
      upDelay: delay,
      downDelay: delay,
    },
    ['mode', 'interfaces'],
  ),
  fc.record({
    mode: fc.constantFrom('active-backup', 'balance-tlb', 'balance-alb'),
    interfaces: fc.constant(['eno1', '52:54:00:00:02:02']),
    primary: fc.constant('eno1'),
  }),
  fc.record({
    mode: fc.constantFrom('balance-rr', 'balance-xor', 'broadcast'),
    interfaces: fc.constant(['eno1']),
  }),
);
/** Networks with a bond, a VLAN on it and a bridge; their links fit each other. */
export const anyNetwork = fc
  .tuple(
    optional({ ...settings, name: fc.constant('bond0'), bond }, ['name', 'bond', 'gatewayOnLink']),
    optional(
      {
        ...settings,
        name: fc.constant('lan.5'),
        vlan: fc.record({ id: fc.integer({ min: 1, max: 4094 }), link: fc.constant('bond0') }),
      },
      ['name', 'vlan', 'gatewayOnLink'],
    ),
    optional(
      {
        ...settings,
        name: fc.constant('br0'),
        bridge: optional(
          { interfaces: fc.constant(['eno3']), stp: fc.boolean(), forwardDelay: fc.constantFrom('0s', '4s') },
          [],
        ),
      },
      ['name', 'bridge', 'gatewayOnLink'],
    ),
    optional({ ...settings, mac, name: fc.constant('lan9') }, ['mac', 'gatewayOnLink']),
  )
  .map(([a, vlan, ...rest]) => [a, { ...vlan, mtu: undefined }, ...rest] as object[])
  .map((list) => JSON.parse(JSON.stringify(list)) as object[])
  // What its parts refuse together is tested one by one.
  .filter((interfaces) => nodeConfig.safeParse({ network: { interfaces } }).success)
  .filter(
    (interfaces) =>
      networkFaults(nodeConfig.parse({ network: { interfaces } }).network!.interfaces).length === 0,
  );

const disk = fc
  .tuple(
    word,
    fc.boolean(),
    unique(word, (one) => one, 3),
    fc.constantFrom('ext4', 'xfs', 'vfat', 'swap'),
  )
  .map(([name, wipeTable, labels, filesystem]) => ({
    device: `/dev/disk/by-id/${name}`,
    wipeTable,
    partitions: labels.map((label, n) => ({
      label,
      ...(n + 1 < labels.length && { sizeMiB: 512 }),
      filesystem,
      ...(filesystem !== 'swap' && { mount: `/srv/${label}` }),
    })),
  }));

export const anyConfig: fc.Arbitrary<NodeConfig> = optional(
  {
    hostname: word,
    timezone: fc.constantFrom('Etc/UTC', 'Europe/Berlin'),
    filesystems: unique(filesystem, (one) => one.device, 2),
    caCertificates: fc.constantFrom([], [SITE_CA]),
    sysctls: fc.dictionary(
      fc.constantFrom('vm.swappiness', 'kernel.core_pattern'),
      fc.constantFrom(1, '|/x %p'),
    ),
    kernelModules: fc.uniqueArray(word, { maxLength: 2 }),
    files: unique(file, (one) => one.path),
    units: unique(unit, (one) => one.name),
    users: unique(user, (one) => one.name, 3),
    network: fc.record({
      interfaces: unique(nic, (one) => one.mac, 3)
        .filter((list) => list.length > 0)
        .filter((list) => new Set(list.map((one) => one.name ?? one.mac)).size === list.length),
    }),
    disks: fc.array(disk, { maxLength: 1 }),
    variables: fc.dictionary(word, fc.oneof(text, fc.integer(), fc.boolean()), { maxKeys: 2 }),
  },
  [],
)
  .filter((config) => nodeConfig.safeParse(config).success)
  .map((config) => nodeConfig.parse(config))
  .filter(({ network }) => networkFaults(network?.interfaces ?? []).length === 0)
  .filter((config) => nodeFaults(config).length === 0);
