/**
 * Which requests for certificates are approved, denied or left alone, with requests from openssl.
 */
import { expect, test } from 'vitest';
import {
  CLIENT,
  decideRequest,
  type MISFITS,
  SERVING,
  type Verdict,
} from '../../../../src/cluster/joining/decide.ts';
import type { SigningRequest } from '../../../../src/cluster/joining/request.ts';
import { readSigningRequest } from '../../../../src/cluster/joining/request.ts';
import { MACHINE_TOKENS } from '../../../../src/cluster/resolve/by-token.ts';
import { element, TAG } from '../../../../src/pki/der.ts';
import { assembled, pairOf, requestOf, type Wanted } from '../../pki/asking.ts';
import { resolved } from '../kit.ts';

const INVENTORY = resolved({ etcd: { topology: 'external', machines: ['e1'] } }, [
  ...['cp1', 'cp2', 'cp3', 'w2'].map((name, n) => ({ name, addresses: [`10.0.0.${n + 11}`] })),
  { name: 'w1', addresses: ['10.0.0.21', 'fd00:0:0::21'] },
  { name: 'e1', addresses: ['10.0.0.31'] },
]);
const W1: Wanted = {
  commonName: 'system:node:w1',
  organizations: ['system:nodes'],
  sans: ['DNS:w1', 'IP:10.0.0.21', 'IP:fd00::21'],
};
const PENDING: SigningRequest = {
  ...{ name: 'csr-1', uid: 'u', signer: SERVING, username: 'system:node:w1', createdAt: 0, state: 'pending' },
  groups: ['system:nodes', 'system:authenticated'],
  usages: ['digital signature', 'server auth'],
  request: requestOf(W1),
};
const TOKEN = { username: 'system:bootstrap:abcdef', groups: ['system:bootstrappers'] };

/** The owners of tokens: w1, and a machine that left. */
const ownerOf = (id: string): string | undefined => ({ w1w1w1: 'w1', gogogo: 'gone' })[id];

const decide = (change: Partial<SigningRequest>, asked: Partial<Wanted> = {}): Verdict => {
  const request = Object.keys(asked).length > 0 ? requestOf({ ...W1, ...asked }) : PENDING.request;
  return decideRequest(INVENTORY, { ...PENDING, request, ...change }, ownerOf);
};

const CP1 = { commonName: 'system:node:cp1', sans: ['DNS:cp1', 'IP:10.0.0.11'] };

test.each<readonly [string, Partial<SigningRequest>, Partial<Wanted>, string]>([
  ['of a worker, as kubelet makes it', {}, {}, 'w1'],
  ['of a control plane', { username: 'system:node:cp1' }, CP1, 'cp1'],
  ['with an RSA key’s usage', { usages: ['key encipherment', ...PENDING.usages] }, {}, 'w1'],
  ['with its name alone', {}, { sans: ['DNS:w1'] }, 'w1'],
  ['with one of its addresses alone', {}, { sans: ['IP:fd00::21'] }, 'w1'],
  [
    'that says the usages itself',
    {},
    { keyUsage: 'digitalSignature,keyEncipherment', extendedKeyUsage: 'serverAuth' },
    'w1',
  ],
])('a serving request %s is approved', (_, change, asked, machine) => {
  expect(decide(change, asked)).toMatchObject({ do: 'approve', machine });
});

test.each<readonly [string, Partial<SigningRequest>, Partial<Wanted>, keyof typeof MISFITS, RegExp]>([
  [
    'by somebody without the group',
    { groups: ['system:authenticated'] },
    {},
    'requester',
    /group system:nodes/,
  ],
  ['by a token, for a machine', TOKEN, {}, 'requester', /system:bootstrap:abcdef asks .* system:node:w1/],
  [
    'by another cluster’s node, for a machine',
    { username: 'system:node:x' },
    {},
    'requester',
    /system:node:x asks/,
  ],
  ['for another machine’s name', {}, { commonName: 'system:node:w2' }, 'subject', /CN is system:node:w2/],
  ['without a name', {}, { commonName: '' }, 'subject', /CN is absent/],
  ['for administrators', {}, { organizations: ['system:masters'] }, 'subject', /O is system:masters/],
  [
    'for nodes and administrators',
    {},
    { organizations: ['system:nodes', 'system:masters'] },
    'subject',
    /O is system:nodes, system:masters/,
  ],
  [
    'without the usage of a server',
    { usages: ['digital signature'] },
    {},
    'usages',
    /server auth is missing/,
  ],
  ['without signatures', { usages: ['server auth'] }, {}, 'usages', /digital signature is missing/],
  [
    'for a client too',
    { usages: [...PENDING.usages, 'client auth'] },
    {},
    'usages',
    /client auth does not belong/,
  ],
  [
    'that says a client’s usage itself',
    {},
    { extendedKeyUsage: 'serverAuth,clientAuth' },
    'usages',
    /client auth/,
  ],
  ['that would sign others', {}, { keyUsage: 'digitalSignature,keyCertSign' }, 'usages', /cert sign/],
  [
    'with another’s address',
    {},
    { sans: ['DNS:w1', 'IP:10.0.0.11'] },
    'names',
    /the machine does not have 10\.0\.0\.11/,
  ],
  [
    'with another’s name',
    {},
    { sans: ['DNS:w1', 'DNS:kubernetes'] },
    'names',
    /the machine does not have kubernetes/,
  ],
  ['with no name and no address', {}, { sans: [] }, 'names', /neither/],
  ['with a URI', {}, { sans: ['DNS:w1', 'URI:spiffe://a'] }, 'more', /spiffe:\/\/a/],
  ['with an e-mail address', {}, { sans: ['DNS:w1', 'email:a@b.example'] }, 'more', /a@b\.example/],
  ['for a CA', {}, { more: 'basicConstraints = CA:TRUE' }, 'more', /extension 2\.5\.29\.19/],
  ['that cannot be read', { request: 'nothing' }, {}, 'unreadable', /PEM/],
])('a serving request %s is denied and says what differs', (_, change, asked, code, says) => {
  const verdict = decide(change, asked);
  expect(verdict).toMatchObject({ do: 'deny', machine: 'w1', code });
  expect('text' in verdict && verdict.text).toMatch(says);
});

test('the text names every difference, and nothing in it breaks a line', () => {
  const names = Array.from({ length: 9 }, (_, n) => `DNS:n${n}`);
  const verdict = decide({ usages: ['client auth'] }, { organizations: ['a\tb'], sans: [...names, 'URI:u'] });
  expect(verdict).toMatchObject({
    do: 'deny',
    code: 'subject',
    text: "O is a b instead of system:nodes; the usage digital signature, server auth is missing; the usage client auth does not belong in a kubelet's server certificate; the machine does not have n0, n1, n2, n3, n4 and 4 more, only w1, 10.0.0.21, fd00:0:0::21; it also asks for u",
  });
});

const X = { commonName: 'system:node:x', sans: ['DNS:x'] };
const CLIENT_OF = { signer: CLIENT, usages: ['digital signature', 'client auth'] };
const AS_CLIENT = { sans: [] };

test.each<readonly [string, Partial<SigningRequest>, Partial<Wanted>, string]>([
  ['a node’s that is not of this cluster', { username: 'system:node:x' }, X, 'not-ours'],
  ['a token’s for a node that is not of this cluster', TOKEN, X, 'not-ours'],
  ['a stranger’s that cannot be read', { ...TOKEN, request: 'nothing' }, {}, 'not-ours'],
  [
    'a member of etcd’s, which has no kubelet',
    { username: 'system:node:e1' },
    { commonName: 'system:node:e1' },
    'not-ours',
  ],
  ['one that is approved', { state: 'approved' }, { sans: ['DNS:other'] }, 'settled'],
  ['one that is denied', { state: 'denied' }, {}, 'settled'],
  ['one that failed', { state: 'failed' }, {}, 'settled'],
  ['one of another signer', { signer: 'kubernetes.io/kube-apiserver-client' }, {}, 'other-signer'],
  ['a machine’s own client request', CLIENT_OF, AS_CLIENT, 'in-tree'],
  ['a node’s client request that cannot be read', { ...CLIENT_OF, request: 'nothing' }, {}, 'in-tree'],
  ['a token’s client request for another node', { ...CLIENT_OF, ...TOKEN }, { ...X, sans: [] }, 'not-ours'],
  [
    'a machine’s own client request that is approved',
    { ...CLIENT_OF, state: 'approved' },
    AS_CLIENT,
    'settled',
  ],
  [
    'a token’s client request that is denied',
    { ...CLIENT_OF, ...TOKEN, state: 'denied' },
    AS_CLIENT,
    'settled',
  ],
])('%s is left', (_, change, asked, why) => {
  expect(decide(change, asked)).toEqual({ do: 'leave', why });
});

test('a client request for another machine is denied; if it is already approved, it raises an alarm', () => {
  const by = (change: Partial<SigningRequest>) => decide({ ...CLIENT_OF, ...change }, AS_CLIENT);
  expect(by(TOKEN)).toMatchObject({ do: 'deny', machine: 'w1', code: 'requester' });
  expect(by({ username: 'kubernetes-admin' })).toMatchObject({ do: 'deny', machine: 'w1' });
  // The verdict is about the requester, if it is a machine.
  expect(by({ username: 'system:node:w2' })).toEqual({
    ...{ do: 'deny', machine: 'w2', code: 'requester' },
    text: 'system:node:w2 asks for the client certificate of system:node:w1',
  });
  expect(by({ ...TOKEN, state: 'approved' })).toMatchObject({
    do: 'alarm',
    machine: 'w1',
    code: 'requester',
  });
});

test('a client request that names two nodes, or that only others can read, is not approved', () => {
  const two = (...names: readonly string[]) =>
    assembled({ subject: names.map((name) => element(TAG.set, pairOf('2.5.4.3', Buffer.from(name)))) });
  const by = (request: string) =>
    decideRequest(INVENTORY, { ...PENDING, ...CLIENT_OF, ...TOKEN, request }, ownerOf);
  for (const names of [
    ['system:node:x', 'system:node:w1'],
    ['system:node:w1', 'system:node:x'],
  ])
    expect(by(two(...names))).toMatchObject({ do: 'deny', machine: 'w1' });
  expect(by(`a line that Go skips\n${requestOf(W1)}`)).toMatchObject({
    ...{ do: 'deny', machine: undefined, code: 'unreadable' },
  });
});

test('objects of the API are read field by field, and missing fields are empty', () => {
  const at = '2026-01-01T00:00:00Z';
  const item = {
    metadata: { name: 'a', uid: 'u', creationTimestamp: at },
    spec: {
      ...{ signerName: 's', username: 'n', groups: ['g'], usages: ['server auth'] },
      request: Buffer.from('PEM').toString('base64'),
    },
    status: {},
  };
  const read = {
    ...{ name: 'a', uid: 'u', signer: 's', username: 'n', groups: ['g'], usages: ['server auth'] },
    ...{ request: 'PEM', createdAt: Date.parse(at), state: 'pending' },
  };
  expect(readSigningRequest(item)).toEqual(read);
  const state = (...types: readonly string[]) =>
    readSigningRequest({ ...item, status: { conditions: types.map((type) => ({ type })) } }).state;
  expect(state('Approved')).toBe('approved');
  expect(state('Approved', 'Failed')).toBe('failed');
  expect(state('Approved', 'Denied')).toBe('denied');
  expect(state('Novel')).toBe('failed');
  expect(readSigningRequest({ ...item, status: { certificate: 'x' } }).state).toBe('approved');
  expect(readSigningRequest(null)).toEqual({
    ...{ name: '', uid: '', signer: '', username: '', groups: [], usages: [], request: '' },
    ...{ createdAt: Number.NaN, state: 'pending' },
  });
});

const MACHINE_TOKEN = {
  ...CLIENT_OF,
  username: 'system:bootstrap:w1w1w1',
  groups: ['system:bootstrappers', 'system:bootstrappers:muster:machines', 'system:authenticated'],
};

test('a machine’s token gets the client certificate of that machine', () => {
  expect(decide(MACHINE_TOKEN, AS_CLIENT)).toEqual({
    ...{ do: 'approve', machine: 'w1' },
    text: 'token, subject and usages are those of w1',
  });
  expect(decide({ ...MACHINE_TOKEN, state: 'approved' }, AS_CLIENT)).toMatchObject({ why: 'settled' });
});

test.each<
  readonly [
    string,
    Partial<SigningRequest>,
    Partial<Wanted>,
    string | undefined,
    keyof typeof MISFITS,
    RegExp,
  ]
>([
  ['another machine’s name', {}, { ...CP1, sans: [] }, 'w1', 'subject', /CN is system:node:cp1 instead of/],
  ['a stranger’s name', {}, { ...X, sans: [] }, 'w1', 'subject', /CN is system:node:x/],
  ['another group', {}, { sans: [], organizations: ['system:masters'] }, 'w1', 'subject', /system:masters/],
  ['a server’s usages', { usages: PENDING.usages }, { sans: [] }, 'w1', 'usages', /a kubelet's client/],
  ['its own name and address besides', {}, { sans: W1.sans! }, 'w1', 'more', /w1, 10\.0\.0\.21, fd00::21/],
  ['what cannot be read', { request: 'nothing' }, {}, 'w1', 'unreadable', /PEM/],
  [
    'a machine’s name, and the token was used',
    { username: 'system:bootstrap:usedup' },
    AS_CLIENT,
    'w1',
    'token',
    /system:bootstrap:usedup is not the unused token/,
  ],
  [
    'its name, and it has left the cluster',
    { username: 'system:bootstrap:gogogo' },
    { commonName: 'system:node:gone', sans: [] },
    undefined,
    'token',
    /is not the unused token of a machine of this cluster/,
  ],
])('a machine’s token that asks for %s is denied', (_, change, asked, machine, code, says) => {
  const verdict = decide({ ...MACHINE_TOKEN, ...change }, asked);
  expect(verdict).toMatchObject({ do: 'deny', machine, code });
  expect('text' in verdict && verdict.text).toMatch(says);
  if (code !== 'unreadable')
    expect(decide({ ...MACHINE_TOKEN, ...change, state: 'approved' }, asked)).toMatchObject({ do: 'alarm' });
});

test('the name of a machine’s token without its group proves nothing', () => {
  const nobody = { ...MACHINE_TOKEN, groups: TOKEN.groups };
  expect(decide(nobody, AS_CLIENT)).toMatchObject({ do: 'deny', machine: 'w1', code: 'requester' });
});

test('every request of a machine in quarantine is denied, by its node and by its token, and no other one', () => {
  const held = (change: Partial<SigningRequest>, machine = 'w1') =>
    decideRequest(INVENTORY, { ...PENDING, ...change }, ownerOf, (name) => name === machine);
  expect(held({})).toMatchObject({ do: 'deny', machine: 'w1', code: 'quarantined' });
  expect(held(TOKEN)).not.toMatchObject({ do: 'approve' });
  const token = { username: 'system:bootstrap:w1w1w1', groups: [MACHINE_TOKENS], signer: CLIENT };
  expect(held(token)).toMatchObject({ do: 'deny', machine: 'w1', code: 'quarantined' });
  expect(held({}, 'cp1')).toMatchObject({ do: 'approve', machine: 'w1' });
});
