/** What only some operators see, and what nobody sees: codes, consoles, ids of boot sessions. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Grant } from '../../../src/api/access.ts';
import { ROUTES } from '../../../src/api/operations.ts';
import { millis } from '../../../src/base/duration.ts';
import type { Mac } from '../../../src/base/mac.ts';
import type { ApiClient } from '../../../src/cli/client.socket.ts';
import { DOCUMENTS, openWorld, operatorOf, type World } from './world.ts';

const BOOT = '00000000-0000-4000-8000-000000000001';
const CODE = '7QK-3FD';
/** What stands for the code and is not spelled like it. */
const SPELLINGS = [CODE, '７ＱＫ－３ＦＤ', '7QК-3FD', '𝟟QK-3FD'];
const CLUSTER = `---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec: {trust: segment, kubernetes: {version: "1.36", endpoint: api.blue.test, controlPlanes: [node-1]}}
`;
let world: World;
beforeEach(async () => {
  world = await openWorld(
    DOCUMENTS.replace('profile: worker}', 'profile: worker, addresses: [10.77.0.11]}') + CLUSTER,
    {
      https: true,
    },
  );
});
afterEach(() => world.close());

const operator = (name: string, ...grants: Grant[]): Promise<ApiClient> => operatorOf(world, name, ...grants);

function keyWaits(): void {
  vi.spyOn(world.deps.agents, 'waits').mockReturnValue({ code: 'approval', text: 'waits' });
  const key = { machine: 'node-1', key: 'a', address: '10.77.0.11', known: true, replaces: false };
  const trust = { tier: 'approved', from: 'cluster' } as const;
  vi.spyOn(world.deps.agents, 'waiting').mockImplementation(({ codes }) => [
    { ...key, since: millis(1), trust, ...(codes && { code: CODE }) },
  ]);
}

const OPERATOR = { role: 'operator' } as const;

it('a console is shown only to those who may approve while a key of its machine waits', async () => {
  await world.consoles.take('node-1', { boot: BOOT, lines: SPELLINGS });
  const member = world.roster.get('node-1')!;
  world.roster.move(member, 'booted', {});
  world.roster.move(member, 'failed', { logTail: `the log says ${CODE}` });
  const [viewer, mine, other] = [
    await operator('vera', { role: 'viewer' }),
    await operator('olga', { ...OPERATOR, clusters: ['blue'] }),
    await operator('otto', { role: 'viewer' }, { ...OPERATOR, clusters: ['green'] }),
  ];
  const linesFor = async (who: ApiClient) =>
    (await who.ask('GET /v1/machines/:name/console', { params: { name: 'node-1' } })).lines.length;
  const logFor = async (who: ApiClient) => JSON.stringify(await who.call('GET', '/v1/machines'));
  for (const who of [viewer, mine, other]) expect(await linesFor(who)).toBe(SPELLINGS.length);
  keyWaits();
  for (const who of [viewer, other]) {
    await expect(linesFor(who)).rejects.toThrow('a key of node-1 waits for its approval');
    expect(await logFor(who)).not.toContain(CODE);
  }
  expect(await linesFor(mine)).toBe(SPELLINGS.length);
  expect(await logFor(mine)).toContain(CODE);
});

it('the codes of keys that wait are shown only to those who may approve them', async () => {
  keyWaits();
  const codesFor = async (...grants: Grant[]) => {
    const who = await operator('ada', ...grants);
    return (await who.ask('GET /v1/waiting', { query: { codes: true } })).items.map(({ code }) => code);
  };
  expect(await codesFor({ role: 'viewer' })).toEqual([undefined]);
  expect(await codesFor({ role: 'viewer' }, { ...OPERATOR, clusters: ['green'] })).toEqual([undefined]);
  expect(await codesFor({ ...OPERATOR, clusters: ['blue'] })).toEqual([CODE]);
  expect(await codesFor(OPERATOR)).toEqual([CODE]);
});

it('no answer of the API has the id of a boot session, whoever asks', async () => {
  const { roster } = world;
  const live = roster.sessions.open({ machine: 'node-1', mac: '52:54:00:aa:00:01' as Mac, network: 'lan' });
  const { id } = live.session;
  roster.move(roster.get('node-1')!, 'booted', { session: id });
  const fields = { url: `http://10.77.0.1:8080/boot/${id}/user-data` };
  world.deps.events.record({ kind: 'boot.session', subject: 'node-1', session: id, fields });
  const who = await operator('ada', { role: 'admin' }, { role: 'auditor' });
  const names: Record<string, string> = {
    kind: 'machines',
    name: 'node-1',
    machine: 'node-1',
    cluster: 'blue',
  };
  let named = 0;
  for (const { method, path, query } of ROUTES) {
    if (method !== 'GET') continue;
    const where = path.replace(/:([a-z]+)/g, (_, name: string) => names[name] ?? 'x');
    const subject = query?.shape.machine === undefined ? {} : { machine: 'node-1' };
    const answer = await who.call('GET', where, { query: subject }).then(JSON.stringify, String);
    expect(answer, where).not.toContain(id);
    if (answer.includes(live.name)) named++;
  }
  // Where boots are told apart they have public names.
  expect(named).toBeGreaterThan(3);
});
