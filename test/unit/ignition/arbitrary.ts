/**
 * Arbitrary configurations that the schema accepts, for property tests: awkward texts, many
 * combinations, and only literal templates.
 */
import fc from 'fast-check';
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
const key = fc.stringMatching(/^[A-Za-z0-9+/]{20,40}$/).map((body) => `ssh-ed25519 ${body} someone`);
const optional = <T extends object>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }, required: (keyof T)[]) =>
  fc.record(shape, { requiredKeys: required as never });
const unique = <T>(item: fc.Arbitrary<T>, by: (one: T) => unknown, maxLength = 4) =>
  fc.uniqueArray(item, { selector: by, maxLength });

const file = fc.oneof(
  optional({ path, content: text, mode: fc.constantFrom('0644', '755', '4755'), owner: word, group: word }, [
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
  .map(([name, value]) => `[Service]\n${name}=${value}\n[Install]\nWantedBy=multi-user.target\n`);
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
    passwordHash: fc.constant('$6$salt$hash'),
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
      ...(n + 1 < labels.length && { sizeMiB: 64 }),
      filesystem,
      ...(filesystem !== 'swap' && { mount: `/srv/${label}` }),
    })),
  }));

export const anyConfig: fc.Arbitrary<NodeConfig> = optional(
  {
    hostname: word,
    timezone: fc.constantFrom('Etc/UTC', 'Europe/Berlin'),
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
  .map((config) => nodeConfig.parse(config));
