/** The live catalogue with a real directory and a real store. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkedLayer } from '../../../src/agent/serve/machine-layer.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import type { NewEvent } from '../../../src/events/event.ts';
import { configurationCheck } from '../../../src/ignition/check.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import type { CatalogChange, ConfigCheck, LiveCatalog } from '../../../src/resources/catalog.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';

let directory: string;
let store: Store;
let events: NewEvent[];
let open: LiveCatalog[];

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-catalog-'));
  store = openMemoryStore();
  events = [];
  open = [];
});

afterEach(async () => {
  for (const one of open) await one.close();
  fs.rmSync(directory, { recursive: true });
});

async function catalog(checkConfig: ConfigCheck = configurationCheck(checkedLayer)): Promise<LiveCatalog> {
  const one = await openCatalog({
    metrics: createMetrics(),
    directory,
    store,
    events: { record: (event) => events.push(event) },
    log: silentLog,
    clock: systemClock,
    checkConfig,
  });
  open.push(one);
  return one;
}

const write = (name: string, text: string) => {
  fs.mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
  fs.writeFileSync(path.join(directory, name), text);
};
const document = (kind: string, name: string, spec: string) =>
  `---\napiVersion: muster/v1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const machine = (name: string, mac: string, more = '') =>
  document('Machine', name, `{macs: ["52:54:00:00:00:${mac}"]${more}}`);
const value = (name: string, mac: string, more: object = {}) => ({
  apiVersion: 'muster/v1',
  kind: 'Machine',
  metadata: { name },
  spec: { macs: [`52:54:00:00:00:${mac}`], ...more },
});
const WORKER = document('Profile', 'worker', '{boot: hold}');
const messages = (one: LiveCatalog) => one.faults().map((fault) => fault.message);

/** The next batch of changes. */
const change = (one: LiveCatalog) =>
  new Promise<readonly CatalogChange[]>((resolve) => {
    const end = one.subscribe((changes) => {
      end();
      resolve(changes);
    });
  });

/** Waits for an event of that kind. */
async function nextEvent(kind: NewEvent['kind']): Promise<NewEvent> {
  for (let n = 0; n < 500; n++) {
    const found = events.find((event) => event.kind === kind);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`no event ${kind} within five seconds`);
}

const refusal = async (work: Promise<unknown>): Promise<MusterError> => {
  try {
    await work;
  } catch (error) {
    if (error instanceof MusterError) return error;
    throw error;
  }
  throw new Error('it was not refused');
};

describe('files', () => {
  test('are read recursively, without hidden files and other suffixes; each document has its line', async () => {
    write('a.yaml', `# first\n${WORKER}`);
    write('deep/down/b.yml', machine('m', '01', ', profile: worker'));
    write('.hidden.yaml', 'not: [valid');
    write('.git/x.yaml', 'not: [valid');
    write('notes.txt', 'not: [valid');
    write('c.yaml~', 'not: [valid');
    const one = await catalog();
    expect(one.faults()).toEqual([]);
    expect(one.get('Profile', 'worker')?.origin).toEqual({
      from: 'file',
      at: { file: path.join(directory, 'a.yaml'), line: 3, column: 1 },
    });
    expect(one.list('Machine').map((entry) => entry.document.metadata.name)).toEqual(['m']);
  });

  test('that change are read again as a whole, and listeners get only the documents that changed', async () => {
    write('a.yaml', machine('m', '01') + machine('n', '02'));
    const one = await catalog();
    const untouched = one.get('Machine', 'n')!.document;
    const changed = change(one);
    write('a.yaml', `# a line more\n${machine('m', '03')}${machine('n', '02')}${machine('o', '04')}`);
    expect((await changed).map(({ name, entry }) => [name, entry?.document.spec])).toEqual([
      ['m', { macs: ['52:54:00:00:00:03'] }],
      ['o', { macs: ['52:54:00:00:00:04'] }],
    ]);
    expect(one.get('Machine', 'n')!.document).toBe(untouched);
    expect(one.get('Machine', 'n')!.origin).toMatchObject({ at: { line: 8 } });
    expect(events.map((event) => [event.kind, event.subject])).toEqual([
      ['document.applied', 'Machine/m'],
      ['document.applied', 'Machine/o'],
    ]);
  });

  test('that are replaced by renaming, as editors do, are read again', async () => {
    write('a.yaml', machine('m', '01'));
    const one = await catalog();
    const changed = change(one);
    write('.a.yaml.swp', machine('m', '02'));
    fs.renameSync(path.join(directory, '.a.yaml.swp'), path.join(directory, 'a.yaml'));
    await changed;
    expect(one.get('Machine', 'm')?.document.spec.macs).toEqual(['52:54:00:00:00:02']);
  });

  test('in a new subdirectory are read', async () => {
    const one = await catalog();
    fs.mkdirSync(path.join(directory, 'new'));
    const changed = change(one);
    await new Promise((resolve) => setTimeout(resolve, 300));
    write('new/m.yaml', machine('m', '01'));
    await changed;
    expect(one.get('Machine', 'm')).toBeDefined();
  });

  test('that become invalid keep their last valid version with a fault and an event, until they are valid again', async () => {
    write('a.yaml', machine('m', '01'));
    const one = await catalog();
    write('a.yaml', `${machine('m', '02')}  oops: [`);
    expect(await nextEvent('document.invalid')).toMatchObject({
      subject: path.join(directory, 'a.yaml'),
      reason: { code: 'E_YAML' },
    });
    expect(one.get('Machine', 'm')?.document.spec.macs).toEqual(['52:54:00:00:00:01']);
    expect(one.faults().map((fault) => [fault.code, fault.at?.line])).toEqual([['E_YAML', 6]]);
    const changed = change(one);
    write('a.yaml', machine('m', '02'));
    await changed;
    expect(one.faults()).toEqual([]);
  });

  test('that would turn a warning into an error keep their last version', async () => {
    write('p.yaml', WORKER);
    write('m.yaml', machine('m', '01'));
    const one = await catalog((set) => [
      {
        fault: { code: 'E_CLUSTER', path: 'spec', message: 'Machine/m: something' },
        document: 'Machine/m',
        severity: set.Profile.has('worker') ? 'warning' : 'error',
      },
    ]);
    expect(one.warnings().map(({ message }) => message)).toEqual(['Machine/m: something']);
    fs.rmSync(path.join(directory, 'p.yaml'));
    await one.reload();
    expect(messages(one)).toEqual(['this change would break Machine/m: something']);
    expect(one.get('Profile', 'worker')).toBeDefined();
  });

  test('that would remove a document that others need keep it', async () => {
    write('p.yaml', WORKER);
    write('m.yaml', machine('m', '01', ', profile: worker'));
    const one = await catalog();
    fs.rmSync(path.join(directory, 'p.yaml'));
    await one.reload();
    expect(one.get('Profile', 'worker')).toBeDefined();
    expect(messages(one)).toEqual(['this change would break Machine/m: there is no Profile "worker"']);
    // A document that is moved to another file still exists.
    write('q.yaml', WORKER);
    await one.reload();
    expect(messages(one)).toEqual([]);
    expect(one.get('Profile', 'worker')?.origin).toMatchObject({
      at: { file: path.join(directory, 'q.yaml') },
    });
  });

  test('that claim the address of another machine are reverted; the other machine is served as before', async () => {
    write('a.yaml', machine('a', '01'));
    write('b.yaml', machine('b', '02'));
    const one = await catalog();
    write('a.yaml', machine('a', '02'));
    await one.reload();
    expect(one.get('Machine', 'a')?.document.spec.macs).toEqual(['52:54:00:00:00:01']);
    expect(messages(one)).toEqual([
      expect.stringContaining('MAC 52:54:00:00:00:02 is also claimed by Machine/b'),
    ]);
  });

  test('that are invalid at start contribute their valid documents', async () => {
    write(
      'a.yaml',
      machine('a', '01') + machine('b', '01') + machine('c', 'zz') + machine('d', '04', ', profile: gone'),
    );
    write('b.yaml', machine('a', '09'));
    write('c.yaml', 'no: [yaml');
    const one = await catalog();
    // Two machines claim one MAC: the first gets it. A machine with a missing profile is held, and
    // still in force.
    expect(one.list('Machine').map((entry) => entry.document.metadata.name)).toEqual(['a', 'd']);
    expect(
      one
        .faults()
        .map((fault) => fault.code)
        .sort(),
    ).toEqual(['E_DUPLICATE', 'E_DUPLICATE', 'E_REFERENCE', 'E_SCHEMA', 'E_YAML']);
    write('p.yaml', document('Profile', 'gone', '{boot: hold}'));
    await one.reload();
    expect(messages(one).some((text) => text.includes('there is no Profile'))).toBe(false);
  });

  test('whose configuration does not render are refused with their line', async () => {
    write(
      'p.yaml',
      document(
        'Profile',
        'worker',
        '\n  boot: hold\n  config:\n    files:\n      - {path: /a, content: "${machine.nmae}"}',
      ),
    );
    const one = await catalog();
    expect(one.faults().map((fault) => [fault.code, fault.path, fault.message, fault.at?.line])).toEqual([
      [
        'E_CONFIG',
        'spec.config.files[0].content',
        'Profile/worker: there is no "${machine.nmae}"; did you mean "machine.name"?',
        9,
      ],
    ]);
  });

  test('with an invalid document do not also report that the document is missing', async () => {
    write('d.yaml', document('Profile', 'worker', '{boot: hlod}') + machine('a', '01', ', profile: worker'));
    const one = await catalog();
    expect(one.faults().map((fault) => fault.path)).toEqual(['spec.boot']);
    // It is not in force, so no other document can refer to it.
    expect((await refusal(one.apply([value('b', '02', { profile: 'worker' })]))).code).toBe('E_REFERENCE');
    await one.apply([value('b', '02')]);
    expect(one.faults().map((fault) => fault.path)).toEqual(['spec.boot']);
  });

  test('that cannot be read or are not UTF-8 are faults of the file', async () => {
    fs.writeFileSync(path.join(directory, 'a.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xff]));
    fs.symlinkSync('/nowhere/at/all', path.join(directory, 'b.yaml'));
    fs.symlinkSync('.', path.join(directory, 'loop'));
    const one = await catalog();
    expect(one.faults().map((fault) => fault.code)).toEqual(['E_YAML']);
  });

  test('fail the start when their directory does not exist', async () => {
    fs.rmSync(directory, { recursive: true });
    expect((await refusal(catalog())).code).toBe('E_UNREADABLE');
    fs.mkdirSync(directory);
  });
});

describe('the API', () => {
  test('creates, leaves unchanged, changes and deletes documents, durably', async () => {
    const one = await catalog();
    expect((await one.apply([value('a', '01'), value('b', '02')])).results.map((r) => r.action)).toEqual([
      'created',
      'created',
    ]);
    expect((await one.apply([value('a', '01')])).results[0]?.action).toBe('unchanged');
    const changed = await one.apply([value('a', '03')]);
    expect(changed.results[0]).toMatchObject({
      action: 'changed',
      before: { spec: { macs: ['52:54:00:00:00:01'] } },
    });
    await one.delete('Machine', 'b');
    const again = await catalog();
    expect(again.list('Machine').map((entry) => [entry.document.metadata.name, entry.origin])).toEqual([
      ['a', { from: 'api', revision: changed.revision }],
    ]);
  });

  test('changes nothing with dryRun, and returns what it would change', async () => {
    const one = await catalog();
    expect((await one.apply([value('a', '01')], { dryRun: true })).results[0]?.action).toBe('created');
    expect(one.get('Machine', 'a')).toBeUndefined();
    expect((await store.list('')).records).toEqual([]);
  });

  test('applies all documents or none, and reports every fault', async () => {
    write('m.yaml', machine('m', '01'));
    const one = await catalog();
    const error = await refusal(
      one.apply([value('a', '02'), value('b', '01'), value('c', '02'), value('d', '05', { profile: 'x' })]),
    );
    expect(error.faults.map((fault) => fault.code)).toEqual(['E_DUPLICATE', 'E_DUPLICATE', 'E_REFERENCE']);
    expect(one.list('Machine')).toHaveLength(1);
  });

  test('cannot change a document of a file, and names its file and line', async () => {
    write('m.yaml', `# note\n${machine('m', '01')}`);
    const one = await catalog();
    const place = `${path.join(directory, 'm.yaml')}:3`;
    expect(await refusal(one.apply([value('m', '02')]))).toMatchObject({
      code: 'E_FILE_OWNED',
      message: `Machine/m belongs to ${place}; edit it there`,
    });
    expect(await refusal(one.delete('Machine', 'm'))).toMatchObject({ code: 'E_FILE_OWNED' });
    expect((await one.apply([value('m', '01')])).results[0]?.action).toBe('unchanged');
  });

  test('keeps its document when a file contains one of the same name', async () => {
    const one = await catalog();
    await one.apply([value('m', '01')]);
    write('m.yaml', machine('m', '02'));
    await one.reload();
    expect(one.get('Machine', 'm')?.origin.from).toBe('api');
    expect(messages(one)).toEqual([expect.stringContaining('Machine/m is also in the API')]);
    await one.delete('Machine', 'm');
    await one.reload();
    expect(one.get('Machine', 'm')?.origin.from).toBe('file');
  });

  test('refuses a change that expects another revision', async () => {
    const one = await catalog();
    const { revision } = await one.apply([value('a', '01')], { expectRevision: 'absent' });
    expect((await refusal(one.apply([value('a', '02')], { expectRevision: 'absent' }))).code).toBe(
      'E_CONFLICT',
    );
    expect((await refusal(one.apply([value('a', '02')], { expectRevision: revision! + 1 }))).code).toBe(
      'E_CONFLICT',
    );
    await one.apply([value('a', '02')], { expectRevision: revision! });
    expect((await refusal(one.delete('Machine', 'a', { expectRevision: revision! }))).code).toBe(
      'E_CONFLICT',
    );
  });

  test('checks two simultaneous changes one after the other', async () => {
    const one = await catalog();
    const both = await Promise.allSettled([one.apply([value('a', '01')]), one.apply([value('b', '01')])]);
    expect(both.map((result) => result.status)).toEqual(['fulfilled', 'rejected']);
  });

  test('does not delete a document that others refer to, and names them', async () => {
    const one = await catalog();
    await one.applyText(WORKER + machine('m', '01', ', profile: worker'), 'x.yaml');
    expect(await refusal(one.delete('Profile', 'worker'))).toMatchObject({
      code: 'E_REFERENCE',
      message: 'Profile/worker is named by Machine/m; change or delete that first',
      faults: [expect.not.objectContaining({ path: expect.anything() })],
    });
    await one.delete('Machine', 'm');
    await one.delete('Profile', 'worker');
    expect((await refusal(one.delete('Profile', 'worker'))).code).toBe('E_NOT_FOUND');
  });

  test('warns of what a deletion breaks, and not of what was broken before', async () => {
    const one = await catalog();
    const profile = (name: string, image: string) => ({
      apiVersion: 'muster/v1',
      kind: 'Profile',
      metadata: { name },
      spec: { image },
    });
    const image = { os: 'debian', arch: 'x86_64', kernel: { sha256: 'a'.repeat(64) }, configFormat: 'none' };
    await one.apply([
      { apiVersion: 'muster/v1', kind: 'Image', metadata: { name: 'small' }, spec: image },
      profile('worker', 'small'),
      profile('other', 'missing'),
    ]);
    for (const dryRun of [true, false])
      expect((await one.delete('Image', 'small', { dryRun })).warnings).toMatchObject([
        { code: 'E_REFERENCE', message: 'Profile/worker: there is no Image "small"', path: 'spec.image' },
      ]);
    expect((await one.delete('Profile', 'worker')).warnings).toEqual([]);
  });

  test('deletes documents that refer to each other together, or none of them, and names the one that is still needed', async () => {
    const one = await catalog();
    await one.applyText(WORKER + machine('m', '01', ', profile: worker'), 'x.yaml');
    const both = [
      { kind: 'Profile', name: 'worker' },
      { kind: 'Machine', name: 'm' },
    ] as const;
    const dry = await one.deleteAll(both, { dryRun: true });
    expect(dry.results).toMatchObject(both.map((target) => ({ ...target, action: 'deleted' })));
    expect((await refusal(one.deleteAll([...both, { kind: 'Image', name: 'x' }]))).code).toBe('E_NOT_FOUND');
    expect(one.get('Machine', 'm')).toBeDefined();
    await one.deleteAll(both);
    expect([one.get('Machine', 'm'), one.get('Profile', 'worker')]).toEqual([undefined, undefined]);
  });

  test('lets a machine take a MAC that another gives up, also in the same change', async () => {
    const one = await catalog();
    await one.apply([value('a', '01'), value('b', '02')]);
    await one.apply([value('a', '02'), value('b', '01')]);
    await one.delete('Machine', 'a');
    await one.apply([value('c', '02')]);
    expect((await refusal(one.apply([value('d', '01')]))).faults[0]?.message).toContain(
      'claimed by Machine/b (from the API)',
    );
  });

  test('reports faults of a text with its name, line and column', async () => {
    const one = await catalog();
    const error = await refusal(
      one.applyText(`${machine('a', '01')}${machine('b', '01', ', profil: x')}`, 'mine.yaml'),
    );
    expect(error.faults.map(({ code, at }) => `${code} ${at?.file}:${at?.line}:${at?.column}`)).toEqual([
      'E_SCHEMA mine.yaml:10:37',
      'E_DUPLICATE mine.yaml:10:15',
    ]);
  });

  test('refuses more documents than a transaction takes', async () => {
    const one = await catalog();
    const many = Array.from({ length: 129 }, (_, n) => value(`m${n}`, n.toString(16).padStart(2, '0')));
    expect((await refusal(one.apply(many))).code).toBe('E_STORE_LIMIT');
  });

  test('writes other records in the same transaction', async () => {
    const one = await catalog();
    await one.apply([value('a', '01')], {
      alsoWrite: [{ key: 'machine/a', put: '{"v":1}', expect: 'absent' }],
    });
    const conflict = one.apply([value('b', '02')], {
      alsoWrite: [{ key: 'machine/a', put: '{}', expect: 'absent' }],
    });
    expect((await refusal(conflict)).code).toBe('E_CONFLICT');
    expect(one.get('Machine', 'b')).toBeUndefined();
  });

  test('refuses a configuration that does not render, and names the machine', async () => {
    const one = await catalog();
    await one.applyText(
      document(
        'Profile',
        'worker',
        '{boot: hold, config: {files: [{path: /a, content: "${machine.serial}"}]}}',
      ),
      'p.yaml',
    );
    const error = await refusal(one.apply([value('a', '01', { profile: 'worker' })]));
    expect(error.faults[0]).toMatchObject({
      code: 'E_CONFIG',
      message: 'Profile/worker: "${machine.serial}" has no value for this machine (for Machine/a)',
    });
    await one.apply([value('a', '01', { profile: 'worker', serial: 'S1' })]);
  });

  test('leaves out and reports an invalid record; a record of a newer version fails the start', async () => {
    await store.commit([{ key: 'document/Machine/old', put: '{"v":1,"document":{"kind":"Machine"}}' }]);
    expect(messages(await catalog())).toEqual([
      expect.stringContaining('document/Machine/old in the store is left out'),
    ]);
    await store.commit([{ key: 'document/Machine/new', put: '{"v":2}' }]);
    expect((await refusal(catalog())).code).toBe('E_STORE_NEWER');
  });

  test.each(['null', '3', '"text"', '[]', '{', ''])(
    'a record that is %j is left out and reported',
    async (put) => {
      await store.commit([{ key: 'document/Machine/odd', put }]);
      expect(messages(await catalog())).toEqual([
        expect.stringContaining('document/Machine/odd in the store'),
      ]);
    },
  );
});
