/** What is checked when a document is applied is what is rendered when the machine boots. */
import fs from 'node:fs';
import path from 'node:path';
import v8 from 'node:v8';
import vm from 'node:vm';
import { expect, test } from 'vitest';
import { previewAgents } from '../../../../src/agent/serve/agents.ts';
import { checkedLayer } from '../../../../src/agent/serve/machine-layer.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { casesIn } from '../../../../src/ignition/cases.ts';
import { checkInput } from '../../../../src/ignition/check.ts';
import { render } from '../../../../src/ignition/render.ts';
import type { RenderInput } from '../../../../src/ignition/rendered.ts';
import { followMemberships } from '../../../../src/machines/membership.ts';
import { createConfigurations } from '../../../../src/pxe/decide/configuration.ts';
import { joinNetworks } from '../../../../src/pxe/networks.ts';
import type { Candidate, CandidateSet } from '../../../../src/resources/candidate.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';
import type { Document, Kind } from '../../../../src/resources/kinds.ts';
import { world } from '../boot/world.ts';

v8.setFlagsFromString('--expose-gc');
const collectGarbage = vm.runInNewContext('gc') as () => void;

const GOLDEN = path.join(import.meta.dirname, '../../../golden/config');

const NETWORK = `---
apiVersion: muster/v1
kind: Network
metadata: {name: lab}
spec:
  interface: eth1
  subnet: 10.77.0.0/24
  gateway: 10.77.0.1
  domain: lab.example
  dns: [10.77.0.2]
  ntp: [10.77.0.4]
  mtu: 9000
  dhcp: {mode: server, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}
`;

/** The documents of a text, each Machine with a profile that names `image`. */
function documentsOf(text: string, image: string | undefined) {
  const { documents, faults } = parseDocuments(`${NETWORK}---\n${text}`, 'd.yaml');
  expect(faults).toEqual([]);
  const plain = documents.map((one) => JSON.parse(JSON.stringify(one.document)));
  if (image === undefined) return plain;
  for (const one of plain) {
    if (one.kind === 'Machine') one.spec.profile ??= 'plain';
    if (one.kind === 'Profile') one.spec.image = image;
  }
  return [
    ...plain,
    { apiVersion: 'muster/v1', kind: 'Profile', metadata: { name: 'plain' }, spec: { image } },
  ];
}

function candidatesOf(documents: readonly Document[]): CandidateSet {
  const set: Record<Kind, Map<string, Candidate>> = {
    Network: new Map(),
    Image: new Map(),
    Cluster: new Map(),
    Profile: new Map(),
    Machine: new Map(),
    Webhook: new Map(),
  };
  for (const document of documents) set[document.kind].set(document.metadata.name, { document });
  return set as unknown as CandidateSet;
}

/** A catalog with these documents, and the configurations of its machines. */
async function opened(documents: readonly object[], renders: (input: RenderInput) => void = () => {}) {
  const { catalog, roster } = await world(documents);
  const memberships = followMemberships(catalog);
  const configurations = createConfigurations({
    catalog,
    memberships,
    agents: previewAgents({ memberships, clock: new ManualClock(0 as Millis) }),
    chosenDataDisk: () => undefined,
    inventory: () => undefined,
    render(input) {
      renders(input);
      return render(input);
    },
  });
  return { catalog, roster, configurations };
}

/** The inputs of every machine that has an image, from the check and from a boot. */
async function inputsOf(documents: readonly object[]) {
  const rendered: RenderInput[] = [];
  const { catalog, roster, configurations } = await opened(documents, (input) => rendered.push(input));
  const { networks } = joinNetworks({
    documents: catalog.list('Network'),
    addresses: [{ interface: 'eth1', address: ipv4('10.77.0.1') }],
    httpPort: 8080,
  });
  const kinds: readonly Kind[] = ['Network', 'Image', 'Cluster', 'Profile', 'Machine'];
  const all = kinds.flatMap((kind) => catalog.list(kind).map(({ document }) => document as Document));
  const casesOf = casesIn(candidatesOf(all));
  return catalog.list('Machine').map(({ document }) => {
    const [one] = casesOf(document);
    const checked = checkInput(one!, checkedLayer);
    if (!('context' in checked)) throw new Error(JSON.stringify(checked.faults));
    const { session, url } = checked.context.boot;
    const result = configurations.of({
      member: roster.get(document.metadata.name)!,
      profile: one!.profile!.metadata.name,
      image: one!.image!.metadata.name,
      mac: checked.context.machine.mac,
      session,
      baseUrl: url.slice(0, url.indexOf('/boot/')),
      network: networks[0],
      address: checked.context.machine.address,
      ticketed: true,
    });
    return { name: document.metadata.name, checked, booted: rendered.at(-1)!, result };
  });
}

/** Boot files of a boot disk are named by routes that a check does not know. */
const hashesOnly = (input: RenderInput): unknown =>
  JSON.parse(JSON.stringify(input).replaceAll(/http:\/\/[^ ]*\/([0-9a-f]{64})\/[^ \\"]*/g, '$1'));

const golden = fs
  .readdirSync(GOLDEN)
  .filter((name) => name.endsWith('.yaml'))
  .flatMap((name) => {
    const text = fs.readFileSync(path.join(GOLDEN, name), 'utf8');
    const images = documentsOf(text, undefined).filter(({ kind }) => kind === 'Image');
    return images.map(({ metadata }) => ({ name, text, image: metadata.name as string }));
  });

test.for(golden)('$name with $image is checked as it is booted', async ({ text, image }) => {
  const inputs = await inputsOf(documentsOf(text, image));
  expect(inputs.length).toBeGreaterThan(0);
  for (const { checked, booted, result } of inputs) {
    expect(checked).toEqual(booted);
    expect(result.ok).toBe(true);
  }
});

const KUBERNETES = `---
apiVersion: muster/v1
kind: Image
metadata: {name: debian}
spec: {os: debian, arch: x86_64, configFormat: cloud-init, kernel: {sha256: "${'a'.repeat(64)}"}, initrds: [{sha256: "${'b'.repeat(64)}"}], root: {sha256: "${'c'.repeat(64)}"}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec:
  image: debian
  config:
    units:
      - {name: after.service, enabled: true, contents: "[Unit]\\nAfter=kubelet.service\\n[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  dataDisk: {serial: S1}
  bootDisk: {serial: S1}
  kubernetes:
    {version: 1.36.2, endpoint: 10.77.0.11, controlPlanes: [cp1], workers: [w1, w2], networks: {machines: [10.77.0.0/24, "fd00:77::/64"]}}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:01"], profile: node, addresses: [10.77.0.11, "fd00:77::11"]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: w1}
spec: {macs: ["52:54:00:aa:00:02"], profile: node, addresses: [10.77.0.12], delivery: inline}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: w2}
spec: {macs: ["52:54:00:aa:00:03"], profile: node, config: {network: {interfaces: [{name: bond0, dhcp4: true}]}}}
`;

test("a cluster's machines are checked with their agent, static network and late units", async () => {
  const inputs = await inputsOf(documentsOf(KUBERNETES, 'debian'));
  for (const { checked, booted, result } of inputs) {
    expect(hashesOnly(checked)).toEqual(hashesOnly(booted));
    expect(result.ok).toBe(true);
  }
  const layers = new Map(inputs.map(({ name, checked }) => [name, checked.layers]));
  const documentsIn = (name: string) => layers.get(name)!.map(({ document }) => document);
  expect(documentsIn('cp1')).toEqual(['muster', 'muster', 'Profile/node']);
  expect(documentsIn('w1')).toEqual(['muster', 'muster', 'Profile/node']);
  expect(documentsIn('w2')).toEqual(['muster', 'Profile/node', 'Machine/w2']);
  expect(layers.get('cp1')![0]!.lateUnits).toEqual(['kubelet.service']);
  expect(JSON.stringify(layers.get('cp1'))).toContain('/etc/muster/muster-boot.sh');
  expect(layers.get('cp1')![1]!.config.network!.interfaces![0]!.addresses).toEqual([
    '10.77.0.11/24',
    'fd00:77::11/64',
  ]);
});

test('a kept configuration has no copy of the scripts that all machines get', async () => {
  const { roster, configurations } = await opened(documentsOf(KUBERNETES, 'debian'));
  const fetch = (session: number): number => {
    const result = configurations.of({
      member: roster.get('cp1')!,
      profile: 'node',
      image: 'debian',
      mac: '52:54:00:aa:00:01' as Mac,
      session: `session-${session}`,
      baseUrl: 'http://10.77.0.1:8080',
      network: undefined,
      address: undefined,
      ticketed: true,
    });
    return result.ok ? result.value.files['user-data']!.length : 0;
  };
  expect(fetch(0)).toBeGreaterThan(100_000);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let n = 1; n <= 200; n++) fetch(n);
  collectGarbage();
  expect((process.memoryUsage().heapUsed - before) / 200).toBeLessThan(40_000);
});
