/**
 * Real members of etcd 3.6 lower their data as the boot host asks them to, and then run as 3.5,
 * which has every write. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { EtcdRefusal, gatewayOf } from '../../src/cluster/etcd/gateway.socket.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { DEBIAN_13 } from './etcd/rack.ts';

const NAMES = ['m1', 'm2', 'm3'];
const WRITES = 2500;
const PORTS = 23790;
const clientOf = (n: number): string => `http://127.0.0.1:${PORTS + 2 * n}`;
const peerOf = (n: number): string => `http://127.0.0.1:${PORTS + 2 * n + 1}`;

/** Posts to the member with this number in the place of its address. */
async function post(url: string, body: object): Promise<unknown> {
  const { hostname, pathname } = new URL(url);
  const answer = await fetch(clientOf(Number(hostname.split('.').at(-1))) + pathname, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new EtcdRefusal(await answer.text());
  return answer.json();
}

test.skipIf(ARTIFACTS === undefined)(
  'members of etcd 3.6 lower their data, become 3.5 one after the other, and have every write',
  { timeout: 180_000 },
  async () => {
    const home = fs.mkdtempSync(path.join(os.tmpdir(), 'etcd-lower-'));
    const newer = path.join(ARTIFACTS!, 'bin/etcd');
    const etcd = gatewayOf(post);
    const members = NAMES.map((name, n) => ({ name, address: `127.0.0.${n}` }));
    const running: ChildProcess[] = [];
    const start = (n: number, program: string): void => {
      const flags = {
        name: NAMES[n],
        'data-dir': path.join(home, NAMES[n]!),
        'listen-client-urls': clientOf(n),
        'advertise-client-urls': clientOf(n),
        'listen-peer-urls': peerOf(n),
        'initial-advertise-peer-urls': peerOf(n),
        'initial-cluster': NAMES.map((name, m) => `${name}=${peerOf(m)}`).join(),
      };
      const words = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
      running[n] = spawn(program, words, { stdio: 'ignore', env: {} });
    };
    const serve = (): Promise<void> =>
      vi.waitFor(
        async () => expect(await Promise.all(members.map((one) => etcd.reads(one)))).not.toContain(false),
        { timeout: 60_000, interval: 200 },
      );
    const storage = (wanted: object): Promise<void> =>
      vi.waitFor(async () => expect(await etcd.storage(members)).toEqual(wanted), {
        timeout: 60_000,
        interval: 200,
      });
    const key = (n: number): string => Buffer.from(`key ${n}`).toString('base64');
    try {
      for (const n of NAMES.keys()) start(n, newer);
      await serve();
      await storage({ m1: '3.6', m2: '3.6', m3: '3.6' });
      for (let n = 0; n < WRITES; n += 100)
        await Promise.all(
          Array.from({ length: 100 }, (_, m) =>
            post(`http://127.0.0.${m % 3}/v3/kv/put`, { key: key(n + m), value: key(n + m) }),
          ),
        );
      await etcd.lower(members, '3.5');
      // A boot host that died meanwhile asks again.
      await etcd.lower(members, '3.5');
      await storage({ m1: '3.5', m2: '3.5', m3: '3.5' });
      for (const n of NAMES.keys()) {
        running[n]!.kill('SIGTERM');
        await once(running[n]!, 'exit');
        start(n, DEBIAN_13.program);
        await serve();
      }
      // etcd 3.5 does not say which data it has.
      expect(await etcd.storage(members)).toEqual({});
      for (const member of NAMES.keys()) {
        const { count } = (await post(`http://127.0.0.${member}/v3/kv/range`, {
          key: Buffer.from('key ').toString('base64'),
          range_end: Buffer.from('key!').toString('base64'),
          count_only: true,
        })) as { readonly count: string };
        expect(count).toBe(String(WRITES));
      }
    } finally {
      for (const one of running) one.kill('SIGKILL');
      fs.rmSync(home, { recursive: true, force: true });
    }
  },
);
