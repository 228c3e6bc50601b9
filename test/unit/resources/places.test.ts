/** Every setting says where it lands, in the terminal, for editors and on a page. */
import fs from 'node:fs';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { explainKind, isFieldOf } from '../../../src/cli/explain/kind.ts';
import { KINDS, type Kind } from '../../../src/resources/kinds.ts';
import { CONFIG_PLACES, defaultIn, isPlaced, PLACES, placeOf } from '../../../src/resources/places.ts';
import { resourcePages, settings } from '../../../src/resources/reference.ts';
import { schemaAt } from '../../../src/resources/walk.ts';

const kinds = Object.keys(KINDS) as Kind[];

/** How to give a new field a place. */
const HOW_TO_PLACE =
  'say in src/resources/places.ts where the field lands: a row {KIND}.{path}, or of config in CONFIG_PLACES';

test('every setting of every kind says where it lands', () => {
  const lacking = settings()
    .filter(({ kind, path }) => !isPlaced(kind, path))
    .map(({ kind, path }) => `${kind}.${path.join('.')}: ${HOW_TO_PLACE}`);
  expect(lacking).toEqual([]);
});

test('every row of the places is a field, and its example is right for it', () => {
  const rows = [
    ...kinds.flatMap((kind) =>
      Object.entries(PLACES[kind]).map(([path, place]) => [kind, path, place] as const),
    ),
    ...Object.entries(CONFIG_PLACES).map(
      ([path, place]) => ['Machine', `spec.config.${path}`, place] as const,
    ),
  ];
  const wrong = rows.flatMap(([kind, path, { example }]) => {
    const schema = schemaAt(KINDS[kind], path.split('.'));
    if (schema === undefined) return [`${kind}.${path} is no field`];
    // An example may leave out what is long, and then only its form is right.
    const isWhole = example !== undefined && !/…|: (\[\]|\{\})/.test(example);
    return isWhole && !schema.safeParse(load(example)).success ? [`${kind}.${path}: ${example}`] : [];
  });
  expect(wrong).toEqual([]);
});

test('each setting is explained in the terminal and has a row on the page', () => {
  const page = resourcePages().find(([file]) => file === 'docs/reference/settings.md')![1];
  for (const { kind, path, row } of settings()) {
    expect(explainKind(kind, path)).toContain(`LANDS:   ${placeOf(kind, path)!.lands}`);
    if (path[0] === 'spec' && path.length > 1)
      expect(page).toContain(`: ${row.path}\` | ${row.type.replaceAll('|', '\\|')} |`);
  }
});

test('a field is explained with its type, default, place, version and an example', () => {
  expect(explainKind('Cluster', ['spec', 'kubernetes', 'version']).split('\n').slice(0, 5)).toEqual([
    'KIND:    Cluster',
    'FIELD:   spec.kubernetes.version <text>',
    'DEFAULT: none; the field is required',
    'LANDS:   images of static pods, kubelet, kubectl; all tables of flags',
    'EXAMPLE: version: "1.36"',
  ]);
  const authentication = explainKind('Cluster', ['kubernetes', 'apiServer', 'authentication']);
  expect(authentication).toContain('SINCE:   Kubernetes 1.34');
  expect(explainKind('Cluster', ['kubernetes', 'runtime'])).toContain('DEFAULT: containerd\n');
});

test.for([
  ['Default cluster.local.', 'cluster.local'],
  ['Default: the name of the Machine.', 'the name of the Machine'],
  ['stacked (default): every control plane is a member.', 'stacked'],
  ['A number. Default 10.244.0.0/16. More.', '10.244.0.0/16'],
  ['A number.', undefined],
] as const)('the default in "%s" is %s', ([text, usual]) => {
  expect(defaultIn(text)).toBe(usual);
});

test.for([
  ['Machine', 'lab', false],
  ['Machine', 'spec', true],
  ['Machine', 'macs', true],
  ['Cluster', 'kubernetes', true],
  ['Cluster', 'blue', false],
] as const)('%s.%s begins with a field: %s', ([kind, first, is]) => {
  expect(isFieldOf(kind, [first])).toBe(is);
});

test('JSON Schemas carry the places and examples', () => {
  const schema = JSON.parse(fs.readFileSync('docs/schemas/Cluster.json', 'utf8'));
  const { mirrors } = schema.properties.spec.properties.kubernetes.properties;
  expect(mirrors['x-muster-lands']).toMatch(/certs\.d/);
  expect(mirrors.examples).toEqual([['http://10.77.0.1:5000']]);
});
