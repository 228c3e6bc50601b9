/** Attacks by operators who may little, and on operators' browsers. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Grant } from '../../src/api/access.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { Agent, filesIn, HTTP, scriptOf, sessionIn, takeLease } from './machine.ts';
import { type Answer, BOOT_HOST, MACHINES, Rig, SERVER_MODE, VICTIM_MAC } from './rig.ts';

const OPERATORS = `${BOOT_HOST}:8444`;
const BOOT = '00000000-0000-4000-8000-000000000001';
const CODE = '７ＱＫ－３ＦＤ';
/** A machine of no cluster. */
const FREE = `apiVersion: muster/v1
kind: Machine
metadata: {name: free1}
spec: {macs: ["52:54:00:aa:00:71"], profile: node, addresses: [10.77.0.71]}
`;
let rig: Rig;
let session: string;
let agent: Agent;

/** Asks the API from the attacker's host, with a token of an operator who has these roles. */
async function as(...grants: Grant[]): Promise<(path: string, ...more: string[]) => Promise<Answer>> {
  const api = connectApi(rig.muster.socket);
  await api.call('PUT', '/v1/operators/eve', { body: { json: { grants } } });
  const json = { operator: 'eve', label: 't', grants, expires: '1d' };
  const { token } = await api.call<{ token: string }>('POST', '/v1/tokens', { body: { json } });
  return (path, ...more) =>
    rig.http('atk', `https://${OPERATORS}${path}`, '-k', '-H', `authorization: Bearer ${token}`, ...more);
}

beforeAll(async () => {
  const approved = MACHINES.replace(
    `macs: ["${VICTIM_MAC}"], profile: node`,
    `macs: ["${VICTIM_MAC}"], profile: node, trust: approved`,
  );
  rig = await Rig.open(`${SERVER_MODE}${approved}---\n${FREE}`, ['--operators-listen', OPERATORS]);
  await takeLease(rig, 'vic', VICTIM_MAC);
  session = sessionIn((await scriptOf(rig, 'vic', VICTIM_MAC)).body)!;
  const { body } = await rig.http('vic', `${HTTP}/boot/${session}/user-data`);
  agent = new Agent(rig, 'vic', filesIn(body));
});
afterAll(async () => {
  agent.close();
  await rig.close();
});

it('a viewer reads no session of a live boot, with which it would report in the name of the machine', async () => {
  const viewer = await as({ role: 'viewer' });
  for (const path of ['/v1/events', '/v1/machines', '/v1/explain?machine=cp1', '/v1/machines/cp1/timeline']) {
    const { status, body } = await viewer(path);
    expect(status, path).toBe(200);
    expect(body, path).not.toContain(session);
  }
  expect(rig.muster.log()).not.toContain(session);
});

it('a console shows no code, in whatever letters, to a viewer, who would pass it on as that of the machine', async () => {
  const viewer = await as({ role: 'viewer' });
  const lines = `approve cp1 ${CODE}`;
  const sent = ['--data-urlencode', `boot=${BOOT}`, '--data-urlencode', `lines=${lines}`];
  expect((await rig.http('vic', `${HTTP}/boot/${session}/console`, ...sent)).status).toBe(200);
  expect((await viewer('/v1/machines/cp1/console')).body).toContain(CODE);
  expect((await agent.redeem()).status).toBe(202);
  const hidden = await viewer('/v1/machines/cp1/console');
  expect(hidden.status).toBe(403);
  expect(hidden.body).not.toContain(CODE);
  const waiting = await viewer('/v1/waiting?codes=true');
  expect(waiting.body).toContain('"machine":"cp1"');
  expect(waiting.body).not.toContain('"code"');
});

it('an operator of one cluster takes no machine of none, whose disk it would then clear, nor learns which there are', async () => {
  const operator = await as({ role: 'admin', clusters: ['one'] });
  const answers: string[] = [];
  for (const name of ['free1', 'cp2', 'absent']) {
    const body = ['-H', 'content-type: application/json', '-d', JSON.stringify({ machines: [name] })];
    const { status, body: text } = await operator('/v1/clusters/one/add-node', ...body);
    expect(status).toBe(403);
    const looked = await operator(`/v1/machines/${name}/timeline`);
    expect(looked.status).toBe(403);
    answers.push(`${text}${looked.body}`.replaceAll(name, 'NAME'));
  }
  expect(new Set(answers).size).toBe(1);
});

it('a viewer with many connections gets thirty costly answers at once, and machines theirs meanwhile', async () => {
  const grants: Grant[] = [{ role: 'viewer' }];
  const api = connectApi(rig.muster.socket);
  await api.call('PUT', '/v1/operators/mallory', { body: { json: { grants } } });
  const json = { operator: 'mallory', label: 't', grants, expires: '1d' };
  const { token } = await api.call<{ token: string }>('POST', '/v1/tokens', { body: { json } });
  const url = `https://${OPERATORS}/v1/clusters/one/full`;
  const words = ['-sk', '-Z', '--parallel-max', '8', '-w', '%{http_code}\n'];
  const urls = Array.from({ length: 150 }, () => ['-o', '/dev/null', url]).flat();
  const began = performance.now();
  const flood = rig.in('atk', ['curl', ...words, '-H', `authorization: Bearer ${token}`, ...urls]);
  expect((await scriptOf(rig, 'vic', VICTIM_MAC)).status).toBe(200);
  const { output } = await flood;
  const answered = output.split('\n').filter((line) => line === '200').length;
  const later = Math.ceil((performance.now() - began) / 500) + 1;
  expect(answered).toBeGreaterThanOrEqual(30);
  expect(answered).toBeLessThanOrEqual(30 + later);
  expect(output.split('\n').filter((line) => line === '429').length).toBe(150 - answered);
});
