/** Values that a schema takes, and that cannot work. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

/** What applying a document says. */
async function told(kind: string, spec: string): Promise<readonly string[]> {
  const catalog = await openCatalog({
    metrics: createMetrics(),
    store: openMemoryStore(),
    events: { record: () => undefined },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
  });
  try {
    const text = `apiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: one}\nspec: ${spec}\n`;
    const { warnings } = await catalog.applyText(text, 'd.yaml');
    return warnings.map(({ message }) => `warning ${message}`);
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    return error.faults.map(({ path, message }) => `error ${path}: ${message}`);
  } finally {
    await catalog.close();
  }
}

test.for(['127.0.0.0/8', '127.5.0.0/16', '224.0.0.0/24', '239.1.0.0/16', '0.0.0.0/8'])(
  'a Network %s is refused',
  async (subnet) => {
    expect(await told('Network', `{subnet: ${subnet}, dhcp: {mode: "off"}}`)).toEqual([
      expect.stringMatching(/^error spec\.subnet: Network\/one: subnet \S+ is in .* no machine can have/),
    ]);
  },
);

test.for(['0.0.0.0', '10.9.0.255', '10.9.0.0', '255.255.255.255', '224.0.0.1'])(
  'a server for names or time at %s is refused',
  async (address) => {
    for (const field of ['dns', 'ntp'])
      expect(
        await told('Network', `{subnet: 10.9.0.0/24, dhcp: {mode: "off"}, ${field}: [${address}]}`),
      ).toEqual([`error spec.${field}[0]: Network/one: ${address} is not the address of a server`]);
  },
);

test('networks of carriers and link-local ones, and servers elsewhere, are taken', async () => {
  for (const subnet of ['100.64.0.0/10', '169.254.7.0/24', '192.0.2.0/24', '198.18.0.0/15'])
    expect(
      await told('Network', `{subnet: ${subnet}, dhcp: {mode: "off"}, dns: [1.1.1.1, 10.9.0.255]}`),
    ).toEqual([]);
});

test('a token in the address of a Webhook is warned of, without its value', async () => {
  const of = (url: string) =>
    told('Webhook', `{url: "${url}", secret: {valueFrom: {secret: a, key: b}}, events: ["*"]}`);
  const [warning] = await of('https://alerts.example/hook?team=7&token=Zx81kLm2');
  expect(warning).toMatch(/^warning Webhook\/one: this holds the value of "token" in the clear/);
  expect(warning).not.toContain('Zx81');
  expect(await of('https://alerts.example/hook?team=blue')).toEqual([]);
});

test('a variable that uses another one is told why it cannot', async () => {
  const spec =
    '{boot: disk, config: {variables: {a: "${var.b}", b: x}, files: [{path: /a, content: "${var.a}"}]}}';
  const machine =
    '---\napiVersion: muster/v1\nkind: Machine\nmetadata: {name: m}\nspec: {macs: ["52:54:00:00:00:01"], profile: one}\n';
  expect((await told('Profile', `${spec}\n${machine}`)).join()).toContain(
    'variables cannot use each other; write its text out',
  );
});

const more = (kind: string, name: string, spec: string): string =>
  `\n---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const MACHINE = (n: number, rest: string): string => `{macs: ["52:54:00:00:00:0${n}"]${rest}}`;

test('two Machines with one hostname are told, at the later one', async () => {
  const named = (n: number, hostname: string) => MACHINE(n, `, config: {hostname: ${hostname}}`);
  // A Profile beside them, because Machines alone are checked in constant time each.
  const beside = (machines: string) => told('Machine', machines + more('Profile', 'p', '{boot: hold}'));
  const both = await beside(named(1, 'node-7') + more('Machine', 'two', named(2, 'node-7')));
  expect(both).toEqual([
    expect.stringContaining('Machine/two: node-7 is the hostname of Machine/one (d.yaml:1) as well'),
  ]);
  const taken = await beside(MACHINE(1, '') + more('Machine', 'two', named(2, 'one')));
  expect(taken).toEqual([expect.stringContaining('one is the hostname of Machine/one')]);
  // They may exchange their names, and templates differ for each.
  expect(await beside(named(1, 'two') + more('Machine', 'two', named(2, 'one')))).toEqual([]);
  const template = named(1, '"n-${machine.name}"') + more('Machine', 'two', named(2, '"n-${machine.name}"'));
  expect(await beside(template)).toEqual([]);
});

test('a template of units that is enabled is told how to enable an instance', async () => {
  const unit = (name: string, rest = '') =>
    told('Profile', `{boot: hold, config: {units: [{name: "${name}", enabled: true${rest}}]}}`);
  expect(await unit('hello@.service')).toEqual([
    expect.stringContaining('hello@.service is a template, which cannot be started; enable an instance'),
  ]);
  expect(await unit('hello@7.service')).toEqual([]);
  expect(await told('Profile', '{boot: hold, config: {units: [{name: "a@.service"}]}}')).toEqual([]);
});

test('snapshots that would follow each other at once are told', async () => {
  const of = async (every: string) =>
    (
      await told(
        'Cluster',
        `{trust: segment, backup: {every: ${every}}, kubernetes: {version: "1.36.3", endpoint: a.example, controlPlanes: [a]}}`,
      )
    ).filter((text) => text.includes('snapshot'));
  expect(await of('1s')).toEqual([expect.stringContaining('write 1m or more')]);
  expect(await of('1m')).toEqual([]);
});

test('a virtual address that control planes cannot hold is told, with the segments', async () => {
  const of = async (address: string, second: string) => {
    const cluster = `{trust: segment, kubernetes: {version: "1.36.3", endpoint: ${address}, virtualAddress: {interface: eth0}, controlPlanes: [a, b, c]}}`;
    const rest =
      more('Network', 'n1', '{subnet: 10.1.0.0/24, dhcp: {mode: proxy}}') +
      more('Network', 'n2', '{subnet: 10.2.0.0/24, dhcp: {mode: proxy}}') +
      more('Machine', 'a', MACHINE(1, ', addresses: [10.1.0.11]')) +
      more('Machine', 'b', MACHINE(2, `, addresses: [${second}]`)) +
      more('Machine', 'c', MACHINE(3, ', addresses: [10.1.0.13]'));
    return (await told('Cluster', cluster + rest)).filter((text) => text.includes('segment'));
  };
  expect(await of('10.1.0.9', '10.1.0.12')).toEqual([]);
  expect(await of('10.1.0.9', '10.2.0.12')).toEqual([
    expect.stringContaining('10.1.0.9 is in Network/n1, and b in Network/n2: a control plane can hold only'),
  ]);
  expect(await of('10.3.0.9', '10.1.0.12')).toEqual([
    expect.stringContaining('10.3.0.9 is in no Network, and a in Network/n1, b in Network/n1'),
  ]);
});
