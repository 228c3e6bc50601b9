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
  type Placement,
  placed,
  processorMicros,
  SERVER,
  startDaemon,
  startMuster,
  writeDocuments,
} from './served.ts';

const MIB = 1024 * 1024;
const PORTS = { ours: 69, atftpd: 6970, 'tftpd-hpa': 6971 } as const;
const KNOWN = 10_000;

const MISSED =
  'Rates of one client are decided by where the scheduler puts the two sides: pinned to one processor, Muster sends three times as much as ' +
  'atftpd with windows of 16 blocks. On two processors the client (atftp, one system call for each block) is the slower side and uses all of ' +
  'its own, so compare the processor time per block: Muster needs a third of what atftpd needs. With one block a window nearly all of that ' +
  'time is in the kernel (91 % in perf of a prototype), and batching gains little; a transfer of 1 MiB also pays for being given to the worker.';

type Server = keyof typeof PORTS;

interface Load {
  readonly size: number;
  readonly clients: number;
  readonly window: number;
  /** How often each client fetches the file. */
  readonly times: number;
  readonly placement?: Placement;
}

const BLOCK = 1468;

/**
 * MB/s of all clients together, and the server's processor time per block. Each client fetches
 * `size` MiB `times` times, one after the other.
 */
async function measure(
  server: Server,
  pid: number,
  { size, clients, window, times, placement = 'any' }: Load,
): Promise<Record<string, number>> {
  return placed(pid, placement, async (prefix) => {
    const fetchOne = `atftp --option 'blksize ${BLOCK}' --option 'windowsize ${window}' -g -r ${size}mib -l /dev/null ${SERVER} ${PORTS[server]}`;
    const script = `
    fetch() { for i in $(seq ${times}); do ${fetchOne} >/dev/null 2>&1 || exit 1; done; }
    pids=; for c in $(seq ${clients}); do fetch & pids="$pids $!"; done
    for p in $pids; do wait "$p" || exit 1; done`;
    const used = processorMicros(pid);
    const began = performance.now();
    await asClient([...prefix, 'sh', '-c', script]);
    const seconds = (performance.now() - began) / 1000;
    const octets = size * MIB * clients * times;
    const rate = octets / 1e6 / seconds;
    // tftpd-hpa sends from a process per transfer, whose processor time `pid` does not have.
    if (server === 'tftpd-hpa') return { rate };
    return { rate, block: (processorMicros(pid) - used) / (octets / BLOCK) };
  });
}

const PLACES: Readonly<Record<Placement, string>> = {
  any: '',
  one: ', both on one processor',
  two: ', on two processors',
};

/** The ratios to reach. A single client with one block a window depends on placement alone. */
function aimsOf({ window, clients, placement = 'any' }: Load): Readonly<Record<string, number>> | undefined {
  if (window > 1) return { atftpd: 2 };
  if (clients > 1) return { atftpd: 1, 'tftpd-hpa': 1 };
  return placement === 'any' ? undefined : { atftpd: 0.95, 'tftpd-hpa': 0.95 };
}

function benchCase(pids: Readonly<Record<Server, number>>, load: Load, rounds?: number): BenchCase {
  const { size, clients, window, placement = 'any' } = load;
  const who = clients === 1 ? 'one client' : `${clients} clients`;
  const name = `TFTP ${size} MiB, ${who}, windowsize ${window}${PLACES[placement]}`;
  const aimRatio = aimsOf(load);
  const rate: Figure = {
    name,
    unit: 'MB/s',
    better: 'more',
    ifMissed: MISSED,
    ...(aimRatio && { aimRatio }),
  };
  const block: Figure = {
    name: `${name}: processor time of the server per block`,
    unit: 'µs',
    better: 'less',
  };
  // tftpd-hpa does not support windowsize.
  const peers = window === 1 ? (['atftpd', 'tftpd-hpa'] as const) : (['atftpd'] as const);
  return {
    figures: { rate, block },
    ...(rounds === undefined ? {} : { rounds }),
    ours: () => measure('ours', pids.ours, load),
    peers: Object.fromEntries(peers.map((peer) => [peer, () => measure(peer, pids[peer], load)])),
  };
}

export const suite: BenchSuite = {
  about:
    'atftp clients in another namespace fetch whole files with blksize 1468. The server is the shipped command with 10,000 known machines, events, metrics and log. Placement decides much, so one client is measured in three ways: where the kernel puts both sides, both on one processor, and on two.',
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
    const [ours, first, second] = daemons.map(({ pid }) => pid) as [number, number, number];
    const pids = { ours, atftpd: first, 'tftpd-hpa': second };
    const one = (load: Load, rounds?: number) => benchCase(pids, load, rounds);
    return {
      cases: [
        one({ size: 1, clients: 1, window: 1, times: 40 }),
        one({ size: 1, clients: 1, window: 16, times: 40 }),
        ...(['any', 'one', 'two'] as const).flatMap((placement) => [
          one({ size: 64, clients: 1, window: 1, times: 1, placement }),
          one({ size: 64, clients: 1, window: 16, times: 2, placement }),
        ]),
        one({ size: 1, clients: 50, window: 1, times: 4 }),
        one({ size: 1, clients: 50, window: 16, times: 4 }),
        one({ size: 64, clients: 50, window: 1, times: 1 }, 1),
        one({ size: 64, clients: 50, window: 16, times: 1 }, 1),
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
