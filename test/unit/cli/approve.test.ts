/** Approving all machines that wait, in one command. */
import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { run } from './run.ts';

const CODES = { cp1: '7QK-3FD', cp2: '0W2-H8M', w1: 'A1B-C2D' };
const key = (machine: string, code: string) => ({
  ...{ machine, code, key: `${machine}-key`, address: '10.77.0.11', known: true, replaces: false },
  ...{ since: new Date(0).toISOString(), trust: { tier: 'approved', from: 'Cluster/blue' }, macs: [] },
});

let waiting: readonly object[] = [];
let approved: string[] = [];
const socket = join(mkdtempSync(join(tmpdir(), 'muster-approve-')), 'socket');
const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part) => (body += part));
  request.on('end', () => {
    if (request.method === 'POST') approved.push(`${request.url!.split('/')[3]} ${JSON.parse(body).code}`);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(request.method === 'POST' ? {} : { kind: 'WaitingList', items: waiting }));
  });
});
beforeAll(() => new Promise<void>((done) => server.listen(socket, done)));
afterAll(() => void server.close());
beforeEach(() => {
  waiting = Object.entries(CODES).map(([machine, code]) => key(machine, code));
  approved = [];
});

const ALL = ['machine', 'approve', '--all', '--cluster', 'blue'];
const EACH = Object.entries(CODES).map(([machine, code]) => `${machine} ${code}`);

test('all codes are listed beside their machines, asked about once, and approved', async () => {
  const { code, out, err } = await run(ALL, { socket, typed: 'yes' });
  for (const [machine, its] of Object.entries(CODES))
    expect(out).toMatch(new RegExp(`^${machine} +${its}`, 'm'));
  expect(err.match(/Type yes/g)).toHaveLength(1);
  expect([code, approved]).toEqual([0, EACH]);
});

test('any other word approves nothing', async () => {
  for (const typed of ['', 'no', 'y']) {
    const { code, err } = await run(ALL, { socket, typed });
    expect([code, err.endsWith('Nothing was approved.\n')]).toEqual([1, true]);
  }
  expect(approved).toEqual([]);
});

test('without a terminal the codes are confirmed by what the command printed for exactly them', async () => {
  const { err } = await run(ALL, { socket });
  const confirm = /add --confirm (\S+)/.exec(err)![1]!;
  expect(approved).toEqual([]);
  waiting = [...waiting, key('w2', '000-111')];
  expect((await run([...ALL, '--confirm', confirm], { socket })).err).toContain('other codes wait now');
  expect(approved).toEqual([]);
  waiting = waiting.slice(0, 3);
  expect((await run([...ALL, '--confirm', confirm], { socket })).code).toBe(0);
  expect(approved).toEqual(EACH);
});

test('two keys of one machine are approved by nobody at once', async () => {
  waiting = [...waiting, key('cp1', '000-222')];
  expect((await run(ALL, { socket, typed: 'yes' })).err).toContain('several keys wait for one machine');
  expect(approved).toEqual([]);
});
