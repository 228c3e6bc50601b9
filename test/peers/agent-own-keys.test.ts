/**
 * Muster's own keys are rotated under real agents: their scripts, curl and openssl, and the real
 * listener. Only the planner of clusters is left out.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import tls from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { duration } from '../../src/base/duration.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Mac } from '../../src/base/mac.ts';
import { type ChangeOrders, createChangeOrders } from '../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../src/cluster/change/changes.ts';
import { anyKind } from '../../src/cluster/change/kind.ts';
import { ownRotation } from '../../src/cluster/change/own/own-rotation.ts';
import { ownOrders } from '../../src/cluster/change/own/prepare.ts';
import { primaryOf } from '../../src/pki/keyset.ts';
import { MUSTER_SCOPE } from '../../src/store/keys.ts';
import { QUIET_CHANGES } from '../unit/cluster/quiet.ts';
import { document, IMAGE, machine as machineDocument, NETWORK, WORKER } from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, LOOPBACK, open } from './agent-boot-host.ts';
import { Machine, put, SHELLS } from './agent-kit.ts';

const NAMES = ['cp1', 'w1', 'w2'] as const;
type Name = (typeof NAMES)[number];
const MACS = Object.fromEntries(NAMES.map((name, n) => [name, `52:54:00:cc:00:1${n}` as Mac]));
const macOf = (name: Name): Mac => MACS[name]!;

const DOCUMENTS = [
  NETWORK,
  IMAGE,
  WORKER,
  ...NAMES.map((name, n) =>
    machineDocument(name, [macOf(name)], { profile: 'worker', addresses: [`10.77.0.2${n}`] }),
  ),
  document('Cluster', 'one', {
    kubernetes: {
      version: '1.36',
      endpoint: 'api.one.test',
      controlPlanes: ['cp1'],
      workers: ['w1', 'w2'],
    },
  }),
];

const REQUEST = { kind: 'own-rotation', keysets: ['transport-ca'] };

/** A boot host with the engine of changes. */
interface Host {
  boot: AgentBootHost;
  changes: Changes;
  own: ChangeOrders;
}

let host: Host;
const machines: Machine[] = [];

async function opened(boot: AgentBootHost): Promise<Host> {
  boot.plan = { lines: [put('/etc/one', 'one\n')], pollSeconds: 0 };
  const { agents, pki } = boot;
  const { trustChanged, ticketKeys } = agents;
  const believed = () => agents.identities.list().filter(({ revoked }) => revoked === undefined);
  const own = ownRotation({ pki, trustChanged, ticketKeys, agents: believed });
  const kind = anyKind({ ...own, ...ownOrders({ pki, ticketKeys }) });
  const ownMachines = () => believed().map(({ machine }) => machine);
  const changes = await openChanges({
    ...QUIET_CHANGES,
    ...{ store: boot.store, clock: boot.clock, log: silentLog, events: boot.events },
    clusters: { get: () => undefined },
    kinds: [kind],
    settled: () => undefined,
    ownMachines,
  });
  changes.start();
  boot.planned = (machine, poll) => changes.heard(MUSTER_SCOPE, machine, poll);
  return {
    boot,
    changes,
    own: createChangeOrders(changes),
  };
}

/** Starts the boot host again, on the same store. */
async function restart(): Promise<void> {
  await host.changes.close();
  host = await opened(await host.boot.again());
  for (const machine of machines) pointTo(machine);
}

const url = (): string => `https://${LOOPBACK}:${host.boot.agents.port()}`;
function pointTo(machine: Machine): void {
  const settings = machine.read('/etc/muster/agent.conf');
  machine.write('/etc/muster/agent.conf', settings.replace(/^server=.*$/m, `server=${url()}`));
}

/** The first configuration of a machine, as it is served now. */
async function configured(name: Name): Promise<{ session: string; ticket: string; authority: string }> {
  const { session, ticket } = await host.boot.configured(macOf(name));
  return { session, ticket, authority: host.boot.settings.get(name)!.authority };
}

/** Boots a machine with its first configuration. */
function booted(name: Name, { session, ticket, authority }: Awaited<ReturnType<typeof configured>>): Machine {
  const machine = new Machine({ authority, url: url(), ticket }, { session, machine: name });
  machines.push(machine);
  return machine;
}

const shell = SHELLS[0];

/** A machine polls until it has nothing more to do, and was never refused anything. */
async function polls(machine: Machine): Promise<void> {
  for (let n = 0; n < 2; n++) expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
}

/** The engine does what is due; returns the step that it is at. */
async function looked(): Promise<string> {
  await host.changes.look(MUSTER_SCOPE);
  const record = host.changes.record(MUSTER_SCOPE)!;
  return record.ended?.as ?? record.step;
}

/** Machines poll, and the engine looks, until the rotation is at this step. */
async function until(step: string, asking: readonly Machine[]): Promise<void> {
  for (let round = 0; round < 12; round++) {
    if ((await looked()) === step) return;
    // Plans may be made from keysets that were read some seconds ago.
    host.boot.clock.advance(duration('6s'));
    for (const machine of asking) await polls(machine);
  }
  expect({ at: await looked(), waiting: host.changes.waiting(MUSTER_SCOPE) }).toEqual({ at: step });
}

const transportCa = async () => (await host.boot.pki.keysets(MUSTER_SCOPE)).get('transport-ca')!;
const certificates = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----\n/g) ?? []).map((one) => new X509Certificate(one));

/** What the listener shows. */
async function shown(): Promise<X509Certificate[]> {
  const socket = tls.connect({ ...where(), rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const found: X509Certificate[] = [];
  let one: tls.DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  socket.destroy();
  for (
    const seen = new Set<string>();
    one?.raw && !seen.has(one.fingerprint256);
    one = one.issuerCertificate
  ) {
    seen.add(one.fingerprint256);
    found.push(new X509Certificate(one.raw));
  }
  return found;
}
const where = () => ({ host: LOOPBACK, port: host.boot.agents.port()! });

/** The status that a poll with this key and certificate gets from the listener. */
async function refusedWith(key: string, certificate: string): Promise<number> {
  const [keyFile, file] = ['kept.key', 'kept.crt'].map((name) => path.join(host.boot.directory, name));
  fs.writeFileSync(keyFile!, key);
  fs.writeFileSync(file!, certificate);
  const answer = await host.boot.curl('/agent/poll', { agent: '1' }, [
    '-k',
    '--cert',
    file!,
    '--key',
    keyFile!,
  ]);
  return answer.status;
}

async function start(names: readonly Name[]): Promise<Machine[]> {
  host = await opened(await open(DOCUMENTS));
  const all: Machine[] = [];
  for (const name of names) all.push(booted(name, await configured(name)));
  for (const machine of all) await polls(machine);
  return all;
}

afterEach(async () => {
  for (const machine of machines.splice(0)) machine.close();
  await host.changes.close();
  await host.boot.close();
});

test('the transport CA is replaced: agents lose no poll, also over a restart of the boot host; machines that boot meanwhile join; the old CA is refused at the end; a machine that was off comes back by a boot', async () => {
  const [cp1, w1] = (await start(['cp1', 'w1'])) as [Machine, Machine];
  const old = primaryOf(await transportCa());
  const [oldKey, oldCertificate] = ['agent.key', 'agent.crt'].map((name) =>
    cp1.read(`/var/lib/muster/agent/${name}`),
  ) as [string, string];
  // Its configuration is of the time before the rotation, and its agent asks in the middle of it.
  const slow = await configured('w2');

  await host.own.begin(MUSTER_SCOPE, { ...REQUEST, without: ['w1'] }, 'test');
  await until('issue', [cp1]);
  expect(certificates(cp1.read('/etc/muster/ca.crt'))).toHaveLength(2);
  await restart();
  const w2 = booted('w2', slow);
  await until('distrust', [w2, cp1]);
  const to = primaryOf(await transportCa());
  expect(to.id).not.toBe(old.id);
  const authority = new X509Certificate(to.certificate!);
  for (const machine of [cp1, w2]) {
    const [leaf] = certificates(machine.read('/var/lib/muster/agent/agent.crt'));
    expect(leaf!.verify(authority.publicKey)).toBe(true);
  }

  await until('done', [cp1, w2]);
  for (const machine of [cp1, w2]) expect(machine.read('/etc/muster/ca.crt')).toBe(to.certificate);
  // No bridge is left, so a machine that trusts the old CA alone does not believe the listener.
  expect((await shown()).every((one) => one.verify(authority.publicKey))).toBe(true);
  expect(await refusedWith(oldKey, oldCertificate)).toBe(401);
  const lost = await w1.poll(shell);
  expect(lost.status).toBe(1);
  expect(lost.said).toContain('000');

  const again = await configured('w1');
  w1.reboot();
  w1.write('/etc/muster/ca.crt', again.authority);
  const settings = w1.read('/etc/muster/agent.conf');
  w1.write(
    '/etc/muster/agent.conf',
    settings
      .replace(/^session=.*$/m, `session=${again.session}`)
      .replace(/^ticket=.*$/m, `ticket=${again.ticket}`),
  );
  expect((await w1.poll(shell)).status).toBe(0);
  await polls(w1);
  for (const machine of [cp1, w2]) await polls(machine);
}, 120_000);

test.for(['issue', 'distrust'])(
  'a rotation of the transport CA that is taken back at %s leaves the old CA alone, and no agent loses a poll',
  { timeout: 120_000 },
  async (step) => {
    const all = await start(['cp1', 'w1']);
    const old = primaryOf(await transportCa());
    await host.own.begin(MUSTER_SCOPE, { ...REQUEST, pauseBefore: ['distrust'] }, 'test');
    await until(step, all);
    await host.own.rollBack(MUSTER_SCOPE, { by: 'test' });
    await until('rolled-back', all);
    const keyset = await transportCa();
    expect([keyset.primary, keyset.made, keyset.distrusted]).toEqual([old.id, [], []]);
    for (const machine of all) {
      expect(machine.read('/etc/muster/ca.crt')).toBe(old.certificate);
      const [leaf] = certificates(machine.read('/var/lib/muster/agent/agent.crt'));
      expect(leaf!.verify(new X509Certificate(old.certificate!).publicKey)).toBe(true);
    }
    const { publicKey } = new X509Certificate(old.certificate!);
    expect((await shown()).every((one) => one.verify(publicKey))).toBe(true);
  },
);

test('an emergency refuses the old transport CA within a minute; agents that ask meanwhile move, the others come back by a boot', async () => {
  const [cp1, w1] = (await start(['cp1', 'w1'])) as [Machine, Machine];
  const [key, certificate] = ['agent.key', 'agent.crt'].map((name) =>
    w1.read(`/var/lib/muster/agent/${name}`),
  ) as [string, string];
  const began = host.boot.clock.monotonic();
  await host.own.begin(MUSTER_SCOPE, { ...REQUEST, emergency: MUSTER_SCOPE }, 'test');
  await looked();
  host.boot.clock.advance(duration('30s'));
  await polls(cp1);
  expect(await looked()).toBe('replace');
  host.boot.clock.advance(duration('16s'));
  expect(await looked()).toBe('done');
  expect(host.boot.clock.monotonic() - began).toBeLessThan(duration('60s'));
  expect(host.changes.record(MUSTER_SCOPE)!.past.find(({ step }) => step === 'replace')!.text).toBe(
    'cut off until they boot: w1',
  );
  expect(await refusedWith(key, certificate)).toBe(401);
  await polls(cp1);
  expect((await w1.poll(shell)).status).toBe(1);
}, 120_000);

test('after the secret of tickets was replaced, a machine that boots with an old ticket joins, and one with a new ticket too; the old secret ends with the longest boot', async () => {
  await start([]);
  const before = await configured('w1');
  await host.own.begin(MUSTER_SCOPE, { ...REQUEST, keysets: ['ticket-secret'] }, 'test');
  expect(await looked()).toBe('end-tickets');
  await restart();
  const after = await configured('w2');
  for (const [name, of] of [
    ['w1', before],
    ['w2', after],
  ] as const)
    await polls(booted(name, of));
  host.boot.clock.advance(duration('6h'));
  expect(await looked()).toBe('done');
  await host.boot.agents.refresh();
  expect((await host.boot.agents.ticketKeys()).all()).toHaveLength(1);
});
