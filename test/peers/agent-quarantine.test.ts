/** A machine in quarantine and the real agent: it is refused, also with the ticket of its boot. */
import { expect, test } from 'vitest';
import { quarantineMachine, releaseMachine } from '../../src/agent/identity/quarantine.ts';
import * as bootHost from './agent-boot-host.ts';
import { Machine } from './agent-kit.ts';

test('an agent that worked is refused from its quarantine on, gets nothing for its ticket, and works after its release', async () => {
  const host = await bootHost.open();
  const { roster, events, clock } = host;
  const deps = { roster, events, clock, identities: host.agents.identities };
  const { session, ticket } = await host.configured(bootHost.CP1_MAC);
  const { authority } = host.settings.get('cp1')!;
  const machine = new Machine(
    { url: `https://127.0.0.1:${host.agents.port()}`, authority, ticket },
    { machine: 'cp1', session },
  );
  try {
    expect(await machine.poll()).toMatchObject({ status: 0 });
    const asked = host.asked.length;
    await quarantineMachine(deps, 'cp1', { why: 'stolen', deletePods: false });
    expect((await machine.poll()).status).toBe(1);
    expect((await machine.poll()).status).toBe(1);
    expect(host.asked).toHaveLength(asked);
    const refused = () => events.list({ subject: 'cp1' }).filter(({ kind }) => kind === 'agent.refused');
    expect(new Set(refused().map(({ reason }) => reason?.code))).toEqual(new Set(['quarantined']));
    expect(host.agents.identities.get('cp1')?.revoked).toMatchObject({ code: 'quarantined' });
    const stolen = await host.redeem({ session, ticket }, host.key('thief').csr);
    expect(stolen.status).toBe(403);
    const document = host.boot.config(session, 'user-data', {
      baseUrl: 'http://10.77.0.1:8080',
      peer: host.leases.get(bootHost.CP1_MAC)!,
    });
    expect(document).toMatchObject({ ok: false, status: 'gone' });

    await releaseMachine(deps, 'cp1');
    expect((await machine.poll()).status).toBe(1);
    expect(await machine.poll()).toMatchObject({ status: 0 });
    expect(host.asked.length).toBeGreaterThan(asked);
  } finally {
    machine.close();
    await host.close();
  }
});
