/**
 * Compares Muster's reading of add-ons' manifests and patches with kubectl's, without any server.
 */

import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { loadAll } from 'js-yaml';
import { expect, test } from 'vitest';
import type { AddonPatch } from '../../src/cluster/model/addon.ts';
import { renderAddon } from '../../src/cluster/objects/addons/addon.ts';
import { readManifest } from '../../src/cluster/objects/addons/manifest.ts';
import { unpacked } from './unpacked.ts';

// biome-ignore lint/suspicious/noExplicitAny: documents as their readers see them
type Loose = any;

/** Runs kubectl with a manifest on standard input; returns the object that it prints. */
function kubectl(manifest: string, ...words: readonly string[]): Loose {
  const { command, env } = unpacked('kubernetes-client', 'usr/bin/kubectl');
  const args = [...words, '--local', '-f', '-', '-o', 'json'];
  return JSON.parse(execFileSync(command, args, { env, input: manifest, encoding: 'utf8', stdio: 'pipe' }));
}

const HEAD = 'apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: x}\n';
const read = (text: string): Loose => readManifest(new TextEncoder().encode(text), 'x.yaml')[0];

/**
 * Returns the object as kubectl reads it. Labelling is the smallest change that prints the object.
 */
function asKubectl(manifest: string): Loose {
  const { metadata, ...rest } = kubectl(manifest, 'label', 'judged=yes');
  return rest;
}
function asMuster(manifest: string): Loose {
  const { metadata, ...rest } = JSON.parse(JSON.stringify(read(manifest)));
  return rest;
}

test('values of publishers’ files that mean something else in YAML 1.2 are read as kubectl reads them', () => {
  const manifest = `${HEAD}defaults: &d {mode: 0644, on: yes}
list: [0o17, 0x1F, 0b11, 08, 1_000, -0, +7, 1e3, .5, 5., 12e03, 1e400, _1, 1_, 1:30, 190:20:30, y, N, Off, ~, null, Null, nULL]
quoted: ["0644", 'on', !!str 7, !!int "7"]
merged: {<<: *d, mode: 1}
again: *d
block: |
  on
folded: >-
  a
  b
8080: port
`;
  expect(asMuster(manifest)).toEqual(asKubectl(manifest));
});

test('any scalar is read as kubectl reads it', () => {
  const scalar = fc
    .string({
      unit: fc.constantFrom(
        ...'0123456789',
        '0',
        '1',
        '_',
        '+',
        '-',
        '.',
        'e',
        'E',
        'x',
        'X',
        'o',
        'b',
        'B',
        'a',
        'f',
        ':',
      ),
      minLength: 1,
      maxLength: 7,
    })
    // No character that begins or ends a structure.
    .filter((text) => !/^(-|---|[:?]|.*:|\.\.\.)$/.test(text) && !text.startsWith('- '));
  const [scalars] = fc.sample(fc.array(scalar, { minLength: 3000, maxLength: 3000 }), {
    numRuns: 1,
    seed: 7,
  });
  const manifest = `${HEAD}list:\n${scalars!.map((text) => `- ${text}\n`).join('')}`;
  const [ours, theirs] = [asMuster(manifest).list as Loose[], asKubectl(manifest).list as Loose[]];
  const different = scalars!.flatMap((text, n) =>
    ours[n] === theirs[n] ? [] : [`${text}: ${JSON.stringify(ours[n])}, not ${JSON.stringify(theirs[n])}`],
  );
  expect(different).toEqual([]);
});

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: site, labels: {a: b}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "example.org/web:1", args: [--a, --b]}
      - {name: side, image: "example.org/side:1"}
`;

function patched(patch: Omit<AddonPatch, 'target'>): Loose {
  const { objects } = renderAddon(
    {
      name: 'web',
      manifests: [{ sha256: '' }],
      objects: [],
      patches: [{ target: { kind: 'Deployment' }, ...patch }],
      images: [],
    },
    () => new TextEncoder().encode(DEPLOYMENT),
  );
  const [object] = loadAll(objects) as Loose[];
  delete object.metadata.labels['muster/addon'];
  return object;
}

const OPERATIONS = [
  { op: 'test', path: '/spec/replicas', value: 2 },
  { op: 'add', path: '/spec/template/spec/containers/0/args/1', value: '--between' },
  { op: 'add', path: '/spec/template/spec/containers/0/args/-', value: '--last' },
  { op: 'replace', path: '/spec/template/spec/containers/1/image', value: 'example.org/side:2' },
  { op: 'add', path: '/metadata/annotations', value: { 'example.org/a~b': 'x' } },
  { op: 'copy', from: '/metadata/annotations/example.org~1a~0b', path: '/metadata/labels/copied' },
  { op: 'move', from: '/metadata/labels/a', path: '/metadata/labels/c' },
  { op: 'remove', path: '/spec/template/spec/containers/0/args/0' },
] as const;

test('a JSON Patch changes an object as kubectl would change it', () => {
  const theirs = kubectl(DEPLOYMENT, 'patch', '--type=json', '-p', JSON.stringify(OPERATIONS));
  expect(patched({ json: OPERATIONS })).toEqual(theirs);
});

test('a JSON Merge Patch changes an object as kubectl would change it', () => {
  const merge = {
    metadata: { labels: { a: null, d: 'e' } },
    spec: {
      replicas: null,
      template: { spec: { containers: [{ name: 'only', image: 'x:1' }], hostNetwork: true } },
    },
  };
  expect(patched({ merge })).toEqual(
    kubectl(DEPLOYMENT, 'patch', '--type=merge', '-p', JSON.stringify(merge)),
  );
});
