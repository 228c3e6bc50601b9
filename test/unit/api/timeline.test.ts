import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ExplanationView } from '../../../src/api/operations/explain.ts';
import type { TimelineView } from '../../../src/api/operations/timeline.ts';
import { publicName } from '../../../src/base/ids.ts';
import { DHCP_OUTCOMES } from '../../../src/pxe/dhcp/outcomes.ts';
import { openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
  const { events } = world.deps;
  const fields = { mac: '52:54:00:aa:00:01', stage: 'pxe', type: 'DISCOVER', xid: '0x2a' };
  events.record({ kind: 'boot.session', subject: 'node-1', session: 'the-id', fields });
  // Recorded under the address, as before a machine is recognised.
  events.record({
    kind: 'dhcp.noted',
    subject: '52:54:00:aa:00:01',
    reason: { code: 'other_server', text: DHCP_OUTCOMES.other_server.text },
    fields: { ...fields, type: 'REQUEST', server: '10.0.0.254' },
  });
});
afterEach(() => world.close());

const timeline = (name: string, boot?: string): Promise<TimelineView> =>
  world.client.call('GET', `/v1/machines/${encodeURIComponent(name)}/timeline`, { query: { boot } });

test('a timeline has the events of all names of a machine, and the verdict with its evidence', async () => {
  for (const name of ['node-1', '52:54:00:aa:00:01']) {
    const view = await timeline(name);
    expect(view).toMatchObject({
      kind: 'Timeline',
      machine: 'node-1',
      boot: { id: publicName('the-id'), outcome: 'underway', from: 'network' },
      entries: [
        { kind: 'boot.session' },
        { kind: 'dhcp.noted', code: 'other_server', fields: { xid: '0x2a' } },
      ],
      verdicts: [{ code: 'other-dhcp-server', certainty: 'certain' }],
    });
    expect(view.verdicts[0]!.evidence[0]).toMatchObject({
      at: view.entries[1]!.at,
      text: expect.stringContaining('10.0.0.254'),
    });
  }
});

test('muster explain shows the same verdicts', async () => {
  const { verdicts } = await world.client.call<ExplanationView>('GET', '/v1/explain', {
    query: { machine: 'node-1' },
  });
  expect(verdicts).toEqual((await timeline('node-1')).verdicts);
});

test('an unknown machine and an unknown boot are not found', async () => {
  await expect(timeline('node-9')).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  await expect(timeline('node-1', '-1')).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  await expect(timeline('node-1', 'two')).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  expect((await timeline('node-1', publicName('the-id'))).boot?.id).toBe(publicName('the-id'));
});
