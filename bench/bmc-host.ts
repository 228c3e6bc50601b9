/**
 * A process that does with many BMCs what the boot host does, one of two kinds of work: `poll`
 * reads the power of each in a round of 30 s, `on` gives each machine an order at the same time and
 * waits for the ends. Its arguments: WORK PROTOCOL COUNT. It sends the figures.
 */
import { setTimeout } from 'node:timers/promises';
import { systemClock } from '../src/base/clock.ts';
import { silentLog } from '../src/base/log.ts';
import { openConnections } from '../src/bmc/connect.ts';
import { openIpmi } from '../src/bmc/ipmi/client.socket.ts';
import { openPowerOrders, type PowerOrders } from '../src/bmc/orders.ts';
import type { Reach } from '../src/bmc/reach.ts';
import { openRedfish } from '../src/bmc/redfish/client.socket.ts';
import { openMemoryStore } from '../src/store/memory.ts';

/** Where the BMCs of bmc-fleet.ts are, and their account. */
export const FLEET = {
  address: (n: number): string => `127.1.${n >> 7}.${(n & 0x7f) + 1}`,
  port: { ipmi: 9623, redfish: 9443 },
  user: 'muster',
  password: 'a-password-of-20-oct',
} as const;
const ROUND_MS = 30_000;
/** A machine whose power is on shows itself after this. */
const SIGN_MS = 1000;

export interface Figures {
  /** Percent of one processor. */
  readonly processor: number;
  /** What the process took more than before its work. */
  readonly mebibytes: number;
  readonly seconds: number;
}

type Protocol = 'ipmi' | 'redfish';

/** What the boot host has of power, with the BMCs of a fleet after the first one. */
async function openHost(protocol: Protocol): Promise<PowerOrders> {
  const store = openMemoryStore();
  const { user, password, port } = FLEET;
  const credentials = { user, password: { valueFrom: { secret: 'bmc', key: 'password' } } };
  const reach = (machine: string): Reach => {
    return { address: FLEET.address(Number(machine.slice(1))), port: port[protocol], protocol, credentials };
  };
  const connections = await openConnections({
    ...{ store, clock: systemClock, log: silentLog },
    vault: { get: async () => undefined, put: async () => {} },
    secret: () => ({ value: Buffer.from(password), since: 1 }),
    protocols: { ipmi: openIpmi, redfish: openRedfish },
  });
  return openPowerOrders({
    ...{ store, connections, reach, clock: systemClock, log: silentLog },
    events: { record() {} },
    told() {},
    isUefi: () => true,
    signs: {
      of: (_, since) => (Date.now() - since > SIGN_MS ? 'network' : undefined),
      since: () => [],
      close() {},
    },
  });
}
const WORKS = {
  /** The first round also compiles the code, and sees each certificate for the first time. */
  async poll(host: PowerOrders, machines: readonly string[]) {
    const reads = machines.map(async (machine, n) => {
      await setTimeout((n * ROUND_MS) / machines.length);
      const { state, fault } = await host.look(machine);
      if (state !== 'off') throw new Error(`${machine} says ${state}: ${fault}`);
    });
    await Promise.all(reads);
  },
  async on(host: PowerOrders, machines: readonly string[]) {
    await host.give(machines, { want: 'on', boot: 'network', by: 'bench' });
    while (machines.some((machine) => host.last(machine)?.end === undefined)) await setTimeout(50);
    for (const machine of machines) {
      const { end } = host.last(machine)!;
      if (!end?.proved) throw new Error(`${machine}: ${end?.text}`);
    }
  },
};
export type Work = keyof typeof WORKS;

async function main(): Promise<void> {
  const [work, protocol, count] = process.argv.slice(2) as [Work, Protocol, string];
  const machines = Array.from({ length: Number(count) }, (_, n) => `m${n + 1}`);
  const host = await openHost(protocol);
  const idle = process.memoryUsage.rss();
  if (work === 'poll') await WORKS.poll(host, machines);
  const before = process.cpuUsage();
  const began = performance.now();
  await WORKS[work](host, machines);
  const took = performance.now() - began;
  const { user, system } = process.cpuUsage(before);
  process.send?.({
    processor: ((user + system) / 1000 / took) * 100,
    mebibytes: (process.memoryUsage.rss() - idle) / 2 ** 20,
    seconds: took / 1000,
  });
  process.disconnect?.();
}

if (import.meta.main) await main();
