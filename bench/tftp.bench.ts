/** TFTP beside tftpd-hpa and atftpd, all with atftp as the client, across a pair of interfaces. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpacked } from '../test/peers/unpacked.ts';
import type { BenchCase, BenchSuite, Figure } from './compare.ts';
import {
  asClient,
  type Daemon,
  openSegment,
  SERVER,
  startDaemon,
  startMuster,
  writeDocuments,
} from './served.ts';

const MIB = 1024 * 1024;
const PORTS = { ours: 69, atftpd: 6970, 'tftpd-hpa': 6971 } as const;
const KNOWN = 10_000;

const MISSED_BLOCKWISE =
  'Seen: a file begins 0.3 ms later than with atftpd (0.6 instead of 0.3; 0.2 of it hands the request to the thread that sends it, so that no DHCP packet waits behind data), and a block costs 12 µs of processor, 8 of them the kernel (receive, send, epoll) as with atftpd, 4 in Node (its send and receive, the step) where atftpd needs 1. Client and server take turns at every block, so the difference shows in full.';
const MISSED_WINDOWED =
  'Seen: as much of the kernel as atftpd (7 µs a packet), 2.5 µs a packet in Node where atftpd needs 0.6. With many clients on the same cores a fifth of the sending threads is task switches: each packet wakes a client that preempts the thread (30,000 forced switches for 64 MiB; 2,000 at nice -10, and then 240 to 300 MB/s instead of 190), which does not happen to a thread per client that sleeps between windows. Four or eight threads instead of two changed nothing that stands out of the noise. Suspected: not so with clients on other machines.';

/** MB/s over all clients together. Each fetches `size` MiB `times` times, one after the other. */
async function rate(
  port: number,
  load: { readonly size: number; readonly clients: number; readonly window: number; readonly times: number },
): Promise<number> {
  const { size, clients, window, times } = load;
  const fetchOne = `atftp --option 'blksize 1468' --option 'windowsize ${window}' -g -r ${size}mib -l /dev/null ${SERVER} ${port}`;
  const script = `
    fetch() { for i in $(seq ${times}); do ${fetchOne} >/dev/null 2>&1 || exit 1; done; }
    pids=; for c in $(seq ${clients}); do fetch & pids="$pids $!"; done
    for p in $pids; do wait "$p" || exit 1; done`;
  const began = performance.now();
  await asClient(['sh', '-c', script]);
  return (size * MIB * clients * times) / 1e6 / ((performance.now() - began) / 1000);
}

function benchCase(size: number, clients: number, window: number, times: number, rounds?: number): BenchCase {
  const who = clients === 1 ? 'one client' : `${clients} clients`;
  const figure: Figure = {
    name: `TFTP ${size} MiB, ${who}, blksize 1468, windowsize ${window}`,
    unit: 'MB/s',
    better: 'more',
    // tftpd-hpa knows no windowsize
    ifMissed: window === 1 ? MISSED_BLOCKWISE : MISSED_WINDOWED,
    aimRatio: window === 1 ? { atftpd: 0.8, 'tftpd-hpa': 0.8 } : { atftpd: 1 },
  };
  const load = { size, clients, window, times };
  const peers = window === 1 ? (['atftpd', 'tftpd-hpa'] as const) : (['atftpd'] as const);
  return {
    figures: { rate: figure },
    ...(rounds === undefined ? {} : { rounds }),
    ours: async () => ({ rate: await rate(PORTS.ours, load) }),
    peers: Object.fromEntries(
      peers.map((peer) => [peer, async () => ({ rate: await rate(PORTS[peer], load) })]),
    ),
  };
}

export const suite: BenchSuite = {
  about:
    'TFTP of whole files to atftp clients in another namespace; ours is the shipped command with 10,000 machines known, its events, metrics and log.',
  async open() {
    const home = mkdtempSync(join(tmpdir(), 'muster-bench-tftp-'));
    const files = join(home, 'loaders');
    mkdirSync(files);
    for (const size of [1, 64]) writeFileSync(join(files, `${size}mib`), randomBytes(size * MIB));
    execFileSync('chmod', ['-R', 'a+rX', home]);
    const segment = openSegment();
    writeDocuments(home, KNOWN);
    const atftpd = unpacked('atftpd', 'usr/sbin/atftpd');
    const hpa = unpacked('tftpd-hpa', 'usr/sbin/in.tftpd');
    const address = [`--port=${PORTS.atftpd}`, `--bind-address=${SERVER}`, '--user=root', '--group=root'];
    const daemons: Daemon[] = [
      await startMuster(home, segment.link, 8080, ['--loaders', files]),
      await startDaemon(
        [atftpd.command, '--daemon', '--no-fork', '--maxthread=300', '--verbose=3', ...address, files],
        listens(PORTS.atftpd),
        atftpd.env,
      ),
      await startDaemon(
        [hpa.command, '-L', '-a', `${SERVER}:${PORTS['tftpd-hpa']}`, '-u', 'root', '-s', files],
        listens(PORTS['tftpd-hpa']),
        hpa.env,
      ),
    ];
    return {
      cases: [
        benchCase(1, 1, 1, 40),
        benchCase(1, 1, 16, 40),
        benchCase(64, 1, 1, 2),
        benchCase(64, 1, 16, 4),
        benchCase(1, 50, 1, 4),
        benchCase(1, 50, 16, 4),
        benchCase(64, 50, 1, 1, 3),
        benchCase(64, 50, 16, 1, 3),
      ],
      async close() {
        for (const daemon of daemons) await daemon.stop();
        segment.close();
        rmSync(home, { recursive: true, force: true });
      },
    };
  },
};

function listens(port: number): () => boolean {
  const wanted = new RegExp(`:${port.toString(16).toUpperCase().padStart(4, '0')} `);
  return () => wanted.test(readFileSync('/proc/net/udp', 'utf8'));
}
