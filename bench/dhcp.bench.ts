/** Four-message DHCP exchanges with leases on disk: Muster, Kea and dnsmasq under perfdhcp. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BenchCase, type BenchSuite, percentile } from './compare.ts';
import {
  type DhcpServer,
  load,
  residentMiB,
  saturation,
  startDnsmasq,
  startKea,
  startOurs,
  stop,
} from './dhcp-servers.ts';

/**
 * Where the first search for the highest rate begins, in exchanges a second; later rounds begin
 * near the last result.
 */
const BEGIN = { muster: 3000, kea: 3000, dnsmasq: 200 } as const;
/**
 * After this many, memory holds as many events as it may (200,000), and the heap has grown to the
 * size that they need.
 */
const WARM_UP_EXCHANGES = 200_000;
const MEASURED_EXCHANGES = 100_000;

/**
 * Measured with a warm server, `--trace-gc-nvp` and spans of four seconds (docs/decisions/0025).
 */
const P99_IF_MISSED =
  'At 6,500 exchanges a second on a quiet machine it was 3 to 7 ms, caused by scavenges (three a second, 3 ms each, plus the packets that ' +
  'queue meanwhile), and 20 to 60 ms in the rare span with a full garbage collection. Kea, which has no garbage collector, had 0.4 to 1 ms. ' +
  'Where others use the host too it is more, since the main thread waits for a processor: the load generator uses all of one of the two. In ' +
  'the first three seconds after the start, while code is compiled and every client opens its session, it was 39 to 153 ms. A young ' +
  'generation of the heap of 64 MiB changes nothing (35.9 ms instead of 36.0 on a slower host).';

const MEMORY_IF_MISSED =
  'Resident memory rises and falls with full garbage collections (the heap may grow to twice the size in use before one). ' +
  'Runs on one machine gave -73 to 35 MiB when the heap was allowed to grow to three times that size.';

interface Place {
  readonly what: string;
  readonly home: string;
  readonly dhcpServers: readonly DhcpServer[];
}

async function openAt(what: string, home: string): Promise<Place> {
  const dhcpServers: DhcpServer[] = [];
  for (const begin of [startOurs, startKea, startDnsmasq])
    dhcpServers.push(await begin(join(home, begin.name), what));
  return { what, home, dhcpServers };
}

/**
 * Measures the highest rate that a server completes, and keeps it in `found` for the next round and
 * for the delays at half of it.
 */
function highest(found: Map<string, number>, dhcpServer: DhcpServer): () => Promise<{ rate: number }> {
  return async () => {
    const before = found.get(dhcpServer.name);
    const from = before === undefined ? BEGIN[dhcpServer.kind] : Math.round(before * 0.7);
    const rate = await saturation(dhcpServer, from);
    found.set(dhcpServer.name, Math.max(rate, before ?? 0));
    return { rate };
  };
}

function rates(place: Place, found: Map<string, number>, about: string): BenchCase {
  const [ours, kea, dnsmasq] = place.dhcpServers as [DhcpServer, DhcpServer, DhcpServer];
  return {
    figures: {
      rate: {
        name: `DHCP exchanges, ${about}`,
        unit: '1/s',
        better: 'more',
        aimRatio: { 'Kea (memfile)': 1, 'dnsmasq (lease file)': 10 },
      },
    },
    ours: highest(found, ours),
    peers: { 'Kea (memfile)': highest(found, kea), 'dnsmasq (lease file)': highest(found, dnsmasq) },
  };
}

function delays(place: Place, found: Map<string, number>): BenchCase {
  const [ours, kea] = place.dhcpServers as [DhcpServer, DhcpServer];
  const measure = (dhcpServer: DhcpServer) => async () => {
    const half = Math.max(100, Math.round((found.get(dhcpServer.name) ?? BEGIN[dhcpServer.kind]) / 2));
    const { delays: all } = await load(dhcpServer, half, 3, true);
    return { p50: percentile(all, 0.5), p99: percentile(all, 0.99) };
  };
  return {
    figures: {
      p99: {
        name: 'DHCP answer at half of saturation, p99',
        unit: 'ms',
        better: 'less',
        aim: 2,
        ifMissed: P99_IF_MISSED,
      },
      p50: { name: 'DHCP answer at half of saturation, p50', unit: 'ms', better: 'less' },
    },
    ours: measure(ours),
    peers: { 'Kea (memfile)': measure(kea) },
  };
}

/**
 * Makes `count` exchanges at a rate that any host can keep up with; resolves to the median of the
 * resident memory meanwhile (MiB), since single values vary by some 50 with garbage collection.
 */
async function exchange(dhcpServer: DhcpServer, count: number): Promise<number> {
  const resident: number[] = [];
  for (let done = 0; done < count; ) {
    const { completed } = await load(dhcpServer, 2000, 10);
    if (completed < 1000)
      throw new Error(`${dhcpServer.name} completed ${completed} exchanges in 10 s:\n${dhcpServer.output()}`);
    done += completed;
    resident.push(residentMiB(dhcpServer));
  }
  return percentile(resident, 0.5);
}

function memory(place: Place): BenchCase {
  const ours = place.dhcpServers[0]!;
  return {
    rounds: 1,
    figures: {
      growth: {
        name: 'Resident memory, growth over 100,000 DHCP exchanges',
        unit: 'MiB',
        better: 'less',
        aim: 32,
        ifMissed: MEMORY_IF_MISSED,
      },
      resident: { name: 'Resident memory after 400,000 DHCP exchanges', unit: 'MiB', better: 'less' },
    },
    ours: async () => {
      await exchange(ours, WARM_UP_EXCHANGES);
      const before = await exchange(ours, MEASURED_EXCHANGES);
      const resident = await exchange(ours, MEASURED_EXCHANGES);
      return { growth: resident - before, resident };
    },
  };
}

export const suite: BenchSuite = {
  about:
    'perfdhcp, as a relay, plays 20,000 clients; 10,000 of them are known machines with a profile. Every answer has PXE options; conflict ' +
    'probes are off and events are on. In memory: all servers have their lease files on tmpfs. On disk: Muster syncs before it answers; Kea ' +
    'and dnsmasq do not.',
  async open() {
    const home = mkdtempSync(join(tmpdir(), 'muster-bench-dhcp-'));
    const memoryHome = mkdtempSync('/run/muster-bench-dhcp-');
    const disk = await openAt('disk', home);
    const inMemory = await openAt('mem', memoryHome);
    const found = new Map<string, number>();
    return {
      cases: [
        rates(inMemory, found, 'lease files in memory'),
        rates(disk, found, 'lease files on disk'),
        delays(disk, found),
        memory(disk),
      ],
      close: async () => {
        for (const { dhcpServers } of [disk, inMemory])
          for (const dhcpServer of dhcpServers) await stop(dhcpServer);
        for (const directory of [home, memoryHome]) rmSync(directory, { recursive: true });
      },
    };
  },
};
