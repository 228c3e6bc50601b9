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
  "perf of the sending thread and the processor time of both servers, 64 MiB, one client: a block costs 37 to 44 µs of ours, 18 to 20 of them in the kernel, and 13 to 15 of atftpd's, all but 1 of them in the kernel. Of ours 36 % is Node between the kernel and our first line, for each ACK that arrives: a buffer, an object with the sender's address, the entry into JavaScript; 24 % is the kernel's sending, 15 % its receiving and waiting, 6 % Node's part of sending; 5 % is our own code. Client and server take turns at every block, so that the difference shows in full. On another machine (2026-11-21) a block cost 12 µs, 4 of them in Node, and the ratios were 0.80 to 1.09; why Node's part costs this one five times as much was not found. It is not ours: the least that serves a file there, thirty lines without a policy, an event or a log, made 28 to 38 MB/s with one client on the machine of this table and 46 to 60 with 50, ours beside it 26 to 28 and 52 to 53, atftpd 47 to 59 and 83 to 95.";
const MISSED_WINDOWED =
  "perf of the sending threads, 50 clients, 1 MiB: 36 % the kernel's sending, 20 % Node's part of it, a request object each, 9 % Node's receiving, 5 % its collector, 5 % moving the file's octets behind their headers, 3 % reading the file, some 3 % the rest of our own code. A packet costs 2.4 to 2.8 µs in Node and 4.5 to 5 in the kernel with one client (atftpd: 0.5 and 5.5 to 5.8), 5.4 to 6.4 and 6 with 50 of them, whose transfers begin anew every megabyte. Each packet wakes a client that preempts the thread on the same two processors, which does not happen to a thread per client that sleeps between windows: at nice -10 the rate was half as high again. Four or eight threads instead of two, and Node's own batching of datagrams, changed nothing that stands out of the noise. The least that serves a file in Node made 155 to 170 MB/s with one client and 136 to 165 with 50, ours beside it 190 to 194 and 143 to 153.";

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
