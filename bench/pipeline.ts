/**
 * How much processor time the DHCP pipeline takes for an exchange, in this checkout and in another
 * one, in turns: `node bench/pipeline.ts --against DIRECTORY [--rounds N]`. The time of a process
 * can be compared where others use the host, and rates cannot. Store and machines are in memory.
 */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type * as Kit from '../test/unit/pxe/dhcp/kit.ts';
import { percentile } from './compare.ts';

const EXCHANGES = 40_000;
const CLIENTS = 5_000;
const HERE = new URL('../', import.meta.url).pathname;

const { values } = parseArgs({
  options: {
    against: { type: 'string' },
    rounds: { type: 'string', default: '9' },
    /** Measures one checkout and prints microseconds for an exchange. */
    measure: { type: 'string' },
  },
});

/** Microseconds of processor time for DISCOVER, REQUEST and a renewal of one client. */
async function measure(root: string): Promise<number> {
  const kit = (await import(resolve(root, 'test/unit/pxe/dhcp/kit.ts'))) as typeof Kit;
  const { cidr, ipv4 } = (await import(
    resolve(root, 'src/base/ipv4.ts')
  )) as typeof import('../src/base/ipv4.ts');
  const w = await kit.world({
    networks: [
      kit.network({
        subnet: cidr('10.77.0.0/16'),
        pools: [{ start: ipv4('10.77.1.0'), end: ipv4('10.77.200.0') }],
      }),
    ],
  });
  const exchange = async (n: number): Promise<void> => {
    const fields = { mac: kit.mac(n % CLIENTS), xid: n, options: kit.IPXE! };
    const offer = await w.send(kit.message('DISCOVER', fields));
    const address = [24, 16, 8, 0].map((at) => (offer.reply!.packet.yiaddr >>> at) & 255).join('.');
    await w.send(kit.message('REQUEST', { ...fields, address, server: '10.77.0.1' }));
    const source = { address: ipv4(address), port: 68 };
    const renewed = await w.send(kit.message('REQUEST', { ...fields, ciaddr: address }), { source });
    if (renewed.outcome !== 'renewed') throw new Error(renewed.outcome);
    if (n % 1000 === 0) {
      w.events.length = 0;
      w.asked.length = 0;
    }
  };
  for (let n = 0; n < EXCHANGES / 2; n++) await exchange(n);
  const before = process.cpuUsage();
  for (let n = 0; n < EXCHANGES; n++) await exchange(n);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / EXCHANGES;
}

if (values.measure !== undefined) {
  console.log(await measure(values.measure));
  process.exit(0);
}

const roots = [HERE, ...(values.against === undefined ? [] : [resolve(values.against)])];
const found = roots.map(() => [] as number[]);
for (let round = 0; round < Number(values.rounds); round++)
  for (const n of round % 2 === 0 ? roots.keys() : [...roots.keys()].reverse()) {
    const words = [import.meta.filename, '--measure', roots[n]!];
    found[n]!.push(Number(execFileSync(process.execPath, words, { encoding: 'utf8' })));
  }
for (const [n, root] of roots.entries())
  console.log(`${root}: ${percentile(found[n]!, 0.5).toFixed(1)} µs for an exchange of six messages`);
if (roots.length > 1) {
  const ratios = found[0]!.map((micros, round) => micros / found[1]![round]!);
  console.log(`ratio here / there, median of ${ratios.length} rounds: ${percentile(ratios, 0.5).toFixed(3)}`);
}
