/** Merging: narrower layers win, lists merge by key, and every value has its origin. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { merge, provenance, sourceOf } from '../../../src/ignition/merge.ts';
import type { ConfigLayer } from '../../../src/ignition/rendered.ts';
import { type NodeConfig, nodeConfig } from '../../../src/resources/nodeconfig.ts';

const layer = (name: 'cluster' | 'profile' | 'machine', config: unknown): ConfigLayer => ({
  layer: name,
  document: `${name[0]!.toUpperCase()}${name.slice(1)}/x`,
  config: nodeConfig.parse(config),
});

const merged = (...layers: ConfigLayer[]) => merge(layers).config;

test('plain values of the narrower layer win, and other values stay', () => {
  expect(
    merged(layer('cluster', { timezone: 'Etc/UTC', hostname: 'a' }), layer('machine', { hostname: 'b' })),
  ).toEqual({ timezone: 'Etc/UTC', hostname: 'b' });
});

test('files merge by path; content in any form replaces content in any other, mode and owner stay', () => {
  const wide = layer('profile', {
    files: [
      { path: '/a', content: 'wide', mode: '0600', owner: 'ops' },
      { path: '/b', content: 'b' },
    ],
  });
  const narrow = layer('machine', {
    files: [
      { path: '/c', content: 'c' },
      { path: '/a', contentBase64: 'eA==' },
    ],
  });
  expect(merged(wide, narrow).files).toEqual([
    { path: '/a', mode: '0600', owner: 'ops', contentBase64: 'eA==' },
    { path: '/b', content: 'b' },
    { path: '/c', content: 'c' },
  ]);
});

test('units merge by name and their drop-ins by name', () => {
  const wide = layer('cluster', {
    units: [{ name: 'a.service', enabled: true, dropins: [{ name: '1.conf', contents: 'x' }] }],
  });
  const narrow = layer('profile', {
    units: [
      {
        name: 'a.service',
        mask: true,
        dropins: [
          { name: '2.conf', contents: 'y' },
          { name: '1.conf', contents: 'z' },
        ],
      },
    ],
  });
  expect(merged(wide, narrow).units).toEqual([
    {
      name: 'a.service',
      enabled: true,
      mask: true,
      dropins: [
        { name: '1.conf', contents: 'z' },
        { name: '2.conf', contents: 'y' },
      ],
    },
  ]);
});

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGTy9bm9ytgaN2Mk/J62KIqJ13MJ3jaqNeO3PCa0/mwG';

test("a user's keys and groups are united, the narrower layer wins in everything else", () => {
  const wide = layer('cluster', {
    users: [{ name: 'ops', sshKeys: [`${KEY} a`, `${KEY} b`], groups: ['adm'], uid: 1 }],
  });
  const narrow = layer('machine', {
    users: [{ name: 'ops', sshKeys: [`${KEY} b`, `${KEY} c`], groups: ['sudo'], uid: 2 }],
  });
  expect(merged(wide, narrow).users).toEqual([
    { name: 'ops', sshKeys: [`${KEY} a`, `${KEY} b`, `${KEY} c`], groups: ['adm', 'sudo'], uid: 2 },
  ]);
});

test('interfaces merge by hardware address or name; their lists are replaced', () => {
  const wide = layer('profile', {
    network: {
      interfaces: [{ mac: '52:54:00:00:00:01', nameservers: ['10.0.0.1'], mtu: 1400 }, { name: 'eth1' }],
    },
  });
  const narrow = layer('machine', {
    network: { interfaces: [{ mac: '52-54-00-00-00-01', nameservers: ['10.0.0.2'] }] },
  });
  expect(merged(wide, narrow).network?.interfaces).toEqual([
    { mac: '52:54:00:00:00:01', nameservers: ['10.0.0.2'], mtu: 1400 },
    { name: 'eth1' },
  ]);
});

test('extra documents are kept apart, widest first', () => {
  const all = merge([
    layer('cluster', { extra: { cloudInit: 'a: 1' } }),
    layer('machine', { extra: { cloudInit: 'b: 2' } }),
  ]);
  expect(all.extras.map(({ text, source }) => [text, source.document])).toEqual([
    ['a: 1', 'Cluster/x'],
    ['b: 2', 'Machine/x'],
  ]);
});

test('every value has the layer, document and path of its origin', () => {
  const all = merge([
    layer('cluster', {
      files: [{ path: '/a', content: 'x', mode: '0600' }],
      users: [{ name: 'ops', groups: ['adm'] }],
    }),
    layer('profile', {
      timezone: 'Etc/UTC',
      files: [
        { path: '/b', content: 'y' },
        { path: '/a', content: 'z' },
      ],
    }),
    layer('machine', { users: [{ name: 'ops', groups: ['sudo'] }] }),
  ]);
  const told = Object.fromEntries(
    [...provenance(all)].map(([at, { document, path }]) => [at, `${document} ${path}`]),
  );
  expect(told).toMatchObject({
    timezone: 'Profile/x spec.config.timezone',
    'files[0].content': 'Profile/x spec.config.files[1].content',
    'files[0].mode': 'Cluster/x spec.config.files[0].mode',
    'files[1].path': 'Profile/x spec.config.files[0].path',
    'users[0].groups[0]': 'Cluster/x spec.config.users[0].groups[0]',
    'users[0].groups[1]': 'Machine/x spec.config.users[0].groups[0]',
  });
  expect(sourceOf(all, ['files', 1])?.document).toBe('Profile/x');
});

const fragment: fc.Arbitrary<NodeConfig> = fc
  .record(
    {
      hostname: fc.constantFrom('a', 'b'),
      timezone: fc.constantFrom('Etc/UTC', 'Europe/Berlin'),
      variables: fc.dictionary(
        fc.constantFrom('a', 'b', 'c'),
        fc.oneof(fc.string(), fc.integer(), fc.boolean()),
      ),
      files: fc.uniqueArray(fc.record({ path: fc.constantFrom('/a', '/b', '/c'), content: fc.string() }), {
        selector: (one) => one.path,
      }),
      users: fc.uniqueArray(
        fc.record({
          name: fc.constantFrom('x', 'y'),
          groups: fc.uniqueArray(fc.constantFrom('p', 'q', 'r')),
        }),
        { selector: (one) => one.name },
      ),
    },
    { requiredKeys: [] },
  )
  .map((value) => nodeConfig.parse(value));

test('merging is deterministic, changes nothing that is merged, and accounts for every leaf', () => {
  fc.assert(
    fc.property(fc.array(fragment, { minLength: 1, maxLength: 3 }), (configs) => {
      const names = ['cluster', 'profile', 'machine'] as const;
      const make = () => configs.map((config, n) => ({ layer: names[n]!, document: `D/${n}`, config }));
      const before = JSON.stringify(configs);
      const one = merge(make());
      expect(JSON.stringify(configs)).toBe(before);
      expect(JSON.stringify(merge(structuredClone(make())).config)).toBe(JSON.stringify(one.config));
      const leaves = (value: unknown): number =>
        typeof value === 'object' && value !== null
          ? Object.values(value).reduce((sum: number, inner) => sum + leaves(inner), 0)
          : 1;
      expect(one.sources.size).toBe(leaves(one.config));
      expect(nodeConfig.safeParse(one.config).success).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test('an empty layer changes nothing, nor does a layer that is merged with itself', () => {
  fc.assert(
    fc.property(fragment, (config) => {
      const alone = merge([{ layer: 'profile', document: 'P/x', config }]).config;
      const empty: ConfigLayer = { layer: 'machine', document: 'M/x', config: {} };
      expect(merge([{ layer: 'profile', document: 'P/x', config }, empty]).config).toEqual(alone);
      expect(
        merge([
          { layer: 'cluster', document: 'C/x', config },
          { layer: 'profile', document: 'P/x', config },
        ]).config,
      ).toEqual(alone);
    }),
    { numRuns: 300 },
  );
});

test('layers that machines share are merged once', () => {
  const layers = [layer('cluster', { hostname: 'a' }), layer('profile', { hostname: 'b' })];
  expect(merge(layers)).toBe(merge([...layers]));
  expect(merge([layers[1]!])).not.toBe(merge(layers));
});
