/** Keys, certificates, and Secrets that operators give. */
import { z } from 'zod';
import { LEAF_NAMES } from '../../pki/hierarchy.ts';
import { type Contracts, fault, listOf, on, part, raw, time, word } from './contract.ts';

const renewer = z.enum(['agent', 'kubelet', 'muster', 'demand', 'person', 'nobody']);
const alarm = z.enum(['urgent', 'soon']).optional();

const generation = z.strictObject({
  id: z.string(),
  createdAt: time.optional(),
  pin: z.string().optional(),
  state: z.enum(['primary', 'made', 'trusted', 'distrusted']),
  notAfter: time.optional(),
  bridgesFrom: z.array(z.string()).optional(),
  dependents: z.record(z.string(), z.array(z.string())).optional(),
  dependentsUntil: time.optional(),
});
const by = z.enum([...renewer.options, 'rotation']);
const ending = { what: z.string(), of: z.string(), by, ends: time, alarm };

const scope = z
  .strictObject({
    scope: z.string(),
    of: z.enum(['cluster', 'muster']),
    keysets: z.array(z.strictObject({ name: z.string(), generations: z.array(generation) })),
    certificates: z.array(
      z.strictObject({
        serial: z.string(),
        leaf: z.string(),
        subject: z.string(),
        to: z.string(),
        issuer: z.string(),
        notBefore: time,
        notAfter: time,
        state: z.enum(['valid', 'not yet valid', 'expiring', 'expired', 'superseded', 'revoked', 'removed']),
        renewedBy: renewer,
        renewsAt: time.optional(),
      }),
    ),
    forecast: z.array(z.strictObject({ at: time, does: z.enum(['renewed', 'ends']), ...ending })),
    rotation: z
      .strictObject({ step: z.string(), state: z.enum(['running', 'paused', 'held']) })
      .optional()
      .meta({ description: 'The rotation that is under way.' }),
    withoutBootHost: z
      .strictObject({ ...ending, leftSeconds: z.int() })
      .optional()
      .meta({ description: 'What ends first if the boot host stays away.' }),
  })
  .meta({ id: 'PkiScope' });
const status = listOf('PkiStatus', scope);
const within = word('How far to look ahead, such as 90d.');

const exported = z.strictObject({
  kind: z.literal('PkiExport'),
  version: z.string(),
  scopes: z.array(
    z.strictObject({
      scope: z.string(),
      keysets: z.array(
        z.strictObject({
          name: z.string(),
          primary: z.string(),
          distrusted: z.array(z.string()),
          generations: z.array(
            z.strictObject({
              id: z.string(),
              createdAt: z.int(),
              key: z.string(),
              certificate: z.string().optional(),
            }),
          ),
        }),
      ),
    }),
  ),
});

/** The CAs of a cluster that can be brought. */
export const IMPORTED_KEYSETS = ['ca', 'etcd-ca', 'front-proxy-ca'] as const;

export const PKI = {
  'GET /v1/pki': {
    access: 'view',
    within: true,
    summary: 'Lists keysets and issued certificates with their holders, ends and renewals.',
    query: z.strictObject({ within, ...part }),
    answer: status,
  },
  'POST /v1/pki/export': {
    access: 'administer',
    summary: 'Answers with all private keys in the clear, for `muster pki export`; secret.',
    query: z.strictObject({ cluster: word('Only of this cluster.') }),
    answer: exported,
  },
  'POST /v1/pki/exported': {
    access: 'administer',
    summary: 'Notes which keys an operator has a copy of.',
    body: z.strictObject({
      scopes: z.array(z.strictObject({ scope: z.string(), generations: z.array(z.string()) })),
    }),
    answer: z.strictObject({ warnings: z.array(fault) }),
  },
  'POST /v1/pki/reseal': {
    access: 'administer',
    summary: "Seals the store with the vault's first key, and says which keys nothing needs.",
    query: z.strictObject({
      'dry-run': on('Only counts; the earlier spelling of `dryRun`.'),
      dryRun: on('Only counts.'),
    }),
    answer: z.strictObject({
      primary: z.string(),
      records: z.record(z.string(), z.int()),
      written: z.int(),
      unneeded: z.array(z.string()),
    }),
  },
  'GET /v1/pki/:cluster': {
    access: 'view',
    summary: 'The same as `GET /v1/pki`, for one cluster.',
    query: z.strictObject({ within, ...part }),
    answer: status,
  },
  'POST /v1/pki/:cluster/import': {
    access: 'administer',
    summary: 'Takes a CA of an operator; the body is secret.',
    body: z.strictObject({
      keyset: z.enum(IMPORTED_KEYSETS),
      certificate: z.string().meta({ description: 'PEM.' }),
      key: z.string().meta({ description: 'PEM.' }),
    }),
    answer: z.strictObject({
      cluster: z.string(),
      keyset: z.string(),
      generation: z.string(),
      signs: z.boolean().meta({ description: 'It signs at once: the keyset had signed nothing yet.' }),
      notes: z.array(z.string()),
    }),
  },
  'POST /v1/pki/:cluster/renew': {
    access: 'administer',
    summary: "Orders that certificates of the cluster's machines, and their keys, are replaced.",
    body: z.strictObject({
      machine: z.string().optional(),
      leaf: z.enum(LEAF_NAMES).optional().meta({ description: 'One certificate; default: all.' }),
      newKeys: z.boolean().optional(),
    }),
    answer: z.strictObject({
      cluster: z.string(),
      machine: z.string().optional(),
      leaf: z.string().optional(),
      newKeys: z.boolean(),
    }),
  },
} as const satisfies Contracts;

const secret = z
  .strictObject({
    kind: z.literal('Secret'),
    name: z.string(),
    keys: z.array(z.strictObject({ key: z.string(), octets: z.int(), since: time })),
    missing: z.array(z.string()),
    usedBy: z.array(z.strictObject({ document: z.string(), path: z.string(), key: z.string() })),
    machines: z.array(
      z.strictObject({
        machine: z.string(),
        key: z.string(),
        state: z.enum(['current', 'old', 'none']),
      }),
    ),
  })
  .meta({ id: 'Secret', description: 'A Secret without its values.' });
const removed = z.strictObject({
  kind: z.literal('Secret'),
  name: z.string(),
  key: z.string().optional(),
  action: z.literal('removed'),
});

export const SECRETS = {
  'GET /v1/secrets': {
    access: 'view',
    summary: 'Lists Secrets: keys, sizes, times, who uses them, which machines have which. No values.',
    query: z.strictObject(part),
    answer: listOf('SecretList', secret),
  },
  'GET /v1/secrets/:name': {
    access: 'view',
    summary: 'The same for one Secret.',
    answer: secret,
  },
  'PUT /v1/secrets/:name/:key': {
    access: 'administer',
    summary: 'Writes the value of a key: the body, as it is. No route returns it.',
    rawBody: raw('application/octet-stream', 'The value.'),
    answer: secret,
    statuses: [200, 201],
  },
  'DELETE /v1/secrets/:name/:key': {
    access: 'administer',
    summary: 'Removes a key of a Secret; refused while a document refers to it.',
    answer: removed,
  },
  'DELETE /v1/secrets/:name': {
    access: 'administer',
    summary: 'Removes a Secret; refused while a document refers to it.',
    answer: removed,
  },
} as const satisfies Contracts;
