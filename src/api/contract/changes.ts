/** Changes of running clusters: rotations of keys, upgrades, and the agents of machines. */
import { z } from 'zod';
import { type Contracts, dryRun, fault, names, texts, time } from './contract.ts';

const step = z.strictObject({
  name: z.string(),
  sentence: z.string(),
  state: z.enum(['done', 'now', 'next', 'rolled-back']),
  since: time.optional(),
  until: time.optional(),
  machines: z.int().optional().meta({ description: 'How many machines have shown the evidence.' }),
  text: z.string().optional(),
  noReturn: z.boolean().meta({ description: 'The change cannot be rolled back from this step on.' }),
});

export const change = z
  .strictObject({
    cluster: z.string(),
    id: z.string(),
    kind: z.enum(['rotation', 'upgrade', 'roll', 'own-rotation']),
    by: z.string(),
    at: time,
    order: z.unknown().meta({ description: 'What was ordered; its form depends on the kind.' }),
    back: z.boolean().meta({ description: 'It is being rolled back.' }),
    steps: z.array(step),
    step: z.string(),
    paused: z.strictObject({ at: time, by: z.string() }).optional(),
    holding: z.strictObject({ at: time, code: z.string(), text: z.string(), remedy: z.string() }).optional(),
    waiting: texts.meta({ description: 'Machine → what it is waited for; `` is the whole cluster.' }),
    evidence: z
      .record(z.string(), z.strictObject({ at: time, text: z.string() }))
      .meta({ description: 'Machine → what it has shown in this step.' }),
    without: z.array(z.string()),
    notBack: z.string().optional().meta({ description: 'Why it cannot be rolled back.' }),
    ended: z.strictObject({ at: time, as: z.enum(['done', 'rolled-back']) }).optional(),
  })
  .meta({ id: 'Change' });

const preview = {
  steps: z.array(
    z.strictObject({
      name: z.string(),
      sentence: z.string(),
      restarts: z.record(z.string(), z.array(z.string())),
      minutes: z.number(),
      noReturn: z.boolean(),
    }),
  ),
  minutes: z.number(),
  restarts: z.record(z.string(), z.int()),
};
const rotationPreview = z.strictObject(preview).meta({ id: 'RotationPreview' });
const hooks = z.array(z.string()).meta({ description: 'The hooks of the Cluster that it would ask.' });
const waits = z.string().optional().meta({
  description: 'When machines get their turn, if they would have to wait for a maintenance window now.',
});
const upgradePreview = z
  .strictObject({
    ...{ ...preview, from: z.string(), to: z.string(), faults: z.array(fault) },
    waits: z.string().optional().meta({
      description: 'Before which step it would wait for a maintenance window now, and until when.',
    }),
    hooks,
  })
  .meta({ id: 'UpgradePreview' });

export const imagesOfMachine = z.strictObject({
  runs: z.string().optional().meta({
    description: 'The name of the Image that it booted, or the beginning of the SHA-256 of its root image.',
  }),
  wants: z.string().optional().meta({ description: 'The name of the Image that it would boot.' }),
  outdated: z.boolean().meta({ description: 'It is known that the two differ.' }),
});
const rollPreview = z
  .strictObject({
    ...preview,
    machines: z.array(imagesOfMachine.extend({ machine: z.string() })),
    faults: z.array(fault),
    waits,
    hooks,
  })
  .meta({ id: 'RollPreview' });

const agentStates = ['current', 'at-boot', 'refused', 'paused', 'stopped', 'waits', 'taking'] as const;
export const agentOfMachine = z.strictObject({
  machine: z.string(),
  runs: z.string().optional().meta({ description: 'The first characters of the SHA-256 of its agent.' }),
  state: z.enum(agentStates),
  text: z.string(),
});
const agents = z
  .strictObject({
    cluster: z.string(),
    wanted: z.string(),
    attempt: z.int(),
    first: z.string().optional().meta({ description: 'The machine that takes a new agent first.' }),
    pausedBy: z.string().optional(),
    machines: z.array(agentOfMachine),
  })
  .meta({ id: 'ClusterAgents' });

const pauseBefore = names('Steps before which it pauses.');
const without = names('Machines that are not waited for.');
const leave = names('Things that are left behind.');

export const CHANGES = {
  'GET /v1/clusters/:name/agents': {
    access: 'view',
    summary: 'Shows which agent each machine of a cluster runs, which it shall run, and what is due.',
    answer: agents,
  },
  'POST /v1/clusters/:name/agents/pause': {
    access: 'administer',
    summary: 'Pauses the upgrade of agents: no other machine gets the new one.',
    answer: agents,
  },
  'POST /v1/clusters/:name/agents/resume': {
    access: 'administer',
    summary: 'Continues the upgrade of agents.',
    answer: agents,
  },
  'POST /v1/clusters/:name/agents/retry': {
    access: 'administer',
    summary: 'Tries again to upgrade the agents of machines that did not keep the new one, one first.',
    answer: agents,
  },
  'GET /v1/clusters/:name/upgrade': {
    access: 'view',
    summary: 'Shows the upgrade of a cluster that is under way, or the last one: steps and evidence.',
    answer: change,
  },
  'POST /v1/clusters/:name/upgrade': {
    access: 'administer',
    summary: 'Upgrades a cluster; without "to", to what its document asks for.',
    query: z.strictObject({ dryRun }),
    body: z.strictObject({
      to: z.string().optional(),
      pauseBefore,
      without,
      maxUnavailable: z.string().optional().meta({ description: 'A number of workers.' }),
      now: z.string().optional().meta({
        description: '`true`: also outside of the maintenance windows.',
      }),
    }),
    answer: z.union([change, upgradePreview]),
  },
  'POST /v1/clusters/:name/upgrade/pause': {
    access: 'administer',
    summary: 'Pauses the upgrade: no other machine gets its turn.',
    answer: change,
  },
  'POST /v1/clusters/:name/upgrade/resume': {
    access: 'administer',
    summary: 'Continues a paused upgrade.',
    answer: change,
  },
  'POST /v1/clusters/:name/upgrade/roll-back': {
    access: 'administer',
    summary: 'Takes the upgrade back, until the first API server of another minor version has started.',
    answer: change,
  },
  'POST /v1/clusters/:name/upgrade/leave-out': {
    access: 'administer',
    summary: 'Waits no longer for workers.',
    body: z.strictObject({ without }),
    answer: change,
  },
  'GET /v1/clusters/:name/roll': {
    access: 'view',
    summary: 'Shows the roll of a cluster that is under way, or the last one: steps and evidence.',
    answer: change,
  },
  'POST /v1/clusters/:name/roll': {
    access: 'administer',
    summary: 'Reboots machines of a cluster one after the other: drained, and back before the next one.',
    query: z.strictObject({ dryRun }),
    body: z.strictObject({
      machines: names('Machines; absent: all of the cluster.'),
      outdated: z.string().optional().meta({
        description: '`true`: only machines that run another image than they would boot.',
      }),
      now: z.string().optional().meta({
        description: '`true`: also outside of the maintenance windows.',
      }),
      without,
      maxUnavailable: z.string().optional().meta({ description: 'A number of workers.' }),
    }),
    answer: z.union([change, rollPreview]),
  },
  'POST /v1/clusters/:name/roll/pause': {
    access: 'administer',
    summary: 'Pauses the roll: no other machine reboots.',
    answer: change,
  },
  'POST /v1/clusters/:name/roll/resume': {
    access: 'administer',
    summary: 'Continues a paused roll.',
    answer: change,
  },
  'POST /v1/clusters/:name/roll/cancel': {
    access: 'administer',
    summary: 'Ends the roll: no other machine reboots, and drained nodes take pods again.',
    answer: change,
  },
  'POST /v1/clusters/:name/roll/leave-out': {
    access: 'administer',
    summary: 'Waits no longer for machines.',
    body: z.strictObject({ without }),
    answer: change,
  },
  'GET /v1/clusters/:name/rotation': {
    access: 'view',
    summary: "Shows the rotation of a cluster's keys that is under way, or the last one: steps and evidence.",
    answer: change,
  },
  'POST /v1/clusters/:name/rotation': {
    access: 'administer',
    second: 'emergency',
    summary:
      "Rotates keys of a cluster, or as cluster `_muster` Muster's own: `transport-ca`, `ticket-secret`.",
    query: z.strictObject({ dryRun }),
    body: z.strictObject({
      keysets: names('Keysets, or `all`.'),
      pauseBefore,
      without,
      leave,
      emergency: z.string().optional().meta({
        description: 'The cluster’s name, repeated: the old keys end at once.',
      }),
    }),
    answer: z.union([change, rotationPreview]),
  },
  'POST /v1/clusters/:name/rotation/pause': {
    access: 'administer',
    summary: 'Pauses the rotation: nothing else restarts, and no other step begins.',
    answer: change,
  },
  'POST /v1/clusters/:name/rotation/resume': {
    access: 'administer',
    summary: 'Continues a paused rotation.',
    answer: change,
  },
  'POST /v1/clusters/:name/rotation/roll-back': {
    access: 'administer',
    summary: 'Takes the rotation back: the old keys sign again, and the new ones are forgotten.',
    answer: change,
  },
  'POST /v1/clusters/:name/rotation/leave-out': {
    access: 'administer',
    summary: 'Waits no longer for machines, or leaves behind what depends on old keys.',
    body: z.strictObject({ without, leave }),
    answer: change,
  },
  'POST /v1/clusters/:name/rotation/accept': {
    access: 'administer',
    summary: 'Lets the keys of a restored store count, although machines have later ones.',
    body: z.strictObject({
      confirm: z.string().meta({ description: 'The cluster’s name, repeated.' }),
    }),
    answer: z.strictObject({ cluster: z.string(), accepted: z.literal(true) }),
  },
} as const satisfies Contracts;
