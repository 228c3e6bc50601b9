/**
 * A cluster of a thousand machines: its keys, certificates and plans at once, one plan, and all
 * machines arriving.
 */
import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { type BootHost, openBootHost } from '../test/simulated/boot-host.ts';
import { MEMBERS } from '../test/simulated/documents.ts';
import type { FleetResult } from '../test/simulated/fleet.ts';
import { byKubeadm, byOpenssl, KUBEADM } from './cluster-peers.ts';
import { type BenchMachine, makeMachines, type OpenedPlanner, openPlanner } from './cluster-planner.ts';
import { type BenchCase, type BenchSuite, median, percentile } from './compare.ts';

const WORKERS = 1000;
const FEW = 10;
/** Machines served at once: those whose commits share an fsync. */
const AT_ONCE = 16;
/** Power-ons a second. Two processors carry server and machines. */
const PER_SECOND = 10;
const STALL = new URL('../.cache/bench-stall.json', import.meta.url).pathname;
const PRELOAD = new URL('stall.ts', import.meta.url).href;

/** Runs `work` for all, {@link AT_ONCE} at a time. */
async function forAll<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  let next = 0;
  const take = async () => {
    while (next < all.length) await work(all[next++]!);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, take));
}

/** Seconds from an empty store to every certificate in the ledger and every plan encoded. */
async function serveAll(machines: readonly BenchMachine[]): Promise<number> {
  const planner = await openPlanner(machines);
  try {
    const began = performance.now();
    await planner.pki.found('_muster');
    // A member founds the cluster's keys; workers before it would wait.
    await planner.serve(machines[0]!);
    await forAll(machines.slice(1), (machine) => planner.serve(machine));
    return (performance.now() - began) / 1000;
  } finally {
    await planner.close();
  }
}

/** Milliseconds of one plan each, one after the other. */
async function planTimes(
  planner: OpenedPlanner,
  machines: readonly BenchMachine[],
  rounds: number,
): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++)
    for (const machine of machines) {
      const began = performance.now();
      await planner.plan(machine);
      times.push(performance.now() - began);
    }
  return times;
}

async function plans(machines: readonly BenchMachine[]): Promise<Record<string, number>> {
  const planner = await openPlanner(machines);
  try {
    await planner.pki.found('_muster');
    await planner.serve(machines[0]!);
    await forAll(machines.slice(1), (machine) => planner.serve(machine));
    const members = await planTimes(planner, machines.slice(0, MEMBERS), 100);
    const workers = await planTimes(planner, machines.slice(MEMBERS, MEMBERS + 300), 1);
    return {
      member: median(members),
      memberSlow: percentile(members, 0.99),
      worker: median(workers),
      workerSlow: percentile(workers, 0.99),
    };
  } finally {
    await planner.close();
  }
}

async function withBootHost<T>(size: number, run: (host: BootHost) => Promise<T>): Promise<T> {
  process.env.MUSTER_BENCH_STALL = STALL;
  const host = await openBootHost(size, `--import=${PRELOAD}`);
  try {
    return await run(host);
  } finally {
    await host.close();
  }
}

/** Since the last time. */
async function stalls(host: BootHost): Promise<{ readonly maxMs: number; readonly p99Ms: number }> {
  rmSync(STALL, { force: true });
  process.kill(host.pid, 'SIGUSR2');
  for (let waited = 0; waited < 10_000; waited += 20) {
    await pause(20);
    try {
      return JSON.parse(readFileSync(STALL, 'utf8')) as { maxMs: number; p99Ms: number };
    } catch {
      // Not written yet.
    }
  }
  throw new Error('the server does not say how long it stood still');
}

/**
 * All machines once, control planes first: the keys of the cluster are made when all three asked.
 */
async function arrive(size: number): Promise<Record<string, number>> {
  return withBootHost(size, async (host) => {
    await stalls(host);
    const result = await host.powerOn({ machines: host.machines, perSecond: PER_SECOND, keep: false });
    const { maxMs, p99Ms } = await stalls(host);
    return { ...figuresOf(result), stall: maxMs, turn: p99Ms };
  });
}

function figuresOf({ machines, steps, cut }: FleetResult): Record<string, number> {
  const workers = machines.slice(MEMBERS).map(({ waitedMs }) => waitedMs);
  const tenth = Math.floor(workers.length / 10);
  return {
    p50: median(workers),
    p99: percentile(workers, 0.99),
    // Both after code was compiled; the last ones have all others' heartbeats beside them.
    growth: median(workers.slice(-tenth)) / median(workers.slice(tenth, 2 * tenth)),
    dhcp: percentile(steps.dhcp, 0.99),
    poll: median(steps.poll),
    redeem: median(steps.redeem),
    configuration: median(steps.configuration),
    cut,
  };
}

const all: BenchCase = {
  figures: {
    all: {
      name: `Keys, certificates and plans of 3 + ${WORKERS} machines`,
      unit: 's',
      better: 'less',
      aim: 10,
    },
  },
  ours: async () => ({ all: await serveAll(makeMachines(MEMBERS + WORKERS)) }),
  peers: {
    'openssl, certificates only': async () => ({ all: await byOpenssl(makeMachines(MEMBERS + WORKERS)) }),
    ...(KUBEADM !== undefined && {
      'kubeadm init phase': async () => ({ all: await byKubeadm(makeMachines(MEMBERS + WORKERS)) }),
    }),
  },
  rounds: 3,
};

const one: BenchCase = {
  figures: {
    member: { name: 'Plan of a control plane, 1,003 machines, p50', unit: 'ms', better: 'less', aim: 20 },
    memberSlow: { name: 'Plan of a control plane, 1,003 machines, p99', unit: 'ms', better: 'less', aim: 20 },
    worker: { name: 'Plan of a worker, 1,003 machines, p50', unit: 'ms', better: 'less', aim: 20 },
    workerSlow: { name: 'Plan of a worker, 1,003 machines, p99', unit: 'ms', better: 'less', aim: 20 },
  },
  ours: () => plans(makeMachines(MEMBERS + WORKERS)),
  rounds: 3,
};

const arriving: BenchCase = {
  figures: {
    p50: {
      name: `A machine's waiting for answers, power-on to rest, ${WORKERS} at ${PER_SECOND}/s, p50`,
      unit: 'ms',
      better: 'less',
      aimRatio: { [`${FEW} machines`]: 1.2 },
    },
    p99: { name: 'The same, p99', unit: 'ms', better: 'less' },
    growth: {
      name: 'p50 of the last hundred workers beside the second hundred',
      unit: 'ratio',
      better: 'less',
      aim: 1.2,
      ifMissed:
        'An agent asks every 15 s, with a handshake of its own: the last hundred arrive beside some 60 handshakes a second of those that run ' +
        'already, the second hundred beside 7, and both ends of all of them are on these two processors. Tickets and facts took no longer than ' +
        'with ten machines (p50 over all). Suspected, not measured: what is left of it with the machines elsewhere.',
    },
    dhcp: { name: 'A DHCP exchange meanwhile, p99', unit: 'ms', better: 'less' },
    redeem: { name: 'A ticket for a certificate, with its handshake, p50', unit: 'ms', better: 'less' },
    poll: { name: 'Facts for a plan, with the handshake, p50', unit: 'ms', better: 'less' },
    configuration: {
      name: 'A document of the first configuration, p50',
      unit: 'ms',
      better: 'less',
      aim: 20,
    },
    cut: { name: 'Connections cut before an answer', unit: 'in all', better: 'less', aim: 0 },
    stall: {
      name: 'Longest time that the main thread did not turn, while they arrive',
      unit: 'ms',
      better: 'less',
    },
    turn: { name: 'The same, 99 of 100 turns', unit: 'ms', better: 'less' },
  },
  ours: () => arrive(MEMBERS + WORKERS),
  peers: {
    [`${FEW} machines`]: async () => {
      const { growth: _growth, cut: _cut, ...rest } = await arrive(FEW);
      return rest;
    },
  },
  rounds: 3,
};

export const suite: BenchSuite = {
  about:
    'A cluster of three control planes and a thousand workers. Keys and plans: in process, over a durable store, P-256. Arriving: the shipped command, and machines in another process that go the whole way from DHCP to heartbeats (test/simulated), on the same two processors.',
  async open() {
    return { cases: [all, one, arriving], close: async () => {} };
  },
};
