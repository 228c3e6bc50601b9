/**
 * A process that reads the power of many BMCs, as the boot host does, over a round of 30 s. Its
 * arguments: PROTOCOL COUNT. It sends the share of one processor and the memory that it took.
 */
import { setTimeout } from 'node:timers/promises';
import type { Bmc } from '../src/bmc/bmc.ts';
import { openIpmi } from '../src/bmc/ipmi/client.socket.ts';
import { openRedfish } from '../src/bmc/redfish/client.socket.ts';

/** Where the BMCs of bmc-fleet.ts are, and their account. */
export const FLEET = {
  address: (n: number): string => `127.1.${n >> 8}.${(n & 0xff) + 1}`,
  port: { ipmi: 9623, redfish: 9443 },
  user: 'muster',
  password: 'a-password-of-20-oct',
} as const;
export const ROUND_MS = 30_000;

export interface Polled {
  /** Percent of one processor. */
  readonly processor: number;
  readonly mebibytes: number;
}

export function open(protocol: 'ipmi' | 'redfish', n: number): Promise<Bmc> {
  const { user, password, port } = FLEET;
  const access = { address: FLEET.address(n), port: port[protocol], user, password };
  return protocol === 'ipmi' ? openIpmi(access) : openRedfish({ ...access, trust: { pinned() {} } });
}

async function poll(protocol: 'ipmi' | 'redfish', count: number): Promise<void> {
  // The first round also compiles the code; the second one is measured.
  for (let round = 0; round < 2; round++) {
    const before = process.cpuUsage();
    const began = performance.now();
    const reads = Array.from({ length: count }, async (_, n) => {
      await setTimeout((n * ROUND_MS) / count);
      const bmc = await open(protocol, 1 + n);
      const state = await bmc.power();
      await bmc.close();
      if (state !== 'off') throw new Error(`BMC ${n} says ${state}`);
    });
    await Promise.all(reads);
    const { user, system } = process.cpuUsage(before);
    const processor = ((user + system) / 1000 / (performance.now() - began)) * 100;
    if (round === 1) process.send?.({ processor, mebibytes: process.memoryUsage.rss() / 2 ** 20 });
  }
}

if (import.meta.main) {
  await poll(process.argv[2] as 'ipmi' | 'redfish', Number(process.argv[3]));
  process.disconnect?.();
}
