/** What machines get that have a boot disk (`home: boot`). */
import { expect, test } from 'vitest';
import { previewAgents } from '../../../../src/agent/serve/agents.ts';
import { heard } from '../../../../src/agent/serve/heard.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { duration } from '../../../../src/base/duration.ts';
import { acceptMachine } from '../../../../src/machines/accept.ts';
import { BOOT_LIMIT } from '../../../../src/pxe/decide/decide.ts';
import { document, HASH, IMAGE, MAC1, machine, NETWORK, type World, world } from './world.ts';

const CLUSTER = document('Cluster', 'blue', {
  kubernetes: { version: '1.36', endpoint: '10.77.0.210', controlPlanes: ['node-1'] },
});
const PROFILE = document('Profile', 'worker', {
  image: 'debian',
  dataDisk: { serial: 'DATA' },
  bootDisk: { serial: 'BOOT' },
});
const NODE = machine('node-1', [MAC1], { profile: 'worker', addresses: ['10.77.0.11'] });
const opened = (...more: readonly object[]) =>
  world([NETWORK, IMAGE, PROFILE, CLUSTER, NODE, ...more], {
    agents: async (parts) => previewAgents(parts),
  });
const argumentsOf = async (w: World) =>
  (await w.powerOn(MAC1)).script
    .split(' ')
    .filter((word) => word.startsWith('muster.home') || word.startsWith('muster.root.sha256'));

test('the initrd of a machine with a boot disk is told that it has one, and of no other', async () => {
  const w = await opened();
  const root = `muster.root.sha256=${HASH('c')}`;
  expect(await argumentsOf(w)).toEqual([root, 'muster.home=boot']);
  await w.apply(document('Profile', 'worker', { ...PROFILE.spec, home: 'ram' }));
  expect(await argumentsOf(w)).toEqual([root]);
});

/** The agent's word in a boot of a root image. */
const says = (w: World, bootId: string, image: string, more: Partial<AgentFacts> = {}) =>
  heard(w, w.roster.get('node-1')!, { agent: '1', bootId, image, ...more } as AgentFacts, '10.77.0.11');
const KEPT = {
  applied: 'e'.repeat(64),
  bootDisk: { state: 'kept', text: 'it holds what this boot used' },
} as const;
const NEXT = document('Image', 'debian', {
  ...IMAGE.spec,
  root: { sha256: HASH('a'), name: 'root.squashfs' },
});
/** What a boot gets once the machine was silent for a while. */
const boots = async (w: World) => {
  w.clock.advance(duration('10m'));
  const { decision, session } = await w.powerOn(MAC1);
  return { got: `${decision.kind} ${decision.reason.code}`, session: session?.id };
};

/** A machine whose boot disk keeps the image, and whose profile has the next one. */
async function upgrading(): Promise<World> {
  const w = await opened();
  expect((await boots(w)).got).toBe('script boots_profile');
  await says(w, 'boot-1', HASH('c'), KEPT);
  expect(w.roster.get('node-1')!.status.agent?.kept).toBe(HASH('c'));
  await w.apply(NEXT);
  return w;
}

test('a new image is tried for one boot; if the agent does not get through its plan, the disk starts what worked', async () => {
  const w = await upgrading();
  const first = await boots(w);
  expect(first.got).toBe('script boots_profile');
  // That the system came up says nothing, and neither does an agent that waits.
  await w.boot.report(first.session!, { step: 'kernel' }, '10.77.0.101');
  await w.boot.report(first.session!, { step: 'ready' }, '10.77.0.101');
  await says(w, 'boot-2', HASH('a'));
  expect((await boots(w)).got).toBe('disk way_back');
  expect((await boots(w)).got).toBe('disk way_back');
  // From the disk it is the old system, which does its plan; that proves nothing of the new one.
  await says(w, 'boot-3', HASH('c'), {
    ...KEPT,
    bootDisk: { state: 'started', text: 'this boot is from it' },
  });
  expect((await boots(await w.restart())).got).toBe('disk way_back');
});

test('the same script that is asked for twice in one session is one trial', async () => {
  const w = await upgrading();
  const { session } = await boots(w);
  expect((await w.fetch(MAC1, session)).decision.kind).toBe('script');
});

test('an image with which the agent got through its plan is no trial any more, also before the disk keeps it', async () => {
  const w = await upgrading();
  await boots(w);
  await says(w, 'boot-2', HASH('a'), {
    applied: 'e'.repeat(64),
    bootDisk: { state: 'failed', text: 'no room' },
  });
  expect((await boots(w)).got).toBe('script boots_profile');
  await says(w, 'boot-3', HASH('a'), KEPT);
  for (let n = 0; n < 2; n++) expect((await boots(w)).got).toBe('script boots_profile');
});

test('another image, and an operator’s word, end the way back', async () => {
  const w = await upgrading();
  await boots(w);
  expect((await boots(w)).got).toBe('disk way_back');
  await acceptMachine(w, 'node-1');
  expect((await boots(w)).got).toBe('script boots_profile');
  expect((await boots(w)).got).toBe('disk way_back');
  await w.apply(document('Image', 'debian', { ...IMAGE.spec, root: { sha256: HASH('b'), name: 'root' } }));
  expect((await boots(w)).got).toBe('script boots_profile');
  await w.apply(IMAGE);
  for (let n = 0; n < 2; n++) expect((await boots(w)).got).toBe('script boots_profile');
});

test('without a boot disk that keeps something, boots are counted and held as ever', async () => {
  const w = await opened();
  for (let n = 0; n < BOOT_LIMIT; n++) expect((await boots(w)).got).toBe('script boots_profile');
  expect((await boots(w)).got).toBe('hold boot_loop');
});
