/** Clusters beyond their documents: founding, members of etcd, health, snapshots, credentials. */
import { z } from 'zod';
import { imagesOfMachine } from './changes.ts';
import { type Contracts, fault, itemsOf, names, on, part, raw, texts, time, word } from './contract.ts';

const address = z.strictObject({ name: z.string(), address: z.string() });

export const foundingRecord = z
  .strictObject({
    v: z.literal(1),
    cluster: z.string(),
    id: z.string(),
    openedAt: time,
    openedBy: z.enum(['all-asked', 'person']),
    members: z.array(address),
    grants: texts,
    founded: z
      .strictObject({
        at: time,
        by: z.string(),
        snapshot: z.string().optional().meta({ description: 'The snapshot from which it was restored.' }),
      })
      .optional(),
    joined: texts,
    lists: z.record(z.string(), z.array(address)),
    replacing: z
      .strictObject({
        member: z.string(),
        address: z.string(),
        filesystem: z.string(),
        stage: z.enum(['remove', 'add', 'start', 'promote', 'off']),
        added: z.strictObject({ id: z.string(), members: z.array(address) }).optional(),
      })
      .optional(),
    former: z.array(z.string()).optional(),
    leaving: z
      .record(
        z.string(),
        z.strictObject({
          stage: z.enum(['drain', 'etcd', 'node', 'down']),
          since: time,
          member: z.string().optional(),
          node: z.boolean(),
          clear: z.boolean(),
          drainUntil: time,
          quarantine: z.literal(true).optional(),
        }),
      )
      .optional(),
    reset: z.strictObject({ at: time, cleared: z.array(z.string()) }).optional(),
    restoring: z
      .strictObject({
        member: z.string(),
        address: z.string(),
        filesystem: z.string(),
        id: z.string(),
        at: time,
        snapshot: z.string().optional(),
      })
      .optional(),
  })
  .meta({ id: 'FoundingRecord' });

const ordered = z.strictObject({ record: foundingRecord });

const founding = z
  .strictObject({
    cluster: z.string(),
    record: foundingRecord.optional(),
    members: z.array(
      z.strictObject({
        name: z.string(),
        asked: z.boolean(),
        heardMsAgo: z.number().optional().meta({ description: 'Age of what follows, in milliseconds.' }),
        silent: z.literal(true).optional(),
        filesystem: z.string().optional(),
        data: z.string().optional(),
        health: z.string().optional(),
        decision: z
          .looseObject({ do: z.enum(['found', 'join', 'start', 'replace', 'restore', 'hold']) })
          .optional()
          .meta({ description: 'The last decision for this member; `hold` has code and text.' }),
      }),
    ),
    view: z
      .strictObject({
        clusterId: z.string(),
        members: z.array(
          z.strictObject({
            id: z.string(),
            name: z.string(),
            peerUrls: z.array(z.string()),
            learner: z.boolean(),
            healthy: z.boolean(),
          }),
        ),
      })
      .optional()
      .meta({ description: "etcd's own list of members." }),
    waiting: z.string().optional().meta({ description: 'What the present replacement waits for.' }),
    leaving: texts.meta({ description: 'Machine that is being removed → what its removal waits for.' }),
  })
  .meta({ id: 'Founding' });

const health = z
  .strictObject({
    cluster: z.string(),
    ok: z.boolean(),
    at: z.string().meta({ description: 'RFC 3339.' }),
    scope: z.string().meta({ description: 'What was not checked, and why.' }),
    findings: z.array(
      z.strictObject({
        check: z.enum([
          'cluster',
          'clock',
          'change',
          'restored',
          'etcd',
          'apiserver',
          'program',
          'node',
          'lease',
          'csr',
          'objects',
          'network',
          'certificate',
          'agent',
          'machine',
        ]),
        subject: z.string(),
        ok: z.boolean(),
        says: z.string(),
        fix: z.string().optional(),
      }),
    ),
  })
  .meta({ id: 'ClusterHealth' });

const addon = z
  .strictObject({
    name: z.string(),
    state: z.enum(['ready', 'missing', 'faulty']),
    detail: z.string().optional(),
    manifests: z.array(
      z.strictObject({ url: z.string().optional(), file: z.string().optional(), sha256: z.string() }),
    ),
    objects: z.int().optional(),
    images: z.array(z.string()).optional(),
  })
  .meta({ id: 'Addon' });

const snapshot = z
  .strictObject({
    id: z.string(),
    cluster: z.string(),
    takenAt: time,
    member: z.string(),
    by: z.enum(['schedule', 'operator']),
    founding: z.string(),
    size: z.int(),
    revision: z.int(),
    keys: z.int(),
    hash: z.string(),
    etcd: z.string(),
    encryption: z.array(z.string()),
    readers: z.array(z.string()).optional().meta({
      description: 'Ended encryption keys with which API servers read again after a restore of it.',
    }),
    vaultKey: z.string(),
    copies: z.array(z.strictObject({ to: z.string(), at: time, fault: z.string().optional() })),
  })
  .meta({ id: 'Snapshot' });

const space = z
  .strictObject({
    cluster: z.string(),
    quota: z.number().optional().meta({ description: 'In octets; absent: there is none.' }),
    members: z.array(
      z.strictObject({
        name: z.string(),
        leader: z.boolean(),
        octets: z.number(),
        inUse: z.number(),
        reads: z.boolean(),
      }),
    ),
    silent: z.array(z.string()),
    troubles: z.array(
      z.strictObject({ code: z.string(), subject: z.string(), says: z.string(), fix: z.string() }),
    ),
    refused: z.string().optional().meta({ description: 'Why an order would be refused now.' }),
    order: z
      .strictObject({
        steps: z.array(z.strictObject({ code: z.string(), text: z.string() })),
        ended: z.enum(['reclaimed', 'failed']).optional(),
      })
      .optional()
      .meta({ description: 'The last order since the server started; without `ended` it works.' }),
  })
  .meta({ id: 'EtcdSpace' });

const membership = z
  .strictObject({
    cluster: z.string(),
    document: z.enum(['changed', 'unchanged']),
    leaving: z.array(z.string()),
    added: z.array(z.string()),
    warnings: z.array(fault),
  })
  .meta({ id: 'MembershipChange' });

const etcdOnly = on('Checks only etcd.');
const user = z.string().optional().meta({
  description:
    'The name of the user in the certificate. Operators who are logged in get certificates for themselves only; on the socket it is needed.',
});
const confirm = z.string().optional().meta({ description: 'The cluster’s name, repeated.' });
const member = z.string().optional();
const secret = (what: string) => raw('application/yaml', what);

export const CLUSTERS = {
  'GET /v1/clusters/:name/compromised/:machine': {
    access: 'view',
    summary: 'Lists the keys and certificates that a machine had, until when, and which rotation ends them.',
    answer: z.strictObject({
      cluster: z.string(),
      machine: z.string(),
      roles: z.array(z.string()),
      had: z.array(
        z.strictObject({
          what: z.string(),
          path: z.string().optional(),
          until: time.optional(),
          ends: z.string(),
        }),
      ),
      rotations: z.array(z.string()),
      secrets: z.array(z.string()),
      etcd: z.boolean(),
    }),
  },
  'POST /v1/clusters/:name/kubeconfig': {
    access: 'administer',
    summary: 'Makes a kubeconfig with a new admin certificate for a working day; it is secret.',
    query: z.strictObject({ user }),
    answer: secret('A kubeconfig.'),
  },
  'POST /v1/clusters/:name/credential': {
    access: 'administer',
    summary: 'Makes an admin certificate for an hour, as kubectl fetches it by itself; it is secret.',
    query: z.strictObject({ user }),
    answer: z.strictObject({
      user: z.string(),
      certificate: z.string(),
      key: z.string(),
      until: time,
    }),
  },
  'GET /v1/clusters/:name/endpoint': {
    access: 'view',
    summary: "Shows where a cluster's API is, and its CAs.",
    answer: z.strictObject({ cluster: z.string(), server: z.string(), ca: z.string() }),
  },
  'POST /v1/clusters/:name/etcd-client': {
    access: 'administer',
    summary: "Makes a client certificate for a cluster's etcd for a working day; it is secret.",
    query: z.strictObject({ user }),
    answer: z.strictObject({
      cluster: z.string(),
      members: z.array(z.strictObject({ name: z.string(), url: z.string() })),
      ca: z.string(),
      certificate: z.string(),
      key: z.string(),
    }),
  },
  'GET /v1/clusters/:name/full': {
    access: 'view',
    summary: "Shows a cluster's resolved specification, with the origin of each value.",
    answer: z.strictObject({
      name: z.string(),
      full: z.looseObject({}).optional().meta({ description: 'Absent when a fault is an error.' }),
      provenance: z.record(z.string(), z.strictObject({ from: z.string(), by: z.string() })),
      faults: z.array(
        z.strictObject({
          fault,
          severity: z.enum(['error', 'warning']),
          machine: z.string().optional(),
        }),
      ),
    }),
  },
  'GET /v1/clusters/:name/addons': {
    access: 'view',
    summary: 'Lists the add-ons of a cluster: whether their files are complete, and which images they need.',
    query: z.strictObject(part),
    answer: z.strictObject(itemsOf(addon)),
  },
  'GET /v1/clusters/:name/running': {
    access: 'view',
    summary: 'Shows the versions that a founded cluster may run, and those that its machines report.',
    answer: z.strictObject({
      cluster: z.string(),
      version: z.string(),
      versions: texts,
      machines: z.array(
        z.strictObject({
          name: z.string(),
          serves: z.boolean(),
          versions: z.record(z.string(), z.string()),
          image: z.string().optional(),
          dataDisk: z.string().optional(),
          address: z.string().optional().meta({ description: 'The address at which the others know it.' }),
          images: imagesOfMachine,
        }),
      ),
    }),
  },
  'GET /v1/clusters/:name/founding': {
    access: 'view',
    summary: "Shows the state of the founding of a cluster's etcd, and the last decision for each member.",
    answer: founding,
  },
  'POST /v1/clusters/:name/found': {
    access: 'administer',
    summary: 'Opens the founding with the members that have polled.',
    body: z.strictObject({ confirm }),
    answer: foundingRecord,
  },
  'GET /v1/clusters/:name/status': {
    access: 'view',
    summary: 'Shows the health of a cluster: etcd, API servers, nodes, leases, certificates, machines.',
    query: z.strictObject({ etcd: etcdOnly }),
    answer: health,
  },
  'POST /v1/clusters/:name/verify': {
    access: 'operate',
    summary: 'The same, and runs probe pods for DNS and Services.',
    query: z.strictObject({ etcd: etcdOnly, image: word('The image of the probes.') }),
    answer: health,
  },
  'POST /v1/clusters/:name/add-node': {
    access: 'operate',
    summary: 'Adds machines to a Cluster.',
    body: z.strictObject({
      machines: names('The machines.'),
      role: z.string().optional().meta({ description: '`worker` (default), `control-plane` or `etcd`.' }),
    }),
    answer: membership,
  },
  'POST /v1/clusters/:name/remove-node': {
    access: 'administer',
    second: 'clear',
    summary: 'Removes machines from a Cluster.',
    body: z.strictObject({
      machines: names('The machines.'),
      replacements: names('Machines that take their roles, in the same order.'),
      clear: z.string().optional().meta({ description: '`true`: their data filesystems are cleared.' }),
      drain: z.string().optional().meta({ description: 'How long the drain may take, or `no`.' }),
    }),
    answer: membership,
  },
  'POST /v1/clusters/:name/reset': {
    access: 'administer',
    second: true,
    summary: 'Clears all machines of a cluster.',
    body: z.strictObject({ confirm }),
    answer: ordered,
  },
  'GET /v1/clusters/:name/space': {
    access: 'view',
    summary: "Shows the alarms and the space of a cluster's etcd, and the last order to reclaim it.",
    answer: space,
  },
  'POST /v1/clusters/:name/reclaim-space': {
    access: 'operate',
    summary: 'Compacts and defragments etcd member by member, and disarms its alarm NOSPACE.',
    body: z.strictObject({ confirm }),
    answer: z.strictObject({}),
    statuses: [202],
  },
  'GET /v1/clusters/:name/backups': {
    access: 'view',
    summary: "Lists the snapshots of a cluster's etcd, the one that is being taken, and the last failure.",
    query: z.strictObject(part),
    answer: z.strictObject({
      ...itemsOf(snapshot),
      faults: z.array(z.string()),
      ordered: z
        .strictObject({
          id: z.string(),
          machine: z.string().optional(),
          received: z.int(),
          waits: z.string().optional().meta({ description: 'Why no member takes it yet.' }),
        })
        .optional(),
      failed: z.strictObject({ id: z.string(), at: time, text: z.string() }).optional(),
      due: time.optional(),
    }),
  },
  'POST /v1/clusters/:name/backup': {
    access: 'operate',
    summary: 'Orders a snapshot of etcd, which a healthy member takes with its next poll.',
    answer: z.strictObject({ id: z.string() }),
    statuses: [202],
  },
  'POST /v1/clusters/:name/backups/:id/verify': {
    access: 'operate',
    summary: 'Reads a snapshot to its end and checks it.',
    answer: snapshot,
  },
  'POST /v1/clusters/:name/backups/:id/content': {
    access: 'administer',
    summary: 'Answers with a snapshot in the clear, for `muster cluster backup get`; secret.',
    answer: raw('application/octet-stream', 'The snapshot, as etcd restores it.'),
  },
  'POST /v1/clusters/:name/restore': {
    access: 'administer',
    summary: 'Restores etcd when the quorum is lost for good, from one member or from a snapshot.',
    body: z.strictObject({
      confirm,
      member,
      backup: z.string().optional(),
      without: names('Abandoned members.'),
    }),
    answer: ordered.extend({
      readers: z
        .array(z.string())
        .optional()
        .meta({ description: 'Encryption keys that API servers read with because of the snapshot.' }),
    }),
  },
  'POST /v1/clusters/:name/adopt-kubeadm': {
    access: 'administer',
    summary: 'Takes over the keys of a cluster that kubeadm made, which counts as founded then.',
    body: z
      .strictObject({
        confirm,
        ca: z.string().optional(),
        'etcd-ca': z.string().optional(),
        'front-proxy-ca': z.string().optional(),
        sa: z.string().optional(),
      })
      .meta({ description: 'Each keyset is a text with `{"key", "certificate"}`, PEM.' }),
    answer: ordered,
  },
  'POST /v1/clusters/:name/adopt': {
    access: 'administer',
    summary: 'Accepts the present disk of a member as its own, after a store was rolled back.',
    body: z.strictObject({ confirm, member }),
    answer: ordered,
  },
  'POST /v1/clusters/:name/call-off': {
    access: 'operate',
    summary: 'Cancels the replacement of a member, or a restore from its data.',
    body: z.strictObject({ member }),
    answer: ordered,
  },
} as const satisfies Contracts;
