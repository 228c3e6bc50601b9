/** The import rule: rooms import in one direction, and only edge files do I/O. */
import path from 'node:path';
import { expect, test } from 'vitest';
import { type Import, importsOf, read, sources, withoutComments } from './tree.ts';

/** From left to right; a file may import from its own room and from rooms to the left. */
const ROOMS = [
  'base',
  'events',
  'store',
  'resources',
  'pki',
  'machines',
  'bmc',
  'ignition',
  'artifacts',
  'agent',
  'cluster',
  'pxe',
  'diagnosis',
  'api',
  'page',
  'lab',
  'cli',
  'wiring',
  'main',
] as const;

/**
 * The rooms within a room, in the same order; `.` is the folder itself. The few files of
 * `src/cluster` itself are how the boot host talks to a cluster.
 */
const INNER: Readonly<Record<string, readonly string[]>> = {
  agent: ['wire', 'scripts', 'identity', 'serve'],
  cluster: [
    'model',
    'components',
    'resolve',
    '.',
    'objects',
    'plan',
    'judge',
    'etcd',
    'backup',
    'joining',
    'health',
    'change',
  ],
};

/** Modules that touch network, disk, processes or threads. */
const WORLD = [
  'dgram',
  'net',
  'tls',
  'http',
  'http2',
  'https',
  'fs',
  'fs/promises',
  'child_process',
  'cluster',
  'worker_threads',
  'sqlite',
  'express',
  'pino',
];
const EDGE = /\.(server|socket|files)\.ts$/;

/** Exceptions, each with its reason; a test below refuses those that are no longer needed. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'src/cli/serve/serve.ts → src/main.ts':
    'the verb starts the daemon, lazily; main takes its settings from the command line',
};

const roomOf = (file: string): string => (file === 'src/main.ts' ? 'main' : file.split('/')[1]!);

/** The imported file, from the root; undefined for packages and Node's own modules. */
function target(file: string, { specifier }: Import): string | undefined {
  return specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : undefined;
}

const all = sources('src').flatMap((file) => importsOf(file).map((found) => ({ file, found })));

test('the audit finds static, lazy and type-only imports', () => {
  expect(all.length).toBeGreaterThan(200);
  expect(all.some(({ found }) => found.lazy)).toBe(true);
  expect(all.some(({ found }) => found.typeOnly)).toBe(true);
});

test('every room is known to the import rule', () => {
  const unknown = sources('src').filter((file) => !ROOMS.includes(roomOf(file) as (typeof ROOMS)[number]));
  expect(unknown).toEqual([]);
});

test('a file imports only from its own room and from rooms to the left', () => {
  const used = new Set<string>();
  const wrong = all.flatMap(({ file, found }) => {
    const to = target(file, found);
    if (to === undefined) return [];
    const line = `${file} → ${to}`;
    if (line in EXCEPTIONS) {
      used.add(line);
      return [];
    }
    if (!to.startsWith('src/')) return [`${line}: outside src`];
    const order = (at: string): number => ROOMS.indexOf(roomOf(at) as (typeof ROOMS)[number]);
    return order(to) <= order(file) ? [] : [line];
  });
  expect(wrong).toEqual([]);
  expect(Object.keys(EXCEPTIONS).filter((line) => !used.has(line))).toEqual([]);
});

/** What the page takes from the server besides types: pure files that import only types. */
const SHARED = [
  'src/api/contract/request.ts',
  'src/base/duration.ts',
  'src/machines/condition.ts',
  'src/machines/life/life.ts',
  'src/cluster/health/condition.ts',
];

test('the page imports only types, its client, how ages are written and words of state from other rooms, and no other room imports the page', () => {
  const ofPage = (file: string | undefined): boolean => file?.startsWith('src/page/') ?? false;
  const crossing = all.filter(({ file, found }) => ofPage(file) !== ofPage(target(file, found) ?? file));
  expect(crossing.length).toBeGreaterThan(5);
  const wrong = crossing
    .filter(
      ({ file, found }) => !ofPage(file) || !(found.typeOnly || SHARED.includes(target(file, found) ?? '')),
    )
    .map(({ file, found }) => `${file} → ${found.specifier}`);
  expect(wrong).toEqual([]);
  expect(all.filter(({ file, found }) => SHARED.includes(file) && !found.typeOnly)).toEqual([]);
});

test.each(Object.entries(INNER))('within src/%s the same holds of its rooms', (room, inner) => {
  const orderOf = (file: string): number => inner.indexOf(file.split('/').slice(2, -1)[0] ?? '.');
  const within = (file: string): boolean => file.startsWith(`src/${room}/`);
  expect(sources(`src/${room}`).filter((file) => orderOf(file) < 0)).toEqual([]);
  const wrong = all.flatMap(({ file, found }) => {
    const to = target(file, found);
    if (to === undefined || !within(file) || !within(to)) return [];
    return orderOf(to) <= orderOf(file) ? [] : [`${file} → ${to}`];
  });
  expect(wrong).toEqual([]);
});

test('at most five files are in src/cluster itself', () => {
  expect(sources('src/cluster').filter((file) => file.split('/').length === 3).length).toBeLessThan(6);
});

test('only files named as edges import network, disk, processes or threads', () => {
  const wrong = all
    .filter(({ file, found }) => !EDGE.test(file) && !found.typeOnly)
    .filter(({ found }) => WORLD.includes(found.specifier.replace(/^node:/, '')))
    .map(({ file, found }) => `${file} → ${found.specifier}`);
  expect(wrong).toEqual([]);
  const around = sources('src').filter(
    (file) => !EDGE.test(file) && /\bgetBuiltinModule\b/.test(withoutComments(read(file))),
  );
  expect(around).toEqual([]);
});

test('the command line loads only commander at start, and a verb’s modules when the verb runs', () => {
  const seen = new Set(['src/cli/main.ts']);
  const packages = new Set<string>();
  for (const from of seen)
    for (const { file, found } of all)
      if (file === from && !found.typeOnly && !found.lazy) {
        const to = target(file, found);
        if (to === undefined) packages.add(found.specifier);
        else seen.add(to);
      }
  expect([...packages].sort()).toEqual(['commander', 'node:url']);
  expect(seen).toContain('src/cli/image/verbs.ts');
});

test('relative imports name their file with .ts, so that Node runs them as they are', () => {
  const wrong = all
    .filter(({ found }) => found.specifier.startsWith('.') && !/\.tsx?$/.test(found.specifier))
    .map(({ file, found }) => `${file} → ${found.specifier}`);
  expect(wrong).toEqual([]);
});

/** Circles of imports, each listed from its first file back to that file. */
function circles(counts: (found: Import) => boolean): readonly string[] {
  const edges = new Map<string, string[]>();
  for (const { file, found } of all) {
    const to = target(file, found);
    if (to !== undefined && counts(found)) edges.set(file, [...(edges.get(file) ?? []), to]);
  }
  const done = new Set<string>();
  const result: string[] = [];
  const visit = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file);
    if (at >= 0) result.push([...way.slice(at), file].join(' → '));
    if (at >= 0 || done.has(file)) return;
    for (const next of edges.get(file) ?? []) visit(next, [...way, file]);
    done.add(file);
  };
  for (const file of edges.keys()) visit(file, []);
  return result;
}

test('no file takes part in a circle of imports that are loaded at start', () => {
  expect(circles(({ typeOnly, lazy }) => !typeOnly && !lazy)).toEqual([]);
});

test('no file takes part in a circle of imports, of types or of values', () => {
  expect(circles(({ lazy }) => !lazy)).toEqual([]);
});
