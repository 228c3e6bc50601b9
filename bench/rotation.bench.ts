/**
 * Rotations of keys: the preview for a cluster of a thousand machines, and the transport CA of a
 * boot host with three control planes and a hundred agents: forwards, backwards, in an emergency.
 */
import https from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import type { ChangeView } from '../src/api/operations/changes.ts';
import { type BootHost, openBootHost, type StandingFleet } from '../src/lab/simulated/boot-host.files.ts';
import { SERVER } from '../src/lab/simulated/documents.files.ts';
import type { MachineResult } from '../src/lab/simulated/fleet.files.ts';
import type { BenchCase, BenchSuite } from './compare.ts';
import { openRotations } from './rotation-planner.ts';

const AGENTS = 100;
const MEMBERS = 3;
const PER_SECOND = 20;
const MACHINES = 1000;
/** A rotation that takes longer has failed. */
const PATIENCE_MS = 15 * 60_000;

const preview: BenchCase = {
  figures: {
    preview: {
      name: `Preview of a rotation of all keysets, ${MACHINES.toLocaleString('en')} machines`,
      unit: 's',
      better: 'less',
      aim: 1,
    },
    look: {
      name: `One look at a step of a rotation, ${MACHINES.toLocaleString('en')} machines with evidence`,
      unit: 'ms',
      better: 'less',
    },
  },
  async ours() {
    const rotations = await openRotations(MACHINES);
    try {
      return { preview: await rotations.preview(), look: await rotations.look() };
    } finally {
      await rotations.close();
    }
  },
  rounds: 3,
};

/** A boot host with its machines, which keep polling. */
interface Rack {
  readonly host: BootHost;
  readonly fleet: StandingFleet;
}

async function withRack<T>(run: (rack: Rack) => Promise<T>): Promise<T> {
  const host = await openBootHost(MEMBERS + AGENTS + 1);
  try {
    const machines = host.machines.slice(0, MEMBERS + AGENTS);
    const fleet = await host.keepOn({ machines, perSecond: PER_SECOND, keep: false });
    return await run({ host, fleet });
  } finally {
    await host.close();
  }
}

const shown = (host: BootHost): ChangeView =>
  JSON.parse(host.muster('change', '_muster', '-o', 'json')) as ChangeView;

/** Waits until the rotation has ended or is at a step; resolves to the seconds since `began`. */
async function until(host: BootHost, step: 'end' | string, began: number): Promise<number> {
  while (performance.now() - began < PATIENCE_MS) {
    const view = shown(host);
    if (view.holding) throw new Error(`held: ${view.holding.text}`);
    if (view.ended || (step !== 'end' && view.step === step)) return (performance.now() - began) / 1000;
    await pause(250);
  }
  throw new Error(`not at ${step}: ${JSON.stringify(shown(host).waiting)}`);
}

const order = (host: BootHost, ...more: string[]): number => {
  const began = performance.now();
  host.muster(...more);
  return began;
};

/** Whether the listener accepts a poll with this machine's certificate. */
function isAccepted({ certificate, kept }: MachineResult): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = https.request(
      `https://${SERVER}:8443/agent/poll`,
      { method: 'POST', agent: false, rejectUnauthorized: false, cert: certificate, key: kept!.key },
      (response) => {
        response.resume();
        // The form is empty: 400 says that the certificate was accepted.
        resolve(response.statusCode !== 401);
      },
    );
    request.on('error', reject);
    request.end();
  });
}

async function planned(): Promise<Record<string, number>> {
  return withRack(async ({ host, fleet }) => {
    const minutes = (await until(host, 'end', order(host, 'pki', 'rotate', 'transport-ca'))) / 60;
    order(host, 'pki', 'rotate', 'transport-ca', '--pause-before', 'distrust');
    await until(host, 'distrust', performance.now());
    const back = await until(host, 'end', order(host, 'change', '_muster', 'roll-back'));
    return { minutes, back, lost: (await fleet.end()).length };
  });
}

async function emergency(): Promise<Record<string, number>> {
  return withRack(async ({ host, fleet }) => {
    // A machine that does not ask any more, whose certificate and key somebody has.
    const { machines } = await host.powerOn({
      machines: host.machines.slice(MEMBERS + AGENTS),
      perSecond: 0,
      keep: true,
      until: 'ticket',
    });
    const began = order(host, 'pki', 'distrust', 'transport-ca', '--now', '--confirm', 'muster');
    while (await isAccepted(machines[0]!)) await pause(250);
    const refused = (performance.now() - began) / 1000;
    return { refused, cutOff: (await fleet.end()).length };
  });
}

const own: BenchCase = {
  figures: {
    minutes: {
      name: `The transport CA is replaced, ${MEMBERS} control planes and ${AGENTS} agents`,
      unit: 'min',
      better: 'less',
      aim: 10,
    },
    back: {
      name: 'Its replacement is rolled back before the old one ends',
      unit: 's',
      better: 'less',
      aim: 60,
    },
    lost: { name: 'Agents that lose contact in both', unit: 'in all', better: 'less', aim: 0 },
  },
  ours: planned,
  rounds: 1,
};

const stolen: BenchCase = {
  figures: {
    refused: {
      name: 'Emergency: the listener of agents refuses the old transport CA after',
      unit: 's',
      better: 'less',
      aim: 60,
    },
    cutOff: {
      name: 'Agents that poll every 30 s and are cut off by it',
      unit: 'in all',
      better: 'less',
      aim: 0,
    },
  },
  ours: emergency,
  rounds: 1,
};

export const suite: BenchSuite = {
  about:
    'Rotations of keys. The preview is made in the process of the benchmark. The transport CA is that of the shipped command; its agents are simulated in another process (src/lab/simulated), on the same two processors.',
  async open() {
    return { cases: [preview, own, stolen], close: async () => {} };
  },
};
