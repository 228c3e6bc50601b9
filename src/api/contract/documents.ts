/** Documents of all kinds, with what the server knows of them. */
import { z } from 'zod';
import { NEXT_BOOT } from '../../cluster/spec/next-boot.ts';
import { API_VERSION, KINDS, type Kind } from '../../resources/kinds.ts';
import { agentOfMachine, imagesOfMachine } from './changes.ts';
import {
  type Contracts,
  dryRun,
  fault,
  itemsOf,
  labelledPart,
  on,
  origin,
  raw,
  reason,
  texts,
  time,
  word,
} from './contract.ts';

export const PHASES_SHOWN = [
  'discovered',
  'registered',
  'booting',
  'starting',
  'configured',
  'ready',
  'failed',
  'held',
] as const;

const trust = z.strictObject({ tier: z.enum(['segment', 'approved', 'tpm']), from: z.string() });
const alarm = { at: time, code: z.string(), text: z.string() };

export const seen = z
  .strictObject({
    macs: z.array(z.string()),
    uuid: z.string(),
    serial: z.string(),
    manufacturer: z.string(),
    product: z.string(),
    assetTag: z.string(),
    bootMacs: z.array(z.string()),
    arch: z.enum(['x86_64', 'aarch64']),
    firmware: z.enum(['bios', 'uefi']),
    network: z.string(),
    address: z.string(),
  })
  .partial()
  .extend({ macs: z.array(z.string()) })
  .meta({ id: 'Seen', description: 'What the machine said of itself at its boots; nobody checked it.' });

/** What the server knows of a machine. */
const status = {
  phase: z.enum(PHASES_SHOWN),
  reason: reason.optional(),
  since: time.meta({ description: 'When the phase last changed.' }),
  firstSeen: time.optional(),
  lastSeen: time.optional(),
  seen,
  session: z.string().optional(),
  bootsWithoutReady: z.int(),
  logTail: z.string().optional(),
  agent: z
    .strictObject({
      since: time,
      version: z.string(),
      bootId: z.string(),
      step: z.string().optional(),
      hold: reason.optional(),
      secrets: texts.optional(),
      bootDisk: reason.optional(),
      ended: texts.optional().meta({ description: 'Program that has ended → its last complaint.' }),
      build: z.string().optional().meta({ description: "SHA-256 of the agent's bundle." }),
      refused: z
        .strictObject({ code: z.string(), text: z.string(), digest: z.string(), attempt: z.int() })
        .optional()
        .meta({ description: 'A bundle of the agent that the machine did not keep.' }),
    })
    .optional(),
  alarm: z.strictObject(alarm).optional(),
  quarantine: z.strictObject({ ...alarm, deletePods: z.literal(true).optional() }).optional(),
};
export const machineStatus = z.strictObject(status).meta({ id: 'MachineStatus' });

/** Columns that are computed when a document is shown. */
const outlook = {
  profile: z.string().optional().meta({ description: 'The profile that it names, or that selects it.' }),
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
  lease: z.string().optional().meta({ description: 'The address of its lease.' }),
};

const CLUSTER_STATE = [
  'incomplete',
  'not-founded',
  'founding',
  'founded',
  'changing',
  'restoring',
  'reset',
] as const;
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
    z.strictObject({ ...from, state: z.enum(CLUSTER_STATE).optional() }),
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

const target = { kind: z.enum(Object.keys(KINDS) as [Kind, ...Kind[]]), name: z.string() };
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

const warnings = z.array(fault);

const consequences = z
  .strictObject({
    cluster: z.string(),
    differences: z.array(
      z.strictObject({
        machines: z.array(z.string()),
        files: z.array(z.string()),
        restarts: z.array(z.string()),
        inTurn: z.array(z.string()).meta({ description: 'What restarts on one machine after the other.' }),
      }),
    ),
    nextBoot: z
      .array(
        z.strictObject({
          machines: z.array(z.string()),
          changes: z.array(z.enum(NEXT_BOOT)),
          image: z.strictObject({ from: z.string().optional(), to: z.string().optional() }).optional(),
        }),
      )
      .meta({ description: 'What running machines get with their next boot, and not before.' }),
    upgrade: z.strictObject({ from: z.string(), to: z.string() }).optional(),
  })
  .meta({ id: 'Consequences', description: 'What changes in one cluster.' });

const confirm = word('Names of clusters, repeated to accept what changes in them; with commas.');
const source = z.strictObject({ file: z.string(), text: z.string() });
const YAML = raw('application/yaml', 'One or more documents, in YAML or JSON.');

export const DOCUMENTS = {
  'POST /v1/apply': {
    access: 'administer',
    summary: 'Applies documents, all or nothing. With dryRun it also answers what changes in clusters.',
    query: z.strictObject({ dryRun, confirm }),
    body: z.strictObject({
      sources: z.array(source).meta({ description: 'Texts with the file names that faults carry.' }),
    }),
    rawBody: YAML,
    answer: z.strictObject({
      dryRun: z.boolean(),
      results: z.array(applied),
      warnings,
      consequences: z.array(consequences).optional(),
      profiles: z
        .array(
          z.strictObject({
            from: z.string().optional(),
            to: z.string().optional(),
            machines: z.array(z.string()),
          }),
        )
        .optional()
        .meta({ description: 'Machines that get another profile at their next boot; for a dry run.' }),
    }),
  },
  'POST /v1/delete': {
    access: 'administer',
    summary: 'Deletes documents as one change.',
    query: z.strictObject({
      dryRun,
      force: on('Also Images that a Profile names.'),
      ignoreNotFound: on('Documents that do not exist are no error.'),
    }),
    body: z.strictObject({ documents: z.array(z.strictObject(target)) }),
    answer: z.strictObject({
      dryRun: z.boolean(),
      results: z.array(z.strictObject({ ...target, action: z.literal('deleted') })),
      warnings,
    }),
  },
  'POST /v1/reload': {
    access: 'operate',
    summary:
      'Reads the configuration directory, the loader directories and the host’s addresses again; answers with the faults of the configuration directory.',
    query: z.strictObject({ confirm }),
    answer: z.strictObject({ faults: z.array(fault), warnings }),
  },
} as const satisfies Contracts;

/** Paths with the kind as a parameter: they match last. */
export const DOCUMENTS_BY_KIND = {
  'GET /v1/:kind': {
    access: 'view',
    within: true,
    summary:
      'Lists documents of a kind by name: networks, images, clusters, profiles, machines (with status).',
    query: z.strictObject({
      ...labelledPart,
      brief: on(
        'Machines with a document: only what a table of them shows; labels and fields see only that.',
      ),
    }),
    answer: z.strictObject({
      apiVersion: z.literal(API_VERSION),
      kind: z.string().meta({ description: '`MachineList`, `ClusterList` …' }),
      ...itemsOf(anyShown),
    }),
  },
  'GET /v1/:kind/:name': {
    access: 'view',
    within: true,
    summary: 'Shows a document, with its ETag.',
    answer: anyShown,
  },
  'PUT /v1/:kind/:name': {
    access: 'administer',
    summary: 'Applies one document.',
    query: z.strictObject({ dryRun, confirm }),
    rawBody: YAML,
    answer: applied.extend({ warnings }),
    statuses: [200, 201],
    conditional: true,
  },
  'DELETE /v1/:kind/:name': {
    access: 'administer',
    summary: 'Deletes a document, or forgets a machine that was only seen.',
    query: z.strictObject({ dryRun, force: on('Also an Image that a Profile names.') }),
    answer: z.strictObject({ ...target, action: z.literal('deleted'), dryRun: z.boolean(), warnings }),
    conditional: true,
  },
} as const satisfies Contracts;
