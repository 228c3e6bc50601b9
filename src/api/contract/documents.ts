/** Documents of all kinds, with what the server knows of them. */

import { z } from 'zod';
import { POWER_STATES } from '../../bmc/bmc.ts';
import { agentOfMachine } from '../../cluster/change/agents/builds.ts';
import { imagesOfMachine } from '../../cluster/change/roll/images.ts';
import { CLUSTER_CONDITIONS, type ClusterWord } from '../../cluster/health/condition.ts';
import { CONDITIONS, type ConditionWord } from '../../machines/condition.ts';
import { statusForm } from '../../machines/machine.ts';
import { API_VERSION, KINDS, type Kind } from '../../resources/kinds.ts';
import { origin, reason, texts, time } from './contract.ts';

export const trust = z.strictObject({ tier: z.enum(['segment', 'approved', 'tpm']), from: z.string() });

export const machineStatus = z.strictObject(statusForm(time)).meta({ id: 'MachineStatus' });
/** A machine in the answer to an order. */
export const knownMachine = z.strictObject({
  name: z.string(),
  spec: z.looseObject({}).optional(),
  labels: texts.optional(),
  status: machineStatus,
});

/** What is so of a machine now. */
export const condition = z
  .strictObject({
    word: z.enum(Object.keys(CONDITIONS) as ConditionWord[]),
    reason: reason.optional(),
    silentSince: time.optional(),
  })
  .meta({ id: 'Condition', description: 'What is so of the machine now, in one word (docs/conditions.md).' });

/** Columns that are computed when a document is shown. */
const outlook = {
  profile: z.string().optional().meta({ description: 'The profile that it names, or that selects it.' }),
  member: z
    .strictObject({ cluster: z.string(), role: z.enum(['control plane', 'worker', 'etcd']) })
    .optional()
    .meta({ description: 'The Cluster that gives it a role in Kubernetes, and the role.' }),
  condition: condition.optional(),
  outlook: reason.optional().meta({ description: 'Why the machine would be held if it booted now.' }),
  trust: trust.optional(),
  waits: reason.optional().meta({ description: 'Why its agent waits for an operator.' }),
  build: agentOfMachine
    .extend({ wanted: z.string() })
    .optional()
    .meta({ description: 'Which agent it runs, which it shall run, and what is due.' }),
  image: imagesOfMachine
    .extend({ machine: z.string() })
    .optional()
    .meta({ description: 'The image that it runs, and the one that it would boot.' }),
  tpm: z
    .strictObject({
      ek: z.string(),
      vouched: z.boolean(),
      from: z.enum(['document', 'boot']),
      since: z.int().optional(),
    })
    .optional(),
  power: z
    .strictObject({ state: z.enum(POWER_STATES), at: time })
    .optional()
    .meta({ description: 'Its power, as its BMC last said, and when that was read.' }),
  lease: z.string().optional().meta({ description: 'The address of its lease.' }),
};

/** What is so of a cluster now. */
const clusterCondition = z
  .strictObject({
    word: z.enum(Object.keys(CLUSTER_CONDITIONS) as ClusterWord[]),
    text: z.string().optional(),
    checkedAt: z.string().optional(),
  })
  .meta({ id: 'ClusterCondition', description: 'What is so of the cluster now (docs/conditions.md).' });
const from = { origin: origin.optional() };

const metadata = KINDS.Machine.shape.metadata;
const shown = <K extends Kind, S extends z.ZodType, T extends z.ZodType>(kind: K, spec: S, under: T) =>
  z
    .strictObject({
      apiVersion: z.literal(API_VERSION),
      kind: z.literal(kind),
      metadata,
      spec,
      status: under,
    })
    .meta({ id: `Shown${kind}` });

/** Documents by kind, as the API shows them: the operator's text, and `status`. */
export const SHOWN = {
  Network: shown('Network', KINDS.Network.shape.spec, z.strictObject(from)),
  Image: shown(
    'Image',
    KINDS.Image.shape.spec,
    z.strictObject({ ...from, state: z.enum(['complete', 'incomplete']) }),
  ),
  Cluster: shown(
    'Cluster',
    KINDS.Cluster.shape.spec,
    z.strictObject({ ...from, health: clusterCondition.optional() }),
  ),
  Profile: shown('Profile', KINDS.Profile.shape.spec, z.strictObject(from)),
  // A machine that was only seen has no document.
  Machine: shown(
    'Machine',
    KINDS.Machine.shape.spec.optional(),
    z.strictObject({ ...machineStatus.partial().shape, ...outlook, ...from }),
  ),
  Webhook: shown('Webhook', KINDS.Webhook.shape.spec, z.strictObject(from)),
} as const;

export const anyShown = z.discriminatedUnion('kind', [
  SHOWN.Network,
  SHOWN.Image,
  SHOWN.Cluster,
  SHOWN.Profile,
  SHOWN.Machine,
  SHOWN.Webhook,
]);

export const target = { kind: z.enum(Object.keys(KINDS) as [Kind, ...Kind[]]), name: z.string() };
/** A document before or after a change, as it was written. */
const written = z.looseObject({ kind: z.string() });

export const applied = z
  .strictObject({
    ...target,
    action: z.enum(['created', 'changed', 'unchanged', 'deleted']),
    before: written.optional(),
    after: written.optional(),
  })
  .meta({ id: 'Applied' });
