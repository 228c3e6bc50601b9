/** All example documents are valid: those in profiles/ and those in the documentation. */

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import { followClusters } from '../../../src/cluster/resolve/resolved-clusters.ts';
import { followMemberships } from '../../../src/machines/membership.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import { KINDS, type Kind } from '../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .trim()
  .split('\n')
  .filter((file) => fs.existsSync(path.join(ROOT, file)));
const read = (file: string) => fs.readFileSync(path.join(ROOT, file), 'utf8');

test('profiles/ works as configuration directory: it has no fault, and no warning except for the image that has to be built', async () => {
  const catalog = await openCatalog({
    metrics: createMetrics(),
    directory: path.join(ROOT, 'profiles'),
    store: openMemoryStore(),
    events: { record: () => {} },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
  });
  await catalog.close();
  expect(catalog.faults()).toEqual([]);
  expect(new Set(catalog.warnings().map((fault) => fault.message.replace(/^\S+ /, '')))).toEqual(
    new Set(['there is no Image "debian-13"', 'there is no Image "debian-13-kubernetes"']),
  );
  for (const kind of ['Network', 'Cluster', 'Profile', 'Machine'] as const)
    expect(catalog.list(kind).length, kind).toBeGreaterThan(0);
});

test('the example of a cluster is valid together with the rest of profiles/', async () => {
  const catalog = await openCatalog({
    metrics: createMetrics(),
    directory: path.join(ROOT, 'profiles'),
    store: openMemoryStore(),
    events: { record: () => {} },
    log: silentLog,
    clock: systemClock,
    checkConfig: checkAll,
  });
  const files = ['profiles/machines/blue.yaml.example', 'profiles/clusters/blue.yaml.example'];
  await catalog.applyTexts(files.map((file) => ({ file, text: read(file) })));
  const completed = followClusters(catalog, followMemberships(catalog)).get('blue');
  expect(completed?.faults).toEqual([]);
  expect(completed?.resolved?.machines).toHaveLength(5);
  await catalog.close();
});

const samples = tracked.filter((file) => /^profiles\/.*\.ya?ml(\.example)?$/.test(file));

test.each(samples)('%s is valid and names its schema for editors', (file) => {
  const text = read(file);
  const { documents, faults } = parseDocuments(text, file);
  expect(faults).toEqual([]);
  const schema = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1];
  expect(schema, 'the first line names the schema').toBeDefined();
  const target = path.posix.join(path.posix.dirname(file), schema!);
  expect(documents.map((one) => `docs/schemas/${one.document.kind}.json`)).toEqual(
    documents.map(() => target),
  );
  expect(fs.existsSync(path.join(ROOT, target))).toBe(true);
});

const blocks = tracked
  .filter((file) => file.endsWith('.md'))
  .flatMap((file) =>
    [...read(file).matchAll(/^```ya?ml\n([\s\S]*?)^```/gm)].map((found) => ({
      where: `${file}:${read(file).slice(0, found.index).split('\n').length + 1}`,
      text: found[1]!,
    })),
  )
  .filter(({ text }) => text.includes('apiVersion: muster/'));

test.each(blocks)('the YAML at $where is valid', ({ text, where }) => {
  expect(parseDocuments(text, where).faults).toEqual([]);
});

test('the pages show a document of every kind', () => {
  const shown = new Set(blocks.map(({ text }) => /^kind: (\w+)/m.exec(text)?.[1]));
  expect([...shown]).toEqual(expect.arrayContaining(Object.keys(KINDS)));
});

/**
 * A JSON Schema validator for the keywords that the generated schemas use; enough to compare them
 * with the zod schemas.
 */
type Json = { [key: string]: unknown };
function accepts(schema: Json, value: unknown): boolean {
  if (schema.anyOf) return (schema.anyOf as Json[]).some((one) => accepts(one, value));
  if (schema.const !== undefined) return value === schema.const;
  if (schema.enum) return (schema.enum as unknown[]).includes(value);
  if (schema.type === 'object') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const properties = (schema.properties ?? {}) as Record<string, Json>;
    return (
      ((schema.required ?? []) as string[]).every((key) => Object.hasOwn(value, key)) &&
      Object.entries(value).every(([key, inner]) => {
        const rule = Object.hasOwn(properties, key) ? properties[key]! : schema.additionalProperties;
        return rule !== false && (typeof rule !== 'object' || accepts(rule as Json, inner));
      })
    );
  }
  if (schema.type === 'array')
    return Array.isArray(value) && value.every((item) => accepts((schema.items ?? {}) as Json, item));
  if (schema.type === 'integer') return Number.isInteger(value);
  if (schema.type === 'number' || schema.type === 'boolean') return typeof value === schema.type;
  if (schema.type === 'string')
    return typeof value === 'string' && (!schema.pattern || new RegExp(schema.pattern as string).test(value));
  return true;
}

const schemaOf = (kind: Kind) => JSON.parse(read(`docs/schemas/${kind}.json`)) as Json;

test('the JSON Schemas accept all samples and refuse misspelled keys, missing fields and wrong types', () => {
  for (const file of samples)
    for (const { document } of parseDocuments(read(file), file).documents) {
      const schema = schemaOf(document.kind);
      expect(accepts(schema, document), file).toBe(true);
      expect(accepts(schema, { ...document, speck: {} })).toBe(false);
      expect(accepts(schema, { ...document, metadata: {} })).toBe(false);
      expect(accepts(schema, { ...document, spec: 'text' })).toBe(false);
      expect(accepts(schema, { ...document, spec: { ...document.spec, nonsense: 1 } })).toBe(false);
    }
});
