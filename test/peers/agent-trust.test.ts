/**
 * Machines that shut down, are removed and come back, over real TLS: openssl makes the keys, curl
 * sends the requests.
 */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { GONE_FOR } from '../../src/agent/identity/withdrawal.ts';
import { duration, type Millis } from '../../src/base/duration.ts';
import { ALIVE_WITHIN } from '../../src/machines/heartbeats.ts';
import { pkiStatusView } from '../../src/pki/views.ts';
import { document, machine } from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, CLUSTER, CP1_MAC, open } from './agent-boot-host.ts';

let bootHost: AgentBootHost;
afterEach(() => bootHost.close());

const reasons = (name: string, kind: string): (string | undefined)[] =>
  bootHost.events
    .list({ subject: name })
    .filter((event) => event.kind === kind)
    .map((event) => event.reason?.code);

/** cp1 with a certificate, after one poll in boot `boot-1`. */
async function running() {
  const ticket = await bootHost.configured(CP1_MAC);
  const { key, csr } = bootHost.key('a');
  const certificate = String((await bootHost.redeem(ticket, csr)).body);
  expect((await bootHost.poll(key, certificate)).status).toBe(200);
  await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
  return { key, certificate, ticket, csr };
}

describe('a machine that goes down in good order', () => {
  it('a machine that reported its shutdown boots immediately, without the wait for one that may still run', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    expect((await bootHost.powerOn(CP1_MAC)).decision.reason.code).toBe('alive');
    expect((await bootHost.leave(key, certificate, 'boot-1')).status).toBe(204);
    expect(bootHost.kinds('cp1')).toContain('agent.left');
    expect(bootHost.boot.explain({ machine: 'cp1' }).steps).toContainEqual(
      expect.objectContaining({ step: 'agent', result: expect.stringContaining('went down 0 s ago') }),
    );
    expect((await bootHost.powerOn(CP1_MAC)).decision.kind).toBe('script');
  });

  it('a shutdown report counts only with the machine’s own certificate and for the current boot', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    expect((await bootHost.curl('/agent/leave', { bootid: 'boot-1' })).status).toBe(401);
    expect((await bootHost.leave(key, certificate, 'boot-0')).status).toBe(204);
    expect((await bootHost.leave(key, certificate, '')).status).toBe(400);
    expect(bootHost.kinds('cp1')).not.toContain('agent.left');
    expect((await bootHost.powerOn(CP1_MAC)).decision.reason.code).toBe('alive');
  });
});

describe('a machine that lost its power', () => {
  it('a machine that lost power waits until it no longer counts as running; script and explanation say how long', async () => {
    bootHost = await open();
    await running();
    bootHost.clock.advance(duration('15s'));
    const held = await bootHost.powerOn(CP1_MAC);
    const left = ALIVE_WITHIN / 1000 - 15;
    expect(held.script).toContain(`sleep ${left + 1} ||`);
    expect(bootHost.boot.explain({ machine: 'cp1' }).steps).toContainEqual(
      expect.objectContaining({
        step: 'agent',
        result: expect.stringContaining(
          `heard 15 s ago from 127.0.0.1, counts as running for ${left} s more`,
        ),
      }),
    );
    bootHost.clock.advance(((left + 1) * 1000) as Millis);
    expect((await bootHost.powerOn(CP1_MAC)).decision.kind).toBe('script');
  });
});

describe('somebody who boots in the name of a machine whose agent was cut off', () => {
  it('an impostor who boots in a machine’s name is detected when the machine’s own agent polls again', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    bootHost.clock.advance(ALIVE_WITHIN);
    const ticket = await bootHost.configured(CP1_MAC);
    const other = bootHost.key('b');
    const taken = String((await bootHost.redeem(ticket, other.csr)).body);
    expect((await bootHost.poll(other.key, taken, { bootid: 'boot-2' })).status).toBe(200);
    expect((await bootHost.poll(key, certificate)).status).toBe(401);
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('taken_over');
    expect(reasons('cp1', 'agent.alarm')).toEqual(['taken_over']);
    await bootHost.poll(key, certificate);
    expect(reasons('cp1', 'agent.alarm')).toEqual(['taken_over']);
  });

  it('a machine that comes back with its earlier disk is not taken for an impostor', async () => {
    bootHost = await open();
    const { key, certificate, csr } = await running();
    bootHost.clock.advance(ALIVE_WITHIN);
    const without = await bootHost.configured(CP1_MAC);
    const fresh = bootHost.key('b');
    const between = String((await bootHost.redeem(without, fresh.csr)).body);
    await bootHost.poll(fresh.key, between, { bootid: 'boot-2' });
    await bootHost.leave(fresh.key, between, 'boot-2');
    const ticket = await bootHost.configured(CP1_MAC);
    expect((await bootHost.poll(key, certificate, { bootid: 'boot-3' })).status).toBe(401);
    const again = await bootHost.redeem(ticket, csr);
    expect(again.status).toBe(200);
    expect((await bootHost.poll(key, String(again.body), { bootid: 'boot-3' })).status).toBe(200);
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
  });
});

/** Checks twice, with the time between that something must be absent. */
async function aMinuteLater() {
  bootHost.clock.advance(duration('10s'));
  await bootHost.agents.refresh();
  bootHost.clock.advance(GONE_FOR);
  await bootHost.agents.refresh();
}

const without = (controlPlanes: readonly string[]) =>
  document('Cluster', 'one', { kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes } });

/** The state of cp1's certificate in `muster pki status`. */
async function state(): Promise<string | undefined> {
  const { certificates } = pkiStatusView(
    { keysets: [], issued: await bootHost.pki.issued('_muster'), standing: () => 'current' },
    bootHost.clock.now(),
    duration('90d'),
  );
  const own = certificates.find(({ leaf, to }) => leaf === 'agent' && to === 'cp1');
  return own && bootHost.agents.certificateState('cp1', own.serial);
}

describe('a machine that is taken out', () => {
  it.for(['document', 'membership'] as const)(
    'a machine that is removed by its %s is refused immediately, and its certificate is revoked a minute later',
    async (what) => {
      bootHost = await open();
      const { key, certificate, ticket, csr } = await running();
      await bootHost.catalog.apply([without(['cp2'])]);
      if (what === 'document') await bootHost.catalog.delete('Machine', 'cp1');
      expect((await bootHost.poll(key, certificate)).status).toBe(401);
      expect(await state()).toBe('valid');
      await aMinuteLater();
      const code = what === 'document' ? 'machine_gone' : 'no_cluster';
      expect(reasons('cp1', 'agent.revoked')).toEqual([code]);
      expect(await state()).toBe('revoked');

      // The machine is back under its name, also after a restart of the server: its key is refused
      // until an operator allows it.
      await bootHost.catalog.apply([...CLUSTER]);
      const kept = fs.readFileSync(key);
      bootHost = await bootHost.again();
      fs.writeFileSync(path.join(bootHost.directory, 'a.key'), kept);
      expect(await state()).toBe('revoked');
      expect((await bootHost.poll(path.join(bootHost.directory, 'a.key'), certificate)).status).toBe(401);
      expect((await bootHost.redeem(ticket, csr)).status).toBe(403);
      expect(bootHost.roster.get('cp1')?.status.agent?.hold?.code).toBe('revoked');
      const { steps } = bootHost.boot.explain({ machine: 'cp1' });
      expect(steps.find(({ step }) => step === 'agent')).toMatchObject({
        reason: { code: 'revoked', text: expect.stringContaining('muster machine rearm cp1') },
      });
    },
  );

  it('rearm --keep lets a machine that was removed by mistake continue with its certificate', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    await bootHost.catalog.apply([without(['cp2'])]);
    await aMinuteLater();
    expect(await state()).toBe('revoked');
    await bootHost.catalog.apply([...CLUSTER]);
    await bootHost.agents.rearm('cp1', { keep: true });
    expect(bootHost.roster.get('cp1')?.status.agent?.hold).toBeUndefined();
    expect(await state()).toBe('valid');
    expect((await bootHost.poll(key, certificate)).status).toBe(200);
  });

  it('rearm lets a removed machine get a new certificate, also for its old key', async () => {
    bootHost = await open();
    const { key, certificate, ticket, csr } = await running();
    await bootHost.catalog.apply([without(['cp2'])]);
    await aMinuteLater();
    expect(await state()).toBe('revoked');
    await bootHost.catalog.apply([...CLUSTER]);
    await bootHost.agents.rearm('cp1', { keep: false });
    const next = await bootHost.redeem(ticket, csr);
    expect(next.status).toBe(200);
    expect((await bootHost.poll(key, certificate)).status).toBe(401);
    expect((await bootHost.poll(key, String(next.body))).status).toBe(200);
  });

  it('another machine with its own key may take a removed machine’s name without an order', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    await bootHost.catalog.apply([without(['cp2'])]);
    await bootHost.catalog.delete('Machine', 'cp1');
    await aMinuteLater();
    const other = '52:54:00:aa:00:77';
    await bootHost.catalog.apply([
      machine('cp1', [other], { profile: 'worker', addresses: ['10.77.0.11'] }),
      without(['cp1', 'cp2']),
    ]);
    const ticket = await bootHost.configured(other as typeof CP1_MAC);
    const fresh = bootHost.key('b');
    const answer = await bootHost.redeem(ticket, fresh.csr);
    expect(answer.status).toBe(200);
    expect((await bootHost.poll(fresh.key, String(answer.body))).status).toBe(200);
    expect((await bootHost.poll(key, certificate)).status).toBe(401);
  });

  it('while most machines’ documents are missing, removed machines are refused but not revoked', async () => {
    const names = ['cp1', 'cp2', 'cp3', 'cp4', 'cp5'] as const;
    const macOf = (n: number) => `52:54:00:aa:00:1${n + 1}` as typeof CP1_MAC;
    const five = [
      ...CLUSTER.slice(0, 3),
      ...names.map((name, n) =>
        machine(name, [macOf(n)], { profile: 'worker', addresses: [`10.77.0.1${n + 1}`] }),
      ),
      without(names),
    ];
    bootHost = await open(five);
    const agents: { key: string; certificate: string }[] = [];
    for (const [n, name] of names.entries()) {
      const ticket = await bootHost.configured(macOf(n));
      const { key, csr } = bootHost.key(name);
      agents.push({ key, certificate: String((await bootHost.redeem(ticket, csr)).body) });
    }
    await bootHost.catalog.apply([without(['cp4', 'cp5'])]);
    await aMinuteLater();
    await aMinuteLater();
    expect((await bootHost.poll(agents[0]!.key, agents[0]!.certificate)).status).toBe(401);
    expect(names.flatMap((name) => reasons(name, 'agent.revoked'))).toEqual([]);
    expect(reasons('agents', 'agent.many-gone')).toEqual(['many_gone']);

    await bootHost.catalog.apply([without(['cp1', 'cp2', 'cp3', 'cp4', 'cp5'])]);
    await bootHost.agents.refresh();
    expect((await bootHost.poll(agents[0]!.key, agents[0]!.certificate)).status).toBe(200);
    await bootHost.catalog.apply([without(['cp1', 'cp2', 'cp3', 'cp4'])]);
    await aMinuteLater();
    expect(names.flatMap((name) => reasons(name, 'agent.revoked'))).toEqual(['no_cluster']);
  });

  it('a machine whose document is missing for a moment is not revoked', async () => {
    bootHost = await open();
    const { key, certificate } = await running();
    await bootHost.catalog.apply([without(['cp2'])]);
    bootHost.clock.advance(duration('10s'));
    await bootHost.agents.refresh();
    bootHost.clock.advance((GONE_FOR - 1000) as Millis);
    await bootHost.agents.refresh();
    await bootHost.catalog.apply([...CLUSTER]);
    await aMinuteLater();
    expect((await bootHost.poll(key, certificate)).status).toBe(200);
    expect(reasons('cp1', 'agent.revoked')).toEqual([]);
  });
});
