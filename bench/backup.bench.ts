/**
 * A snapshot of 1 GiB of etcd by the whole path of the agent: etcd writes it, the agent sends it
 * over mTLS, the boot host seals it and has it read to its end. Next to etcdctl, which only writes.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { callApi } from '../test/peers/etcd/api.ts';
import { openRack, type Rack } from '../test/peers/etcd/rack.ts';
import { unpacked } from '../test/peers/unpacked.ts';
import type { BenchSuite } from './compare.ts';

const MIB = 1024 * 1024;
/** etcd takes requests of at most 1.5 MiB. */
const VALUES = 1024;
const WRITERS = 4;
/** The rack is in memory: the data of etcd, its snapshot twice, and what is sealed. */
const NEEDS_MIB = 10 * 1024;
const LOOK_MS = 20;
const PATIENCE_MS = 120_000;

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Writes one value of 1 MiB, as a client of etcd's gateway. */
function put({ machines, writer }: Rack, n: number): Promise<void> {
  const body = JSON.stringify({
    key: base64(`filled/${n}`),
    value: randomBytes(MIB).toString('base64'),
  });
  return new Promise((done, fail) => {
    https
      .request(
        `https://${machines.m1.address}:2379/v3/kv/put`,
        { method: 'POST', ...writer.credentials(), agent: false },
        (answer) => {
          answer.resume();
          answer.on('end', () =>
            answer.statusCode === 200 ? done() : fail(new Error(`etcd answers ${answer.statusCode}`)),
          );
        },
      )
      .on('error', fail)
      .end(body);
  });
}

/** Fills etcd from several connections at once. */
async function fill(rack: Rack): Promise<void> {
  let next = 0;
  const write = async (): Promise<void> => {
    for (let n = next++; n < VALUES; n = next++)
      // A connection that etcd closes is tried again: the same key and another value do no harm.
      await put(rack, n).catch(() => put(rack, n));
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
}

interface Backups {
  readonly items: readonly { readonly id: string }[];
  readonly ordered?: { readonly id: string; readonly machine?: string };
  readonly failed?: { readonly id: string; readonly text: string };
}

async function backups({ host }: Rack): Promise<Backups> {
  const { status, text } = await callApi(host.socket, 'GET', '/v1/clusters/one/backups');
  if (status !== 200) throw new Error(text);
  return JSON.parse(text) as Backups;
}

/** Looks until something is there; resolves with it and the time. */
async function seen<T>(
  look: () => Promise<T | undefined>,
): Promise<{ readonly at: number; readonly one: T }> {
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await pause(LOOK_MS)) {
    const one = await look();
    if (one !== undefined) return { at: performance.now(), one };
  }
  throw new Error('no snapshot was taken in time');
}

/**
 * Orders a snapshot. Resolves with the seconds from the poll whose plan has it until it is durable
 * and listed. Where snapshots are scheduled, nobody waits for that poll.
 */
async function byAgent(rack: Rack): Promise<number> {
  const { status, text } = await callApi(rack.host.socket, 'POST', '/v1/clusters/one/backup');
  if (status !== 202) throw new Error(text);
  const { id } = JSON.parse(text) as { readonly id: string };
  const begun = await seen(async () => ((await backups(rack)).ordered?.machine ? true : undefined));
  const ended = await seen(async () => {
    const { items, failed } = await backups(rack);
    if (failed?.id === id) throw new Error(failed.text);
    return items.find((one) => one.id === id);
  });
  // Only one is kept at a time: the rack is in memory.
  for (const file of fs.readdirSync(path.join(rack.host.state, 'snapshots/one')))
    fs.rmSync(path.join(rack.host.state, 'snapshots/one', file));
  return (ended.at - begun.at) / 1000;
}

/** `etcdctl snapshot save` with the same network and certificates. Resolves with seconds. */
async function byEtcdctl({ machines, writer, host }: Rack): Promise<number> {
  const directory = fs.mkdtempSync(path.join(host.home, 'etcdctl-'));
  const { ca, cert, key } = writer.credentials();
  const files = { ca, cert, key };
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(directory, name), text);
  const at = (name: string): string => path.join(directory, name);
  const { command, env } = unpacked('etcd-client', 'usr/bin/etcdctl');
  const words = [
    ...['--endpoints', `https://${machines.m1.address}:2379`, '--command-timeout', '10m'],
    ...['--cacert', at('ca'), '--cert', at('cert'), '--key', at('key'), 'snapshot', 'save', at('db')],
  ];
  const started = performance.now();
  await promisify(execFile)(command, words, { env: { ...env, ETCDCTL_API: '3' } });
  const seconds = (performance.now() - started) / 1000;
  if (fs.statSync(at('db')).size < VALUES * MIB) throw new Error('the snapshot is smaller than the data');
  fs.rmSync(directory, { recursive: true });
  return seconds;
}

export const suite: BenchSuite = {
  about:
    'One member of etcd with 1 GiB in values of 1 MiB; machine, boot host and disks are in memory. Ours: written by etcd, sent over mTLS, sealed, durable, checked by etcd’s own tool and listed; the wait for the next poll is left out. The peer only writes a file, and checks nothing.',
  needs: () =>
    os.freemem() < NEEDS_MIB * MIB ? `${NEEDS_MIB} MiB of free memory, because all is in memory` : undefined,
  async open() {
    const rack = await openRack({ members: ['m1'], diskMiB: 6144 });
    // The clocks of the rack do not keep a process alive while it waits for them.
    const alive = setInterval(() => {}, 60_000);
    try {
      await rack.machines.m1.powerOn();
      await rack.voters(['m1']);
      await fill(rack);
    } catch (error) {
      clearInterval(alive);
      await rack.close();
      throw error;
    }
    return {
      cases: [
        {
          rounds: 3,
          figures: {
            seconds: {
              name: 'Snapshot of 1 GiB of etcd',
              unit: 's',
              better: 'less',
              aimRatio: { 'etcdctl snapshot save': 1.5 },
            },
          },
          ours: async () => ({ seconds: await byAgent(rack) }),
          peers: { 'etcdctl snapshot save': async () => ({ seconds: await byEtcdctl(rack) }) },
        },
      ],
      async close() {
        clearInterval(alive);
        await rack.close();
      },
    };
  },
};
