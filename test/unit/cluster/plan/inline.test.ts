/** `delivery: inline`: the same plan as the agent's, whole, with keys that are made for it. */
import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { encodePlan } from '../../../../src/agent/wire/encode-plan.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { checkAll } from '../../../../src/cluster/resolve/check-documents.ts';
import { createEventLog } from '../../../../src/events/log.ts';
import { PrivateKey } from '../../../../src/pki/keys.ts';
import { openCatalog } from '../../../../src/resources/catalog.files.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import { document, machine } from '../../pxe/boot/world.ts';
import { resolved } from '../kit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

/**
 * What a line does and where; a key that the machine adds and one that comes with it are the same
 * file.
 */
const outline = (line: PlanLine): string =>
  [
    line.do.replace('-with-key', ''),
    ...('path' in line ? [line.path] : Object.values(line).slice(1, 2)),
  ].join(' ');

const textOf = (lines: readonly PlanLine[], path: string): string => {
  const line = lines.find((one) => one.do === 'put' && one.path === path);
  if (line?.do !== 'put' || !('text' in line.content)) throw new Error(`no ${path}`);
  return line.content.text;
};

test('a worker’s inline plan does what its agent’s plan does, line by line', async () => {
  const { planner } = await rig();
  const asked = await settle(planner, new TestMachine('w1', { state: 'unused' }));
  const { lines } = await planner.inline('w1');
  expect(lines.map(outline)).toEqual(asked.lines.map(outline));
  const text = (line: PlanLine): string | undefined =>
    line.do === 'put' &&
    'text' in line.content &&
    !/BEGIN|certificate|MUSTER_REVISION|string [0-9a-f]{16}/.test(line.content.text)
      ? line.content.text
      : undefined;
  for (const [n, line] of lines.entries())
    if (asked.lines[n]!.do === 'put') expect(text(line)).toBe(text(asked.lines[n]!));
  // The agent that does it asks for no key of its own.
  expect(lines.filter((line) => line.do === 'put-with-key' || line.do === 'request')).toEqual([]);
  encodePlan({ lines, pollSeconds: 0 });
});

test('its certificates are for this worker alone, and every call makes others', async () => {
  const { planner, pki } = await rig();
  const pem = '/var/lib/kubelet/pki/kubelet-client-muster.pem';
  const first = textOf((await planner.inline('w1')).lines, pem);
  const certificate = new X509Certificate(first);
  expect(certificate.subject).toBe('O=system:nodes\nCN=system:node:w1');
  expect(
    certificate.checkPrivateKey(PrivateKey.fromPem(first.slice(first.indexOf('-----BEGIN EC'))).object),
  ).toBe(true);
  const issued = await pki.issued('golden');
  expect(issued.map(({ leaf, to }) => [leaf, to]).sort()).toEqual([
    ['kubelet', 'w1'],
    ['kubelet-serving', 'w1'],
  ]);
  const second = textOf((await planner.inline('w1')).lines, pem);
  expect(new X509Certificate(second).serialNumber).not.toBe(certificate.serialNumber);
});

test('a control plane gets no inline plan, because only an agent can get a grant; the reason is given', async () => {
  const { planner, pki } = await rig();
  await expect(planner.inline('cp1')).rejects.toMatchObject({
    code: 'E_AGENT_WAIT',
    message: expect.stringContaining('only workers'),
  });
  await expect(planner.inline('nobody')).rejects.toMatchObject({ code: 'E_AGENT_WAIT' });
  expect(await pki.issued('golden')).toEqual([]);
});

test('documents that want it of a control plane, or with a data disk, are refused with the machine', async () => {
  const clock = new ManualClock();
  const log = silentLog;
  const events = createEventLog({ metrics: createMetrics(), clock, log, perSubject: 10, subjects: 10 });
  const catalog = await openCatalog({
    metrics: createMetrics(),
    store: openMemoryStore(),
    events,
    log,
    clock,
    checkConfig: checkAll,
  });
  const macs = (n: number) => [`52:54:00:00:00:0${n}`];
  const cp = (more: object) => machine('cp1', macs(1), { addresses: ['10.0.0.11'], ...more });
  const worker = (more: object) => machine('w1', macs(2), { addresses: ['10.0.0.21'], ...more });
  const network = document('Network', 'lan', { subnet: '10.0.0.0/24', dhcp: { mode: 'reservations' } });
  const cluster = document('Cluster', 'one', {
    kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: ['cp1'], workers: ['w1'] },
  });
  const faults = (...documents: object[]) =>
    catalog.apply([network, cluster, ...documents], { dryRun: true }).then(
      () => [],
      (error: { faults: { message: string }[] }) => error.faults.map(({ message }) => message),
    );
  expect(await faults(cp({}), worker({ delivery: 'inline' }))).toEqual([]);
  expect(await faults(cp({ delivery: 'inline' }), worker({}))).toEqual([
    expect.stringContaining('cp1: delivery: inline is for workers'),
  ]);
  expect(await faults(cp({}), worker({ delivery: 'inline', dataDisk: { path: '/dev/vdb' } }))).toEqual([
    expect.stringContaining('w1: delivery: inline and dataDisk exclude each other'),
  ]);
  await catalog.close();
});

test('an inline worker gets the versions of the release that its cluster has, whatever the document asks for', async () => {
  const older = resolved({ version: '1.35.6' });
  const { planner } = await rig({ allowed: () => ({ resolved: older }) });
  await settle(planner, new TestMachine('cp1', { state: 'unused' }));
  const { lines } = await planner.inline('w1');
  const kubelet = lines.filter((line) => JSON.stringify(line).includes('1.36.3'));
  expect(kubelet).toEqual([]);
  const invalid = await rig({ allowed: () => ({ resolved: undefined, why: 'not valid for 1.35.6' }) });
  await expect(invalid.planner.inline('w1')).rejects.toThrow('not valid for 1.35.6');
});
