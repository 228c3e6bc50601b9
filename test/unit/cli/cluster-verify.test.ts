/**
 * `muster cluster verify --wait` beside a server that answers as it is told: what is asked again,
 * and until when.
 */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { millis } from '../../../src/base/duration.ts';
import { verify } from '../../../src/cli/cluster/health.ts';
import type { Io } from '../../../src/cli/io.ts';
import type { ClusterHealth } from '../../../src/cluster/health/finding.ts';

let directory: string;
let server: Server;
let asked: string[];
/** What is answered next, by verb; the last one stays. */
let answers: Record<'status' | 'verify', boolean[]>;

const health = (what: 'status' | 'verify', ok: boolean): ClusterHealth => ({
  cluster: 'one',
  ok,
  at: '2026-01-01T00:00:00.000Z',
  scope: 'all',
  findings: [{ check: what === 'verify' ? 'network' : 'node', subject: 'w1', ok, says: 'it says so' }],
});

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'muster-verify-'));
  asked = [];
  server = createServer((request, response) => {
    const what = request.url!.includes('/verify') ? 'verify' : 'status';
    asked.push(what);
    const ok = answers[what].length > 1 ? answers[what].shift()! : answers[what][0]!;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(health(what, ok)));
  });
  server.listen(join(directory, 'socket'));
  await once(server, 'listening');
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(directory, { recursive: true, force: true });
});

async function verified(wait?: string) {
  const texts = { out: '', err: '' };
  const io: Io = {
    out: (text) => {
      texts.out += text;
    },
    err: (text) => {
      texts.err += text;
    },
    env: {},
    color: false,
    colorErr: false,
    columns: undefined,
    scryptWork: undefined,
    ask: async () => undefined,
    signal: new AbortController().signal,
    pause: (span) => pause(span),
  };
  const options = { socket: join(directory, 'socket'), ...(wait === undefined ? {} : { wait }) };
  const code = await verify('one', options, io, millis(1));
  return { code, ...texts };
}

test('a probe that fails is made again until it is well, when it is waited for', async () => {
  answers = { status: [false, true], verify: [false, true] };
  const { code, out, err } = await verified('1m');
  expect(code).toBe(0);
  expect(asked).toEqual(['status', 'status', 'verify', 'status', 'verify']);
  expect(out).toMatch(/\none: all checks pass \(all\)\n$/);
  expect(err).toMatch(/^\d+s: waiting for node w1\n\d+s: waiting for network w1\n$/);
});

test('when the time is up, what was seen last is told and the exit code says so', async () => {
  answers = { status: [true], verify: [false] };
  const { code, out } = await verified('0s');
  expect([code, asked]).toEqual([1, ['status', 'verify']]);
  expect(out).toMatch(/^FAIL +network +w1 /m);
});

test('no probe is made while other checks fail', async () => {
  answers = { status: [false], verify: [true] };
  expect((await verified('0s')).code).toBe(1);
  expect(asked).toEqual(['status']);
});

test('without --wait everything is looked at once', async () => {
  answers = { status: [true], verify: [false] };
  expect((await verified()).code).toBe(1);
  expect(asked).toEqual(['verify']);
});
