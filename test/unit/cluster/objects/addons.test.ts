/**
 * Add-ons: manifests read as kubectl reads them, patches by their RFCs, and what control planes are
 * told to apply.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { loadAll } from 'js-yaml';
import { expect, test } from 'vitest';
import type { Plain } from '../../../../src/base/yaml-text.ts';
import type { Addon, PatchOperation } from '../../../../src/cluster/model/addon.ts';
import { ADDON_LABEL, renderAddon } from '../../../../src/cluster/objects/addons/addon.ts';
import { CATALOGUE } from '../../../../src/cluster/objects/addons/catalogue.ts';
import { addonsPart, openAddons } from '../../../../src/cluster/objects/addons/library.ts';
import { readManifest } from '../../../../src/cluster/objects/addons/manifest.ts';
import { jsonPatch, mergePatch } from '../../../../src/cluster/objects/addons/patch.ts';
import { requiredArtifacts, requiredPrograms } from '../../../../src/cluster/resolve/artifacts.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';
import { faults, resolved } from '../kit.ts';
import { clusterDocument, rig, settle, TestMachine } from '../planner-kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

const octets = (text: string): Uint8Array => new TextEncoder().encode(text);
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const read = (text: string): readonly Loose[] => readManifest(octets(text), 'x.yaml');

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: site}
spec:
  replicas: 2
  template:
    spec:
      initContainers: [{name: first, image: "example.org/init:1"}]
      containers:
      - {name: web, image: "example.org/web:1", args: [--a]}
      volumes:
      - {name: files, image: {reference: "example.org/files:1"}}
`;
const MANIFEST = `# a publisher's file
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: site}
data: {mode: "0644"}
---
apiVersion: v1
kind: Namespace
metadata: {name: site}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec: {versions: [{schema: {openAPIV3Schema: {properties: {containers: [{image: no}]}}}}]}
---
${DEPLOYMENT}`;

const addon = (changes: Partial<Addon> = {}): Addon => ({
  name: 'site',
  manifests: [{ url: 'https://example.org/site.yaml', sha256: hashOf(MANIFEST) }],
  objects: [],
  patches: [],
  images: [],
  ...changes,
});
const rendered = (changes: Partial<Addon> = {}) => renderAddon(addon(changes), () => octets(MANIFEST));
const objectsOf = (changes: Partial<Addon> = {}): readonly Loose[] => loadAll(rendered(changes).objects);
const deployment = (changes: Partial<Addon> = {}): Loose =>
  objectsOf(changes).find(({ kind }) => kind === 'Deployment');

test.for([
  ['0644', 420],
  ['0o644', 420],
  ['0x1f', 31],
  ['1_000', 1000],
  ['-7', -7],
  ['08', 8],
  ['1:30', '1:30'],
  ['2024-01-31', '2024-01-31'],
  ['1.50', 1.5],
  ['on', true],
  ['No', false],
  ['y', true],
  ['"on"', 'on'],
  ['~', null],
] as const)('%s in a manifest is read as kubectl reads it', ([text, value]) => {
  expect(read(`{apiVersion: v1, kind: K, metadata: {name: x}, data: {v: ${text}}}`)[0].data.v).toEqual(value);
});

test('keys that are not text, merge keys and anchors are read, and anchors become copies', () => {
  const [object] = read(`apiVersion: v1
kind: ConfigMap
metadata: {name: x}
base: &base {a: 1, 8080: port, on: true}
one: *base
two: {<<: *base, a: 2}
`);
  expect(object.one).toEqual({ a: 1, '8080': 'port', true: true });
  expect(object.two).toEqual({ a: 2, '8080': 'port', true: true });
  expect(object.one).not.toBe(object.base);
});

test('lists are taken apart, empty documents left out, JSON is taken', () => {
  const list = {
    apiVersion: 'v1',
    kind: 'List',
    items: [{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' } }],
  };
  expect(read(`---\n# nothing\n---\n${JSON.stringify(list)}\n---\n`)).toEqual(list.items);
});

test.for([
  ['', 'there is no object in it'],
  ['# moved elsewhere\n---\n', 'there is no object in it'],
  ['- 1', 'document 1: not a mapping'],
  ['kind: X', 'apiVersion and kind are missing'],
  ['{apiVersion: v1, kind: Pod, metadata: {generateName: x}}', 'Pod without metadata.name'],
  ['a: [', 'not YAML that kubectl would read'],
  ['{apiVersion: v1, kind: X, metadata: {name: x}, n: 12345678901234567890}', 'too large to stay exact'],
  ['\ud800', 'no YAML|not UTF-8|not a mapping'],
])('%o is no manifest, and the message says why', ([text, why]) => {
  expect(() => read(text!)).toThrow(new RegExp(why!));
});

test('a file of few lines cannot stand for millions of values', () => {
  const lines = Array.from({ length: 30 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}]`);
  const text = `apiVersion: v1\nkind: X\nmetadata: {name: x}\na0: &a0 [1]\n${lines.join('\n')}\n`;
  expect(() => read(text)).toThrow(/more than 2000000 values/);
});

/** RFC 7386, appendix A. */
test.for<readonly [Plain, Plain, Plain]>([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])('merging %j with %j gives %j', ([target, patch, result]) => {
  expect(mergePatch(target, patch)).toEqual(result);
});

/** RFC 6902, appendix A. */
test.for<readonly [Plain, readonly PatchOperation[], Plain]>([
  [{ foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux' }], { foo: 'bar', baz: 'qux' }],
  [{ foo: ['bar', 'baz'] }, [{ op: 'add', path: '/foo/1', value: 'qux' }], { foo: ['bar', 'qux', 'baz'] }],
  [{ baz: 'qux', foo: 'bar' }, [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
  [{ foo: ['bar', 'qux', 'baz'] }, [{ op: 'remove', path: '/foo/1' }], { foo: ['bar', 'baz'] }],
  [{ baz: 'qux' }, [{ op: 'replace', path: '/baz', value: 'boo' }], { baz: 'boo' }],
  [
    { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
    [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
    { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } },
  ],
  [
    { foo: ['all', 'grass', 'cows', 'eat'] },
    [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
    { foo: ['all', 'cows', 'eat', 'grass'] },
  ],
  [{ baz: 'qux', foo: ['a', 2] }, [{ op: 'test', path: '/foo/1', value: 2 }], { baz: 'qux', foo: ['a', 2] }],
  [{ foo: 'bar' }, [{ op: 'add', path: '/child', value: { a: {} } }], { foo: 'bar', child: { a: {} } }],
  [{ '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: 10 }], { '/': 9, '~1': 10 }],
  [{ foo: ['bar'] }, [{ op: 'add', path: '/foo/-', value: ['abc'] }], { foo: ['bar', ['abc']] }],
  [{ foo: [1] }, [{ op: 'copy', from: '/foo', path: '/bar' }], { foo: [1], bar: [1] }],
  [{ foo: ['a', 'b'] }, [{ op: 'replace', path: '/foo/1', value: 'c' }], { foo: ['a', 'c'] }],
  [{ foo: 1 }, [{ op: 'replace', path: '', value: { bar: 2 } }], { bar: 2 }],
])('patching %j by %j gives %j', ([target, operations, result]) => {
  const before = structuredClone(target);
  expect(jsonPatch(target, operations)).toEqual(result);
  expect(target).toEqual(before);
});

test.for<readonly [PatchOperation, RegExp]>([
  [{ op: 'add', path: '/baz/bat', value: 1 }, /there is no "baz"/],
  [{ op: 'test', path: '/foo', value: 'bar' }, /value at this path is a different one/],
  [{ op: 'remove', path: '/list/2' }, /the list has 2 items, and none at "2"/],
  [{ op: 'add', path: '/list/3', value: 1 }, /the list has 2 items/],
  [{ op: 'replace', path: '/none', value: 1 }, /there is no "none"/],
  [{ op: 'move', from: '/list', path: '/list/0' }, /inside/],
  [{ op: 'copy', path: '/x' }, /from is missing/],
  [{ op: 'add', path: '/x' }, /value is missing/],
  [{ op: 'add', path: 'x', value: 1 }, /not a JSON Pointer/],
  [{ op: 'remove', path: '/list/01' }, /none at "01"/],
])('%j does not fit, and the message says why', ([operation, why]) => {
  expect(() => jsonPatch({ foo: 'qux', list: [1, 2] }, [operation])).toThrow(why);
});

test('definitions come apart from the objects, namespaces first, and every object carries the add-on’s name', () => {
  const { definitions, objects, count } = rendered();
  expect(count).toBe(4);
  const all = [...loadAll(definitions), ...loadAll(objects)] as Loose[];
  expect(all.map(({ kind }) => kind)).toEqual([
    'CustomResourceDefinition',
    'Namespace',
    'ConfigMap',
    'Deployment',
  ]);
  expect(new Set(all.map(({ metadata }) => metadata.labels[ADDON_LABEL]))).toEqual(new Set(['site']));
});

test('images are those of containers and image volumes, not of schemas, and those that the Cluster lists', () => {
  expect(rendered({ images: ['example.org/helper:1', 'example.org/web:1'] }).images).toEqual([
    'example.org/init:1',
    'example.org/web:1',
    'example.org/files:1',
    'example.org/helper:1',
  ]);
});

test('patches apply in their order to all objects that fit, and images follow', () => {
  const patches = [
    {
      target: { kind: 'Deployment' },
      merge: { spec: { replicas: 3, template: { metadata: { labels: { a: 'b' } } } } },
    },
    {
      target: { kind: 'Deployment', name: 'web', namespace: 'site', apiVersion: 'apps/v1' },
      json: [
        { op: 'add' as const, path: '/spec/template/spec/containers/0/args/-', value: '--b' },
        {
          op: 'replace' as const,
          path: '/spec/template/spec/containers/0/image',
          value: 'example.org/web:2',
        },
      ],
    },
    { target: { kind: 'Namespace' }, remove: true as const },
  ];
  const found = deployment({ patches });
  expect(found.spec.replicas).toBe(3);
  expect(found.spec.template.metadata.labels).toEqual({ a: 'b' });
  expect(found.spec.template.spec.containers[0].args).toEqual(['--a', '--b']);
  expect(objectsOf({ patches }).map(({ kind }) => kind)).toEqual(['ConfigMap', 'Deployment']);
  expect(rendered({ patches }).images).toContain('example.org/web:2');
});

test('a patch that is for no object, or does not fit one, is a fault that names it', () => {
  expect(() => rendered({ patches: [{ target: { kind: 'DaemonSet', name: 'web' }, remove: true }] })).toThrow(
    'site: patches[0]: no object of the add-on has kind DaemonSet, name web',
  );
  const json = [{ op: 'remove' as const, path: '/spec/none' }];
  expect(() => rendered({ patches: [{ target: { kind: 'Deployment' }, json }] })).toThrow(
    'site: patches[0], Deployment site/web: remove /spec/none: there is no "none"',
  );
});

test('the library waits for files, refuses files that changed on disk, and renders the same add-on once', async () => {
  const files = new Map<string, Uint8Array>();
  const library = openAddons(async (sha256) => files.get(sha256));
  const own = { addons: [addon()] };
  expect(await library.of(own)).toMatchObject([{ state: 'missing', missing: [hashOf(MANIFEST)] }]);
  files.set(hashOf(MANIFEST), octets(`${MANIFEST}# and more`));
  expect(await library.of(own)).toMatchObject([
    { state: 'faulty', fault: expect.stringContaining('has changed') },
  ]);
  files.set(hashOf(MANIFEST), octets(MANIFEST));
  const [first] = await library.of(own);
  const [second] = await library.of({ addons: [addon()] });
  expect(first).toMatchObject({ state: 'ready' });
  expect((second as Loose).rendered).toBe((first as Loose).rendered);
});

test('add-ons are applied up to the first that cannot be, since one may need those before it', async () => {
  const library = openAddons(async (sha256) => (sha256 === hashOf(MANIFEST) ? octets(MANIFEST) : undefined));
  const absent = addon({ name: 'absent', manifests: [{ sha256: 'f'.repeat(64) }] });
  const states = await library.of({ addons: [addon(), absent, addon({ name: 'later' })] });
  const { ready, hold } = addonsPart('blue', states);
  expect(ready.map(({ name }) => name)).toEqual(['site']);
  expect(hold).toMatchObject({ code: 'addon-missing', text: expect.stringContaining('artifacts pull blue') });
  const faulty = await library.of({
    addons: [addon({ patches: [{ target: { kind: 'X' }, remove: true }] })],
  });
  expect(addonsPart('blue', faulty).hold).toMatchObject({ code: 'addon-faulty' });
});

const ENTRY = { name: 'site', manifests: [{ sha256: hashOf(MANIFEST) }] };

test('a control plane applies the add-ons that are here, is held for the others, and applies again when they arrive', async () => {
  const files = new Map<string, Uint8Array>();
  const { planner, known } = await rig({
    addons: openAddons(async (sha256) => files.get(sha256)),
    spec: { addons: [ENTRY] },
  });
  const machine = new TestMachine('cp1');
  const before = await settle(planner, machine);
  expect(before.lines.at(-1)).toMatchObject({ do: 'hold', code: 'addon-missing' });
  expect(before.lines).toContainEqual(expect.objectContaining({ do: 'run', unit: 'muster-objects.service' }));
  machine.keys.delete('applier');
  await settle(planner, machine);
  files.set(hashOf(MANIFEST), octets(MANIFEST));
  const { lines } = await settle(planner, machine);
  expect(lines.filter((line) => line.do === 'hold')).toEqual([]);
  const texts = new Map(
    lines.flatMap((line) =>
      line.do === 'put' && 'text' in line.content ? [[line.path, line.content.text]] : [],
    ),
  );
  const script = texts.get('/etc/muster/objects/apply.sh')!;
  expect(script.indexOf('applied.yaml')).toBeLessThan(script.indexOf('addons/site.definitions.yaml'));
  // dash reads it to its end
  execFileSync('sh', ['-n'], { input: script });
  expect(script).toContain('addons/site.definitions.yaml /etc/muster/objects/addons/site.yaml;');
  expect(loadAll(texts.get('/etc/muster/objects/addons/site.yaml')!)).toHaveLength(3);
  known.put(clusterDocument({ addons: [] }));
  const after = await settle(planner, machine);
  expect(after.lines.map((line) => ('path' in line ? line.path : ''))).not.toContain(
    '/etc/muster/objects/addons/site.yaml',
  );
});

test('a plan for machines that hold in etcd says that first', async () => {
  const wait = { lines: [], hold: { code: 'waiting-for-members', text: 'Two.', stop: false } };
  const { planner } = await rig({
    addons: openAddons(async () => undefined),
    spec: { addons: [ENTRY] },
    etcd: async () => wait,
  });
  const { lines } = await settle(planner, new TestMachine('cp1'));
  expect(lines.filter((line) => line.do === 'hold')).toMatchObject([{ code: 'waiting-for-members' }]);
});

test('each file and each image of add-ons is an artifact of the cluster, once', () => {
  const cluster = resolved({ addons: [ENTRY, { ...ENTRY, name: 'again' }] });
  const required = requiredArtifacts(cluster, 'x86_64', ['example.org/web:1', cluster.images.pause]);
  expect(required.filter(({ kind }) => kind === 'manifest')).toMatchObject([
    { addon: 'site', sha256: hashOf(MANIFEST), roles: ['control-plane'] },
  ]);
  const images = required.flatMap((one) => (one.kind === 'image' ? [one.reference] : []));
  expect(images).toContain('example.org/web:1');
  expect(images.filter((one) => one === cluster.images.pause)).toHaveLength(1);
});

test('a cluster needs programs of the system, or an image, for its balancer and its virtual address', () => {
  const virtual = (by: 'keepalived' | 'kube-vip') =>
    resolved({ endpoint: '10.0.0.10', sans: [], virtualAddress: { by, interface: 'eth0' } });
  const programs = (cluster: ReturnType<typeof resolved>) =>
    requiredPrograms(cluster).map(({ name }) => name);
  expect(programs(virtual('keepalived'))).toEqual(['haproxy', 'keepalived', 'curl', 'iptables']);
  expect(programs(virtual('kube-vip'))).toEqual(['haproxy', 'iptables']);
  expect(programs(resolved({ workers: [] }))).toEqual(['iptables']);
  const balanced = resolved({ endpoint: '10.0.0.10:443', sans: [], virtualAddress: { interface: 'eth0' } });
  expect(requiredPrograms(balanced)[0]).toMatchObject({
    name: 'haproxy',
    roles: ['control-plane', 'worker'],
  });
  const image = /kube-vip/;
  const images = (cluster: ReturnType<typeof resolved>) =>
    requiredArtifacts(cluster, 'x86_64').filter((one) => one.kind === 'image' && image.test(one.reference));
  expect(images(virtual('kube-vip'))).toMatchObject([{ roles: ['control-plane'] }]);
  expect(images(virtual('keepalived'))).toEqual([]);
});

test.for([
  ['two of one name', [ENTRY, ENTRY], 'error addons[1].name: site is listed twice'],
  [
    'an image that is none',
    [{ ...ENTRY, images: ['A B'] }],
    'error addons[0].images[0]: "A B" is not an image reference',
  ],
] as const)('%s is refused', ([, addons, fault]) => {
  expect(faults({ addons: addons as never })).toContain(fault);
});

const document = (entry: string) => `apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes:
    version: "1.36"
    endpoint: 10.0.0.1
    controlPlanes: [cp1]
    addons:
${entry.replace(/^/gm, '      ')}
`;

test.for([
  ['- {name: a, manifests: [{url: "https://x.example/a.yaml"}]}', /SHA-256 is missing.*addon pin/],
  ['- {name: a, manifests: [{url: "https://x.example/a.yaml", sha256: "unknown: pin it"}]}', /not a SHA-256/],
  ['- {name: a}', /needs manifests or objects/],
  ['- {name: a, objects: [{kind: X}]}', /./],
  [
    '- {name: a, objects: [{apiVersion: v1, kind: X, metadata: {name: x}}], patches: [{target: {}, remove: true}]}',
    /name the objects/,
  ],
  [
    '- {name: a, objects: [{apiVersion: v1, kind: X, metadata: {name: x}}], patches: [{target: {kind: X}}]}',
    /name the change/,
  ],
])('%s is refused when it is applied', ([entry, why]) => {
  const { faults } = parseDocuments(document(entry as string), 'x.yaml');
  expect(faults.map(({ message }) => message).join('\n')).toMatch(why as RegExp);
});

test('the catalogue has no hashes, its files have fixed versions, and its entries can be rendered', () => {
  for (const [name, { manifests, objects, rendered, version, home, patches = [] }] of Object.entries(
    CATALOGUE,
  )) {
    expect(
      [manifests, objects, rendered].filter((one) => one !== undefined),
      name,
    ).toHaveLength(1);
    expect(home).toMatch(/^https:\/\//);
    for (const url of manifests?.(version) ?? []) {
      expect(url).toMatch(/^https:\/\/(raw\.githubusercontent\.com|github\.com)\//);
      expect(url, name).toContain(version);
    }
    if (objects)
      expect(
        renderAddon({ name, manifests: [], objects: objects(version), patches, images: [] }, () => octets(''))
          .images,
        name,
      ).toHaveLength(1);
  }
  expect(JSON.stringify(CATALOGUE)).not.toMatch(/[0-9a-f]{64}/);
});
