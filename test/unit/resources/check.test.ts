/** Checks between fields and between documents, and the position that a fault names. */

import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import type { Mac } from '../../../src/base/mac.ts';
import { bootScript } from '../../../src/pxe/script/script.ts';
import type { Candidate, CandidateSet } from '../../../src/resources/candidate.ts';
import { checkDocuments } from '../../../src/resources/check.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import { endorsementPin } from '../../../src/resources/tpm-spec.ts';

/** Checks the documents of a text. */
function check(text: string) {
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
  return checkDocuments(set as unknown as CandidateSet);
}

const shown = (text: string) =>
  check(text).map(
    ({ fault, severity }) =>
      `${severity} ${fault.at?.line}:${fault.at?.column} ${fault.code} ${fault.message}`,
  );

const network = (name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: Network\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const machine = (name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: Machine\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const profile = (name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: Profile\nmetadata: {name: ${name}}\nspec: ${spec}\n`;

const LAB = network(
  'lab',
  '{subnet: 10.77.0.0/24, gateway: 10.77.0.1, address: 10.77.0.2, dhcp: {mode: server, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}}',
);

describe('gateways of routes in DHCP options', () => {
  const told = (options: string) =>
    shown(
      network(
        'lab',
        `{subnet: 10.77.0.0/24, dhcp: {mode: server, options: [${options}], pools: [{start: 10.77.0.100, end: 10.77.0.199}]}}`,
      ),
    ).map((one) => one.replace(/^.* E_[A-Z]+ Network\/lab: /, ''));

  test('outside of the subnet are refused, unless a route says that they are on the link', () => {
    expect(told('{option: 121, value: [{to: 10.9.0.0/16, via: 10.99.0.1}]}')).toEqual([
      '10.99.0.1 is outside of 10.77.0.0/24, so clients have no way to it; name a gateway inside, or add {to: 10.99.0.1/32, via: 0.0.0.0} if it is on this link',
    ]);
    expect(told('{option: routers, vendorClass: x, value: 10.99.0.1}')).toEqual([]);
    expect(
      told('{option: 121, value: [{to: 10.99.0.1/32, via: 0.0.0.0}, {to: 10.9.0.0/16, via: 10.99.0.1}]}'),
    ).toEqual([]);
    expect(told('{option: 121, value: [{to: 0.0.0.0/0, via: 10.77.0.1}]}')).toEqual([]);
  });
});

describe('a network', () => {
  test.each([
    ['gateway: 10.78.0.1', 'gateway 10.78.0.1 is not a host address inside 10.77.0.0/24'],
    ['gateway: 10.77.0.0', 'gateway 10.77.0.0 is not a host address inside 10.77.0.0/24'],
    ['address: 10.77.0.255', 'address 10.77.0.255 is not a host address inside 10.77.0.0/24'],
  ])('refuses %s', (field, message) => {
    expect(shown(network('lab', `{subnet: 10.77.0.0/24, ${field}, dhcp: {mode: off}}`))).toEqual([
      expect.stringContaining(message),
    ]);
  });

  test.each([
    ['[{start: 10.77.1.1, end: 10.77.1.9}]', ['pool start 10.77.1.1', 'pool end 10.77.1.9']],
    ['[{start: 10.77.0.9, end: 10.77.0.3}]', ['pool starts at 10.77.0.9, after its end 10.77.0.3']],
    ['[{start: 10.77.0.1, end: 10.77.0.9}]', ['the pool contains the gateway 10.77.0.1']],
    [
      '[{start: 10.77.0.20, end: 10.77.0.30}, {start: 10.77.0.10, end: 10.77.0.20}]',
      ['pools overlap: number 1 begins inside number 2'],
    ],
  ])('refuses the pools %s', (pools, messages) => {
    const text = network(
      'lab',
      `{subnet: 10.77.0.0/24, gateway: 10.77.0.1, dhcp: {mode: server, pools: ${pools}}}`,
    );
    expect(shown(text)).toEqual(messages.map((one) => expect.stringContaining(one)));
  });

  test('with pools that its mode never uses is refused', () => {
    const text = network(
      'lab',
      '{subnet: 10.77.0.0/24, dhcp: {mode: proxy, pools: [{start: 10.77.0.3, end: 10.77.0.4}]}}',
    );
    expect(shown(text)).toEqual([expect.stringContaining('mode proxy gives no addresses from pools')]);
  });

  test('that overlaps others is refused with their names, also when one spans several', () => {
    const text =
      network('wide', '{subnet: 10.0.0.0/8, dhcp: {mode: off}}') +
      network('a', '{subnet: 10.1.0.0/16, dhcp: {mode: off}}') +
      network('b', '{subnet: 10.200.0.0/16, dhcp: {mode: off}}') +
      network('c', '{subnet: 11.0.0.0/8, dhcp: {mode: off}}');
    expect(shown(text)).toEqual([
      'error 10:16 E_DUPLICATE Network/a: subnet 10.1.0.0/16 overlaps 10.0.0.0/8 of Network/wide (d.yaml:5)',
      'error 15:16 E_DUPLICATE Network/b: subnet 10.200.0.0/16 overlaps 10.0.0.0/8 of Network/wide (d.yaml:5)',
    ]);
  });

  test('from which no client can get an address is a warning', () => {
    expect(shown(network('lab', '{subnet: 10.77.0.0/24, dhcp: {mode: reservations}}'))).toEqual([
      expect.stringMatching(/^warning .*no Machine has an address in this network/),
    ]);
  });

  test.each(['1s', '200y'])('with a lease time of %s is refused', (time) => {
    const text = network(
      'lab',
      `{subnet: 10.77.0.0/24, dhcp: {mode: off, leaseTime: ${time === '200y' ? '73000d' : time}}}`,
    );
    expect(shown(text)).toEqual([expect.stringContaining('is not between 30s and 136 years')]);
  });

  test('with two addresses (/31) may use both', () => {
    expect(
      shown(
        network('p2p', '{subnet: 10.77.0.0/31, gateway: 10.77.0.0, address: 10.77.0.1, dhcp: {mode: off}}'),
      ),
    ).toEqual([]);
  });
});

describe('a BMC with a port of its own', () => {
  const one = (bmc: string, more = '') =>
    machine('one', `{macs: ["52:54:00:00:00:01"]${more}, bmc: {address: 10.78.0.10, port: 8443${bmc}}}`);
  const held = (bmc: string) => profile('held', `{boot: hold, bmc: {${bmc}}}`);
  const rack = (subnet: string, bmc: string) =>
    network('rack', `{subnet: ${subnet}, dhcp: {mode: off}, bmc: {${bmc}}}`);
  const refused = [
    expect.stringContaining('E_SCHEMA Machine/one: a port is of one protocol: write `protocol` as well'),
  ];

  test('needs the protocol, in its Machine, in its Profile, or in the Network that it is in', () => {
    expect(shown(one(''))).toEqual(refused);
    expect(shown(one(', protocol: auto'))).toEqual(refused);
    expect(shown(one(', protocol: redfish'))).toEqual([]);
    expect(shown(one('', ', profile: held') + held('protocol: redfish'))).toEqual([]);
    expect(shown(one('') + rack('10.78.0.0/24', 'protocol: ipmi'))).toEqual([]);
    expect(shown(one('') + rack('10.79.0.0/24', 'protocol: ipmi'))).toEqual(refused);
  });

  test('has the one of the narrower document, also where that says auto', () => {
    const auto = held('protocol: auto') + rack('10.78.0.0/24', 'protocol: ipmi');
    expect(shown(one('', ', profile: held') + auto)).toEqual(refused);
    expect(shown(one(', protocol: auto', ', profile: held') + held('protocol: redfish'))).toEqual(refused);
  });

  test('whose Profile is chosen by its parts may get it from any of them', () => {
    const selected = held('protocol: redfish');
    expect(shown(one('') + selected)).toEqual([]);
    expect(shown(one('') + held('console: sol'))).toEqual(refused);
  });
});

describe('a BMC that is named by its MAC address', () => {
  const one = (bmc: string, more = '') =>
    machine('one', `{macs: ["52:54:00:00:00:01"]${more}, bmc: {mac: "52:54:00:cc:00:01"${bmc}}}`);
  const pinned = `certificate: {sha256: ${'a'.repeat(64)}}`;

  test('needs a certificate that some document names for it', () => {
    expect(shown(one(''))).toEqual([
      expect.stringContaining('E_SCHEMA Machine/one: whoever takes the lease of `mac` could pose as the BMC'),
    ]);
    expect(shown(one(`, ${pinned}`))).toEqual([]);
    const held = profile('held', `{boot: hold, bmc: {${pinned}}}`);
    expect(shown(one('', ', profile: held') + held)).toEqual([]);
    const other = profile('other', '{boot: hold}');
    expect(shown(one('', ', profile: other') + other + held)).toHaveLength(1);
    const rack = network('rack', `{subnet: 10.78.0.0/24, dhcp: {mode: off}, bmc: {${pinned}}}`);
    expect(shown(one('') + rack)).toEqual([]);
  });

  test('is not asked by IPMI, which shows none', () => {
    for (const bmc of ['protocol: ipmi', 'console: sol']) {
      const held = profile('held', `{boot: hold, bmc: {${bmc}}}`);
      expect(shown(one(`, ${pinned}`, ', profile: held') + held)).toEqual([
        expect.stringContaining('Profile/held asks for IPMI'),
      ]);
      expect(parseDocuments(one(`, ${pinned}, ${bmc}`), 'd.yaml').faults).toHaveLength(1);
    }
  });

  test('has no address besides, and one of both', () => {
    const faults = (text: string) => parseDocuments(text, 'd.yaml').faults.map(({ message }) => message);
    expect(faults(one(`, ${pinned}, address: 10.78.0.10`))).toEqual([
      expect.stringContaining('write `address`, or `mac`'),
    ]);
    expect(faults(machine('one', '{macs: ["52:54:00:00:00:01"], bmc: {}}'))).toEqual([
      expect.stringContaining('write `address`, or `mac`'),
    ]);
  });
});

describe('a machine', () => {
  test('with the MAC of another is refused at its own position; the fault names the other', () => {
    const text =
      LAB +
      machine('one', '{macs: ["52:54:00:00:00:01"]}') +
      machine('two', '{macs: ["52:54:00:00:00:02", "5254.0000.0001"]}');
    expect(shown(text)).toEqual([
      'error 15:36 E_DUPLICATE Machine/two: MAC 52:54:00:00:00:01 is also claimed by Machine/one (d.yaml:7)',
    ]);
  });

  test.each(['ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01', '00:00:00:00:00:00'])(
    'with the MAC %s is refused',
    (mac) => {
      expect(shown(machine('one', `{macs: ["${mac}"]}`))).toEqual([
        expect.stringContaining('not the address of an interface'),
      ]);
    },
  );

  test('with UUID and serial number of another is refused; with the same UUID only, it is a warning', () => {
    const uuid = '4c4c4544-0042-3510-8051-b7c04f4d3532';
    const text =
      machine('one', `{macs: ["52:54:00:00:00:01"], uuid: ${uuid}, serial: A}`) +
      machine('two', `{macs: ["52:54:00:00:00:02"], uuid: ${uuid}, serial: B}`) +
      machine('three', `{macs: ["52:54:00:00:00:03"], uuid: ${uuid}, serial: A}`);
    expect(shown(text)).toEqual([
      expect.stringMatching(
        /^warning .*Machine\/two: UUID .* neither machine is recognised by its UUID alone$/,
      ),
      expect.stringMatching(
        /^error .*E_DUPLICATE Machine\/three: UUID .* and serial A are also those of Machine\/one/,
      ),
    ]);
  });

  test.each([
    ['10.77.0.255', 'the network address or the broadcast address'],
    ['10.77.0.1', 'is the gateway of Network/lab'],
    ['10.77.0.2', 'is the address of Network/lab'],
    ['192.168.1.1', 'is outside every network'],
    ['fe80::1', 'is not one at which other hosts can reach the machine'],
    ['::1', 'is not one at which other hosts can reach the machine'],
    ['ff02::1', 'is not one at which other hosts can reach the machine'],
  ])('with the address %s is refused', (address, message) => {
    expect(shown(LAB + machine('one', `{macs: ["52:54:00:00:00:01"], addresses: ["${address}"]}`))).toEqual([
      expect.stringContaining(message),
    ]);
  });

  test('may have IPv6 addresses outside every network, but not those of another machine, in whatever notation', () => {
    const text =
      LAB +
      machine(
        'one',
        '{macs: ["52:54:00:00:00:01"], addresses: [10.77.0.10, "fd00:77::0:10", "fd00:88::10"]}',
      ) +
      machine('two', '{macs: ["52:54:00:00:00:02"], addresses: ["FD00:77:0:0::10"]}');
    expect(shown(text)).toEqual([
      expect.stringContaining('address fd00:77::10 is also claimed by Machine/one (d.yaml:7)'),
    ]);
  });

  test('with the address of another, or two in one network, is refused', () => {
    const text =
      LAB +
      machine('one', '{macs: ["52:54:00:00:00:01"], addresses: [10.77.0.10]}') +
      machine('two', '{macs: ["52:54:00:00:00:02"], addresses: [10.77.0.10, 10.77.0.11]}');
    expect(shown(text)).toEqual([
      expect.stringContaining('address 10.77.0.10 is also claimed by Machine/one (d.yaml:7)'),
      expect.stringContaining('addresses 10.77.0.10 and 10.77.0.11 are both in Network/lab'),
    ]);
  });

  test('that refers to a missing document is refused; the fault suggests the nearest name', () => {
    const text =
      profile('worker', '{boot: hold}') +
      machine('one', '{macs: ["52:54:00:00:00:01"], profile: wroker, cluster: x}');
    expect(shown(text)).toEqual([
      'error 10:46 E_REFERENCE Machine/one: there is no Profile "wroker"; did you mean "worker"?',
      'error 10:63 E_REFERENCE Machine/one: there is no Cluster "x"',
    ]);
  });
});

describe('a profile', () => {
  test('whose image is missing is a warning: its machines are held until the image exists', () => {
    expect(shown(profile('worker', '{image: debian-13}'))).toEqual([
      'warning 5:15 E_REFERENCE Profile/worker: there is no Image "debian-13"',
    ]);
  });

  describe('whose image has configFormat none', () => {
    const image = (more: string) =>
      `---\napiVersion: muster/v1\nkind: Image\nmetadata: {name: i}\nspec: {os: x, arch: x86_64, configFormat: none${more}, kernel: {sha256: "${'0'.repeat(64)}"}}\n`;

    test('gets a warning for a configuration that nothing reads', () => {
      const text = image(', reports: true') + profile('p', '{image: i, config: {timezone: Etc/UTC}}');
      expect(shown(text)).toEqual([
        'warning 10:26 E_SCHEMA Profile/p: its image "i" has configFormat none, so this configuration has no effect; use an image that cloud-init or Ignition configures',
      ]);
    });

    test('gets a warning that its machines never report, unless the image has `reports: true`', () => {
      expect(shown(image('') + profile('p', '{image: i}'))).toEqual([
        'warning 10:15 E_SCHEMA Profile/p: its image "i" has configFormat none and does not report: its machines never become ready; let the image run muster-report.sh and set "reports: true"',
      ]);
      expect(shown(image(', reports: true') + profile('p', '{image: i}'))).toEqual([]);
    });
  });

  describe('with a document in `extra` that its image does not read', () => {
    const image = (format: string) =>
      `---\napiVersion: muster/v1\nkind: Image\nmetadata: {name: i}\nspec: {os: x, arch: x86_64, configFormat: ${format}, kernel: {sha256: "${'0'.repeat(64)}"}, root: {sha256: "${'1'.repeat(64)}"}}\n`;
    const extra = (text: string) => profile('p', `{image: i, config: {extra: ${text}}}`);

    test('gets a warning that names the other field', () => {
      expect(shown(image('ignition') + extra('{cloudInit: "runcmd: [date]"}'))).toEqual([
        expect.stringMatching(
          /^warning .*reads ignition, so this document has no effect; write it as extra.ignition$/,
        ),
      ]);
      expect(shown(image('cloud-init') + extra('{ignition: "storage: {}"}'))).toEqual([
        expect.stringMatching(/^warning .*reads cloud-init, so .*; write it as extra.cloudInit$/),
      ]);
    });

    test('gets none when it has a document for either format', () => {
      const both = extra('{cloudInit: "runcmd: [date]", ignition: "storage: {}"}');
      expect(shown(image('ignition') + both)).toEqual([]);
    });
  });

  test('that selects by a network that does not exist is refused', () => {
    expect(shown(profile('worker', '{boot: hold, selector: {network: nowhere}}'))).toEqual([
      expect.stringContaining('there is no Network "nowhere"'),
    ]);
  });

  test('that selects by inventory brings no Secrets, and its trust is no protection', () => {
    const by = 'selector: {inventory: {memory: {min: 64GiB}}}';
    const files = 'config: {files: [{path: /etc/a, content: {valueFrom: {secret: site, key: a}}}]}';
    expect(shown(profile('worker', `{boot: hold, ${by}, ${files}}`))).toEqual([
      expect.stringMatching(/^error .*gets it Secret site; name the Secret in the Cluster or in Machines/),
    ]);
    expect(shown(profile('worker', `{boot: hold, ${by}, trust: tpm}`))).toEqual([
      expect.stringMatching(/^warning .*evade trust: tpm/),
    ]);
    expect(shown(profile('worker', `{boot: hold, selector: {arch: x86_64}, ${files}}`))).toEqual([]);
  });

  describe('whose kernel arguments', () => {
    const SHA256 = 'a'.repeat(64);
    const IMAGE = `---
apiVersion: muster/v1
kind: Image
metadata: {name: linux}
spec:
  os: debian
  version: "13"
  arch: x86_64
  kernel: {sha256: ${SHA256}}
  initrds: [{sha256: ${SHA256}}, {sha256: ${SHA256}}]
  root: {sha256: ${SHA256}, name: root.squashfs}
  configFormat: cloud-init
  cloudInitVersion: "25.1"
  kernelArguments: [boot=muster]
`;
    const found = (length: number) =>
      shown(`${IMAGE}${profile('worker', `{image: linux, kernelArguments: [${'x'.repeat(length)}]}`)}`);
    /** The greatest length that is accepted. */
    const most = Array.from({ length: 2000 }, (_, n) => 2000 - n).find((n) => found(n).length === 0)!;

    test('are too long together with those of the image and of Muster is refused, with the number of characters that are left', () => {
      expect(found(most + 1)).toEqual([
        `error 19:39 E_KERNEL_ARGUMENT Profile/worker: with those of its image these are ${most + 13} characters; a kernel takes 2000, of which Muster's own arguments leave ${most + 12}`,
      ]);
    });

    test.each([
      ['ds=nocloud;s=URL/'],
      ['ignition.firstboot', 'ignition.platform.id=metal', 'ignition.config.url=URL/ignition'],
    ])('are just short enough boots from the longest address, with %s', (...rendered) => {
      const baseUrl = 'http://255.255.255.255:65535';
      const session = 's'.repeat(22);
      const asset = { sha256: SHA256 };
      const script = bootScript({
        ...{
          baseUrl,
          session,
          mac: '52:54:00:aa:00:01' as Mac,
          machine: 'm',
          profile: 'worker',
          image: 'linux',
        },
        kernel: asset,
        initrds: [asset, asset],
        root: { ...asset, name: 'root.squashfs' },
        kernelArguments: [
          'boot=muster',
          'x'.repeat(most),
          ...rendered.map((text) => text.replace('URL', `${baseUrl}/boot/${session}`)),
        ],
        time: Date.UTC(2200, 0) as Millis,
      });
      expect(script).toContain('x'.repeat(most));
    });
  });
});

test('10,000 machines are checked in linear time', () => {
  const many = (count: number) => {
    const set = {
      Network: new Map(),
      Image: new Map(),
      Cluster: new Map(),
      Profile: new Map(),
      Machine: new Map(),
    };
    const net = parseDocuments(network('big', '{subnet: 10.0.0.0/8, dhcp: {mode: off}}'), 'n').documents[0]!;
    set.Network.set('big', net);
    for (let n = 1; n <= count; n++) {
      const hex = n.toString(16).padStart(6, '0');
      const document = {
        apiVersion: 'muster/v1',
        kind: 'Machine',
        metadata: { name: `m${n}` },
        spec: {
          macs: [`52:54:00:${hex.slice(0, 2)}:${hex.slice(2, 4)}:${hex.slice(4)}`],
          addresses: [`10.${n >> 14}.${(n >> 7) & 127}.${(n & 127) + 1}`],
        },
      };
      set.Machine.set(`m${n}`, { document });
    }
    const started = process.cpuUsage();
    expect(checkDocuments(set as unknown as CandidateSet)).toEqual([]);
    return process.cpuUsage(started).user;
  };
  many(10_000);
  const small = many(2_000);
  // Twenty times as many machines; a quadratic check would take four hundred times as long.
  expect(many(40_000)).toBeLessThan(Math.max(small, 5_000) * 100);
});

describe('a boot disk', () => {
  const sha = 'a'.repeat(64);
  const of = (kind: string, name: string, spec: string) =>
    `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
  const image = (more: string) =>
    of('Image', 'debian', `{os: debian, arch: x86_64, kernel: {sha256: ${sha}}, ${more}}`);
  const LIVE = image(`root: {sha256: ${sha}}, configFormat: cloud-init`);
  const all = (images: string, disks: string, cluster: string, more: string) =>
    shown(
      `${LAB}${images}${of('Cluster', 'one', cluster)}${profile('member', `{image: debian, ${disks}}`)}${machine(
        'm1',
        `{macs: ["52:54:00:00:00:01"], profile: member, cluster: one, ${more}}`,
      )}`,
    );

  test.each([
    [
      'named by the profile together with a data disk',
      LIVE,
      'dataDisk: {serial: D}, bootDisk: {serial: B}',
      '{}',
      '',
    ],
    ['that is also the data disk', LIVE, 'dataDisk: {serial: D}', '{bootDisk: {serial: D}}', ''],
    [
      'named by the machine, with the data disk of the cluster,',
      LIVE,
      '',
      '{dataDisk: {serial: D}}',
      'bootDisk: {serial: B}',
    ],
    [
      'with an image for Ignition',
      image(`root: {sha256: ${sha}}, configFormat: ignition`),
      'dataDisk: {serial: D}, bootDisk: {serial: B}',
      '{}',
      '',
    ],
    [
      'named by the cluster of a machine with delivery inline',
      LIVE,
      '',
      '{bootDisk: {serial: B}}',
      'delivery: inline',
    ],
  ])('%s is accepted', (_, images, disks, cluster, more) => {
    expect(all(images, disks, cluster, more)).toEqual([]);
  });

  test.each([
    ['without a data disk', LIVE, 'bootDisk: {serial: B}', '{}', '', 'a boot disk needs a dataDisk as well'],
    [
      'with an image that reads no configuration',
      image(`root: {sha256: ${sha}}, configFormat: none, reports: true`),
      'dataDisk: {serial: D}, bootDisk: {serial: B}',
      '{}',
      '',
      'a boot disk needs an image with a root image and with cloud-init or Ignition',
    ],
    [
      'with an image without a root image',
      image('configFormat: cloud-init'),
      'dataDisk: {serial: D}, bootDisk: {serial: B}',
      '{}',
      '',
      'a boot disk needs an image with a root image and with cloud-init or Ignition',
    ],
    [
      'of a machine with delivery inline',
      LIVE,
      '',
      '{}',
      'delivery: inline, bootDisk: {serial: B}',
      'delivery: inline and bootDisk exclude each other',
    ],
  ])('%s is refused with the machine', (_, images, disks, cluster, more, text) => {
    expect(all(images, disks, cluster, more)).toEqual([expect.stringContaining(text)]);
  });
});

/** The tier of a Cluster whose text names none. */
const tier = (text: string): string => (text.includes('trust:') ? '' : 'trust: segment, ');

describe('a tier of trust', () => {
  const of = (kind: string, name: string, spec: string) =>
    `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
  const cluster = (more: string) =>
    of(
      'Cluster',
      'one',
      `{${tier(more)}kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [m1]}, ${more}}`,
    );
  const all = (given: { network?: string; cluster?: string; machine: string }) =>
    shown(
      `${LAB}${given.network ?? ''}${cluster(given.cluster ?? '')}${profile('member', '{boot: hold}')}${machine(
        'm1',
        `{macs: ["52:54:00:00:00:01"], profile: member, ${given.machine}}`,
      )}`,
    );

  test('that asks for an approval at every boot is refused with the machine, and the message says what to change', () => {
    expect(all({ machine: 'trust: approved' })).toEqual([
      expect.stringMatching(
        /trust: approved \(Machine\/m1\) would ask for an approval at each of its boots.*name a dataDisk, or write "trust: tpm"/,
      ),
    ]);
    expect(all({ cluster: 'trust: approved', machine: '' })).toEqual([
      expect.stringContaining('trust: approved (Cluster/one)'),
    ]);
  });

  test('of a network counts for the machines that have an address in it', () => {
    const network = of('Network', 'far', '{subnet: 10.9.0.0/24, trust: approved, dhcp: {mode: off}}');
    expect(all({ network, machine: 'addresses: [10.9.0.4]' })).toEqual([
      expect.stringContaining('trust: approved (Network/far)'),
    ]);
    expect(all({ network, machine: '' })).toEqual([]);
  });

  test.each([
    ['approved with a data disk of the machine', '', 'trust: approved, dataDisk: {serial: D}'],
    ['approved with a data disk of the cluster', 'trust: approved, dataDisk: {serial: D}', ''],
    ['tpm, which proves every new key', 'trust: approved', 'trust: tpm'],
    ['segment', 'trust: segment', ''],
  ])('%s is accepted', (_, of, machine) => {
    expect(all({ cluster: of, machine })).toEqual([]);
  });

  test('approved and delivery inline exclude each other', () => {
    const docs = (trust: string) =>
      shown(
        `${LAB}${of('Cluster', 'one', `{trust: ${trust}, kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [m2], workers: [m1]}}`)}${profile('member', '{boot: hold}')}${machine('m1', '{macs: ["52:54:00:00:00:01"], profile: member, delivery: inline}')}`,
      );
    expect(docs('approved')).toEqual([
      expect.stringContaining('Cluster/one asks for trust: approved; remove one of the two'),
    ]);
    expect(docs('segment')).toEqual([]);
  });
});

describe('a TPM', () => {
  const pem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({
    type: 'spki',
    format: 'pem',
  });
  const cluster = (more: string): string =>
    `---\napiVersion: muster/v1\nkind: Cluster\nmetadata: {name: one}\nspec: {${tier(more)}kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [m1]}, ${more}}\n`;
  const image = (programs: string): string =>
    `---\napiVersion: muster/v1\nkind: Image\nmetadata: {name: i}\nspec: {os: debian, arch: x86_64, configFormat: cloud-init, kernel: {sha256: ${'a'.repeat(64)}}${programs}}\n`;
  const member = (spec: string): string =>
    machine('m1', `{macs: ["52:54:00:00:00:01"], profile: p, ${spec}}`);
  const faultsOf = (more: string): readonly string[] =>
    parseDocuments(LAB + cluster(more), 'd.yaml').faults.map(({ message }) => message);

  test.each([
    ['lists other programs', ', programs: [curl]', 'do not list tpm2; build the image again'],
    ['lists none', ', programs: []', 'do not list tpm2'],
  ])('an image that %s is refused for tier tpm', (_, programs, text) => {
    const of = (more: string) =>
      shown(`${LAB}${image(programs)}${cluster(more)}${profile('p', '{image: i}')}${member('')}`);
    expect(of('trust: tpm').filter((one) => one.includes('tpm2'))).toEqual([expect.stringContaining(text)]);
    expect(of('trust: segment').filter((one) => one.includes('tpm2'))).toEqual([]);
  });

  test.each([
    ['tpm', 'cryptsetup', 'do not list tpm2'],
    ['tpm', 'tpm2', 'do not list cryptsetup'],
    ['tpm', 'curl', 'needs cryptsetup and tpm2-tools'],
    ['boot-host', 'tpm2', 'do not list cryptsetup'],
    ['tpm', 'cryptsetup, tpm2', undefined],
    ['boot-host', 'cryptsetup', undefined],
  ])('a data disk with encrypt: %s and an image with %s', (encrypt, programs, text) => {
    const found = shown(
      `${LAB}${image(`, programs: [${programs}]`)}${cluster(`dataDisk: {serial: D, encrypt: ${encrypt}}`)}${profile('p', '{image: i}')}${member('')}`,
    ).filter((one) => one.includes('dataDisk'));
    expect(found).toEqual(text === undefined ? [] : [expect.stringContaining(text)]);
  });

  test.each([
    ['encrypt: boot-host', '', 'only the boot host has the key'],
    ['encrypt: boot-host', ', needsBootHost: true', undefined],
    ['encrypt: tpm', '', undefined],
  ])('a boot disk beside a data disk with %s%s', (encrypt, needs, text) => {
    const disks = `dataDisk: {serial: D, ${encrypt}}, bootDisk: {serial: B${needs}}`;
    const found = shown(
      `${LAB}${image(`, programs: [cryptsetup, tpm2], root: {sha256: ${'b'.repeat(64)}}`)}${cluster(disks)}${profile('p', '{image: i}')}${member('')}`,
    ).filter((one) => one.includes('boot disk'));
    expect(found).toEqual(text === undefined ? [] : [expect.stringContaining(text)]);
  });

  test('encrypt alone selects no disk', () => {
    expect(faultsOf('dataDisk: {encrypt: tpm}')).toEqual([expect.stringContaining('say which disk')]);
  });

  test.each([
    ['lists tpm2', ', programs: [curl, tpm2]'],
    ['does not say what it has', ''],
  ])('an image that %s is accepted for tier tpm', (_, programs) => {
    const text = `${LAB}${image(programs)}${cluster('trust: tpm')}${profile('p', '{image: i}')}${member('')}`;
    expect(shown(text).filter((one) => one.includes('tpm2'))).toEqual([]);
  });

  test('two machines cannot have the same, whether it is written as key or as hash', () => {
    const pin = endorsementPin(String(pem));
    const second = machine(
      'm2',
      `{macs: ["52:54:00:00:00:02"], profile: p, tpm: {endorsementKey: "sha256:${pin}"}}`,
    );
    const first = member(`tpm: {endorsementKey: ${JSON.stringify(pem)}}`);
    const text = `${LAB}${profile('p', '{boot: hold}')}${first}${second}`;
    expect(shown(text)).toEqual([expect.stringMatching(/the TPM is also that of .*Machine\/m1/)]);
  });

  test.each([
    ['vendorCAs: []', 'needs at least 1'],
    ['vendorCAs: [text]', 'not certificates of CAs in PEM'],
    [`vendorCAs: [${JSON.stringify(pem)}]`, 'not certificates of CAs in PEM'],
  ])('a Cluster with tpm: {%s} is refused', (tpm, text) => {
    expect(faultsOf(`tpm: {${tpm}}`)).toEqual([expect.stringContaining(text)]);
  });

  test.each(['""', 'sha256:AB', `"sha256:${'A'.repeat(64)}"`, JSON.stringify(String(pem).slice(0, 100))])(
    'the endorsement key %s is refused',
    (key) => {
      const { faults } = parseDocuments(member(`tpm: {endorsementKey: ${key}}`), 'd.yaml');
      expect(faults.map(({ message }) => message)).toEqual([
        expect.stringContaining('not an endorsement key'),
      ]);
    },
  );
});

test.each([
  ['aa:bb:cc:dd:ee:ff', 1],
  ['00-11-22-33-44-55', 1],
  ['aa:bb:cc:dd:ee:fe', 0],
])('a MAC of examples, %s, gives a warning', (mac, warnings) => {
  const told = shown(LAB + machine('a', `{macs: ["${mac}"]}`)).filter((one) => one.includes('of examples'));
  expect(told).toHaveLength(warnings);
  for (const one of told) expect(one).toMatch(/^warning .*write that of the machine/);
});
