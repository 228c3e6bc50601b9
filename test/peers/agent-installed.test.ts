/**
 * An agent whose system is installed on a disk: what the last plan put there survives a reboot, and
 * nothing of it may count before the boot host, or the plan that was kept, says so.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { Machine, Planner, SHELLS } from './agent-kit.ts';

const MANIFEST = '/etc/kubernetes/manifests/etcd.yaml';
const put = (path: string, text: string): PlanLine => ({ do: 'put', mode: 0o600, path, content: { text } });
const RUN: PlanLine = { do: 'run', unit: 'kubelet.service', digest: 'a'.repeat(64) };

let planner: Planner;
let machine: Machine;
beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner, { installed: 'yes' });
});
afterEach(async () => {
  await machine.stop();
  machine.close();
  planner.close();
});

test.for(SHELLS)('by %s, a boot begins without the static pods and units of the last one', async (shell) => {
  planner.plan([put(MANIFEST, 'etcd\n'), put('/etc/name', 'cp1\n'), RUN]);
  expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
  expect(machine.read(MANIFEST)).toBe('etcd\n');
  expect(machine.told()).toEqual([
    'disable kubelet.service',
    'enable kubelet.service until the next boot',
    'start kubelet.service',
  ]);
  // Another poll of the same boot keeps them.
  await machine.poll(shell);
  expect(machine.exists(MANIFEST)).toBe(true);

  machine.reboot();
  planner.plan([put('/etc/name', 'cp1\n'), RUN]);
  expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
  expect(machine.exists(MANIFEST)).toBe(false);
  expect(machine.told()).toContain('start kubelet.service');
  // Its certificate is on the disk: it needs no ticket.
  expect(planner.asked.filter(({ path }) => path === '/agent/redeem')).toHaveLength(1);
});

test('while the boot host does not answer, it does its last plan', { timeout: 180_000 }, async () => {
  planner.plan([put(MANIFEST, 'etcd\n'), RUN]);
  expect((await machine.poll()).status).toBe(0);
  expect(machine.mode('/var/lib/muster/kept/plan.tar')).toBe('600');
  machine.reboot();
  machine.told();
  planner.close();
  machine.start(SHELLS[0]);
  const runs = () => machine.exists('/units/kubelet.service.active');
  await expect.poll(runs, { timeout: 150_000, interval: 100 }).toBe(true);
  expect(machine.read(MANIFEST)).toBe('etcd\n');
});

test('a unit that is stopped is enabled at no boot', async () => {
  planner.plan([RUN]);
  await machine.poll();
  machine.told();
  planner.plan([{ do: 'stop', unit: 'kubelet.service' }]);
  expect((await machine.poll()).status).toBe(0);
  expect(machine.told()).toEqual([
    'stop kubelet.service',
    'disable kubelet.service',
    'disable kubelet.service until the next boot',
  ]);
});
