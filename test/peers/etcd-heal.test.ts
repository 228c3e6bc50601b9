/**
 * A dead member of etcd is replaced by a spare, with the real agent, real etcd and BMCs. A client
 * writes all the time, and the dead machine comes back. See docs/life.md.
 */
import { expect, test } from 'vitest';
import { startVirtualBmc, type VirtualBmc } from '../../src/lab/bmc/virtual-bmc.server.ts';
import { callApi } from './etcd/api.ts';
import { CLUSTER, type Machine, type Name, PATIENCE_S, type Rack, until, withRack } from './etcd/rack.ts';

const TIMEOUT = 1_200_000;
const HEALED = CLUSTER.replace(
  '  kubernetes:\n',
  '  spares: {selector: {labels: {role: spare}}, after: 1m}\n  kubernetes:\n',
);

/** The machine that has this hardware now, after documents may have exchanged it. */
async function holderOf(rack: Rack, hardware: string): Promise<Machine> {
  for (const machine of Object.values(rack.machines)) {
    const { text } = await callApi(rack.host.socket, 'GET', `/v1/machines/${machine.name}`);
    if ((JSON.parse(text) as { spec: { macs: string[] } }).spec.macs[0] !== hardware) continue;
    const now = Object.values(rack.machines).find((one) => one.hardware === hardware)!;
    if (now !== machine) machine.exchange(now);
    return machine;
  }
  throw new Error(`no document has ${hardware}`);
}

/** A BMC before the hardware of a machine. */
async function bmcOf(rack: Rack, name: Name): Promise<VirtualBmc> {
  const hardware = rack.machines[name].hardware;
  const holder = () => Object.values(rack.machines).find((one) => one.hardware === hardware)!;
  const options = { protocol: 'ipmi', ...rack.bmcAt(name), user: 'ada', password: 'secret-of-ada' } as const;
  return startVirtualBmc(options, {
    get on() {
      return holder().on;
    },
    // The firmware takes its time; the BMC does not.
    async start() {
      void holderOf(rack, hardware).then((machine) => machine.powerOn());
    },
    cut: () => holder().powerOff(),
    shutDown: () => holder().powerOff(),
    listen: () => () => {},
    type: () => {},
  });
}

async function withBmcs(rack: Rack, names: readonly Name[], play: () => Promise<void>): Promise<void> {
  const bmcs = await Promise.all(names.map((name) => bmcOf(rack, name)));
  try {
    await play();
  } finally {
    await Promise.all(bmcs.map((bmc) => bmc.close()));
  }
}

const change = async (rack: Rack) =>
  JSON.parse((await callApi(rack.host.socket, 'GET', '/v1/clusters/one/change')).text) as {
    readonly kind?: string;
    readonly step?: string;
    readonly state?: string;
    readonly ended?: { readonly as: string };
    readonly holding?: { readonly code: string };
  };
const state = async (rack: Rack): Promise<string> =>
  `${JSON.stringify(await change(rack), undefined, 1)}\n${(await rack.muster('events', 'm3')).output}\n${await rack.state()}`;

/** Three members are founded and written to, and the spare is known. */
async function begun(rack: Rack): Promise<void> {
  await rack.machines.m4.show();
  rack.writer.start();
  await Promise.all(rack.all.map((machine) => machine.powerOn()));
  await rack.healthy(3 * PATIENCE_S);
  await until('writes are acknowledged', () => rack.writer.acknowledged.size > 100, rack.state);
}

const isDone = (rack: Rack) =>
  until(
    'the replacement is done',
    async () => (await change(rack)).ended?.as === 'done',
    () => state(rack),
    2 * PATIENCE_S,
  );

const BMCS = ['m1', 'm2', 'm3', 'm4'] as const;
test(
  'a dead member of etcd is replaced by a spare without a hand, no acknowledged write is lost, and the dead one comes back and is held',
  { timeout: TIMEOUT },
  withRack(
    (rack) =>
      withBmcs(rack, BMCS, async () => {
        await begun(rack);
        const { m1, m3, m4 } = rack.machines;
        const dead = m3.hardware;
        await m3.powerOff();
        await until(
          'its replacement begins',
          async () => (await change(rack)).kind === 'heal',
          () => state(rack),
          2 * PATIENCE_S,
        );
        // The boot host loses its power in the middle, and goes on.
        await rack.host.restart();
        await isDone(rack);
        await rack.voters(['m1', 'm2', 'm3'], 2 * PATIENCE_S);
        expect(m4.hardware).toBe(dead);
        expect(m3.hardware).not.toBe(dead);
        expect((await rack.muster('events', 'm3')).output).toMatch(/machine\.replaced/);
        expect((await rack.muster('machine', 'life', 'm4')).output).toMatch(
          /m4 is taken-out[\s\S]*what m3 was/,
        );

        // With its old disk, its old certificate and its data, the dead one starts by itself.
        await m4.startFromDisk();
        await until(
          'its agent is refused',
          async () =>
            /agent\.refused.*not_current/.test((await rack.muster('events', 'm3', 'm4')).output) ||
            /E_AGENT_CERTIFICATE|certificate/.test(m4.read('/run/agent.log') ?? ''),
          () => state(rack),
        );
        expect(m4.has('/var/lib/muster/etcd/member')).toBe(true);
        await rack.nothingLost(['m1', 'm2', 'm3']);
        await m4.powerOff();
        expect(await m4.show()).toMatch(/taken-out|not in use|not_in_use/);
        expect(rack.writer.acknowledged.size).toBeGreaterThan(1000);
        expect(await rack.writer.missing(m1)).toEqual([]);
      }),
    { document: 'api', cluster: HEALED, bmcs: BMCS },
  ),
);
