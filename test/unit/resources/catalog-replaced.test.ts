/**
 * A configuration directory that is replaced, disappears, or contains links: the catalogue reads
 * and watches the directory that is at the path now.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { MetricName } from '../../../src/base/metrics.ts';
import type { NewEvent } from '../../../src/events/event.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import type { LiveCatalog } from '../../../src/resources/catalog.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

let root: string;
let directory: string;
let clock: ManualClock;
let events: NewEvent[];
let logged: string[];
let metrics: Map<MetricName, number>;
let open: LiveCatalog[];

beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-catalog-'));
  directory = path.join(root, 'config');
  clock = new ManualClock();
  events = [];
  logged = [];
  metrics = new Map();
  open = [];
});

afterEach(async () => {
  for (const one of open) await one.close();
  fs.rmSync(root, { recursive: true });
});

async function catalog(): Promise<LiveCatalog> {
  const one = await openCatalog({
    directory,
    store: openMemoryStore(),
    events: { record: (event) => events.push(event) },
    log: { ...silentLog, error: (_fields, text) => logged.push(text ?? '') },
    metrics: { set: (name, _labels, value) => metrics.set(name, value) },
    clock,
  });
  open.push(one);
  return one;
}

const write = (file: string, text: string) => {
  fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
  fs.writeFileSync(path.join(root, file), text);
};
const machine = (mac: string, more = '') =>
  `---\napiVersion: muster/v1\nkind: Machine\nmetadata: {name: m}\nspec:\n  macs: ["52:54:00:00:00:${mac}"]\n${more}`;
const PROFILE = '---\napiVersion: muster/v1\nkind: Profile\nmetadata: {name: worker}\nspec: {boot: hold}\n';
const macOf = (one: LiveCatalog) => one.get('Machine', 'm')?.document.spec.macs?.[0]?.slice(-2);

/**
 * Waits until `holds` is true, and advances the clock in steps of `step` milliseconds. With steps
 * of {@link WATCH} the scan that runs every 5 seconds does not happen.
 */
async function until(holds: () => boolean, step: number): Promise<void> {
  for (let n = 0; n < 300; n++) {
    if (holds()) return;
    clock.advance(millis(step));
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('the expected state was not reached within three seconds');
}
/**
 * Short enough that 300 steps take less than the 5 seconds between scans, so that only watches
 * report changes.
 */
const WATCH = 16;
const SCAN = 5000;

describe('the directory that is now at the configured path', () => {
  test('is read and watched after another directory was renamed to the path', async () => {
    write('config/m.yaml', machine('01'));
    const one = await catalog();
    write('next/m.yaml', machine('02'));
    fs.renameSync(directory, path.join(root, 'old'));
    fs.renameSync(path.join(root, 'next'), directory);
    await until(() => macOf(one) === '02', SCAN);
    write('config/m.yaml', machine('03'));
    await until(() => macOf(one) === '03', WATCH);
  });

  test('is read and watched after it was removed and created again', async () => {
    write('config/m.yaml', machine('01'));
    const one = await catalog();
    fs.rmSync(directory, { recursive: true });
    await until(() => one.faults().length > 0, WATCH);
    write('config/m.yaml', machine('02'));
    await until(() => macOf(one) === '02', SCAN);
    write('config/m.yaml', machine('03'));
    await until(() => macOf(one) === '03', WATCH);
  });

  test('is read and watched after the target of the link at the path changed', async () => {
    write('v1/m.yaml', machine('01'));
    write('v2/m.yaml', machine('02'));
    fs.symlinkSync('v1', directory);
    const one = await catalog();
    fs.symlinkSync('v2', path.join(root, 'link'));
    fs.renameSync(path.join(root, 'link'), directory);
    await until(() => macOf(one) === '02', SCAN);
    write('v2/m.yaml', machine('03'));
    await until(() => macOf(one) === '03', WATCH);
  });

  test('is read and watched when a reload came before the scan', async () => {
    write('v1/m.yaml', machine('01'));
    write('v2/m.yaml', machine('02'));
    fs.symlinkSync('v1', directory);
    const one = await catalog();
    fs.symlinkSync('v2', path.join(root, 'link'));
    fs.renameSync(path.join(root, 'link'), directory);
    await one.reload();
    expect(macOf(one)).toBe('02');
    write('v2/m.yaml', machine('03'));
    await until(() => macOf(one) === '03', WATCH);
  });

  test('is read and watched after a subdirectory was replaced between two scans', async () => {
    write('config/hall/m.yaml', machine('01'));
    const one = await catalog();
    fs.renameSync(path.join(directory, 'hall'), path.join(root, 'old'));
    write('config/hall/m.yaml', machine('02'));
    await until(() => macOf(one) === '02', WATCH);
    write('config/hall/m.yaml', machine('03'));
    await until(() => macOf(one) === '03', WATCH);
  });

  test('is read and watched after the target of a linked file changed, was removed, and was created again', async () => {
    write('outside.yaml', machine('01'));
    fs.mkdirSync(directory);
    fs.symlinkSync('../outside.yaml', path.join(directory, 'm.yaml'));
    const one = await catalog();
    write('outside.yaml', machine('02', '  serial: X\n'));
    await until(() => macOf(one) === '02', SCAN);
    fs.rmSync(path.join(root, 'outside.yaml'));
    await until(() => macOf(one) === undefined, SCAN);
    write('outside.yaml', machine('03'));
    await until(() => macOf(one) === '03', SCAN);
  });

  test('is read and watched after ..data changes, as kubelet mounts a ConfigMap', async () => {
    write('config/..1/m.yaml', machine('01'));
    write('config/..2/m.yaml', machine('02'));
    fs.symlinkSync('..1', path.join(directory, '..data'));
    fs.symlinkSync('..data/m.yaml', path.join(directory, 'm.yaml'));
    const one = await catalog();
    fs.symlinkSync('..2', path.join(directory, '..data_tmp'));
    fs.renameSync(path.join(directory, '..data_tmp'), path.join(directory, '..data'));
    await until(() => macOf(one) === '02', WATCH);
  });
});

test('a configuration directory that disappears is a fault until it is back; its documents stay in force', async () => {
  write('config/m.yaml', machine('01'));
  const one = await catalog();
  fs.renameSync(directory, path.join(root, 'away'));
  await one.reload();
  expect(one.faults()).toEqual([
    {
      code: 'E_UNREADABLE',
      message: expect.stringContaining('ENOENT'),
      at: { file: directory, line: 1, column: 1 },
    },
  ]);
  expect(macOf(one)).toBe('01');
  expect(metrics.get('muster_document_faults')).toBe(1);
  expect(events.map(({ kind, subject }) => [kind, subject])).toEqual([['document.invalid', directory]]);
  fs.renameSync(path.join(root, 'away'), directory);
  await until(() => one.faults().length === 0, SCAN);
  expect(metrics.get('muster_document_faults')).toBe(0);
});

test('a missing reference at start is logged, recorded and counted like other faults, and so is its end', async () => {
  write('config/m.yaml', machine('01', '  profile: worker\n'));
  const one = await catalog();
  expect(one.faults().map(({ code }) => code)).toEqual(['E_REFERENCE']);
  expect(logged).toEqual([expect.stringContaining('there is no Profile "worker"')]);
  expect(events).toEqual([
    expect.objectContaining({ kind: 'document.invalid', subject: path.join(directory, 'm.yaml') }),
  ]);
  expect(metrics.get('muster_document_faults')).toBe(1);
  await one.applyText(PROFILE, 'p.yaml');
  expect(one.faults()).toEqual([]);
  expect(metrics.get('muster_document_faults')).toBe(0);
});

test('a fault between documents keeps its position when another file or the API changes something', async () => {
  write('config/m.yaml', machine('01', '  profile: worker\n'));
  const one = await catalog();
  const place = { file: path.join(directory, 'm.yaml'), line: 7, column: 12 };
  expect(one.faults().map(({ at }) => at)).toEqual([place]);
  write('config/other.yaml', PROFILE.replace('worker', 'other'));
  await one.reload();
  expect(one.faults().map(({ at }) => at)).toEqual([place]);
  await one.applyText(PROFILE.replace('worker', 'third'), 'p.yaml');
  expect(one.faults().map(({ at }) => at)).toEqual([place]);
});
