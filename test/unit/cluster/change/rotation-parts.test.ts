/** The parts of a rotation: what proves a step, what the search finds, what people are shown. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Evidence, ListenerEvidence, ListenerName } from '../../../../src/agent/wire/evidence.ts';
import { MAX_TOKEN_PODS } from '../../../../src/agent/wire/evidence.ts';
import type { AgentFacts } from '../../../../src/agent/wire/facts.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import { previewText } from '../../../../src/cli/change/change.ts';
import { anyKind } from '../../../../src/cluster/change/kind.ts';
import { previewOf } from '../../../../src/cluster/change/preview.ts';
import {
  accepts,
  encryptionLoaded,
  issuedBy,
  nothingLeft,
  tokensRenewed,
} from '../../../../src/cluster/change/rotation/evidence.ts';
import {
  kidOf,
  leftoversOf,
  legacyTokens,
  type Needle,
  needleOf,
  searched,
  tokenNeedle,
} from '../../../../src/cluster/change/rotation/leftovers.ts';
import {
  type RotationOrder,
  type RotationSeen,
  rotationOrder,
} from '../../../../src/cluster/change/rotation/order.ts';
import {
  countedIn,
  failsNow,
  rehearsalOf,
  rehearsing,
  sampleOf,
  watched,
} from '../../../../src/cluster/change/rotation/rehearsal.ts';
import { search } from '../../../../src/cluster/change/rotation/search.ts';
import { otherKeys } from '../../../../src/cluster/change/rotation/secrets.ts';
import { ROTATION } from '../../../../src/cluster/change/rotation/table.ts';
import { keyIdOfTokens } from '../../../../src/cluster/change/rotation/token-key.ts';
import { podsWithTokensOf } from '../../../../src/cluster/change/rotation/token-pods.ts';
import type { MachineSeen, StepInput, Verdict } from '../../../../src/cluster/change/step.ts';
import { type Kube, KubeRefusal } from '../../../../src/cluster/kube.ts';
import { trustBundle } from '../../../../src/pki/keyset.ts';
import { world } from '../../pki/kit.ts';
import { resolved } from '../kit.ts';
import { NOT_ORDERED } from './not-ordered.ts';

const OLD = '0'.repeat(16);
const NEW = '1'.repeat(16);
const keyset = (name: RotationOrder['keysets'][number]['name'], bridged = false) => ({
  name,
  from: OLD,
  known: [OLD],
  to: NEW,
  bridged,
});
const orderOf = (...keysets: RotationOrder['keysets']): RotationOrder => ({ keysets, leave: [] });

const listener = (
  name: ListenerName,
  old: 'accepted' | 'refused',
  next: 'accepted' | 'refused',
  issuer = 'aa',
): [ListenerName, ListenerEvidence] => [
  name,
  { issuer, answers: new Map([[`ca.${OLD}`, old] as const, [`ca.${NEW}`, next] as const]) },
];

const machineOf = (
  evidence: Partial<Evidence>,
  role: 'worker' | 'control-plane' = 'worker',
): MachineSeen => ({
  name: 'w1',
  roles: [role],
  applied: true,
  facts: {
    evidence: { listeners: new Map(), programs: new Map(), tokens: new Map(), ...evidence },
  } as unknown as AgentFacts,
});

const inputOf = (
  order: RotationOrder,
  cluster: Partial<RotationSeen> = {},
): StepInput<RotationOrder, RotationSeen> => ({
  order,
  machines: [],
  age: 0 as Millis,
  cluster: {
    keysets: new Map(),
    issuers: new Map([
      ['aa', { keyset: 'ca', generation: OLD, state: 'trusted' }],
      ['bb', { keyset: 'ca', generation: NEW, state: 'trusted' }],
    ]),
    behind: new Map(),
    oldTokens: [],
    ...cluster,
  },
});

const said = (verdict: Verdict): string =>
  verdict.is === 'done'
    ? `done ${verdict.evidence}`
    : verdict.is === 'held'
      ? verdict.hold.text
      : verdict.text;

test.for([
  ['both', 'accepted', 'accepted', 'done kubelet: old ca accepted, new one accepted'],
  ['both', 'accepted', 'refused', 'its kubelet does not accept clients of the new ca: refused'],
  ['both', 'refused', 'accepted', 'its kubelet, asked by a client of the old ca: refused'],
  ['new', 'refused', 'accepted', 'done kubelet: old ca refused, new one accepted'],
  ['new', 'accepted', 'accepted', 'its kubelet, asked by a client of the old ca: accepted'],
] as const)(
  '%s generations: a listener that says %s to the old and %s to the new',
  ([which, old, next, expected]) => {
    const machine = machineOf({ listeners: new Map([listener('kubelet', old, next)]) });
    expect(said(accepts(which, { published: true })(machine, inputOf(orderOf(keyset('ca')))))).toBe(expected);
  },
);

test.for([
  ['kube-scheduler', 'kube-scheduler takes no clients of the front proxy'],
  [
    'kube-controller-manager',
    'its kube-controller-manager does not accept clients of the new front-proxy-ca: refused',
  ],
] as const)('%s refuses the front proxy of both generations', ([name, expected]) => {
  const answers = new Map([
    [`front-proxy-ca.${OLD}`, 'refused'] as const,
    [`front-proxy-ca.${NEW}`, 'refused'] as const,
  ]);
  const others = new Map([
    [`front-proxy-ca.${OLD}`, 'refused'] as const,
    [`front-proxy-ca.${NEW}`, 'accepted'] as const,
  ]);
  const machine = machineOf(
    {
      listeners: new Map<ListenerName, ListenerEvidence>([
        ['kube-apiserver', { answers: others }],
        ['kube-controller-manager', { answers: others }],
        ['kube-scheduler', { answers: others }],
        [name, { answers }],
      ]),
    },
    'control-plane',
  );
  const judge = accepts('new', { published: true });
  expect(said(judge(machine, inputOf(orderOf(keyset('front-proxy-ca')))))).toContain(expected);
});

test('an agent that does not say what a listener accepts proves nothing', () => {
  expect(said(accepts('new', { published: true })(machineOf({}), inputOf(orderOf(keyset('ca')))))).toBe(
    'its agent does not report what its kubelet shows',
  );
});

test('a kubelet that rotated its certificate itself holds the step although all listeners show the new CA', () => {
  const listeners = new Map([listener('kubelet', 'accepted', 'accepted', 'bb')]);
  const judge = (kubeletIssuer: string) =>
    said(issuedBy('to')(machineOf({ listeners, kubeletIssuer }), inputOf(orderOf(keyset('ca')))));
  expect(judge('aa')).toBe(`its kubelet still uses a certificate of ${OLD}`);
  expect(judge('bb')).toBe(
    `done kubelet shows a certificate of ca ${NEW}; kubelet uses a certificate of ca ${NEW}`,
  );
});

test('certificates that were not issued again are named', () => {
  const behind = new Map([['w1', ['kubelet', 'kubelet-serving']]]);
  expect(said(issuedBy('to')(machineOf({}), inputOf(orderOf(keyset('ca')), { behind })))).toBe(
    'certificates are not issued again yet: kubelet, kubelet-serving',
  );
});

test('an encryption key counts only when the API server says that it has loaded it', () => {
  const order = orderOf(keyset('encryption'));
  const judge = (encryption: string) =>
    said(
      encryptionLoaded(
        machineOf({ encryption }, 'control-plane'),
        inputOf(order, { encryption: 'b'.repeat(64) }),
      ),
    );
  expect(judge('a'.repeat(64))).toBe('its API server has not loaded the new encryption configuration yet');
  expect(judge('b'.repeat(64))).toMatch(/^done/);
  expect(otherKeys([Buffer.from('k8s:enc:secretbox:v1:old:x'), Buffer.from('{}')], 'new')).toBe(2);
  expect(otherKeys([Buffer.from('k8s:enc:secretbox:v1:new:x')], 'new')).toBe(0);
});

test('tokens of the old key are waited for, machine by machine, unless they are left behind', () => {
  const machine = machineOf({ tokens: new Map([['old-kid', 2]]) });
  const order = orderOf(keyset('sa'));
  const seen = { oldTokens: ['old-kid'] };
  expect(said(tokensRenewed(machine, inputOf(order, seen)))).toMatch(
    /^2 tokens in its pods .* --leave tokens\/w1$/,
  );
  expect(said(tokensRenewed(machine, inputOf({ ...order, leave: ['tokens/w1'] }, seen)))).toMatch(/^done/);
  const pods = { ...seen, oldTokenPods: new Map([['w1', ['web/api-1', 'web/db-0']]]) };
  expect(said(tokensRenewed(machine, inputOf(order, pods)))).toMatch(
    /^2 tokens in its pods \(web\/api-1, web\/db-0\) .* --leave pod\/web\/api-1 or --leave tokens\/w1$/,
  );
  const one = { ...order, leave: ['pod/web/api-1'] };
  expect(said(tokensRenewed(machine, inputOf(one, pods)))).toMatch(/\(web\/db-0\)/);
  const both = { ...order, leave: ['pod/web/api-1', 'pod/web/db-0'] };
  expect(said(tokensRenewed(machine, inputOf(both, pods)))).toBe(
    'done web/api-1, web/db-0 are left behind with tokens of the old key',
  );
  expect(said(tokensRenewed(machineOf({}), inputOf(order, seen)))).toBe(
    'done no token of its pods is of the old key',
  );
});

test('the key id of tokens is the one that API servers write into them', async () => {
  const { pki } = await world();
  const { publicKey } = (await pki.keysets('golden')).get('sa')!.trusted[0]!;
  const spki = publicKey.pem().replaceAll(/-----[^-]+-----|\s/g, '');
  const expected = createHash('sha256').update(Buffer.from(spki, 'base64')).digest('base64url');
  expect(keyIdOfTokens(publicKey)).toBe(expected);
});

const leftoversIn = (kind: string, list: unknown, needles: readonly Needle[]) =>
  leftoversOf(searched(kind, list, needles));

test('the search finds an old CA in plain text, in base64, and in kubeconfigs in Secrets, with its owner', async () => {
  const { pki } = await world();
  const ca = trustBundle((await pki.keysets('golden')).get('ca')!);
  const other = trustBundle((await pki.keysets('golden')).get('etcd-ca')!);
  const needles = [needleOf('the old ca', ca)];
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const kubeconfig = `clusters: [{cluster: {certificate-authority-data: ${base64(ca)}}}]`;
  const owner = [{ kind: 'Deployment', name: 'web' }];
  const item = (name: string, content: object, more: object = {}) => ({
    metadata: { namespace: 'web', name, ...more },
    ...content,
  });
  const configmaps = [
    item('plain', { data: { 'ca.crt': `# ours\n${ca}` } }, { ownerReferences: owner }),
    item('other', { data: { 'ca.crt': other } }),
    item('kube-root-ca.crt', { data: { 'ca.crt': ca } }),
  ];
  expect(leftoversIn('configmap', { items: configmaps }, needles)).toEqual([
    { name: 'configmap/web/plain', text: 'contains the old ca, of Deployment web' },
  ]);
  const secrets = [item('config', { data: { kubeconfig: base64(kubeconfig) } }), item('none', { data: {} })];
  expect(leftoversIn('secret', { items: secrets }, needles).map(({ name }) => name)).toEqual([
    'secret/web/config',
  ]);
  const webhooks = [{ metadata: { name: 'hook' }, webhooks: [{ clientConfig: { caBundle: base64(ca) } }] }];
  expect(
    leftoversIn('validatingwebhookconfiguration', { items: webhooks }, needles).map(({ name }) => name),
  ).toEqual(['validatingwebhookconfiguration/hook']);
});

/** An API that lists these objects by their paths, three to a page. */
const listing =
  (lists: Readonly<Record<string, readonly object[]>>, broken: readonly string[] = []): Kube =>
  async (path) => {
    const [list = '', query] = path.split('?');
    if (broken.includes(list)) throw new KubeRefusal(500, 'conversion webhook failed');
    const from = Number(new URLSearchParams(query).get('continue') ?? 0);
    const all = lists[list] ?? [];
    const more = from + 3 < all.length ? { continue: String(from + 3) } : {};
    const body = { items: all.slice(from, from + 3), metadata: more };
    return { body, text: JSON.stringify(body), date: 0 };
  };

test('workloads and custom resources are searched, annotations too, and the top owner is named', async () => {
  const { pki } = await world();
  const ca = trustBundle((await pki.keysets('golden')).get('ca')!);
  const token = `${Buffer.from('{"alg":"RS256","kid":"old-kid"}').toString('base64url')}.e30.x`;
  const needles = [needleOf('the old ca', ca), tokenNeedle('old-kid')];
  const object = (name: string, more: object, owner?: string, annotations?: object) => ({
    metadata: {
      ...{ namespace: 'web', name, uid: `uid-${name}`, annotations },
      ...(owner && { ownerReferences: [{ uid: `uid-${owner}`, kind: 'X', name: owner, controller: true }] }),
    },
    ...more,
  });
  const env = (value: string) => ({ spec: { containers: [{ env: [{ name: 'CA', value }] }] } });
  const template = (value: string) => ({ spec: { replicas: 1, template: env(value) } });
  const crd = (plural: string) => ({
    metadata: { name: `${plural}.example.com` },
    spec: {
      ...{ group: 'example.com', names: { plural } },
      versions: [
        { name: 'v1', served: true, storage: false },
        { name: 'v2', served: true, storage: true },
      ],
    },
  });
  const lists = {
    '/apis/apps/v1/deployments': [
      ...['a', 'b', 'c'].map((name) => object(name, template('none'))),
      object('web', template(ca)),
      object('fixed', template('new'), undefined, {
        'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(template(ca)),
      }),
    ],
    '/apis/apps/v1/replicasets': [
      object('web-1', template(ca), 'web'),
      object('fixed-1', { spec: { replicas: 0, template: env(ca) } }, 'fixed'),
    ],
    '/api/v1/pods': [
      object('web-1-a', env(ca), 'web-1'),
      object('sts-0', { spec: { containers: [{ args: ['--token', token] }] } }, 'sts'),
      object('done', { ...env(ca), status: { phase: 'Succeeded' } }),
    ],
    '/apis/apps/v1/statefulsets': [object('sts', {}, 'operated')],
    '/apis/apps/v1/daemonsets': [object('ds', {}, undefined, { trust: JSON.stringify({ ca }) })],
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions': [
      crd('operateds'),
      crd('broken'),
      crd('others'),
    ],
    '/apis/example.com/v2/operateds': [object('operated', {})],
    '/apis/example.com/v2/others': [object('one', { spec: { trust: { bundle: ca } } })],
  };
  const found = await search(listing(lists, ['/apis/example.com/v2/broken']), needles, new ManualClock());
  expect(found).toEqual([
    { name: 'deployment/web/web', text: 'contains the old ca' },
    { name: 'daemonset/web/ds', text: 'contains the old ca' },
    {
      name: 'operateds.example.com/web/operated',
      text: 'contains a token of the old service-account key, in pod/web/sts-0',
    },
    { name: 'others.example.com/web/one', text: 'contains the old ca' },
    { name: 'search/broken.example.com', text: 'was not searched: conversion webhook failed' },
  ]);
});

test('a search that takes too long names what it has not read', async () => {
  const clock = new ManualClock();
  const crds = ['slow', 'late'].map((plural) => ({
    metadata: { name: `${plural}.example.com` },
    spec: { group: 'example.com', names: { plural }, versions: [{ name: 'v1', served: true }] },
  }));
  const api = listing({ '/apis/apiextensions.k8s.io/v1/customresourcedefinitions': crds });
  const slow: Kube = async (path) => {
    if (path.includes('/slow')) clock.advance(duration('61s'));
    return api(path);
  };
  expect(await search(slow, [], clock)).toEqual([
    {
      name: 'search/late.example.com',
      text: 'was not searched: the cluster has more custom resources than one search reads',
    },
  ]);
});

test('a token in a Secret is known by its key id, and any other text is none', () => {
  const token = `${Buffer.from('{"alg":"RS256","kid":"k1"}').toString('base64url')}.e30.x`;
  const secret = (type: string) => ({
    metadata: { namespace: 'web', name: 't' },
    type,
    data: { token: Buffer.from(token).toString('base64') },
  });
  const items = [secret('kubernetes.io/service-account-token'), secret('Opaque')];
  expect(legacyTokens({ items })).toEqual([{ name: 'secret/web/t', kid: 'k1' }]);
  for (const text of ['', '.', 'x.y.z', 'e30.e30.e30', '\0']) expect(kidOf(text)).toBeUndefined();
});

test('what is left over holds the step with the command that leaves it behind', () => {
  const leftovers = [{ name: 'configmap/web/trust', text: 'contains the old ca' }];
  const order = orderOf(keyset('ca'));
  const verdict = nothingLeft(inputOf(order, { leftovers }));
  expect(verdict).toMatchObject({
    is: 'held',
    hold: {
      code: 'leftovers',
      remedy:
        'Change them, or leave them behind: `muster change <cluster> leave-out --leave configmap/web/trust`.',
    },
  });
  expect(nothingLeft(inputOf({ ...order, leave: ['configmap/web/trust'] }, { leftovers })).is).toBe('done');
  expect(said(nothingLeft(inputOf(order, { failure: 'no API server' })))).toBe(
    'the API server was not asked yet: no API server',
  );
});

const steps = (order: RotationOrder) =>
  ROTATION.forward(order)
    .map(({ name }) => name)
    .join(' ');

test('keysets skip the steps that they do not need', () => {
  expect(steps(orderOf(keyset('etcd-ca', true)))).toBe('generate issue distrust forget');
  // A CA without room for a bridge is trusted first.
  expect(steps(orderOf(keyset('etcd-ca')))).toBe('generate trust issue distrust forget');
  expect(steps(orderOf(keyset('encryption')))).toBe('generate trust issue rewrite distrust forget');
  expect(steps(orderOf(keyset('sa')))).toBe('generate trust issue search rehearse distrust forget');
});

test('a step of no return has a part of the boot host, so that a pause before it can be rolled back', () => {
  const order = orderOf(keyset('ca'), keyset('etcd-ca', true), keyset('sa'), keyset('encryption'));
  for (const route of [ROTATION.forward(order), ROTATION.forward({ ...order, emergency: true })])
    for (const { noReturn, acts } of route) expect(acts === true || noReturn === undefined).toBe(true);
});

test('the preview says what restarts where, and from where on there is no way back', () => {
  const kind = anyKind({
    ...{ ...ROTATION, ...NOT_ORDERED },
    name: 'rotation',
    schema: rotationOrder,
    act: async ({ order }) => order,
    look: () => Promise.reject(new Error('not asked')),
  });
  const order = orderOf(keyset('etcd-ca', true));
  const preview = previewOf(
    kind.steps({ kind: 'rotation', route: 'forward', order }),
    resolved().machines,
    [],
  );
  expect(preview.restarts).toEqual({ cp1: 2, cp2: 2, cp3: 2 });
  expect(previewText({ kind: 'rotation', faults: [], about: {}, hooks: [], ...preview })).toContain(
    [
      '--- It cannot be rolled back from here on.',
      'distrust    Nothing trusts the old keys any more. (about 2.7 min)',
      '            restarts etcd on cp1, cp2, cp3',
      '            restarts kube-apiserver on cp1, cp2, cp3',
    ].join('\n'),
  );
  expect(preview.minutes).toBeLessThan(duration('10m') / 60_000);
});

test('the counters of an API server are read from its metrics, and a restart begins a watch again', () => {
  const text = [
    '# HELP authentication_attempts [ALPHA] Counter of authenticated attempts.',
    'authentication_attempts{result="error"} 7',
    'authentication_attempts{result="failure"} 1',
    'authentication_attempts{result="success"} 9132',
    'apiserver_tls_handshake_errors_total 4',
    'process_start_time_seconds 1.76422394562e+09',
  ].join('\n');
  const sample = { startedAt: 1.76422394562e9, refusals: 8, handshakes: 4 };
  expect(sampleOf(text)).toEqual(sample);
  expect(sampleOf('authentication_attempts{result="error"} 7')).toBeUndefined();
  expect(sampleOf('')).toBeUndefined();
  expect(sampleOf(`${text}\nprocess_start_time_seconds 1e809`)).toBeUndefined();
  const at = (seconds: number) => (seconds * 1000) as Millis;
  const first = watched(undefined, 'cp1', sample, at(10));
  const more = watched(first, 'cp1', { ...sample, refusals: 11 }, at(40));
  expect(countedIn(more)).toEqual({ for: 30_000, refusals: 3, handshakes: 0 });
  expect(watched(more, 'cp1', { ...sample, startedAt: 1 }, at(50)).since).toBe(50_000);
  expect(watched(more, 'cp2', sample, at(50)).since).toBe(50_000);
});

test.for([
  [{ refusals: 0, handshakes: 0 }, { refusals: 0, handshakes: 5 }, undefined],
  [{ refusals: 0, handshakes: 0 }, { refusals: 1, handshakes: 0 }, '1 requests, and 0 in the time before'],
  [{ refusals: 4, handshakes: 0 }, { refusals: 8, handshakes: 0 }, undefined],
  [{ refusals: 4, handshakes: 0 }, { refusals: 9, handshakes: 0 }, '9 requests, and 4 in the time before'],
  [
    { refusals: 0, handshakes: 9 },
    { refusals: 0, handshakes: 24 },
    '24 TLS handshakes, and 9 in the time before',
  ],
] as const)('after %o in the time before, %o in the rehearsal: %s', ([before, now, fails]) => {
  const time = { for: 60_000 as Millis };
  expect(failsNow({ ...time, ...now }, { ...time, ...before })).toBe(fails);
});

test('the machine that rehearses trusts the new keys alone, unless the rotation is paused, held or rolled back', () => {
  const record: Parameters<typeof rehearsalOf>[0] = {
    ...{ machine: 'cp1', step: 'rehearse', route: 'forward', acted: true, evidence: {} },
    order: orderOf(keyset('ca'), keyset('encryption')),
  };
  const trusts = new Map([['ca', NEW]]);
  const at = 0;
  expect(rehearsalOf(record)).toEqual({ trusts, quiet: false });
  expect(rehearsalOf({ ...record, evidence: { cp1: { at, text: '' } } })).toEqual({ trusts, quiet: true });
  expect(rehearsalOf({ ...record, step: 'search' })).toEqual({ trusts: new Map(), quiet: true });
  expect(rehearsalOf({ ...record, step: 'distrust', acted: false })).toEqual({ trusts, quiet: true });
  expect(rehearsalOf({ ...record, step: 'distrust' })).toEqual({ trusts, quiet: false });
  const none: readonly Partial<typeof record>[] = [
    { step: 'issue' },
    { route: 'back' },
    { paused: { at, by: 'root' } },
    { holding: { at, code: '', text: '', remedy: '' } },
    { order: orderOf(keyset('etcd-ca')) },
    { order: { ...record.order, emergency: true } },
    { order: { ...record.order, leave: ['rehearsal'] } },
  ];
  for (const other of none)
    expect(rehearsalOf({ ...record, ...other }), JSON.stringify(other)).toBeUndefined();
});

test('a machine that is probed meanwhile begins the watch again, and one that failed is watched again later', () => {
  const sample = { startedAt: 1, refusals: 0, handshakes: 0 };
  const look = { step: 'search', machine: 'cp1', quiet: true, sample, now: 0 as Millis };
  const at = (seconds: number) => ({ now: (seconds * 1000) as Millis });
  const before = rehearsing(rehearsing({}, look), { ...look, ...at(60) });
  expect(countedIn(before.before!).for).toBe(60_000);
  expect(rehearsing(before, { ...look, quiet: false })).toEqual({});
  const step = { ...look, step: 'rehearse' };
  const begun = rehearsing(before, { ...step, ...at(70) });
  expect(countedIn(rehearsing(begun, { ...step, ...at(80) }).now!).for).toBe(10_000);
  // An API server that does not answer once proves nothing.
  expect(rehearsing(begun, { ...step, ...at(80), sample: undefined })).toEqual(begun);
  expect(rehearsing(begun, { ...step, ...at(80), quiet: false })).toEqual(before);
  const failed = rehearsing(begun, { ...step, ...at(80), sample: { ...sample, refusals: 2 } });
  expect(failed.failed?.what).toBe('2 requests, and 0 in the time before');
  expect(rehearsing(failed, { ...step, ...at(300) })).toEqual(failed);
  expect(rehearsing(failed, { ...step, ...at(380) })).toEqual(before);
});

test('pods with tokens of an old key are named by the API, by their UID if it does not know them', async () => {
  const uid = (digit: string) => digit.repeat(32);
  const seen = (name: string, pods: readonly string[]): MachineSeen => ({
    ...machineOf({ tokenPods: new Map([['old', pods]]) }),
    name,
  });
  const asked: string[] = [];
  const kube = async () => async (path: string) => {
    asked.push(path);
    const items = [
      { metadata: { uid: uid('a'), namespace: 'web', name: 'api-1' } },
      {
        metadata: {
          ...{ uid: uid('9'), namespace: 'kube-system', name: 'proxy' },
          annotations: { 'kubernetes.io/config.hash': uid('b') },
        },
      },
    ];
    return { body: { items }, text: '', date: 0 };
  };
  const many = Array.from({ length: MAX_TOKEN_PODS }, (_, n) => `${n}`.padStart(32, '0'));
  const machines = [seen('w1', ['c', 'a', 'b'].map(uid)), seen('w2', many), machineOf({})];
  expect(await podsWithTokensOf(['old'], machines, kube)).toEqual(
    new Map([['w1', [uid('c'), 'kube-system/proxy', 'web/api-1']]]),
  );
  expect(asked).toEqual(['/api/v1/pods?fieldSelector=spec.nodeName%3Dw1']);
  expect(await podsWithTokensOf(['other'], machines, () => Promise.reject(new Error('asked')))).toEqual(
    new Map(),
  );
});
