/** Machines beyond their documents. */
import { z } from 'zod';
import {
  type Contracts,
  fault,
  labelledPart,
  listOf,
  names,
  on,
  reason,
  texts,
  time,
  word,
} from './contract.ts';
import { applied, machineStatus } from './documents.ts';
import { event } from './events.ts';
import { verdict } from './timeline.ts';

const arch = z.enum(['x86_64', 'aarch64']);
const trust = z.strictObject({ tier: z.enum(['segment', 'approved', 'tpm']), from: z.string() });

/** A machine in the answer to an order. */
const known = {
  name: z.string(),
  spec: z.looseObject({}).optional(),
  labels: texts.optional(),
  status: machineStatus,
};

const decision = z.strictObject({
  kind: z.enum(['ignore', 'loader', 'script', 'discovery', 'disk', 'hold']),
  reason,
  loader: z.string().optional(),
  profile: z.string().optional(),
  image: z.string().optional(),
});

const explanation = z
  .strictObject({
    subject: z.string(),
    steps: z.array(z.strictObject({ step: z.string(), result: z.string(), reason: reason.optional() })),
    recognised: z.strictObject({
      kind: z.string(),
      matches: z.array(z.strictObject({ name: z.string(), score: z.number(), because: z.array(z.string()) })),
    }),
    profile: z.string().optional(),
    image: z.string().optional(),
    decision: decision.meta({ description: 'What its script does.' }),
    answers: z.record(z.string(), decision).meta({
      description: 'What DHCP answers, by the software that asks, e.g. `iPXE`.',
    }),
    phase: z.string().optional(),
    bootsWithoutReady: z.int(),
    session: z.string().optional(),
    remedy: z.string().optional().meta({ description: 'The command or change that ends a hold.' }),
    faults: z.array(z.string()),
    events: z.array(event.extend({ at: z.int() })),
    verdicts: z.array(verdict),
  })
  .meta({ id: 'Explanation' });

const waiting = {
  machine: z.string(),
  key: z.string(),
  address: z.string(),
  known: z.boolean(),
  replaces: z.boolean(),
  since: time,
  trust,
  code: z.string().optional(),
};

export const MACHINES = {
  'GET /v1/leases': {
    access: 'view',
    within: true,
    summary: 'Lists leases.',
    query: z.strictObject({ network: word('Only of this Network.'), ...labelledPart }),
    answer: listOf(
      'LeaseList',
      z
        .strictObject({
          network: z.string(),
          address: z.string(),
          mac: z.string(),
          state: z.string(),
          machine: z.string().optional(),
          hostname: z.string().optional(),
          expiresAt: time,
        })
        .meta({ id: 'Lease' }),
    ),
  },
  'GET /v1/explain': {
    access: 'view',
    within: true,
    summary: 'Explains what a machine would get now and why.',
    query: z.strictObject({
      machine: word('Its name; this or `mac` is needed.'),
      mac: word('Its hardware address.'),
      network: word('The Network from which it boots.'),
      arch: arch.optional(),
      firmware: z.enum(['bios', 'uefi']).optional(),
    }),
    answer: explanation,
  },
  'GET /v1/render/:machine': {
    access: 'view',
    summary: "Shows a machine's first-boot configuration, with the origin of each value.",
    answer: z.strictObject({
      machine: z.string(),
      format: z.string(),
      files: texts,
      kernelArguments: z.array(z.string()),
      merged: z.looseObject({}),
      provenance: z.record(
        z.string(),
        z.strictObject({ layer: z.string(), document: z.string(), path: z.string() }),
      ),
    }),
  },
  'POST /v1/machines/add': {
    access: 'operate',
    summary: 'Makes a Machine.',
    body: z.strictObject({
      mac: z.string(),
      profile: z.string().optional(),
      name: z.string().optional(),
      address: z.string().optional(),
      cluster: z.string().optional(),
    }),
    answer: applied.extend({ warnings: z.array(fault) }),
    statuses: [201],
  },
  'POST /v1/machines/:name/accept': {
    access: 'operate',
    summary: 'Accepts a machine that was seen, or lets a held one try again.',
    body: z.strictObject({
      profile: z.string().optional(),
      name: z.string().optional(),
      cluster: z.string().optional(),
      macs: names('Its hardware addresses.'),
    }),
    answer: z.strictObject(known),
  },
  'POST /v1/machines/:name/rearm': {
    access: 'operate',
    summary: "Ends a machine's alarm.",
    query: z.strictObject({ keep: on('Its certificate stays; else the next key gets a new one.') }),
    answer: z.strictObject({ ...known, endedAlarm: z.string().optional() }),
  },
  'GET /v1/waiting': {
    access: 'view',
    within: true,
    summary: 'Lists machines whose keys wait for an approval.',
    query: z.strictObject({
      cluster: word('Only of this cluster.'),
      codes: on('Shows what their consoles show.'),
      ...labelledPart,
    }),
    answer: listOf(
      'WaitingList',
      z
        .strictObject({
          ...waiting,
          cluster: z.string().optional(),
          macs: z.array(z.string()),
          serial: z.string().optional(),
          manufacturer: z.string().optional(),
          product: z.string().optional(),
        })
        .meta({ id: 'Waiting' }),
    ),
  },
  'POST /v1/machines/:name/approve': {
    access: 'operate',
    summary: 'Approves the waiting key of a machine.',
    body: z.strictObject({
      code: z.string().optional().meta({ description: 'As the console of the machine shows it.' }),
    }),
    answer: z.strictObject(waiting),
  },
  'POST /v1/machines/:name/quarantine': {
    access: 'administer',
    second: true,
    summary: 'Puts a machine in quarantine. It gets nothing until it is released.',
    body: z.strictObject({
      reason: z.string().optional(),
      pods: z
        .string()
        .optional()
        .meta({ description: '`delete`: an operator confirms that its pods are deleted.' }),
    }),
    answer: z.strictObject({
      ...known,
      etcd: z
        .strictObject({ cluster: z.string(), stays: z.string().optional() })
        .optional()
        .meta({ description: 'What becomes of its member of etcd.' }),
    }),
  },
  'POST /v1/machines/:name/release': {
    access: 'administer',
    summary: 'Ends the quarantine of a machine; its certificate stays revoked.',
    answer: z.strictObject(known),
  },
  'GET /v1/machines/:name/plan': {
    access: 'view',
    summary: 'Shows the plan that a machine of a cluster gets once it has its certificates.',
    answer: z.strictObject({ machine: z.string(), cluster: z.string(), plan: z.string() }),
  },
} as const satisfies Contracts;
