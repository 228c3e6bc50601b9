/**
 * A cluster of a thousand machines: making all its keys, certificates and plans, making one plan,
 * and all machines arriving.
 */
import { type BootHost, openBootHost } from '../src/lab/simulated/boot-host.files.ts';
import { MEMBERS } from '../src/lab/simulated/documents.files.ts';
import type { FleetResult } from '../src/lab/simulated/fleet.files.ts';
import { byKubeadm, byOpenssl, KUBEADM } from './cluster-peers.ts';
import { type BenchMachine, makeMachines, type OpenedPlanner, openPlanner } from './cluster-planner.ts';
import { type BenchCase, type BenchSuite, median, percentile } from './compare.ts';
import { stallFlags, stalls } from './stalled.ts';

const WORKERS = 1000;
const FEW = 10;
/** Machines served concurrently; their commits share an fsync. */
const CONCURRENCY = 16;
/** Power-ons a second. The server and the machines share two processors. */
const PER_SECOND = 10;

/** Runs `work` for all, {@link CONCURRENCY} at a time. */
async function forAll<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < all.length) await work(all[next++]!);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

/** Seconds from an empty store to every certificate in the ledger and every plan encoded. */
async function serveAll(machines: readonly BenchMachine[]): Promise<number> {
  const planner = await openPlanner(machines);
  try {
    const began = performance.now();
    await planner.pki.found('_muster');
    // A member's request makes the cluster's keys; workers before it would wait.
    await planner.serve(machines[0]!);
    await forAll(machines.slice(1), (machine) => planner.serve(machine));
    return (performance.now() - began) / 1000;
  } finally {
    await planner.close();
  }
}

/** Makes plans one after the other; resolves to the milliseconds of each. */
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
  const host = await openBootHost(size, { nodeFlags: stallFlags() });
  try {
    return await run(host);
  } finally {
    await host.close();
  }
}

/**
 * Powers on all machines once, control planes first: the cluster's keys are made when all three of
 * them have asked.
 */
async function arrive(size: number): Promise<Record<string, number>> {
  return withBootHost(size, async (host) => {
    await stalls(host.pid);
    const result = await host.powerOn({ machines: host.machines, perSecond: PER_SECOND, keep: false });
    const { maxMs, p99Ms } = await stalls(host.pid);
    return { ...figuresOf(result), stall: maxMs, turn: p99Ms };
  });
}

function figuresOf({ machines, steps, cut }: FleetResult): Record<string, number> {
  const workers = machines.slice(MEMBERS).map(({ waitedMs }) => waitedMs);
  const tenth = Math.floor(workers.length / 10);
  return {
    p50: median(workers),
    p99: percentile(workers, 0.99),
    // Both groups arrive when code is compiled; during the last, all others send heartbeats.
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
      name: `Time a machine waits for answers, power-on to rest, ${WORKERS} at ${PER_SECOND}/s, p50`,
      unit: 'ms',
      better: 'less',
      aimRatio: { [`${FEW} machines`]: 1.2 },
    },
    p99: {
      name: `Time a machine waits for answers, power-on to rest, ${WORKERS} at ${PER_SECOND}/s, p99`,
      unit: 'ms',
      better: 'less',
    },
    growth: {
      name: 'p50 of the last hundred workers, compared with the second hundred',
      unit: 'ratio',
      better: 'less',
      aim: 1.2,
      ifMissed:
        'Each agent polls every 15 s with a new handshake. While the last hundred arrive, the machines that already run make some 60 handshakes ' +
        'a second; while the second hundred arrive, 7. Both ends of every handshake share these two processors. Tickets and facts took no longer ' +
        'than with ten machines (p50 over all). It was not measured how much remains with the machines on another host.',
    },
    dhcp: { name: 'DHCP exchange while machines arrive, p99', unit: 'ms', better: 'less' },
    redeem: {
      name: 'Ticket exchanged for a certificate, with its handshake, p50',
      unit: 'ms',
      better: 'less',
    },
    poll: {
      name: 'Poll with facts, answered with a plan, with its handshake, p50',
      unit: 'ms',
      better: 'less',
    },
    configuration: {
      name: 'One document of the first configuration, p50',
      unit: 'ms',
      better: 'less',
      aim: 20,
    },
    cut: { name: 'Connections cut before an answer', unit: 'in all', better: 'less', aim: 0 },
    stall: {
      name: 'Longest time that the main thread is blocked while machines arrive',
      unit: 'ms',
      better: 'less',
    },
    turn: { name: 'Time that the main thread is blocked, p99 of turns', unit: 'ms', better: 'less' },
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
    'A cluster of three control planes and a thousand workers. Keys (P-256) and plans are made in the process of the benchmark, with a durable store. Machines arrive at the shipped command: they are simulated in another process, from DHCP to heartbeats (src/lab/simulated), on the same two processors.',
  async open() {
    return { cases: [all, one, arriving], close: async () => {} };
  },
};
