/**
 * A machine whose secrets come with its first configuration (`delivery: inline`): what is served,
 * to whom, how often, and what the agent's scripts do with it.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterEach, expect, test } from 'vitest';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import type { ConfigAnswer } from '../../src/pxe/boot.ts';
import { machine as machineDocument } from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, CLUSTER, CP1_MAC, open } from './agent-boot-host.ts';
import { Machine, Planner, SHELLS, type Shell } from './agent-kit.ts';

let bootHost: AgentBootHost;
const rooms: Machine[] = [];
afterEach(async () => {
  for (const room of rooms.splice(0)) room.close();
  await bootHost.close();
});

const KEY = '-----BEGIN EC PRIVATE KEY-----\nof w1\n';
const LINES: readonly PlanLine[] = [
  { do: 'directory', mode: 0o755, path: '/etc/kubernetes' },
  { do: 'put', mode: 0o600, path: '/etc/kubernetes/w1.key', content: { text: KEY, secret: true } },
  { do: 'run', unit: 'kubelet.service', digest: '1'.repeat(64) },
  { do: 'step', step: 'units' },
];

const INLINE = CLUSTER.map((one) =>
  (one as { metadata: { name: string } }).metadata.name === 'cp1'
    ? machineDocument('cp1', [CP1_MAC], { profile: 'worker', addresses: ['10.77.0.11'], delivery: 'inline' })
    : one,
);

const BASE = { baseUrl: 'http://10.77.0.1:8080' };

async function booted(): Promise<string> {
  bootHost = await open(INLINE);
  bootHost.inline = async () => ({ lines: LINES, pollSeconds: 0 });
  return (await bootHost.powerOn(CP1_MAC)).session!.id;
}

const ask = async (session: string, peer = '10.77.0.101'): Promise<ConfigAnswer> =>
  (await bootHost.boot.inline!(session, 'user-data', { ...BASE, peer }))!;

/** The files that cloud-init would write, by path. */
function filesOf(answer: ConfigAnswer): Map<string, Buffer> {
  if (!answer.ok) throw new Error(answer.why);
  const { write_files: files } = load(answer.body) as {
    write_files: { path: string; content: string; encoding?: string }[];
  };
  return new Map(
    files.map(({ path: at, content, encoding }) => [
      at,
      Buffer.from(content, encoding === undefined ? 'utf8' : 'base64'),
    ]),
  );
}

test('the complete plan is served once, to the machine’s own address; a second request is refused and raises an alarm', async () => {
  const session = await booted();
  expect(await ask(session, '10.77.0.66')).toMatchObject({ ok: false, status: 'gone' });
  const answer = await ask(session);
  const tar = filesOf(answer).get('/etc/muster/inline.tar')!;
  const names = execFileSync('tar', ['-tf', '-'], { input: tar, encoding: 'utf8' });
  expect(names.split('\n')[0]).toBe('plan');
  expect(tar.toString()).toContain(KEY);
  expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
  expect(bootHost.kinds('cp1')).toContain('config.secrets');

  expect(await ask(session)).toMatchObject({
    ok: false,
    status: 'gone',
    why: expect.stringContaining('already'),
  });
  expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('served_before');
  const refused = bootHost.events.list({ subject: 'cp1' }).filter(({ kind }) => kind === 'config.refused');
  expect(refused.map(({ reason }) => reason?.code)).toEqual(['foreign_address', 'served_before']);
  // No secret of it is shown to people, in an event or in the store.
  expect(bootHost.boot.render('cp1').files['user-data']).not.toContain('EC PRIVATE');
  expect(JSON.stringify(bootHost.events.list({}))).not.toContain('PRIVATE');
  await bootHost.roster.flush();
  expect(JSON.stringify((await bootHost.store.list('')).records)).not.toContain('of w1');
});

test('one of two concurrent requests gets the plan, also after a restart', async () => {
  const session = await booted();
  const answers = await Promise.all([ask(session), ask(session), ask(session)]);
  expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
  bootHost = await bootHost.again();
  bootHost.inline = async () => ({ lines: LINES, pollSeconds: 0 });
  expect((await ask(session)).ok).toBe(false);
});

test('a boot host that restarted before the machine asked still serves the plan', async () => {
  const session = await booted();
  bootHost = await bootHost.again();
  bootHost.inline = async () => ({ lines: LINES, pollSeconds: 0 });
  expect((await ask(session)).ok).toBe(true);
  expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
});

test('while the plan cannot be made the machine asks again, and the document is not used up', async () => {
  const session = await booted();
  const { MusterError } = await import('../../src/base/errors.ts');
  bootHost.inline = async () => {
    throw new MusterError('E_AGENT_WAIT', 'no keys yet');
  };
  expect(await ask(session)).toMatchObject({ ok: false, status: 'wait', why: 'no keys yet' });
  bootHost.inline = async () => ({ lines: LINES, pollSeconds: 0 });
  expect((await ask(session)).ok).toBe(true);
});

test('a new boot has new secrets, a machine with an alarm gets none, and explain and get say so', async () => {
  const session = await booted();
  await ask(session);
  const next = (await bootHost.powerOn(CP1_MAC)).session!.id;
  expect(await ask(next)).toMatchObject({ ok: true });
  // The first boot is over, so requests in its name are refused.
  expect(await bootHost.boot.inline!(session, 'user-data', { ...BASE, peer: '10.77.0.101' })).toBeUndefined();
  await ask(next);
  const alarmed = (await bootHost.powerOn(CP1_MAC)).session!.id;
  expect(await ask(alarmed)).toMatchObject({ ok: false, why: expect.stringContaining('rearm') });
  await bootHost.agents.rearm('cp1', { keep: false });
  expect((await ask(alarmed)).ok).toBe(true);
  expect(bootHost.boot.explain({ machine: 'cp1' }).steps).toContainEqual(
    expect.objectContaining({ step: 'secrets', result: expect.stringContaining('inline') }),
  );
});

test('other documents and other machines are served as usual', async () => {
  const session = await booted();
  const { MAC3 } = await import('../unit/pxe/boot/world.ts');
  const other = (await bootHost.powerOn(MAC3)).session!.id;
  const asked = { ...BASE, peer: '10.77.0.101' };
  expect(bootHost.boot.inline!(other, 'user-data', asked)).toBeUndefined();
  for (const file of ['meta-data', 'vendor-data', 'network-config', 'ignition'] as const)
    expect(await bootHost.boot.inline!(session, file, asked)).toBeUndefined();
  expect((await ask(session)).ok).toBe(true);
});

/** A machine with the files of its first configuration and no server. */
async function machineOf(answer: ConfigAnswer): Promise<Machine> {
  const planner = await Planner.open();
  const room = new Machine(planner);
  planner.close();
  rooms.push(room);
  const files = filesOf(answer);
  for (const [at, content] of files) room.write(at, content);
  // It would set the clock, which here is the host's.
  const settings = String(files.get('/etc/muster/agent.conf'));
  expect(settings).toMatch(/^clock=set$/m);
  room.write('/etc/muster/agent.conf', settings.replace('clock=set\n', ''));
  room.command('sleep', '#!/bin/sh\n');
  room.write('/etc/muster/muster-report.sh', 'echo "$@" >>"$MUSTER_ROOT/reports"\n');
  return room;
}

function inline(room: Machine, shell: Shell = SHELLS[0]): number | null {
  const script = room.path('/etc/muster/muster-agent.sh');
  return spawnSync(shell[0]!, [...shell.slice(1), script, 'inline'], { env: room.env() }).status;
}

test.for(SHELLS)(
  'by %s, the scripts do an inline plan without any server, and keep no second copy of it',
  async (shell) => {
    const room = await machineOf(await ask(await booted()));
    expect(inline(room, shell)).toBe(0);
    expect(room.read('/etc/kubernetes/w1.key')).toBe(KEY);
    expect(room.mode('/etc/kubernetes/w1.key')).toBe('600');
    expect(room.told()).toEqual(['enable kubelet.service', 'start kubelet.service']);
    expect(room.exists('/etc/muster/inline.tar')).toBe(false);
    expect(fs.readdirSync(room.path('/run/muster')).filter((name) => /body|plan/.test(name))).toEqual([]);
    expect(inline(room, shell)).toBe(0);
    expect(room.told()).toEqual([]);
  },
);

test('a plan that is damaged or cannot be done is named in a boot report, and no data are lost', async () => {
  const room = await machineOf(await ask(await booted()));
  const whole = fs.readFileSync(room.path('/etc/muster/inline.tar'));
  room.write('/etc/muster/inline.tar', whole.subarray(0, whole.length / 2));
  expect(inline(room)).toBe(1);
  expect(room.read('/reports')).toMatch(/^failed bad-plan: /);
  expect(room.exists('/etc/kubernetes')).toBe(false);
  room.write('/etc/muster/inline.tar', whole);
  room.write('/units/kubelet.service.broken', '');
  expect(inline(room)).toBe(1);
  expect(room.read('/reports').split('\n')[1]).toBe('failed unit-failed: Job for kubelet.service failed.');
  fs.rmSync(path.join(room.root, 'units/kubelet.service.broken'));
  expect(inline(room)).toBe(0);
});
