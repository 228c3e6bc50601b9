/** Tiers of trust as operators see them: which counts, and which document asks for it. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

const CLUSTER = (given: { cluster?: string; cp1?: string } = {}) => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:11"], profile: worker, addresses: [10.77.0.11], dataDisk: {serial: D}${given.cp1 ?? ''}}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: one}
spec:
  ${given.cluster ?? 'trust: segment'}
  kubernetes: {version: "1.36", endpoint: api.one.test, controlPlanes: [cp1], workers: [node-1]}
`;
const PROXY = DOCUMENTS.replace(/dhcp: \{mode: server.*\}\]\}/, 'dhcp: {mode: proxy}');

let world: World;
afterEach(() => world.close());

const muster = (...args: string[]) => run(args, { socket: world.socket });

/** The tier of a machine, from `muster get machines -o wide`, and where it is from. */
async function trustOf(machine: string): Promise<string> {
  const { out } = await muster('get', 'machine', machine, '-o', 'json');
  const { trust } = (JSON.parse(out) as { status: { trust?: { tier: string; from: string } } }).status;
  if (trust === undefined) return 'none';
  const { out: wide } = await muster('get', 'machines', '-o', 'wide');
  expect(wide).toMatch(new RegExp(`^${machine} .* ${trust.tier} `, 'm'));
  expect((await muster('explain', machine)).out).toMatch(new RegExp(`^ +trust +${trust.tier} \\(`, 'm'));
  return `${trust.tier} ${trust.from}`;
}

test('a machine of a cluster is of the tier that its Cluster names; one without a cluster has no tier', async () => {
  world = await openWorld(DOCUMENTS);
  expect(await trustOf('node-1')).toBe('none');
  await world.close();
  world = await openWorld(DOCUMENTS + CLUSTER());
  expect(await trustOf('cp1')).toBe('segment Cluster/one');
  expect(await trustOf('node-1')).toBe('segment Cluster/one');
});

test('a Cluster that names no tier is refused, with what each of the three costs and prevents', async () => {
  world = await openWorld(DOCUMENTS);
  const file = join(mkdtempSync(join(tmpdir(), 'muster-tiers-')), 'one.yaml');
  writeFileSync(file, CLUSTER({ cluster: 'dataDisk: {serial: D}' }));
  const { code, err } = await muster('apply', '-f', file);
  expect(code).toBe(1);
  expect(err).toContain('E_TRUST');
  for (const part of ['"segment" costs', '"approved" costs', '"tpm" costs']) expect(err).toContain(part);
});

test('the strictest tier counts, whichever document asks for it', async () => {
  world = await openWorld(
    DOCUMENTS + CLUSTER({ cluster: 'trust: approved\n  dataDisk: {serial: D}', cp1: ', trust: segment' }),
  );
  expect(await trustOf('cp1')).toBe('approved Cluster/one');
  await world.close();
  world = await openWorld(PROXY + CLUSTER({ cluster: 'trust: segment', cp1: ', trust: tpm' }));
  expect(await trustOf('cp1')).toBe('tpm Machine/cp1');
  expect(await trustOf('node-1')).toBe('segment Cluster/one');
});

test('without a machine that waits, the commands say so, and wrong words are refused with what to write', async () => {
  world = await openWorld(DOCUMENTS + CLUSTER());
  expect((await muster('machine', 'waiting')).err).toBe('No machine waits for an approval.\n');
  expect((await muster('machine', 'approve', '--all')).err).toBe('No machine waits for an approval.\n');
  for (const words of [['cp1'], [], ['cp1', '7QK-3FD', 'cp2']])
    expect(await muster('machine', 'approve', ...words)).toMatchObject({
      code: 2,
      err: expect.stringContaining('muster machine approve cp1 7QK-3FD'),
    });
  expect(await muster('machine', 'approve', 'nobody', '7QK-3FD')).toMatchObject({
    code: 1,
    err: expect.stringContaining('there is no machine "nobody"'),
  });
});

test('a rearm of a machine without an alarm says that it had none', async () => {
  world = await openWorld(DOCUMENTS + CLUSTER());
  expect(await muster('machine', 'rearm', 'cp1')).toMatchObject({
    code: 0,
    out: 'machine/cp1 rearmed\n',
    err: '  it had no alarm\n',
  });
});
