/** Every fault of a set of documents is reported in one run, at its place, and nothing else. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { allFaults } from '../../../src/cli/documents/validate.ts';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import { reconcile } from '../../../src/resources/file-layer.ts';

/** One line of a document; with `fault`, the line that somebody wrote instead. */
interface Line {
  readonly right: string;
  readonly fault?: string;
}

const line = (right: string, fault?: string): Line => ({ right, ...(fault !== undefined && { fault }) });

const head = (kind: string, name: string): readonly Line[] => [
  line('apiVersion: muster/v1'),
  line(`kind: ${kind}`),
  line(`metadata: {name: ${name}}`),
  line('spec:'),
];

const machine = (n: number): readonly Line[] => [
  ...head('Machine', `cp${n}`),
  line(`  macs: ["52:54:00:00:00:0${n}"]`, `  macs: ["52:54:00:00:00:0${n}", "52:54:00:00:00"]`),
  line('  profile: k8s', '  profile: k9s'),
  line(`  addresses: [10.77.0.1${n}]`, `  addresses: [10.99.0.1${n}]`),
  line(`  dataDisk: {serial: "D${n}"}`, `  dataDisk: {serial: "D${n}", speed: 5}`),
  line('  config:'),
  line('    sysctls: {vm.swappiness: 1}', '    sysctls: [1]'),
  line('    kernelModules: [loop]', '    kernelModules: [{loop: 1}]'),
];

/** Documents of a cluster; each may be written wrongly at many lines. */
const DOCUMENTS: readonly (readonly Line[])[] = [
  [
    ...head('Network', 'lan'),
    line('  interface: eth0', '  interface: [eth0]'),
    line('  address: 10.77.0.1'),
    line('  subnet: 10.77.0.0/24'),
    line('  gateway: 10.77.0.254', '  gateway: 10.78.0.254'),
    line('  dhcp:'),
    line('    mode: reservations'),
    line('    leaseTime: 1h', '    leaseTime: 1s'),
  ],
  [
    ...head('Image', 'debian'),
    line('  os: debian'),
    line('  arch: x86_64'),
    line(
      `  kernel: {url: "https://x.example/vmlinuz", sha256: "${'0'.repeat(64)}"}`,
      '  kernel: {url: "https://x.example/vmlinuz", sha256: "0000"}',
    ),
    line('  configFormat: cloud-init'),
    line('  kernelArguments: [quiet]', '  kernelArguments: quiet'),
  ],
  [
    ...head('Profile', 'k8s'),
    line('  image: debian', '  image: *debian'),
    line('  kernelArguments: [quiet]', '  kernelArguments: [quiet'),
    line('  config:'),
    line('    timezone: Europe/Paris', '    timezone: Europe/Pariss'),
  ],
  machine(1),
  machine(2),
  machine(3),
  [
    ...head('Cluster', 'blue'),
    line('  trust: segment'),
    line('  kubernetes:'),
    line('    version: "1.36"', '    version: "1.96"'),
    line('    endpoint: api.example', '    endpoint: "api.example:99999"'),
    line('    controlPlanes: [cp1, cp2, cp3]'),
    line('    networks:'),
    line('      pods: [10.244.0.0/16]', '      pods: [169.254.0.0/16]'),
    line(
      '    nodes: [{machines: [cp1], labels: {a: b}}]',
      '    nodes: [{machines: [cp1], labels: {a: "b b"}}]',
    ),
    line('    coreDNS: {replicas: 2}', '    coreDNS: {replicas: two}'),
    line('    overrides:'),
    line('      dnsDomain: cluster.local', '      dnsDomain: "-"'),
    line('      cniPlugins: /opt/cni/bin', '      cniPlugin: /opt/cni/bin'),
    line('      sans: {ips: [10.77.0.20]}', '      sans: {ips: [nix]}'),
    line('      registry: registry.k8s.io', '      registry: "http://registry.k8s.io"'),
  ],
];

const places = DOCUMENTS.flatMap((lines, d) =>
  lines.flatMap((one, n) => (one.fault === undefined ? [] : [{ d, n }])),
);

interface Place {
  readonly d: number;
  readonly n: number;
}

/** What the parser cannot read hides the rest of its own document, and only that. */
const isNoYaml = ({ d, n }: Place): boolean => /\*|quiet$/.test(DOCUMENTS[d]![n]!.fault!) && d === 2;

/** The parser finds one fault of a document that it cannot read. */
const readable = (wrong: readonly Place[]): readonly Place[] => {
  const first = wrong.find(isNoYaml);
  return wrong.filter((one) => one === first || !isNoYaml(one));
};

function written(wrong: readonly Place[]): { readonly text: string; readonly lines: readonly number[] } {
  const text: string[] = [];
  const lines: number[] = [];
  for (const [d, document] of DOCUMENTS.entries()) {
    if (d > 0) text.push('---');
    const broken = wrong.filter((one) => one.d === d && isNoYaml(one)).sort((a, b) => a.n - b.n)[0];
    for (const [n, one] of document.entries()) {
      const isWrong = wrong.some((place) => place.d === d && place.n === n);
      text.push(isWrong ? one.fault! : one.right);
      if (isWrong && (broken === undefined || broken.n === n)) lines.push(text.length);
    }
  }
  return { text: `${text.join('\n')}\n`, lines };
}

function read(text: string) {
  const result = reconcile({
    before: new Map(),
    changes: new Map([['all.yaml', { text }]]),
    api: new Map(),
    known: [],
    extra: (set) => checkAll(set, undefined),
  });
  const warnings = result.first.filter(({ severity }) => severity === 'warning');
  return { faults: allFaults(result), warnings: warnings.map(({ fault }) => fault) };
}

test('documents without a fault have none', () => {
  const { faults, warnings } = read(written([]).text);
  expect([...faults, ...warnings].map(({ message }) => message)).toEqual([]);
});

test('each of several faults is reported once, at its line, and nothing else is', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.constantFrom(...places), { minLength: 1, maxLength: 12 }), (wrong) => {
      const { text, lines } = written(readable(wrong));
      const { faults, warnings } = read(text);
      const told = faults.map(({ at, message }) => `${at?.line} ${message}`).sort();
      expect(
        faults.map(({ at }) => at?.line ?? 0).sort((a, b) => a - b),
        told.join('\n'),
      ).toEqual(lines);
      expect(warnings.map(({ message }) => message)).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

test('a reload tells all faults of the new version, and keeps the old one in force', () => {
  const right = { before: new Map(), api: new Map(), known: [] };
  const extra = (set: Parameters<typeof checkAll>[0]) => checkAll(set, undefined);
  const file = (text: string) => new Map([['all.yaml', { text }]]);
  const before = reconcile({ ...right, changes: file(written([]).text), extra });
  const wrong = places.filter((place) => !isNoYaml(place) || place.n === 4).filter(({ d }) => d !== 0);
  const { text, lines } = written(wrong);
  const after = reconcile({ ...right, before: before.files, changes: file(text), extra });
  expect([...after.documents.keys()]).toEqual([...before.documents.keys()]);
  expect(after.files.get('all.yaml')?.faults.map(({ at }) => at?.line)).toEqual(lines);
});
