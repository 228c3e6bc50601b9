/**
 * TFTP compared with tftpd-hpa and atftpd, all with atftp as the client, across a pair of
 * interfaces.
 */
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
  "perf of the sending thread and the processor time of both servers, 64 MiB, one client: a block costs Muster 37 to 44 µs, 18 to 20 of them in the kernel, and atftpd 13 to 15 µs, all but 1 in the kernel. Node's work between the kernel and Muster's first line takes 36 % of Muster's time (for each ACK a buffer, an object with the sender's address and the entry into JavaScript), the kernel's sending 24 %, its receiving and waiting 15 %, Node's part of sending 6 %, and Muster's own code 5 %. Client and server take turns at every block, so the difference shows in full. On another machine (2026-11-21) a block cost 12 µs, 4 of them in Node, and the ratios were 0.80 to 1.09; why Node's part costs five times as much on this machine was not found. Muster's code is not the cause: on the machine of this table a minimal server of thirty lines in Node, without policy, events or log, made 28 to 38 MB/s with one client and 46 to 60 with 50, while Muster made 26 to 28 and 52 to 53, and atftpd 47 to 59 and 83 to 95.";
const MISSED_WINDOWED =
  "perf of the sending threads, 50 clients, 1 MiB: the kernel's sending takes 36 %, Node's part of sending 20 % (one request object for each packet), Node's receiving 9 %, the garbage collector 5 %, moving the file's octets behind their headers 5 %, reading the file 3 %, and the rest of Muster's own code some 3 %. A packet costs 2.4 to 2.8 µs in Node and 4.5 to 5 in the kernel with one client (atftpd: 0.5 and 5.5 to 5.8), and 5.4 to 6.4 and 6 with 50 clients, which begin a new transfer every megabyte. Each packet wakes a client that preempts the thread on the same two processors; that does not happen to atftpd, whose threads (one per client) sleep between windows. With nice -10 the rate was half as high again. Four or eight threads instead of two, and Node's own batching of datagrams, changed nothing beyond the noise. A minimal server in Node made 155 to 170 MB/s with one client and 136 to 165 with 50, while Muster made 190 to 194 and 143 to 153.";

/** MB/s of all clients together. Each fetches `size` MiB `times` times, one after the other. */
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
    // tftpd-hpa does not support windowsize.
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
    'atftp clients in another namespace fetch whole files. The server is the shipped command with 10,000 known machines, events, metrics and log.',
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
