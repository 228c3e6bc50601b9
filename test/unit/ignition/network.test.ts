/** Networks of a configuration: what cannot work on a machine is refused, with what to write. */
import fs from 'node:fs';
import fc from 'fast-check';
import { load } from 'js-yaml';
import { describe, expect, test } from 'vitest';
import { parseDocuments } from '../../../src/resources/document.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';
import { anyNetwork } from './arbitrary.ts';
import { DEBIAN_12, DEBIAN_13, FEDORA, FLATCAR, rendered, renderOne } from './kit.ts';

const MAC = '52:54:00:aa:00:01';
const OTHER = '52:54:00:aa:00:02';

/** Faults of a network, from its schema or as a whole, as `PATH MESSAGE`. */
function faults(...interfaces: object[]): readonly string[] {
  const network = { network: { interfaces } };
  const checked = nodeConfig.safeParse(network);
  if (!checked.success)
    return checked.error.issues.map(({ path, message }) => `${path.slice(2).join('.')} ${message}`);
  const results = [DEBIAN_12, FLATCAR].map((image) => {
    const result = renderOne(network, image);
    return result.ok
      ? []
      : result.faults.map(({ path, message }) =>
          `${path} ${message}`.replace('spec.config.network.interfaces', '').replace('Profile/worker: ', ''),
        );
  });
  expect(results[0]).toEqual(results[1]);
  return results[0]!;
}

const bond = (more: object = {}, members = ['eno1', 'eno2']) => ({
  name: 'bond0',
  bond: { mode: '802.3ad', interfaces: members, ...more },
});
const vlan = (id: number, link: string, more: object = {}) => ({
  name: `v${id}`,
  vlan: { id, link },
  ...more,
});

describe('what cannot work is refused', () => {
  test.each<[string, object[], RegExp]>([
    ['a name that is too long', [{ name: 'averyveryverylonginterface0' }], /has 27 characters.*at most 15/],
    ['a name with a slash', [{ name: 'a/b' }], /no blanks and none of/],
    ['a name that is a number', [{ name: '7' }], /must not be a number/],
    ['a name that Linux has taken', [{ name: 'lo' }], /not free/],
    [
      'the word default as a destination',
      [{ name: 'a', routes: [{ to: 'default', via: '10.0.0.1' }] }],
      /write "0\.0\.0\.0\/0".*gateway/,
    ],
    ['a mode that other tools call so', [bond({ mode: 'lacp' })], /write "802\.3ad"/],
    ['a mode by its number', [bond({ mode: 1 })], /write "active-backup"/],
    ['a bond without members', [bond({}, [])], /expected array to have >=1/i],
    ['a VLAN out of range', [vlan(4095, 'eno1')], /4094/],
    ['a VLAN with a MAC address', [vlan(5, 'eno1', { mac: MAC })], /leave `mac` out/],
    ['a bond without a name', [{ mac: MAC, bond: { mode: '802.3ad', interfaces: ['a'] } }], /needs a name/],
    ['a bond that is a bridge', [{ ...bond(), bridge: {} }], /give one of bond, vlan and bridge/],
    ['a rule for no packets', [{ name: 'a', rules: [{ table: 5 }] }], /say which packets/],
    ['a member that is listed twice', [bond({}, ['eno1', 'eno1'])], /"eno1" is listed twice/],
    ['a member of two bonds', [bond(), { ...bond(), name: 'bond1' }], /eno1 is already a part of bond0/],
    [
      'a member by its name and by its MAC address',
      [{ mac: MAC, name: 'eno1' }, bond({}, ['eno1', MAC])],
      /already a part of bond0/,
    ],
    [
      'a port of a bridge that is a member',
      [bond(), { name: 'br0', bridge: { interfaces: ['eno2'] } }],
      /already/,
    ],
    [
      'a member with an address',
      [bond(), { name: 'eno1', addresses: ['10.0.0.2/24'] }],
      /cannot have addresses/,
    ],
    [
      'a member that asks DHCP',
      [bond(), { name: 'eno1', dhcp4: true }],
      /cannot have dhcp4.*move it to bond0/,
    ],
    [
      'a bond in a bond',
      [bond(), { name: 'b2', bond: { mode: '802.3ad', interfaces: ['bond0'] } }],
      /bond cannot/,
    ],
    ['a bridge of itself', [{ name: 'br0', bridge: { interfaces: ['br0'] } }], /br0 is built on itself/],
    ['a circle', [vlan(5, 'br0'), { name: 'br0', bridge: { interfaces: ['v5'] } }], /v5 is built on itself/],
    [
      'the same VLAN twice',
      [vlan(5, 'eno1'), { ...vlan(5, 'eno1'), name: 'x' }],
      /v5 is VLAN 5 of eno1 already/,
    ],
    ['an LACP rate without LACP', [bond({ mode: 'active-backup', lacpRate: 'fast' })], /has no lacpRate/],
    ['a primary in LACP', [bond({ primary: 'eno1' })], /has no primary/],
    [
      'a primary that is no member',
      [bond({ mode: 'active-backup', primary: 'eno3' })],
      /not one of the bond/,
    ],
    ['a delay that the monitor cannot see', [bond({ upDelay: '150ms' })], /multiple of monitor/],
    [
      'a VLAN that is larger than its carrier',
      [{ ...bond(), mtu: 1500 }, vlan(5, 'bond0', { mtu: 9000 })],
      /9000/,
    ],
    ['IPv6 with a small MTU', [{ name: 'a', mtu: 1000, addresses: ['fd00::2/64'] }], /1280/],
    [
      'a gateway of another network',
      [{ name: 'a', addresses: ['10.77.0.31/24'], gateway: '10.88.0.1' }],
      /gatewayOnLink/,
    ],
    [
      'a route by another network',
      [{ name: 'a', addresses: ['10.77.0.31/24'], routes: [{ to: '10.9.0.0/16', via: '10.88.0.1' }] }],
      /onLink/,
    ],
    [
      'its own address as gateway',
      [{ name: 'a', addresses: ['10.77.0.1/24'], gateway: '10.77.0.1' }],
      /also the gateway/,
    ],
    ['the address of a network', [{ name: 'a', addresses: ['10.77.0.0/24'] }], /network itself/],
    ['a broadcast address', [{ name: 'a', addresses: ['10.77.0.255/24'] }], /broadcast/],
    ['a multicast address', [{ name: 'a', addresses: ['224.0.0.5/24'] }], /cannot be the address/],
    ['the address of everything', [{ name: 'a', addresses: ['10.77.0.5/0'] }], /prefix length of 0/],
    [
      'an IPv4 address written as IPv6',
      [{ name: 'a', addresses: ['::ffff:10.0.0.1/96'] }],
      /cannot be the address/,
    ],
    [
      'an address of two interfaces',
      [
        { name: 'a', addresses: ['10.77.0.3/24'] },
        { name: 'b', addresses: ['10.77.0.3/24'] },
      ],
      /a has 10\.77\.0\.3 already/,
    ],
    [
      'a gateway of an interface without an address',
      [{ name: 'a', dhcp4: false, gateway: '10.0.0.1' }],
      /no default/,
    ],
    [
      'a gateway of IPv6 of an interface without an address',
      [{ name: 'a', acceptRa: false, gateway6: 'fd00::1' }],
      /no default route/,
    ],
    [
      'a route by its own address',
      [{ name: 'a', addresses: ['10.77.0.31/24'], routes: [{ to: '10.9.0.0/16', via: '10.77.0.31' }] }],
      /the interface itself/,
    ],
    ['a name server without an address', [{ name: 'a', nameservers: ['0.0.0.0'] }], /no name server/],
    ['the stub of the resolver', [{ name: 'a', nameservers: ['127.0.0.53'] }], /systemd-resolved itself/],
    [
      'a member with less MTU',
      [
        { ...bond(), mtu: 9000 },
        { name: 'eno1', mtu: 1500 },
      ],
      /bond0 has an MTU of 9000/,
    ],
    [
      'a port with less MTU',
      [
        { name: 'br0', mtu: 9000, bridge: { interfaces: ['eno1'] } },
        { name: 'eno1', mtu: 1500 },
      ],
      /br0 has an MTU of 9000/,
    ],
    ['a pattern as a name', [{ name: 'eth*' }], /no patterns/],
    ['a name that excludes', [{ name: '!eth0' }], /no patterns/],
    ['a name with a quote', [{ name: 'a"b' }], /not an interface name/],
    ['a name that is too long in octets', [{ name: 'é'.repeat(8) }], /not an interface name/],
    ['an address twice', [{ name: 'a', addresses: ['10.77.0.3/24', '10.77.0.3/16'] }], /listed twice/],
  ])('%s', (_, interfaces, message) => {
    expect(faults(...interfaces).join('\n')).toMatch(message);
  });
});

test.each<[string, object[]]>([
  [
    'a gateway outside of a host address',
    [{ name: 'a', addresses: ['192.0.2.10/32'], gateway: '198.51.100.1' }],
  ],
  [
    'a gateway that is said to be on the link',
    [{ name: 'a', addresses: ['10.0.0.2/24'], gateway: '10.1.0.1', gatewayOnLink: true }],
  ],
  [
    'a gateway behind a route on the link',
    [{ name: 'a', addresses: ['10.0.0.2/24'], gateway: '10.1.0.1', routes: [{ to: '10.1.0.1/32' }] }],
  ],
  ['a link-local gateway', [{ name: 'a', addresses: ['fd00::2/64'], gateway6: 'fe80::1' }]],
  ['a gateway where DHCP gives the address', [{ name: 'a', dhcp4: true, gateway: '10.1.0.1' }]],
  ['both addresses of a /31', [{ name: 'a', addresses: ['10.0.0.0/31'], gateway: '10.0.0.1' }]],
  [
    'a bond with the MAC address of its member',
    [
      { ...bond({}, [MAC, OTHER]), mac: MAC },
      { mac: MAC, mtu: 9000 },
    ],
  ],
  [
    'the same host address on two interfaces',
    ['a', 'b'].map((name) => ({ name, addresses: ['192.0.2.1/32'] })),
  ],
  ['a resolver of its own', [{ name: 'a', nameservers: ['127.0.0.1'] }]],
  ['a gateway of IPv6 with advertisements as the system has them', [{ name: 'a', gateway6: 'fd00::1' }]],
  ['two VLANs of one interface', [vlan(5, 'eno1'), vlan(6, 'eno1')]],
])('%s works', (_, interfaces) => {
  expect(faults(...interfaces)).toEqual([]);
});

test('any network that fits together renders for every kind of image', () => {
  fc.assert(
    fc.property(anyNetwork, (interfaces) => {
      for (const image of [DEBIAN_12, DEBIAN_13, FLATCAR])
        expect(renderOne({ network: { interfaces } }, image)).toMatchObject({ ok: true });
      // NetworkManager finds a VLAN's carrier by name alone, and these all have names.
      expect(renderOne({ network: { interfaces } }, FEDORA)).toMatchObject({ ok: true });
    }),
    { numRuns: 200 },
  );
});

describe('cloud-init', () => {
  const network = (interfaces: object[], image: typeof DEBIAN_12 | typeof DEBIAN_13) =>
    load(rendered({ network: { interfaces } }, image).files['network-config']!) as {
      ethernets: Record<string, Record<string, unknown>>;
    };

  test('before 23.1 gets the default route of IPv6 in two halves', () => {
    const one = { mac: MAC, addresses: ['fd00:77::31/64'], gateway6: 'fd00:77::1' };
    const routes = (image: typeof DEBIAN_12 | typeof DEBIAN_13) =>
      network([one], image).ethernets.nic0!.routes;
    expect(routes(DEBIAN_13)).toEqual([{ to: '::/0', via: 'fd00:77::1' }]);
    expect(routes(DEBIAN_12)).toEqual([
      { to: '::/1', via: 'fd00:77::1' },
      { to: '8000::/1', via: 'fd00:77::1' },
    ]);
  });

  test('boots with DHCP on the interface that booted, where Muster writes the files', () => {
    expect(network([bond({}, [MAC, OTHER])], DEBIAN_13).ethernets).toEqual({
      nic0: { match: { macaddress: MAC }, dhcp4: true },
    });
  });

  test('renames interfaces before Muster’s files name them', () => {
    const { ethernets } = network([{ mac: OTHER, name: 'lan1' }, bond({}, [MAC, 'lan1'])], DEBIAN_13);
    expect(ethernets.lan1).toEqual({
      match: { macaddress: OTHER },
      'set-name': 'lan1',
      dhcp4: false,
      optional: true,
    });
  });

  test('on NetworkManager says that it cannot have a bond', () => {
    const result = renderOne(
      { network: { interfaces: [bond()] } },
      { ...DEBIAN_13, os: 'rocky' as 'debian' },
    );
    expect(result.ok ? [] : result.faults.map(({ message }) => message).join()).toMatch(/NetworkManager/);
  });
});

test('a bond has the MAC address of the member that boots, so that DHCP knows the machine', () => {
  const files = JSON.stringify(
    rendered({ network: { interfaces: [bond({}, [OTHER, MAC])] } }, FLATCAR).files.ignition,
  );
  expect(decodeURIComponent(files)).toContain(`MACAddress=${MAC}`);
});

test('the documents of docs/networks.md render as they are', () => {
  const page = fs.readFileSync('docs/networks.md', 'utf8');
  const texts = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => text!);
  expect(texts).toHaveLength(5);
  for (const text of texts) {
    const { documents, faults } = parseDocuments(text, 'networks.md');
    expect(faults).toEqual([]);
    const { config = {} } = documents[0]!.document.spec as { config?: object };
    for (const image of [DEBIAN_12, DEBIAN_13, FLATCAR, FEDORA])
      expect(renderOne(config, image)).toMatchObject({ ok: true });
  }
});
