/** Approval of keys: the real agent shows a code, and the server knows the same. */
import { afterEach, describe, expect, it } from 'vitest';
import { duration } from '../../src/base/duration.ts';
import * as boot from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, CLUSTER, CP1_MAC, open } from './agent-boot-host.ts';
import { Machine, SHELLS } from './agent-kit.ts';

let bootHost: AgentBootHost;
const machines: Machine[] = [];
afterEach(async () => {
  for (const machine of machines.splice(0)) {
    await machine.stop();
    machine.close();
  }
  await bootHost.close();
});

const APPROVED = CLUSTER.map((document) =>
  document.metadata.name === 'cp1'
    ? boot.machine('cp1', [CP1_MAC], {
        profile: 'worker',
        addresses: ['10.77.0.11'],
        trust: 'approved',
        dataDisk: { serial: 'D' },
      })
    : document,
);

/** A machine with the real agent, at the boot host, in its present boot. */
async function booted(existing?: Machine): Promise<Machine> {
  const { session, ticket } = await bootHost.configured(CP1_MAC);
  const { authority, server } = bootHost.settings.get('cp1')!;
  const url = server.replace('10.77.0.1', '127.0.0.1');
  const conf = { server: url, machine: 'cp1', session, ticket };
  const machine = existing ?? new Machine({ authority, url, ticket }, { session });
  if (existing) {
    const lines = Object.entries(conf).map(([name, value]) => `${name}=${value}\n`);
    machine.write('/etc/muster/agent.conf', lines.join(''));
  } else machines.push(machine);
  machine.write('/sys/class/tty/console/active', 'tty0 ttyS0\n');
  for (const console of ['tty1', 'ttyS0']) machine.write(`/dev/${console}`, '');
  return machine;
}

/** The code that a console shows, once it shows one that is not `before`. */
async function codeOn(machine: Machine, console = 'ttyS0', before?: string): Promise<string> {
  const shown = () => /machine approve cp1 (\S+)/.exec(machine.read(`/dev/${console}`))?.[1];
  await expect.poll(() => shown() !== before && shown(), { timeout: 20_000, interval: 20 }).toBeTruthy();
  return shown()!;
}

const reasons = (kind: string): (string | undefined)[] =>
  bootHost.events
    .list({ subject: 'cp1' })
    .filter((event) => event.kind === kind)
    .map((event) => event.reason?.code);

describe('a machine of tier approved', () => {
  it.each(SHELLS.map((shell) => [shell.join(' '), shell] as const))(
    'waits with its code on all consoles until that is approved (%s)',
    async (_, shell) => {
      bootHost = await open(APPROVED);
      const machine = await booted();
      expect((await machine.poll(shell)).status).toBe(1);
      const code = await codeOn(machine);
      expect(await codeOn(machine, 'tty1')).toBe(code);
      expect(bootHost.agents.waiting({ codes: true })).toMatchObject([
        {
          machine: 'cp1',
          code,
          known: true,
          replaces: false,
          trust: { tier: 'approved', from: 'Machine/cp1' },
        },
      ]);
      expect(bootHost.agents.waiting({ codes: false })[0]).not.toHaveProperty('code');
      expect(bootHost.agents.waits('cp1')?.code).toBe('approval');
      expect(bootHost.asked).toEqual([]);

      await expect(bootHost.agents.approve('cp1', '000-000')).rejects.toMatchObject({ code: 'E_APPROVAL' });
      expect((await machine.poll(shell)).status).toBe(1);
      await bootHost.agents.approve('cp1', code.toLowerCase());
      expect((await machine.poll(shell)).status).toBe(0);
      expect(bootHost.asked.map(({ identity }) => identity.machine)).toEqual(['cp1']);
      expect(bootHost.agents.waits('cp1')).toBeUndefined();
      expect(reasons('machine.approval-refused')).toEqual(['wrong_code']);
      expect(reasons('machine.approved')).toHaveLength(1);
      // Who reads events or answers cannot approve what waits.
      expect(JSON.stringify(bootHost.events.list({}))).not.toContain(code);
    },
  );

  it('goes on within two seconds of the approval, and says that its code is not needed any more', async () => {
    bootHost = await open(APPROVED);
    const machine = await booted();
    machine.start();
    const code = await codeOn(machine);
    await bootHost.agents.approve('cp1', code);
    const approvedAt = Date.now();
    await expect.poll(() => bootHost.asked.length, { timeout: 30_000, interval: 20 }).toBeGreaterThan(0);
    expect(Date.now() - approvedAt).toBeLessThan(15_000);
    await expect.poll(() => machine.read('/dev/ttyS0'), { timeout: 5_000 }).toContain('not needed any more');
  });

  it('needs no second approval with the same key, and another one with another key', async () => {
    bootHost = await open(APPROVED);
    const machine = await booted();
    await machine.poll();
    await bootHost.agents.approve('cp1', await codeOn(machine));
    expect((await machine.poll()).status).toBe(0);
    bootHost.roster.heartbeats.forget('cp1');

    machine.reboot();
    const { serial } = bootHost.agents.identities.get('cp1')!;
    await booted(machine);
    // The certificate is lost, the key is not.
    machine.write('/var/lib/muster/agent/agent.crt', '');
    expect((await machine.poll()).status).toBe(0);
    expect(bootHost.agents.identities.get('cp1')!.serial).not.toBe(serial);
    bootHost.roster.heartbeats.forget('cp1');

    const replaced = await booted();
    expect((await replaced.poll()).status).toBe(1);
    expect(bootHost.agents.waiting({ codes: false })).toMatchObject([{ machine: 'cp1', replaces: true }]);
    await bootHost.agents.approve('cp1', await codeOn(replaced));
    expect((await replaced.poll()).status).toBe(0);
  });

  it('shows another code after the server was restarted and after three wrong ones, and the old one is refused', async () => {
    bootHost = await open(APPROVED);
    const machine = await booted();
    await machine.poll();
    const first = await codeOn(machine);
    bootHost = await bootHost.again();
    const { port } = new URL(`http://x:${bootHost.agents.port()}`);
    machine.write(
      '/etc/muster/agent.conf',
      machine.read('/etc/muster/agent.conf').replace(/^server=.*$/m, `server=https://127.0.0.1:${port}`),
    );
    await machine.poll();
    const second = await codeOn(machine, 'ttyS0', first);
    for (const wrong of [first, first, first])
      await expect(bootHost.agents.approve('cp1', wrong)).rejects.toMatchObject({ code: 'E_APPROVAL' });
    await expect(bootHost.agents.approve('cp1', second)).rejects.toThrow('is not the code');
    await machine.poll();
    await bootHost.agents.approve('cp1', await codeOn(machine, 'ttyS0', second));
    expect((await machine.poll()).status).toBe(0);
  });

  it('waits for longer than a ticket lives, and for longer than a boot session', async () => {
    bootHost = await open(APPROVED);
    const machine = await booted();
    await machine.poll();
    const first = await codeOn(machine);
    bootHost.clock.advance(duration('30h'));
    bootHost.boot.tick();
    await machine.poll();
    await bootHost.agents.approve('cp1', await codeOn(machine, 'ttyS0', first));
    expect((await machine.poll()).status).toBe(0);
  });
});

describe('somebody else with the ticket, at the address of the machine', () => {
  it('waits with another code, gets nothing from the approval of the machine, and raises the alarm after it', async () => {
    bootHost = await open(APPROVED);
    const { session, ticket } = await bootHost.configured(CP1_MAC);
    const [mine, other] = [bootHost.key('a'), bootHost.key('b')];
    expect((await bootHost.redeem({ session, ticket }, other.csr)).status).toBe(202);
    const held = await bootHost.redeem({ session, ticket }, mine.csr);
    expect(held.status).toBe(202);
    expect(held.headers).toMatch(/^retry-after: 2\r$/m);
    expect(held.headers).toMatch(/^muster-hold: approval\r$/m);
    const [first, second] = bootHost.agents.waiting({ codes: true });
    expect(first!.code).not.toBe(second!.code);
    await bootHost.agents.approve('cp1', second!.code!);
    expect((await bootHost.redeem({ session, ticket }, mine.csr)).status).toBe(200);
    const refused = await bootHost.redeem({ session, ticket }, other.csr);
    expect(refused.status).toBe(409);
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('other_key');
    // The code of the attacker's key was not used, and is worth nothing now.
    await expect(bootHost.agents.approve('cp1', first!.code!)).rejects.toMatchObject({ code: 'E_APPROVAL' });
  });

  it('gets nothing for a code that was approved before: each key has its own nonce', async () => {
    bootHost = await open(APPROVED);
    const { session, ticket } = await bootHost.configured(CP1_MAC);
    const key = bootHost.key('a');
    await bootHost.redeem({ session, ticket }, key.csr);
    const code = bootHost.agents.waiting({ codes: true })[0]!.code!;
    await bootHost.agents.approve('cp1', code);
    await bootHost.agents.rearm('cp1', { keep: false });
    // The same key asks again after the operator took its certificate back.
    expect((await bootHost.redeem({ session, ticket }, key.csr)).status).toBe(202);
    await expect(bootHost.agents.approve('cp1', code)).rejects.toMatchObject({ code: 'E_APPROVAL' });
  });
});
