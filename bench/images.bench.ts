/**
 * Files of images over HTTP, beside nginx: one client and fifty, and the server's processor time.
 */

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchCase, BenchSuite } from './compare.ts';
import {
  asClient,
  nginxProcesses,
  openSegment,
  processorMicros,
  putAsset,
  SERVER,
  startMuster,
  startNginx,
  writeDocuments,
} from './served.ts';

const MIB = 1024 * 1024;
const PORTS = { ours: 8090, nginx: 8091 } as const;
type Server = keyof typeof PORTS;
/**
 * Each client has an address of its own, because the server limits the connections of an address.
 */
const CLIENTS = '10.91.1';

interface Load {
  /** MiB of the file. */
  readonly size: number;
  readonly clients: number;
  /** How often each client fetches it. */
  readonly times: number;
}

const LOADS: readonly Load[] = [
  { size: 1, clients: 1, times: 200 },
  { size: 1, clients: 50, times: 20 },
  { size: 200, clients: 1, times: 5 },
  { size: 200, clients: 50, times: 1 },
  { size: 1024, clients: 1, times: 1 },
  { size: 1024, clients: 50, times: 1 },
];

const IF_MISSED =
  'nginx sends from a worker on each processor, and Muster from one thread, so compare the processor time for each MiB as well. Most of what a file of 1 MiB costs is its request, with event and log line.';

interface Running {
  readonly pids: Readonly<Record<Server, readonly number[]>>;
  readonly hashes: Readonly<Record<number, string>>;
}

/** MB/s of all clients together, and microseconds of the server's processor time for each MiB. */
async function measure(server: Server, { pids, hashes }: Running, { size, clients, times }: Load) {
  const url = `http://${SERVER}:${PORTS[server]}/assets/${hashes[size]}/root`;
  const urls = Array.from({ length: times }, () => `-o /dev/null ${url}`).join(' ');
  const script = `
    pids=; for c in $(seq ${clients}); do curl -sf --interface ${CLIENTS}.$c ${urls} & pids="$pids $!"; done
    for p in $pids; do wait "$p" || exit 1; done`;
  const spent = () => pids[server].reduce((sum, pid) => sum + processorMicros(pid), 0);
  const used = spent();
  const began = performance.now();
  await asClient(['sh', '-c', script]);
  const seconds = (performance.now() - began) / 1000;
  const all = size * clients * times;
  return { rate: (all * MIB) / 1e6 / seconds, processor: (spent() - used) / all };
}

function benchCase(running: Running, load: Load): BenchCase {
  const { size, clients } = load;
  const who = clients === 1 ? 'one client' : `${clients} clients`;
  const name = `Image file of ${size} MiB, ${who}`;
  const aimed = size === 200 && clients === 50;
  return {
    rounds: 3,
    figures: {
      rate: {
        name,
        unit: 'MB/s',
        better: 'more',
        ifMissed: IF_MISSED,
        ...(aimed && { aimRatio: { nginx: 0.95 } }),
      },
      processor: {
        name: `${name}: processor time of the server per MiB`,
        unit: 'µs',
        better: 'less',
        ifMissed: IF_MISSED,
        ...(aimed && { aimRatio: { nginx: 1.5 } }),
      },
    },
    ours: () => measure('ours', running, load),
    peers: { nginx: () => measure('nginx', running, load) },
  };
}

/** Starts nginx with the same files under the same paths. It has a worker for each processor. */
async function serveByNginx(home: string, state: string, hashes: Running['hashes']) {
  const root = join(home, 'nginx');
  for (const hash of Object.values(hashes)) {
    mkdirSync(join(root, 'assets', hash), { recursive: true });
    linkSync(join(state, 'assets/sha256', hash), join(root, 'assets', hash, 'root'));
  }
  execFileSync('chmod', ['-R', 'a+rX', home]);
  const server = `listen ${SERVER}:${PORTS.nginx}; root ${root};`;
  const daemon = await startNginx(home, PORTS.nginx, 1024, server);
  return { ...daemon, pids: nginxProcesses(daemon) };
}

export const suite: BenchSuite = {
  about:
    'curl fetches files of 1 MiB to 1 GiB from another namespace, all from the page cache. The server is the shipped command with 100 known machines, events, metrics and log; nginx has sendfile, an access log and a worker for each processor.',
  async open() {
    const home = mkdtempSync(join(tmpdir(), 'muster-bench-images-'));
    const segment = openSegment();
    const most = Math.max(...LOADS.map(({ clients }) => clients));
    await asClient(['sh', '-c', `for c in $(seq ${most}); do ip addr add ${CLIENTS}.$c/16 dev eth0; done`]);
    writeDocuments(home, 100);
    const state = join(home, 'state');
    const sizes = [...new Set(LOADS.map(({ size }) => size))];
    const hashes = Object.fromEntries(sizes.map((size) => [size, putAsset(state, randomBytes(size * MIB))]));
    const muster = await startMuster(home, segment.link, PORTS.ours);
    const nginx = await serveByNginx(home, state, hashes);
    const running = { hashes, pids: { ours: [muster.pid], nginx: nginx.pids } };
    return {
      cases: LOADS.map((load) => benchCase(running, load)),
      async close() {
        await muster.stop();
        await nginx.stop();
        segment.close();
        rmSync(home, { recursive: true, force: true });
      },
    };
  },
};
