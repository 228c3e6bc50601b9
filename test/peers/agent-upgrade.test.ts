/**
 * Agents are upgraded in place: real agents of three control planes, each in a root directory of
 * its own, and the real listener. Needs curl and openssl.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AGENT_BUNDLE, type AgentBundle, bundleOf, shortBuild } from '../../src/agent/scripts/bundle.ts';
import { AGENT_SCRIPTS, BOOT_SCRIPT, START_SCRIPT } from '../../src/agent/scripts/scripts.files.ts';
import { settingsText } from '../../src/agent/serve/layer.ts';
import type { Mac } from '../../src/base/mac.ts';
import type { AgentsOrder } from '../../src/cluster/change/agents/order.ts';
import * as boot from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, LOOPBACK, open } from './agent-boot-host.ts';
import { Machine, put } from './agent-kit.ts';

const NAMES = ['cp1', 'cp2', 'cp3'] as const;
const macOf = (name: string) => `52:54:00:aa:00:1${name.slice(-1)}` as Mac;
const DOCUMENTS = [
  boot.NETWORK,
  boot.IMAGE,
  boot.WORKER,
  ...NAMES.map((name) =>
    boot.machine(name, [macOf(name)], { profile: 'worker', addresses: [`10.77.0.1${name.slice(-1)}`] }),
  ),
  boot.document('Cluster', 'one', {
    kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: [...NAMES] },
  }),
];

/** The agent of this tree, which calls itself by another version. */
const agentOf = (version: number): AgentBundle =>
  bundleOf({
    ...AGENT_SCRIPTS,
    'muster-boot.sh': BOOT_SCRIPT,
    'muster-agent.sh': AGENT_SCRIPTS['muster-agent.sh']!.replace(/^version=.*$/m, `version=${version}`),
  });
/** An agent that runs, and never reports. */
const SILENT = bundleOf({ 'muster-agent.sh': 'while :; do sleep 1; done\n' });
/** An agent that ends at once. */
const BROKEN = bundleOf({ 'muster-agent.sh': 'exit 3\n' });

/** Starts the agent again whenever it ends, as the unit does. */
const SUPERVISOR = `while :; do sh "$MUSTER_ROOT/etc/muster/$1"; sleep 0.2; done`;

let host: AgentBootHost;
const machines = new Map<string, Machine>();

beforeEach(async () => {
  host = await open(DOCUMENTS);
  host.plan = { lines: [put('/etc/motd', 'one\n')], pollSeconds: 1 };
});

afterEach(async () => {
  for (const machine of machines.values()) {
    await machine.stop();
    machine.close();
  }
  machines.clear();
  await host.close();
});

/** A machine that booted with these scripts; its agent gets `trial` seconds to report. */
async function boots(name: string, scripts: Readonly<Record<string, string>>, trial = 20): Promise<Machine> {
  await host.configured(macOf(name));
  const { authority, ...settings } = host.settings.get(name)!;
  const url = `https://${LOOPBACK}:${host.agents.port()}`;
  const machine = new Machine({ authority, url, ticket: settings.ticket! });
  const conf = settingsText({ ...settings, authority, server: url });
  machine.write('/etc/muster/agent.conf', `${conf}trial=${trial}\n`);
  for (const [file, text] of Object.entries(scripts)) machine.write(`/etc/muster/${file}`, text);
  machines.set(name, machine);
  return machine;
}

const start = (machine: Machine, script = 'muster-start.sh') =>
  void machine.start(['sh'], ['-c', SUPERVISOR, 'sh', script].slice(1), { AGENT: '-c' });

const PRESENT = { ...AGENT_SCRIPTS, 'muster-start.sh': START_SCRIPT };

/** Resolves with what `look` returns as soon as that is something. */
async function until<T>(look: () => T | undefined, what: string): Promise<T> {
  for (let tries = 0; tries < 900; tries += 1) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what}: ${JSON.stringify(host.builds.show('one'))}`);
}

/** Resolves when the last polls of all machines come from agents of that version. */
const allRun = (version: string) =>
  until(
    () =>
      NAMES.every(
        (name) => host.asked.findLast(({ identity }) => identity.machine === name)?.facts.agent === version,
      )
        ? true
        : undefined,
    `all run ${version}`,
  );

/** The machine that took the present agent first. */
const firstOf = () => (host.changes.show('one.agents').order as AgentsOrder).first!;

const events = (kind: string) => host.events.list({}).filter((event) => event.kind === kind);

test('a new agent goes to one control plane first and then to all; one that fails is taken back and named, and goes to no other', async () => {
  for (const name of NAMES) start(await boots(name, PRESENT, 4));
  await allRun('1');
  expect(events('agent.upgraded')).toEqual([]);
  expect(host.builds.show('one').machines.map(({ state }) => state)).toEqual([
    'current',
    'current',
    'current',
  ]);

  const before = host.asked.length;
  host.bundle = agentOf(77);
  await allRun('77');
  const first = firstOf();
  // Nobody else ran it before the first machine had reported with it.
  const reports = host.asked.slice(before).filter(({ facts }) => facts.agent === '77');
  expect(reports[0]!.identity.machine).toBe(first);
  const chosen = events('cluster.change').filter(({ reason }) => reason?.code === 'turn');
  expect(chosen.map(({ subject }) => subject)).toEqual([first]);
  await until(() => (events('agent.upgraded').length === 3 ? true : undefined), 'three events');
  for (const machine of machines.values()) {
    // The agent notes both as soon as it has read the answer to its first poll.
    await until(
      () =>
        machine.exists('/etc/muster/agents/current') &&
        machine.read('/etc/muster/agents/current') === `${host.bundle.digest}\n` &&
        !machine.exists('/etc/muster/agents/trial')
          ? true
          : undefined,
      'the agent is the current one and its trial is over',
    );
    expect(machine.read('/etc/motd')).toBe('one\n');
  }

  host.bundle = SILENT;
  const silent = await until(() => events('agent.taken-back')[0], 'the silent agent is taken back');
  expect(silent).toMatchObject({
    reason: { code: 'silent', text: 'It did not report to the server within 4 seconds.' },
    fields: { agent: shortBuild(SILENT.digest) },
  });
  expect(silent.subject).toBe(firstOf());
  const states = () =>
    Object.fromEntries(host.builds.show('one').machines.map((one) => [one.machine, one.state]));
  expect(Object.values(states()).sort()).toEqual(['refused', 'stopped', 'stopped']);
  host.plan = { lines: [put('/etc/motd', 'two\n')], pollSeconds: 1 };
  for (const machine of machines.values())
    await until(
      () => (machine.read('/etc/motd') === 'two\n' ? true : undefined),
      'the old agents work for the cluster',
    );
  expect(events('agent.taken-back')).toHaveLength(1);
  await allRun('77');

  host.bundle = BROKEN;
  const broken = await until(() => events('agent.taken-back')[1], 'the broken agent is taken back');
  expect(broken.reason?.text).toBe('It ended three times without a report to the server.');

  // Another attempt fails in the same way, and a good agent then reaches all.
  await host.changes.begin('one.agents', { kind: 'agent-upgrade' }, 'anna');
  await until(() => events('agent.taken-back')[2], 'the second attempt');
  host.bundle = agentOf(78);
  await allRun('78');
  expect(states()).toEqual({ cp1: 'current', cp2: 'current', cp3: 'current' });
  for (const machine of machines.values())
    await until(
      () =>
        fs.readdirSync(machine.path('/etc/muster/agents')).sort().join(' ') ===
        [host.bundle.digest, 'current'].sort().join(' ')
          ? true
          : undefined,
      'other agents are removed',
    );
}, 120_000);

test('a bundle with other octets than its name says is refused and named, and the old agent runs on', async () => {
  const machine = await boots('cp1', PRESENT);
  const good = agentOf(77);
  const other = createHash('sha256').update('other').digest('hex');
  host.bundle = { digest: other, tar: good.tar };
  start(machine);
  const refused = await until(() => events('agent.taken-back')[0], 'it is refused');
  expect(refused).toMatchObject({
    subject: 'cp1',
    reason: { code: 'wrong-hash', text: `What the server sent has the SHA-256 ${good.digest}.` },
  });
  expect(machine.exists(`/etc/muster/agents/${other}`)).toBe(false);
  expect(host.builds.of('cp1')).toMatchObject({ state: 'refused', runs: shortBuild(AGENT_BUNDLE.digest) });
  const { length } = host.asked;
  await until(() => (host.asked.length > length + 1 ? true : undefined), 'it polls again');
  expect(host.asked.at(-1)!.facts.agent).toBe('1');
  host.bundle = good;
  await until(() => (host.asked.at(-1)!.facts.agent === '77' ? true : undefined), 'the right one');
});

test('the agent of the version before works with this server, and becomes the one of this server', async () => {
  const machine = await boots('cp1', { 'muster-start.sh': START_SCRIPT });
  execFileSync('tar', [
    '-xzf',
    path.join(import.meta.dirname, 'previous-agent.tar.gz'),
    '-C',
    machine.path('/etc/muster'),
  ]);
  start(machine);
  await until(() => (host.asked.at(-1)?.facts.applied ? true : undefined), 'its plan is done');
  expect(machine.read('/etc/motd')).toBe('one\n');
  expect(host.asked.at(-1)!.facts).toMatchObject({ agent: '1', disk: { state: 'unused' } });
  host.plan = { lines: [put('/etc/motd', 'two\n')], pollSeconds: 1 };
  await until(() => (machine.read('/etc/motd') === 'two\n' ? true : undefined), 'the next plan is done');
  expect(host.asked.every(({ facts }) => facts.hold === undefined)).toBe(true);
  host.bundle = agentOf(77);
  await until(() => (host.asked.at(-1)!.facts.agent === '77' ? true : undefined), 'the new agent');
});
