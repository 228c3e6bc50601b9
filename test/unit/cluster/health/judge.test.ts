/** Observations of a cluster become findings; every fault has one, with a remedy. */

import { expect, test } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import type { EtcdMember, EtcdView, FoundingRecord } from '../../../../src/cluster/etcd/founding.ts';
import type { FoundingStatus } from '../../../../src/cluster/etcd/status.ts';
import type { Finding } from '../../../../src/cluster/health/finding.ts';
import {
  judgeCertificates,
  judgeKubernetes,
  judgeMachines,
  judgeProbes,
} from '../../../../src/cluster/health/judge.ts';
import { judgeEtcd } from '../../../../src/cluster/health/judge-etcd.ts';
import { judgePrograms } from '../../../../src/cluster/health/judge-programs.ts';
import type { ApiSeen, KubernetesSeen } from '../../../../src/cluster/health/observe.ts';
import { judgeChange, type UnderWay } from '../../../../src/cluster/health/under-way.ts';
import { etcdPeerUrl } from '../../../../src/cluster/model/ports.ts';
import type { IssuedCertificate } from '../../../../src/pki/records.ts';
import { resolved } from '../kit.ts';

const MEMBERS = [1, 2, 3].map((n) => ({ name: `m${n}`, address: `10.0.0.${n}` }));
const member = (n: number, change: Partial<EtcdMember> = {}): EtcdMember => ({
  id: `id-${n}`,
  name: `m${n}`,
  peerUrls: [etcdPeerUrl(`10.0.0.${n}`)],
  learner: false,
  healthy: true,
  ...change,
});
const RECORD: FoundingRecord = {
  v: 1,
  cluster: 'one',
  id: 'f1',
  openedAt: 0,
  openedBy: 'all-asked',
  members: MEMBERS,
  grants: {},
  founded: { at: 1, by: 'm1' },
  joined: {},
  lists: {},
};
const etcd = (members: readonly EtcdMember[] | undefined, more: Partial<FoundingStatus> = {}) =>
  judgeEtcd(
    {
      cluster: 'one',
      record: RECORD,
      members: MEMBERS.map(({ name }) => ({ name, asked: true })),
      ...(members && { view: { clusterId: 'c', members } satisfies EtcdView }),
      ...more,
    },
    MEMBERS,
  );
const failing = (findings: readonly Finding[]): string[] =>
  findings
    .filter(({ ok }) => !ok)
    .map(({ check, subject, says, fix }) => `${check} ${subject}: ${says}; ${fix}`);

test('three voters that answer are healthy, and the line says how many more etcd can lose', () => {
  const found = etcd([member(1), member(2), member(3)]);
  expect(failing(found)).toEqual([]);
  expect(found[0]!.says).toBe('3 of 3 voters answer; etcd can lose 1 more');
});

test('a silent member, a missing member and an unknown member have a line each', () => {
  const found = failing(etcd([member(1), member(2, { healthy: false }), member(4)]));
  expect(found).toEqual([
    'etcd one: 2 of 3 voters answer; etcd can lose 0 more; see the lines of its members',
    'etcd m2: member id-2 does not answer; muster cluster founding one',
    'etcd m3: no member of etcd yet; muster cluster founding one',
    "etcd m4: member id-4 (https://10.0.0.4:2380) is not in the Cluster's document; muster cluster remove-node one m4",
  ]);
});

test('the lines of a lost quorum and of a cluster without founding say what is missing', () => {
  expect(failing(etcd(undefined))[0]).toMatch(/no member answers .* no quorum; power on its members/);
  const { record: _, ...unfounded } = {
    cluster: 'one',
    record: RECORD,
    members: [{ name: 'm1', asked: true }],
  };
  expect(failing(judgeEtcd(unfounded, MEMBERS))).toEqual([
    'etcd one: not founded: m2, m3 have not asked yet; muster cluster founding one',
  ]);
});

test('while the document is incomplete, etcd is judged by the record and its own list, and no member is unknown', () => {
  const view = { clusterId: 'c', members: [member(1), member(2, { healthy: false }), member(3), member(4)] };
  const asked = MEMBERS.map(({ name }) => ({ name, asked: true }));
  const found = judgeEtcd({ cluster: 'one', record: RECORD, members: asked, view }, undefined);
  expect(found.map(({ subject, ok }) => [subject, ok])).toEqual([
    ['one', false],
    ['m1', true],
    ['m2', false],
    ['m3', true],
    ['m4', true],
  ]);
  const { view: _, ...silent } = { cluster: 'one', record: RECORD, members: asked, view };
  expect(failing(judgeEtcd(silent, undefined))[0]).toMatch(/no member answers/);
});

const FULL = resolved();
const NODES = ['cp1', 'cp2', 'cp3', 'w1', 'w2'];
const API: ApiSeen = {
  by: 'cp1',
  nodes: NODES.map((name) => ({
    name,
    ready: true,
    says: '',
    version: 'v1.36.3',
    cordoned: false,
    leaseAge: 3000,
  })),
  leaders: ['kube-controller-manager', 'kube-scheduler'].map((name) => ({ name, holder: 'cp1', age: 2000 })),
  pending: [],
};
const kubernetes = (change: Partial<ApiSeen> = {}): KubernetesSeen => ({
  apiservers: ['cp1', 'cp2', 'cp3'].map((machine) => ({ machine, ready: true, version: 'v1.36.3' })),
  api: { ...API, ...change },
});
const waiting = (by: string, signer = 'kubernetes.io/kubelet-serving') => ({
  ...{ name: 'csr-1', signer, by, age: 600_000 },
});
const nodeWith = (name: string, change: Partial<ApiSeen['nodes'][number]>) =>
  API.nodes.map((node) => (node.name === name ? { ...node, ...change } : node));

test('a healthy Kubernetes cluster has a line for each part, all ok', () => {
  const found = judgeKubernetes(FULL, kubernetes());
  expect(failing(found)).toEqual([]);
  expect(found.map(({ check }) => check)).toEqual([
    ...Array(3).fill('apiserver'),
    ...Array(5).fill('node'),
    'lease',
    'lease',
    'csr',
  ]);
});

const FAULTS: readonly (readonly [string, Partial<ApiSeen>, string])[] = [
  ['not ready', { nodes: nodeWith('w1', { ready: false, says: 'PLEG' }) }, 'node w1: not ready: PLEG'],
  [
    'without lease',
    { nodes: nodeWith('w1', { leaseAge: 90_000 }) },
    'node w1: its lease was not renewed for 90s',
  ],
  ['older', { nodes: nodeWith('w2', { version: 'v1.35.0' }) }, 'node w2: kubelet v1.35.0 instead of v1.36.3'],
  ['cordoned', { nodes: nodeWith('w2', { cordoned: true }) }, 'node w2: ready, but cordoned'],
  ['missing', { nodes: API.nodes.slice(1) }, 'node cp1: it has not registered'],
  ['unknown', { nodes: [...API.nodes, { ...API.nodes[0]!, name: 'x' }] }, 'node x: it is not in the Cluster'],
  [
    'without leader',
    { leaders: API.leaders.slice(1) },
    'lease kube-controller-manager: no control plane holds its lease',
  ],
  [
    'requests of others that wait',
    { pending: [waiting('system:node:x')] },
    'csr golden: 1 requests for certificates of others wait, the first csr-1 by system:node:x; kubectl certificate approve csr-1',
  ],
  [
    'a serving request of a machine that Muster did not decide, beside one of somebody else',
    { pending: [waiting('admin'), waiting('system:node:w1')] },
    "csr golden: 1 requests for certificates of the cluster's machines wait, the first csr-1 by system:node:w1; 1 requests for certificates of others wait, the first csr-1 by admin; Muster decides",
  ],
  [
    'a client request of a machine that nobody in the tree approved',
    { pending: [waiting('system:node:cp1', 'kubernetes.io/kube-apiserver-client-kubelet')] },
    "csr golden: 1 requests for certificates of the cluster's machines wait, the first csr-1 by system:node:cp1; on a control plane: crictl logs of kube-controller-manager",
  ],
  [
    'a request of a machine to a signer that people approve for',
    { pending: [waiting('system:node:cp1', 'example.com/own')] },
    'of others wait, the first csr-1 by system:node:cp1; kubectl certificate approve csr-1',
  ],
];
test.each(FAULTS)('%s: one line fails and says so', (_, change, says) => {
  const found = failing(judgeKubernetes(FULL, kubernetes(change)));
  expect(found).toHaveLength(1);
  expect(found[0]).toContain(says);
});

test('without an API server one line says that nothing is known of the nodes', () => {
  const apiservers = ['cp1', 'cp2', 'cp3'].map((machine) => ({ machine, ready: false, says: 'refused' }));
  const found = failing(judgeKubernetes(FULL, { apiservers }));
  expect(found).toHaveLength(4);
  expect(found[3]).toContain('no API server is ready');
});

const DAY = 86_400_000;
const certificate = (leaf: IssuedCertificate['leaf'], to: string, from: number, days: number) =>
  ({
    leaf,
    to,
    serial: `${leaf}-${from}`,
    issuedAt: from * DAY,
    notBefore: from * DAY,
    notAfter: (from + days) * DAY,
  }) as IssuedCertificate;

test('the newest certificate of each machine counts; one that expires soon has a line, a short-lived or foreign one has none', () => {
  const issuer = { keyset: 'ca', generation: 'g' } as const;
  const all = [
    certificate('kubelet', 'w1', 0, 365),
    certificate('kubelet', 'w1', 240, 365),
    certificate('etcd-peer', 'cp1', 0, 365),
    certificate('applier', 'cp1', 0, 1),
    certificate('person', 'anna', 0, 1),
    certificate('kubelet', 'gone', 0, 10),
  ].map((one) => ({ ...one, issuer }));
  const at = (day: number) => judgeCertificates('one', new Set(['w1', 'cp1']), all, millis(day * DAY));
  expect(at(250)).toEqual([
    {
      check: 'certificate',
      subject: 'one',
      ok: true,
      says: '2 are in force, the next expires in 115d: etcd-peer of cp1',
    },
  ]);
  expect(failing(at(320))).toEqual([
    'certificate cp1: etcd-peer expires in 45d; its agent renews it: is cp1 heard? muster explain cp1',
  ]);
});

test('machines with an alarm or a hold, silent machines and machines never heard have a line each', () => {
  const well = { name: 'a', heard: true, known: true };
  const found = judgeMachines([
    well,
    { ...well, name: 'b', alarm: { code: 'copied', text: 'two' } },
    { ...well, name: 'c', known: false, heard: false },
    { ...well, name: 'd', heard: false },
    { ...well, name: 'f', known: false, heard: false, stopped: { code: 'approval', text: 'its key waits' } },
    { ...well, name: 'e', hold: { code: 'memory', text: 'too little' } },
  ]);
  expect(failing(found).map((line) => line.split(';')[0])).toEqual([
    'machine b: alarm copied: two',
    'machine c: its agent has never been heard',
    'machine d: its agent is not heard',
    'machine f: not heard (approval): its key waits',
    'machine e: held (memory): too little',
  ]);
  expect(found.at(-1)).toMatchObject({ ok: true, says: '1 is heard, and none is held' });
});

test('a machine whose plan failed keeps its hold when it is silent, and one that is only supposed to run is not counted', () => {
  const well = { name: 'a', heard: true, known: true };
  const hold = { code: 'restore-failed', text: 'ctr: not found' };
  const found = judgeMachines([
    well,
    { ...well, name: 'b', heard: false, hold },
    { ...well, name: 'c', supposed: true },
  ]);
  expect(failing(found)).toEqual([
    'machine b: its agent is not heard; it was held before (restore-failed): ctr: not found; muster explain b; if it has no power, power it on; muster events b shows when it was heard last',
  ]);
  expect(found.at(-1)?.says).toBe('1 is heard, and none is held; c not heard yet since the server started');
});

test('a probe that failed has a line with what it found', () => {
  const found = judgeProbes('one', [
    { node: 'a', dns: 'ok', service: 'ok' },
    { node: 'b', dns: ';; connection timed out', service: 'ok' },
    { node: 'c', says: 'its pod did not end within 90 s: ErrImagePull' },
  ]);
  expect(found.map(({ ok }) => ok)).toEqual([true, false, false]);
  expect(found[1]!.says).toBe('DNS: ;; connection timed out; Services: ok');
});

const UNDER_WAY: UnderWay = {
  ...{ id: 'roll-1', kind: 'roll', says: 'roll: step workers for 3m, waits for w1: it reboots' },
  shows: 'muster cluster roll golden',
  restarts: (machine) => (machine === 'w1' ? ['the system'] : machine === 'cp1' ? ['kube-apiserver'] : []),
  versions: () => [],
};

test('what a change restarts or drains is no fault, with no advice that would undo it; what is wrong besides still is', () => {
  const nodes = API.nodes.map((node) =>
    node.name === 'w1'
      ? { ...node, ready: false, says: 'no status', cordoned: true, cordonedBy: 'roll-1' }
      : node.name === 'w2'
        ? { ...node, cordoned: true, cordonedBy: 'roll-1' }
        : node,
  );
  const apiservers = [
    { machine: 'cp1', ready: false, says: 'refused' },
    { machine: 'cp2', ready: false, says: 'refused' },
    { machine: 'cp3', ready: true, version: 'v1.36.3' },
  ];
  const during = (change: UnderWay | undefined) => [
    ...judgeChange('golden', change),
    ...judgeKubernetes(FULL, { apiservers, api: { ...API, nodes } }, { change }),
    ...judgeMachines([{ name: 'w1', known: true, heard: false }], { change }),
  ];
  expect(failing(during(UNDER_WAY))).toEqual([
    'apiserver cp2: not ready: refused; muster explain cp2; on it: crictl logs of kube-apiserver',
  ]);
  expect(during(UNDER_WAY).find(({ check }) => check === 'change')).toMatchObject({
    ok: true,
    says: 'roll: step workers for 3m, waits for w1: it reboots; muster cluster roll golden shows it',
  });
  expect(during(UNDER_WAY).find(({ subject }) => subject === 'w2')?.says).toContain('cordoned by the roll');
  // A node that an earlier change left cordoned is a fault, and so is all of it without a change.
  expect(failing(during({ ...UNDER_WAY, id: 'roll-2' }))).toContain(
    'node w2: ready, but cordoned; kubectl uncordon w2',
  );
  expect(failing(during(undefined))).toHaveLength(5);
});

test('what restarts because its machine has its turn is no fault, in a rotation or after an edit', () => {
  const apiservers = ['cp1', 'cp2', 'cp3'].map((machine) => ({ machine, ready: false, says: 'refused' }));
  const turns = (machine: string) => (machine === 'cp1' ? ['etcd', 'kube-apiserver', 'kubelet'] : []);
  const nodes = API.nodes.map((node) => (node.name === 'cp1' ? { ...node, ready: false, says: 'x' } : node));
  const rotation = { ...UNDER_WAY, kind: 'rotation', restarts: () => [] };
  const during = (change: UnderWay | undefined) =>
    judgeKubernetes(FULL, { apiservers, api: { ...API, nodes } }, { change, turns });
  for (const change of [undefined, rotation])
    expect(failing(during(change)).map((line) => line.split(':')[0])).toEqual([
      'apiserver cp2',
      'apiserver cp3',
    ]);
  const says = (change: UnderWay | undefined) =>
    during(change).find(({ subject, check }) => subject === 'cp1' && check === 'apiserver')?.says;
  expect(says(rotation)).toBe('not ready: refused; the rotation restarts it');
  expect(says(undefined)).toBe('not ready: refused; the change of its plan restarts it');
});

test('a change that is held is a fault of its own, with what an operator has to do', () => {
  const held = { ...UNDER_WAY, says: 'roll: w1 does not report.', remedy: 'Power it on.' };
  expect(failing(judgeChange('golden', held))).toEqual([
    'change golden: roll: w1 does not report.; Power it on; muster cluster roll golden shows the change',
  ]);
});

test('a member that the change restarts, and one that leaves, are no faults', () => {
  const change = { ...UNDER_WAY, restarts: (machine: string) => (machine === 'm2' ? ['etcd'] : []) };
  const status = { cluster: 'one', record: RECORD, members: [] };
  const during = (members: EtcdMember[]) =>
    failing(
      judgeEtcd({ ...status, view: { clusterId: 'c', members } }, MEMBERS, {
        change,
        leaving: new Set(['m4']),
      }),
    );
  expect(during([member(1), member(2, { healthy: false }), member(3), member(4)])).toEqual([]);
  expect(during([member(1), member(2, { healthy: false }), member(3, { healthy: false })])).toHaveLength(2);
  const restoring = { member: 'm1', address: '', filesystem: '', id: '', at: 0 };
  const restored = judgeEtcd({ ...status, record: { ...RECORD, restoring } }, MEMBERS);
  expect(failing(restored)).toEqual([
    'etcd one: it is being restored on m1; wait; muster cluster founding one shows its progress',
  ]);
});

test('a member that is not taken out yet says what it waits for, which is no fault', () => {
  const leaver = { since: 0, member: '10.0.0.3', node: true, clear: false, drainUntil: 0 };
  const record = (stage: 'drain' | 'etcd') => ({ ...RECORD, leaving: { m3: { ...leaver, stage } } });
  const says = (stage: 'drain' | 'etcd') =>
    etcd([member(1), member(2), member(3)], { record: record(stage), waiting: 'm2 may restart' })
      .filter(({ ok }) => ok)
      .map(({ subject, says: text }) => `${subject} ${text}`);
  expect(says('etcd')).toContain('m3 it is not taken out of etcd yet: m2 may restart');
  expect(says('drain').join()).not.toContain('may restart');
});

test('each controller manager and scheduler has a line, and one that ended has its last words', () => {
  const ready = { health: 'ready', revision: '-' } as const;
  const runs = { 'kube-controller-manager': '1.36.3', 'kube-scheduler': '1.36.3' };
  const both = new Map([
    ['kube-controller-manager', ready],
    ['kube-scheduler', ready],
  ] as const);
  const seen = (machine: string) =>
    machine === 'cp3'
      ? undefined
      : { runs, programs: machine === 'cp1' ? both : new Map([['kube-scheduler', ready]] as const) };
  const ended = (machine: string) =>
    machine === 'cp2' ? { 'kube-controller-manager': 'Error: unknown flag: --x' } : undefined;
  const found = judgePrograms(FULL, seen, { ended });
  expect(found.filter(({ ok }) => ok).map(({ subject, says }) => `${subject} ${says}`)).toEqual([
    'cp1 kube-controller-manager is ready, v1.36.3',
    'cp1 kube-scheduler is ready, v1.36.3',
    'cp2 kube-scheduler is ready, v1.36.3',
  ]);
  expect(failing(found)).toEqual([
    'program cp2: kube-controller-manager does not run; it ended and wrote: Error: unknown flag: --x; correct what it names, for example a flag in the Cluster; on cp2: crictl ps -a --name kube-controller-manager',
  ]);
  const change = { ...UNDER_WAY, restarts: () => ['kube-controller-manager'] };
  expect(failing(judgePrograms(FULL, seen, { ended, change }))).toEqual([]);
});

test('a node that is not ready, or not there, has the last words of what it needs first', () => {
  const ended = (machine: string) =>
    ({
      cp1: { containerd: 'failed to load plugin', kubelet: 'no such file containerd.sock' },
      w1: { haproxy: 'cannot bind socket', kubelet: 'connection refused' },
    })[machine];
  const nodes = nodeWith('w1', { ready: false, says: 'PLEG' }).filter(({ name }) => name !== 'cp1');
  expect(failing(judgeKubernetes(FULL, kubernetes({ nodes }), { ended })).toSorted()).toEqual([
    'node cp1: it has not registered; containerd ended and wrote: failed to load plugin; muster explain cp1',
    'node w1: not ready: PLEG; haproxy ended and wrote: cannot bind socket; muster explain w1',
  ]);
});

test('a member whose database is damaged is told with its last words, and with how it is replaced', () => {
  const status = { cluster: 'one', record: RECORD, members: [{ name: 'm2', asked: true }] };
  const view = { clusterId: 'c', members: [member(1), member(2, { healthy: false }), member(3)] };
  const judged = (etcdWords: string) =>
    failing(judgeEtcd({ ...status, view }, MEMBERS, { ended: () => ({ etcd: etcdWords }) })).at(-1);
  expect(judged('failed to open database: invalid database')).toBe(
    'etcd m2: member id-2 does not answer; it ended and wrote: failed to open database: invalid database; its data are damaged: blank its data disk and boot it, so that the others replace its member; or muster cluster remove-node one m2 --replace-with another machine',
  );
  // The only member has nobody from whom it could get the data.
  const alone = { ...status, view: { ...view, members: [member(2, { healthy: false })] } };
  const words = { etcd: 'panic: failed to open database' };
  expect(failing(judgeEtcd(alone, MEMBERS, { ended: () => words })).join()).toContain(
    'its data are damaged: muster cluster backups one lists snapshots',
  );
  expect(judged('listen tcp: address already in use')).toContain('; correct what it names');
});
