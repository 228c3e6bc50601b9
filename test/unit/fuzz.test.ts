/**
 * Damaged inputs for readers of single values, of the store's records, and of the answers of etcd,
 * Kubernetes and add-ons' publishers.
 */
import { expect, test } from 'vitest';
import type { Millis } from '../../src/base/duration.ts';
import { parseDuration } from '../../src/base/duration.ts';
import { parsed } from '../../src/base/foreign-json.ts';
import { formatIp, formatIpNetwork, parseIp, parseIpNetwork } from '../../src/base/ip.ts';
import { formatIpv4, parseCidr, parseIpv4 } from '../../src/base/ipv4.ts';
import { parseMac } from '../../src/base/mac.ts';
import { decodeChange, decodeStepEvidence } from '../../src/cluster/change/record.ts';
import { gatewayOf } from '../../src/cluster/etcd/gateway.socket.ts';
import { decodeFounding } from '../../src/cluster/etcd/record.ts';
import { observeKubernetes } from '../../src/cluster/health/observe.ts';
import type { Kube } from '../../src/cluster/kube.ts';
import { parseVersion } from '../../src/cluster/model/versions.ts';
import { readManifest } from '../../src/cluster/objects/addons/manifest.ts';
import { readApplied } from '../../src/cluster/objects/applied.ts';
import { parseEndpoint } from '../../src/cluster/resolve/endpoint.ts';
import { decodeEncryption, encodeEncryption, foundEncryption } from '../../src/pki/encryption.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import { foundKeyset, generationId } from '../../src/pki/keyset.ts';
import { parsePem } from '../../src/pki/pem.ts';
import { decodeIssued, decodeKeyset, encodeKeyset } from '../../src/pki/records.ts';
import { openSecrets } from '../../src/pki/secrets.ts';
import { readServerCertificate, serverCertificate } from '../../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../../src/pki/vault.ts';
import { readStored } from '../../src/resources/stored-documents.ts';
import { KEYS } from '../../src/store/keys.ts';
import { resolved } from './cluster/kit.ts';
import { damagedOctets, damagedRecords, damagedTexts, INPUTS, unless } from './fuzzing.ts';
import { world } from './pki/kit.ts';

/**
 * Columns: name, seeds, and a reader that also writes the value and reads it again; true: valid.
 */
const VALUES: readonly (readonly [string, readonly string[], (text: string) => boolean])[] = [
  [
    'addresses',
    ['10.77.0.1', 'fd00:10:96::1', '::ffff:10.0.0.1', '255.255.255.255', '0:0:0:0:0:0:0:1'],
    (text) => {
      const ip = parseIp(text);
      if (ip === undefined) return false;
      if (parseIp(formatIp(ip))?.value !== ip.value) throw new Error('another address');
      return true;
    },
  ],
  [
    'IPv4 addresses',
    ['10.77.0.1', '0.0.0.0', '255.255.255.255'],
    (text) => {
      const ip = parseIpv4(text);
      if (ip !== undefined && formatIpv4(ip) !== text) throw new Error('another address');
      return ip !== undefined;
    },
  ],
  [
    'networks',
    ['10.96.0.0/16', 'fd00:10:96::/112', '0.0.0.0/0', '10.77.0.1/32'],
    (text) => {
      const found = parseIpNetwork(text);
      if (
        found !== undefined &&
        formatIp(parseIpNetwork(formatIpNetwork(found))!.base) !== formatIp(found.base)
      )
        throw new Error('another network');
      const cidr = parseCidr(text);
      if (cidr !== undefined && found?.prefix !== cidr.prefix) throw new Error('two readings');
      return found !== undefined;
    },
  ],
  [
    'hardware addresses',
    ['52:54:00:aa:00:01', '01-52-54-00-aa-00-01', '5254.00aa.0001', '525400AA0001', '52:54:0:aa:0:1'],
    (text) => {
      const mac = parseMac(text);
      if (mac !== undefined && !/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/.test(mac))
        throw new Error('not in our spelling');
      return mac !== undefined;
    },
  ],
  [
    'durations',
    ['1h30m', '250ms', '7d'],
    (text) => {
      const span = parseDuration(text);
      if (span !== undefined && !(Number.isSafeInteger(span) && span >= 0)) throw new Error('no time');
      return span !== undefined;
    },
  ],
  ['versions', ['v1.36.2', '3.6.8-0'], (text) => parseVersion(text)?.every(Number.isSafeInteger) ?? false],
  [
    'endpoints',
    ['api.example:6443', '10.0.0.10', '[fd00::1]:6443', 'fd00::1'],
    (text) => {
      const found = parseEndpoint(text);
      if (found !== undefined && !(found.port > 0 && found.port < 65536 && /^[a-z0-9.:-]+$/.test(found.host)))
        throw new Error('no endpoint');
      return found !== undefined;
    },
  ],
  [
    'PEM',
    ['-----BEGIN A B-----\nAAAA\nAA==\n-----END A B-----\n\n-----BEGIN C-----\r\nBBBB\r\n-----END C-----'],
    (text) => (parsePem(text)?.length ?? 0) > 0,
  ],
];

test.each(VALUES)('damaged %s are refused or read and written unchanged', async (name, seeds, read) => {
  for (const seed of seeds) expect([seed, read(seed)]).toEqual([seed, true]);
  let taken = 0;
  await damagedTexts(name, seeds, (text) => {
    if (read(text)) taken++;
  });
  expect(taken).toBeGreaterThan(INPUTS / 400);
});

const VAULT = vaultFrom(newVaultKey(), 'test');
const NOW = 1_790_000_000_000 as Millis;
const KEY = await PrivateKey.generate('ECDSA-P256');
const PUBLIC = KEY.publicKey();
const SEALED = await VAULT.seal('r', 'text');
const keyset = foundKeyset('sa', {
  ...{ id: generationId(PUBLIC), createdAt: NOW, publicKey: PUBLIC, sealed: SEALED },
});
const CHANGE = {
  v: 1,
  cluster: 'c',
  id: 'i',
  kind: 'rotation',
  order: { keysets: ['ca'] },
  by: 'root (0)',
  at: 1,
  route: 'forward',
  step: 'trust',
  since: 2,
  acted: true,
  evidence: { cp1: { at: 3, text: 'seen' } },
  turns: ['cp2'],
  past: [{ step: 'generate', route: 'forward', since: 1, until: 2, machines: 0, text: 'made' }],
  pauseBefore: ['distrust'],
  paused: { at: 4, by: 'root' },
  holding: { at: 5, code: 'x', text: 'y', remedy: 'z' },
  without: ['w1'],
  ended: { at: 6, as: 'done' },
};

const FOUNDING = {
  ...{
    v: 1,
    cluster: 'c',
    id: 'f1',
    openedAt: 1,
    openedBy: 'all-asked',
    members: [{ name: 'a', address: '10.0.0.1' }],
    grants: { a: 'f' },
  },
  ...{
    founded: { at: 2, by: 'a' },
    joined: {},
    lists: { a: [{ name: 'a', address: '10.0.0.1' }] },
    former: ['1f'],
  },
  ...{ restoring: { member: 'a', address: '10.0.0.1', filesystem: 'f', id: 'f2', at: 3 } },
};
const ISSUED = {
  ...{
    v: 1,
    serial: '01',
    leaf: 'kubelet',
    subject: 'CN=a',
    to: 'a',
    issuer: { keyset: 'ca', generation: 'g' },
  },
  ...{ publicKey: 'p', notBefore: 1, notAfter: 2, issuedAt: 1, certificate: 'c' },
};

const LISTENER = await listener();
async function listener(): Promise<string> {
  const { pki, store, clock } = await world();
  const secrets = openSecrets({ store, vault: VAULT });
  await serverCertificate({ pki, secrets, clock }, ['10.77.0.1']);
  return (await secrets.get('server'))!;
}
const DOCUMENT = {
  ...{ apiVersion: 'muster/v1', kind: 'Machine', metadata: { name: 'a', labels: { rack: '1' } } },
  spec: { macs: ['52:54:00:aa:00:01'], profile: 'worker', pxe: { loader: 'own.efi' } },
};

/**
 * Records of the store. A person who could change them has the whole store, but a torn or foreign
 * record must be detected. Columns: name, seed, codes that may be thrown, reader.
 */
const RECORDS: readonly (readonly [string, object, readonly string[], (text: string) => unknown])[] = [
  [
    'keysets',
    JSON.parse(encodeKeyset(keyset)),
    ['E_PKI', 'E_VAULT_KEY', 'E_VAULT_RECORD'],
    (text) => decodeKeyset(KEYS.keyset.key('c', 'sa'), text),
  ],
  [
    'keys for Secrets',
    JSON.parse(await encodeEncryption('r', foundEncryption(NOW), VAULT)),
    ['E_PKI', 'E_VAULT_KEY', 'E_VAULT_RECORD'],
    (text) => decodeEncryption('r', text, VAULT),
  ],
  ['records of certificates', ISSUED, ['E_PKI'], (text) => decodeIssued('r', text)],
  ['changes', CHANGE, ['E_CHANGE'], (text) => decodeChange('change/c', text)],
  [
    'evidence for a step of a change',
    { v: 1, evidence: { cp1: { at: 1, text: 'seen' } } },
    ['E_CHANGE'],
    (text) => decodeStepEvidence('change-evidence/c/1/forward/trust', text),
  ],
  ['foundings', FOUNDING, ['E_FOUNDING'], (text) => decodeFounding('founding/c', text)],
  [
    'documents',
    { v: 1, document: DOCUMENT },
    ['E_STORE_NEWER'],
    (value) => readStored({ key: 'document/Machine/a', value, revision: 1 }),
  ],
  ["certificates of the agents' listener", JSON.parse(LISTENER), [], readServerCertificate],
  [
    'records of applied objects',
    { v: 1, digest: 'd', bootId: 'b', done: false, since: 1, says: 'Error' },
    [],
    readApplied,
  ],
];

test.each(RECORDS)('damaged %s are read or refused with a code', async (name, seed, codes, read) => {
  expect(await read(JSON.stringify(seed))).toBeDefined();
  await damagedRecords(name, [seed], async (text) => {
    const refused = (error: { readonly code?: string }): void => {
      if (!codes.includes(error.code ?? '')) throw error;
    };
    // Those that ask the vault answer later.
    const answer = unless(codes, () => read(text));
    if (answer instanceof Promise) await answer.catch(refused);
  });
});

test('damaged answers of etcd give members or a reason', async () => {
  const members = [{ name: 'a', address: '10.0.0.1' }];
  const header = { cluster_id: '14841639068965178418' };
  const seed = {
    header,
    members: [{ ID: '1', name: 'a', peerURLs: ['https://10.0.0.1:2380'], isLearner: true }, { ID: '2' }],
  };
  let seen = 0;
  await damagedRecords('answers of etcd', [seed], async (text) => {
    const view = await gatewayOf(async () => parsed(text))
      .view(members)
      .catch((error: Error) => {
        if (error.message !== 'etcd named no members') throw error;
      });
    if (view === undefined) return;
    seen++;
    for (const { id, name, peerUrls, healthy } of view.members)
      if ([id, name, ...peerUrls].some((one) => typeof one !== 'string') || typeof healthy !== 'boolean')
        throw new Error('no member');
  });
  expect(seen).toBeGreaterThan(INPUTS / 200);
});

test('damaged answers of Kubernetes are observed without an exception', async () => {
  const item = {
    metadata: { name: 'kube-scheduler', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { renewTime: '2026-01-01T00:00:00Z', holderIdentity: 'cp1_1', unschedulable: true, username: 'x' },
    status: {
      nodeInfo: { kubeletVersion: 'v1.36.2' },
      conditions: [{ type: 'Ready', status: 'True', message: 'm' }],
    },
  };
  const whole = resolved();
  let nodes = 0;
  await damagedRecords('answers of Kubernetes', [{ gitVersion: 'v1.36.2', items: [item] }], async (text) => {
    const answer = Promise.resolve({ body: parsed(text), text, date: NOW });
    const kube: Kube = () => answer;
    const { apiservers, api } = await observeKubernetes(whole, () => kube);
    if (!apiservers[0]?.ready || typeof api !== 'object') throw new Error(String(api));
    nodes += api.nodes.length;
    for (const { ready, says } of api.nodes)
      if (typeof ready !== 'boolean' || typeof says !== 'string') throw new Error('no node');
  });
  expect(nodes).toBeGreaterThan(INPUTS / 200);
});

test('damaged manifests of add-ons are read or refused with E_ADDON', async () => {
  const seeds = [
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata:\n  k: |\n    text\n---\napiVersion: v1\nkind: List\nitems:\n- &x {apiVersion: v1, kind: A, metadata: {name: c}}\n- *x\n',
    '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"n": 0644, "b": yes, "f": 1e3}}',
  ];
  let taken = 0;
  await damagedOctets('manifests of add-ons', seeds, (octets) => {
    const objects = unless(['E_ADDON'], () => readManifest(octets, 'f'));
    if (objects === undefined) return;
    taken++;
    for (const { kind, metadata } of objects)
      if (typeof kind !== 'string' || typeof metadata.name !== 'string') throw new Error('no object');
  });
  expect(taken).toBeGreaterThan(INPUTS / 200);
});
