/**
 * The real agent and the real listener when something is wrong: the agent ends with its plan done,
 * or in a hold whose reason `muster explain` gives.
 */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { encodePlan } from '../../src/agent/wire/encode-plan.ts';
import type { Plan, PlanLine } from '../../src/agent/wire/plan.ts';
import { type AgentBootHost, CP1_MAC, CP2_MAC, LOOPBACK, open } from './agent-boot-host.ts';
import { Machine, Planner, put, SHELLS } from './agent-kit.ts';

let bootHost: AgentBootHost;
const machines: Machine[] = [];
const mounted: string[] = [];
afterEach(async () => {
  for (const at of mounted.splice(0)) execFileSync('umount', ['-l', at]);
  for (const machine of machines.splice(0)) machine.close();
  await bootHost.close();
});

/** A machine as its first configuration makes it. */
async function configured(mac = CP1_MAC, name = 'cp1'): Promise<Machine & { session: string }> {
  const { session, ticket } = await bootHost.configured(mac);
  const authority = fs.readFileSync(path.join(bootHost.directory, 'ca.crt'), 'utf8');
  const url = `https://${LOOPBACK}:${bootHost.agents.port()}`;
  const machine = new Machine({ authority, url, ticket }, { session, machine: name });
  machines.push(machine);
  return Object.assign(machine, { session });
}

const PLAN: Plan = { lines: [put('/etc/one', 'one\n'), put('/etc/two', 'two\n')], pollSeconds: 0 };

/** What `muster explain` says about the agent. */
const explained = () => bootHost.boot.explain({ machine: 'cp1' }).steps.find(({ step }) => step === 'agent');

const done = (machine: Machine) => ['/etc/one', '/etc/two'].every((at) => machine.exists(at));

describe('a clock that is off', () => {
  const library = execFileSync('sh', ['-c', 'echo /usr/lib/*/faketime/libfaketime.so.1'], {
    encoding: 'utf8',
  }).trim();
  const off = (days: number) => ({
    LD_PRELOAD: library,
    FAKETIME: `${days < 0 ? '-' : '+'}${Math.abs(days) * 86_400}s`,
    // Waits by monotonic time take as long as without the offset.
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  });

  test.for([
    ['an hour behind', -1 / 24],
    ['an hour ahead', 1 / 24],
    ['a day behind', -1],
    ['a day ahead', 1],
    ['ten years behind', -3650],
  ] as const)('%s keeps no machine from its plan, also if nobody may set it', async ([, days]) => {
    bootHost = await open();
    bootHost.plan = PLAN;
    const machine = await configured();
    const { status, said } = await machine.poll(SHELLS[0], off(days));
    expect([status, said]).toEqual([0, '']);
    expect(done(machine)).toBe(true);
    const theirs = bootHost.asked.at(-1)!.facts.clock;
    expect(Math.abs(theirs - Date.now() - days * 86_400_000)).toBeLessThan(60_000);
  });

  test('a machine whose clock is ten years ahead is held by a boot report with its time in the reason', async () => {
    bootHost = await open();
    bootHost.plan = PLAN;
    const machine = await configured();
    machine.write(
      '/etc/muster/muster-report.sh',
      'printf %s "$2" >"$MUSTER_ROOT/new"; mv "$MUSTER_ROOT/new" "$MUSTER_ROOT/report"\n',
    );
    expect((await machine.poll(SHELLS[0], off(3650))).status).toBe(1);
    expect(done(machine)).toBe(false);
    await expect.poll(() => machine.exists('/report'), { timeout: 20_000 }).toBe(true);
    const detail = machine.read('/report');
    await bootHost.boot.report(machine.session, { step: 'failed', detail }, '10.77.0.101');
    const phase = bootHost.boot.explain({ machine: 'cp1' }).steps.find(({ step }) => step === 'phase');
    expect(phase?.reason?.text).toContain(`its clock says ${new Date().getUTCFullYear() + 10}-`);
    // After the clock is corrected, the same ticket is still accepted.
    expect(await machine.poll()).toEqual({ status: 0, said: '' });
    expect(done(machine)).toBe(true);
  });
});

test('the agent sends nothing to a server of another CA, and a boot report says so', async () => {
  bootHost = await open();
  bootHost.plan = PLAN;
  const machine = await configured();
  const other = await Planner.open();
  machine.write('/etc/muster/ca.crt', other.authority);
  other.close();
  machine.write(
    '/etc/muster/muster-report.sh',
    'printf %s "$2" >"$MUSTER_ROOT/new"; mv "$MUSTER_ROOT/new" "$MUSTER_ROOT/report"\n',
  );
  expect((await machine.poll()).status).toBe(1);
  await expect.poll(() => machine.exists('/report'), { timeout: 20_000 }).toBe(true);
  await bootHost.boot.report(
    machine.session,
    { step: 'failed', detail: machine.read('/report') },
    '10.77.0.101',
  );
  const { steps } = bootHost.boot.explain({ machine: 'cp1' });
  expect(steps.find(({ step }) => step === 'phase')?.reason?.text).toContain(
    'does not believe the certificate',
  );
  expect(bootHost.asked).toEqual([]);
});

/** Mounts a filesystem of `kib` KiB at `at`, under the machine's root. */
function small(machine: Machine, at: string, kib: number): void {
  fs.mkdirSync(machine.path(at), { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kib}k`, 'tmpfs', machine.path(at)]);
  mounted.push(machine.path(at));
}

test('a full disk is a hold that names the disk; once there is room the same plan is done', async () => {
  bootHost = await open();
  const content = { octets: Buffer.alloc(200_000, 'x') };
  bootHost.plan = {
    lines: [
      put('/etc/one', 'one\n'),
      { do: 'put', mode: 0o644, path: '/opt/tool', content },
      put('/etc/two', 'two\n'),
    ],
    pollSeconds: 0,
  };
  const machine = await configured();
  small(machine, '/opt', 64);
  expect((await machine.poll()).status).toBe(1);
  await machine.poll();
  expect(explained()?.reason).toMatchObject({
    code: 'write-failed',
    text: expect.stringMatching(/\/opt\/.*No space left on device/),
  });
  expect([machine.exists('/etc/one'), machine.exists('/opt/tool'), machine.exists('/etc/two')]).toEqual([
    true,
    false,
    false,
  ]);
  expect(fs.readdirSync(machine.path('/opt'))).toEqual([]);
  execFileSync('mount', ['-o', 'remount,size=1m', machine.path('/opt')]);
  expect((await machine.poll()).status).toBe(0);
  await machine.poll();
  expect(explained()?.reason).toBeUndefined();
  expect(done(machine)).toBe(true);
});

test.for([8, 24, 48, 96])(
  'with %s KiB for its own files the agent either holds or finishes its plan, and never stops half way',
  async (kib) => {
    bootHost = await open();
    bootHost.plan = PLAN;
    const machine = await configured();
    small(machine, '/run', kib);
    const { status } = await machine.poll();
    if (status === 0) expect(done(machine)).toBe(true);
    execFileSync('mount', ['-o', 'remount,size=4m', machine.path('/run')]);
    expect((await machine.poll()).status).toBe(0);
    await machine.poll();
    expect(done(machine)).toBe(true);
    expect(explained()?.reason).toBeUndefined();
  },
);

/**
 * A proxy in front of the server. `after` sets how many octets of TLS the server may still send;
 * then the connection is cut.
 */
async function cutting(port: number) {
  let left = Number.POSITIVE_INFINITY;
  const server = net.createServer((near) => {
    const far = net.connect(port, LOOPBACK);
    const cut = () => {
      near.destroy();
      far.destroy();
    };
    far.on('data', (octets: Buffer) => {
      const part = octets.subarray(0, left);
      left -= part.length;
      near.write(part, () => left <= 0 && cut());
    });
    near.on('data', (octets) => far.write(octets));
    for (const socket of [near, far]) socket.on('close', cut).on('error', cut);
  });
  await new Promise<void>((done) => server.listen(0, LOOPBACK, done));
  return {
    url: `https://${LOOPBACK}:${(server.address() as AddressInfo).port}`,
    after: (octets: number) => {
      left = octets;
    },
    close: () => void server.close(),
  };
}

test('an answer that is cut off anywhere changes nothing, and the next complete one is done', async () => {
  bootHost = await open();
  const content = { octets: randomBytes(100_000) };
  const tool: PlanLine = { do: 'put', mode: 0o644, path: '/opt/tool', content };
  const machine = await configured();
  const way = await cutting(bootHost.agents.port()!);
  onTestFinished(way.close);
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^server=.*/m, `server=${way.url}`));
  // Its certificate arrives complete; only the plan is cut off.
  expect((await machine.poll()).status).toBe(0);
  bootHost.plan = { lines: [...PLAN.lines, tool], pollSeconds: 0 };
  for (const octets of [500, 3_000, 20_000, 60_000, 100_000]) {
    way.after(octets);
    expect([octets, (await machine.poll()).status]).toEqual([octets, 1]);
    expect([octets, machine.exists('/etc/one'), machine.exists('/opt/tool')]).toEqual([octets, false, false]);
  }
  way.after(Number.POSITIVE_INFINITY);
  expect((await machine.poll()).status).toBe(0);
  expect(done(machine)).toBe(true);
});

test('an artifact with a wrong hash is deleted and is a hold that names it; the right artifact ends the hold', async () => {
  bootHost = await open();
  const good = Buffer.from('tool\n');
  let served = Buffer.from('evil\n');
  const server = http.createServer((_request, response) => response.end(served));
  await new Promise<void>((listening) => server.listen(0, LOOPBACK, listening));
  onTestFinished(() => void server.close());
  const url = `http://${LOOPBACK}:${(server.address() as AddressInfo).port}/assets/x/tool`;
  const sha256 = createHash('sha256').update(good).digest('hex');
  const fetch: PlanLine = { do: 'fetch', mode: 0o755, path: '/opt/tool', url, sha256 };
  bootHost.plan = { lines: [fetch, ...PLAN.lines], pollSeconds: 0 };
  const machine = await configured();
  expect((await machine.poll()).status).toBe(1);
  await machine.poll();
  expect(explained()?.reason).toMatchObject({
    code: 'wrong-hash',
    text: expect.stringMatching(/\/assets\/x\/tool is not what the plan names/),
  });
  expect([machine.exists('/opt/tool'), done(machine)]).toEqual([false, false]);
  served = good;
  expect((await machine.poll()).status).toBe(0);
  await machine.poll();
  expect(explained()?.reason).toBeUndefined();
  expect([machine.read('/opt/tool'), done(machine)]).toEqual(['tool\n', true]);
});

test('a plan that is cut off anywhere is done either completely or not at all', async () => {
  bootHost = await open();
  const planner = await Planner.open();
  const { tar } = encodePlan(PLAN);
  const machine = new Machine(planner);
  machines.push(machine);
  machine.command('sleep', '#!/bin/sh\n');
  // Cuts around each block of the archive, and in the middle of each.
  const cuts = Array.from({ length: tar.length / 512 }, (_, n) => [
    n * 512,
    n * 512 + 1,
    n * 512 + 300,
  ]).flat();
  planner.answers.push(...cuts.map((at) => ({ status: 200, body: tar.subarray(0, at) })));
  machine.start();
  const polls = () => planner.asked.filter(({ path: asked }) => asked === '/agent/poll');
  await expect.poll(() => polls().length, { timeout: 100_000 }).toBeGreaterThan(cuts.length);
  const said = polls()
    .slice(1, cuts.length + 1)
    .map(({ form }, n) => ({ cut: cuts[n]!, hold: form.get('hold'), applied: form.get('applied') }));
  const whole = said.filter(({ applied }) => applied !== '');
  // The last file's octets end here; the padding after them is covered by no hash.
  const last = tar.lastIndexOf('two\n') + 4;
  for (const { cut, hold } of said) expect([cut, hold === '' || hold === 'bad-plan']).toEqual([cut, true]);
  for (const { cut } of whole) expect(cut).toBeGreaterThanOrEqual(last);
  await machine.stop();
  planner.close();
});

test('facts are recorded for the machine that the certificate names, whatever name the facts give', async () => {
  bootHost = await open();
  const [one, two] = [await configured(), await configured(CP2_MAC, 'cp2')];
  await one.poll();
  await two.poll();
  const said = { marker: 'one f m cp1', wal: 'present', etcd: 'serving', machine: 'cp1', agent: '9' };
  const home = two.path('/var/lib/muster/agent');
  const certificate = fs.readFileSync(`${home}/agent.crt`, 'utf8');
  await bootHost.poll(`${home}/agent.key`, certificate, said);
  expect(bootHost.asked.at(-1)).toMatchObject({
    identity: { machine: 'cp2' },
    facts: { etcd: { health: 'serving' } },
  });
  expect(bootHost.roster.get('cp1')?.status.agent?.version).toBe('1');
  // Without a certificate, or in a boot report, facts about etcd are not accepted.
  const asked = bootHost.asked.length;
  expect(
    (await bootHost.curl('/agent/poll', { ...said, clock: '1', bootid: 'b', disk: 'unused' })).status,
  ).toBe(401);
  const detail = 'wal=present etcd=serving';
  await bootHost.boot.report(one.session, { step: 'ready', detail }, '10.77.0.101');
  expect(bootHost.asked).toHaveLength(asked);
});

test('when two machines use one name, the second is held with an alarm, and the first continues', async () => {
  bootHost = await open();
  bootHost.plan = PLAN;
  const first = await configured();
  const second = new Machine(
    {
      authority: first.read('/etc/muster/ca.crt'),
      url: `https://${LOOPBACK}:${bootHost.agents.port()}`,
      ticket: bootHost.settings.get('cp1')!.ticket!,
    },
    { session: first.session, machine: 'cp1' },
  );
  machines.push(second);
  expect((await first.poll()).status).toBe(0);
  const { status, said } = await second.poll();
  expect([status, said]).toEqual([1, expect.stringContaining('409')]);
  expect(done(second)).toBe(false);
  expect(
    bootHost.boot.explain({ machine: 'cp1' }).steps.find(({ step }) => step === 'alarm')?.reason?.code,
  ).toBe('other_key');
  expect((await first.poll()).status).toBe(0);
});

test('without its boot host a machine keeps everything that it has, also across reboots, and continues when the boot host is back', async () => {
  bootHost = await open();
  const unit = { do: 'run', unit: 'kubelet.service', digest: '1'.repeat(64) } as const;
  bootHost.plan = { lines: [...PLAN.lines, unit, { do: 'step', step: 'units' }], pollSeconds: 0 };
  const machine = await configured();
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.told()).toEqual(['enable kubelet.service', 'start kubelet.service']);
  const settings = machine.read('/etc/muster/agent.conf');
  // No process listens on this port, as if the boot host were off.
  machine.write('/etc/muster/agent.conf', settings.replace(/^server=.*/m, `server=https://${LOOPBACK}:1`));
  const before = machine.tree();
  const alone = async () => {
    for (let n = 0; n < 3; n++) expect((await machine.poll()).status).toBe(1);
    expect(machine.tree()).toEqual(before);
    expect(machine.told()).toEqual([]);
  };
  await alone();
  machine.reboot();
  // The service manager itself starts the enabled units.
  machine.write('/units/kubelet.service.active', '');
  await alone();
  machine.write('/etc/muster/agent.conf', settings);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(done(machine)).toBe(true);
  // It started before anything was changed in this boot, so it is not restarted.
  expect(machine.told().filter((line) => /^(stop|restart|disable)/.test(line))).toEqual([]);
});
