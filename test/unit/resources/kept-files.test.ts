/** Files that change while the server is down are treated as if it had been running. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import type { ConfigCheck, LiveCatalog } from '../../../src/resources/catalog.ts';
import { KIND_NAMES } from '../../../src/resources/catalog-view.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import { putDocument } from '../../../src/resources/stored-documents.ts';
import { KEYS } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';

let directory: string;
let store: Store;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-kept-'));
  store = openMemoryStore();
});

afterEach(() => fs.rmSync(directory, { recursive: true }));

const start = (checkConfig?: ConfigCheck): Promise<LiveCatalog> =>
  openCatalog({
    metrics: createMetrics(),
    ...{ directory, store, events: { record: () => {} }, log: silentLog, clock: systemClock },
    ...(checkConfig && { checkConfig }),
  });

/** Starts, looks, and ends again. */
async function once<T>(look: (one: LiveCatalog) => T, checkConfig?: ConfigCheck): Promise<T> {
  const one = await start(checkConfig);
  try {
    return look(one);
  } finally {
    await one.close();
  }
}

const write = (name: string, text: string) => fs.writeFileSync(path.join(directory, name), text);
const document = (kind: string, name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const machine = (name: string, mac: string, more = '') =>
  document('Machine', name, `{macs: ["52:54:00:00:00:${mac}"]${more}}`);
const WORKER = document('Profile', 'worker', '{boot: hold}');
const codes = (one: LiveCatalog) => one.faults().map(({ code }) => code);
const shown = (one: LiveCatalog) =>
  KIND_NAMES.flatMap((kind) => one.list(kind).map(({ document: { spec } }) => spec as object));

const cluster = (more: string) =>
  document(
    'Cluster',
    'blue',
    `{${more}kubernetes: {version: "1.36", endpoint: a.test, controlPlanes: [cp1]}}`,
  );
const stored = async (text: string): Promise<void> => {
  const { documents } = parseDocuments(text, 'stored');
  await store.commit(documents.map((one) => putDocument(one.document, 'absent')));
};

test.each([true, false])(
  'a stored Cluster that names no tier of trust stays in force, and every start says what to write (files: %s)',
  async (files) => {
    await stored(cluster(''));
    const errors: string[] = [];
    const log = { ...silentLog, error: (_: object, text: string) => void errors.push(text) };
    const open = () =>
      openCatalog({
        ...{ store, events: { record: () => {} }, log, clock: systemClock, metrics: createMetrics() },
        ...(files && { directory }),
      });
    for (const text of [WORKER, machine('one', '01')]) {
      write('a.yaml', text);
      errors.length = 0;
      const one = await open();
      expect(one.get('Cluster', 'blue')).toBeDefined();
      expect(shown(one)).toHaveLength(files ? 2 : 1);
      expect(codes(one)).toEqual(['E_TRUST']);
      expect(errors.join()).toMatch(/Cluster\/blue: does not say.* write trust: segment, approved, tpm\./);
      await expect(one.applyText(cluster(''), 'again')).rejects.toMatchObject({ code: 'E_TRUST' });
      await one.close();
    }
    const one = await open();
    await one.applyText(cluster('trust: approved, '), 'better');
    expect(codes(one)).toEqual([]);
    await one.close();
  },
);

test('a file with a Cluster that names no tier of trust is refused', async () => {
  write('blue.yaml', cluster(''));
  await once((one) => {
    expect(codes(one)).toEqual(['E_TRUST']);
    expect(one.get('Cluster', 'blue')).toBeUndefined();
  });
});

/** A check that this version of Muster makes and the former one did not. */
const newer: ConfigCheck = ({ Machine }) =>
  [...Machine.values()].map(({ document: { metadata, spec } }) => ({
    fault: { code: 'E_CLUSTER', message: `${spec.macs} cannot work`, path: 'spec' },
    document: `Machine/${metadata.name}`,
    severity: 'error',
  }));

test('a file that got a fault while the server was down keeps its last valid version', async () => {
  write('a.yaml', WORKER + machine('a', '01', ', profile: worker'));
  await once(codes);
  write('a.yaml', WORKER + machine('a', 'zz', ', profile: worker'));
  expect(await once((one) => [one.get('Machine', 'a')?.document.spec.macs, codes(one)])).toEqual([
    ['52:54:00:00:00:01'],
    ['E_SCHEMA'],
  ]);
  write('a.yaml', WORKER + machine('a', '02', ', profile: worker'));
  expect(await once((one) => [one.get('Machine', 'a')?.document.spec.macs, codes(one)])).toEqual([
    ['52:54:00:00:00:02'],
    [],
  ]);
});

test('a file that was deleted while the server was down stays in force while others need it', async () => {
  write('p.yaml', WORKER);
  write('m.yaml', machine('a', '01', ', profile: worker'));
  await once(codes);
  fs.rmSync(path.join(directory, 'p.yaml'));
  expect(await once((one) => [one.get('Profile', 'worker') !== undefined, codes(one)])).toEqual([
    true,
    ['E_REFERENCE'],
  ]);
  fs.rmSync(path.join(directory, 'm.yaml'));
  expect(await once(shown)).toEqual([]);
  expect((await store.list(KEYS.file.prefix())).records).toEqual([]);
});

test('a document that only a newer Muster refuses stays in force, and its fault is told', async () => {
  write('a.yaml', machine('a', '01'));
  await once(codes);
  const look = (one: LiveCatalog) => [shown(one).length, codes(one)];
  expect(await once(look, newer)).toEqual([1, ['E_CLUSTER']]);
  expect(await once(look, newer)).toEqual([1, ['E_CLUSTER']]);
  // The same fault is no reason to refuse another change of the file; a further one is.
  write('a.yaml', machine('a', '01') + WORKER);
  expect(await once(look, newer)).toEqual([2, ['E_CLUSTER']]);
  write('a.yaml', machine('a', '02') + machine('b', '03'));
  const macs = (one: LiveCatalog) => one.get('Machine', 'a')?.document.spec.macs;
  expect(await once(macs, newer)).toEqual(['52:54:00:00:00:01']);
});

test('a configuration directory that moved is the same one', async () => {
  write('a.yaml', machine('a', '01'));
  await once(codes);
  const moved = `${directory}-moved`;
  fs.renameSync(directory, moved);
  directory = moved;
  expect(await once((one) => [shown(one).length, codes(one)])).toEqual([1, []]);
});

test('a large file is kept as well', async () => {
  const many = Array.from({ length: 3000 }, (_, n) => {
    const [high, low] = [n >> 8, n & 255].map((octet) => octet.toString(16).padStart(2, '0'));
    return document('Machine', `n${n}`, `{macs: ["52:54:00:00:${high}:${low}"]}`);
  }).join('');
  write('a.yaml', many);
  await once(codes);
  write('a.yaml', `${many}---\nkind: [`);
  expect(await once((one) => one.list('Machine').length)).toBe(3000);
});

test('whatever happens to files, restarts leave the same documents in force as reloads', async () => {
  const texts = fc.constantFrom(
    undefined,
    ...[WORKER, machine('a', '01'), machine('a', '02', ', profile: worker'), machine('b', '02')],
    ...['kind: [', machine('b', 'zz'), WORKER + machine('a', '01', ', profile: worker')],
  );
  const edits = fc.array(fc.tuple(fc.constantFrom('a.yaml', 'b.yaml'), texts, fc.boolean()), {
    maxLength: 8,
  });
  const edit = (name: string, text: string | undefined) =>
    text === undefined ? fs.rmSync(path.join(directory, name), { force: true }) : write(name, text);
  await fc.assert(
    fc.asyncProperty(edits, async (steps) => {
      const run = async (restarts: boolean) => {
        store = openMemoryStore();
        for (const file of fs.readdirSync(directory)) fs.rmSync(path.join(directory, file));
        let one = await start();
        for (const [name, text, isRestart] of steps) {
          edit(name, text);
          if (restarts && isRestart) {
            await one.close();
            one = await start();
          } else await one.reload();
        }
        const seen = [shown(one), codes(one).sort()];
        await one.close();
        return seen;
      };
      expect(await run(true)).toEqual(await run(false));
    }),
    {
      numRuns: 40,
      // A file that is written again as it was, beside one that says the same.
      examples: [
        [
          [
            ['b.yaml', WORKER, false],
            ['a.yaml', WORKER, false],
            ['b.yaml', WORKER, true],
          ],
        ],
      ],
    },
  );
});
