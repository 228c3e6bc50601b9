/**
 * Keys and certificates of a founded cluster against openssl, and against what kubeadm wrote for
 * the same cluster.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { PKI_DEVIATIONS, type PkiDeviation } from '../../src/pki/deviations.ts';
import { handout } from '../../src/pki/handout.ts';
import {
  AUTHORITIES,
  LEAF_NAMES,
  type LeafName,
  leafOf,
  MODES,
  PKI_DIRECTORY,
  TRANSPORT_BEGINS,
} from '../../src/pki/hierarchy.ts';
import { newGeneration } from '../../src/pki/issue.ts';
import { KEY_ALGORITHMS, PrivateKey } from '../../src/pki/keys.ts';
import { addTrusted, distrust, promote, signingCertificate, trustBundle } from '../../src/pki/keyset.ts';
import { AUTHORITY_NAMES, KEYSET_NAMES } from '../../src/pki/keysets.ts';
import { CP1, factsOf, scopeOf, temporary, verifyFaults, type World, world } from '../unit/pki/kit.ts';

const golden = JSON.parse(fs.readFileSync('test/golden/cluster/certificates.json', 'utf8')) as {
  certificates: (ReturnType<typeof factsOf> & { file: string; days: number })[];
};
const goldenModes = JSON.parse(fs.readFileSync('test/golden/cluster/files.json', 'utf8')) as Record<
  string,
  string
>;

/** Maps kubeadm's files to Muster's. */
function ours(file: string): { authority: (typeof AUTHORITY_NAMES)[number] } | { leaf: LeafName } {
  const stem = file.replace(/^pki\//, '').replace(/\.(crt|conf)$/, '');
  const authority = AUTHORITY_NAMES.find(
    (name) => AUTHORITIES[name].pair?.cert === `${PKI_DIRECTORY}/${stem}.crt`,
  );
  if (authority) return { authority };
  return { leaf: stem.replace('/', '-') as LeafName };
}

/** Differences from the golden certificate, each as `field: what`. */
function differences(
  expected: (typeof golden.certificates)[number],
  found: ReturnType<typeof factsOf>,
  issuedAt: number,
): string[] {
  const different: string[] = [];
  for (const field of ['subject', 'issuer', 'purposes', 'ca', 'ski', 'aki'] as const)
    if (JSON.stringify(expected[field]) !== JSON.stringify(found[field]))
      different.push(`${field}: ${found[field]}`);
  for (const field of ['sans', 'usage'] as const) {
    for (const one of expected[field]) if (!found[field].includes(one)) different.push(`${field}: -${one}`);
    for (const one of found[field]) if (!expected[field].includes(one)) different.push(`${field}: +${one}`);
  }
  if (Math.round((found.notAfter - issuedAt) / 86_400_000) !== expected.days) different.push('life');
  if (issuedAt - found.notBefore !== 86_400_000) different.push('notBefore');
  return different;
}

/** The differences that are allowed, by name of the deviation. */
const ALLOWED: readonly {
  readonly deviation: PkiDeviation;
  readonly files: RegExp;
  readonly what: RegExp;
}[] = [
  {
    deviation: 'localhost',
    files: /^pki\/apiserver\.crt$/,
    what: /^sans: \+(DNS:localhost|IP:127\.0\.0\.1|IP:0:0:0:0:0:0:0:1)$/,
  },
  { deviation: 'keyIdentifier', files: /^(?!pki\/(etcd\/)?(front-proxy-)?ca\.crt$)/, what: /^ski: true$/ },
  { deviation: 'keyEncipherment', files: /./, what: /^usage: -Key Encipherment$/ },
];

async function unexplained(algorithm?: 'RSA-2048'): Promise<{ wrong: string[]; used: Set<string> }> {
  const { keysets, leaves, clock } = await world(algorithm);
  const all = await keysets();
  const made = await leaves();
  const issuedAt = Math.floor(clock.now() / 1000) * 1000;
  const used = new Set<string>();
  const wrong = golden.certificates.flatMap((expected) => {
    const which = ours(expected.file);
    const pem =
      'authority' in which
        ? signingCertificate(all.get(which.authority)!)
        : made.get(which.leaf)!.certificate;
    const found = factsOf(pem);
    expect(found.critical, expected.file).toEqual(['Key Usage', 'Basic Constraints']);
    return differences(expected, found, issuedAt).flatMap((what) => {
      const reason = ALLOWED.find((one) => one.files.test(expected.file) && one.what.test(what));
      if (reason) used.add(reason.deviation);
      return reason ? [] : [`${expected.file}: ${what}`];
    });
  });
  return { wrong, used };
}

test('with ECDSA keys, certificates equal kubeadm’s except for named deviations', async () => {
  const { wrong, used } = await unexplained();
  expect(wrong).toEqual([]);
  expect(used).toEqual(new Set(ALLOWED.map(({ deviation }) => deviation)));
});

test('with RSA keys, certificates equal kubeadm’s except for added loopback addresses and key identifiers', async () => {
  const { wrong, used } = await unexplained('RSA-2048');
  expect(wrong).toEqual([]);
  expect([...used].sort()).toEqual(['keyIdentifier', 'localhost']);
});

test('every deviation from kubeadm’s certificates has a reason in a sentence', () => {
  for (const { where, reason } of Object.values(PKI_DEVIATIONS)) {
    expect(where).not.toBe('');
    expect(reason).toMatch(/^[A-Z].*\.$/);
  }
});

type Leaves = Awaited<ReturnType<World['leaves']>>;

/**
 * Returns the leaves that openssl, in its strict mode, verifies with their authorities' current
 * bundles.
 */
async function verified(
  of: World,
  leaves: Leaves,
  options: (leaf: LeafName) => readonly (readonly string[])[] = () => [[]],
): Promise<ReadonlySet<LeafName>> {
  using directory = temporary();
  const all = await of.keysets();
  // One process checks all leaves of an authority that have the same purpose.
  const groups = new Map<string, { trust: string; how: readonly string[]; files: Map<string, LeafName> }>();
  for (const [leaf, { certificate }] of leaves) {
    const { parent } = leafOf(leaf);
    const file = directory.write(`${leaf}.crt`, certificate);
    for (const how of options(leaf)) {
      const key = [parent, ...how].join(' ');
      const trust = directory.write(`${parent}.ca`, trustBundle(all.get(parent)!));
      const group = groups.get(key) ?? { trust, how, files: new Map<string, LeafName>() };
      groups.set(key, group);
      group.files.set(file, leaf);
    }
  }
  const good = new Set(leaves.keys());
  for (const { trust, how, files } of groups.values())
    for (const file of verifyFaults(trust, [...files.keys()], how).keys()) good.delete(files.get(file)!);
  return good;
}

/** Every leaf with each of its purposes. */
const purposesOf = (leaf: LeafName): readonly (readonly string[])[] =>
  leafOf(leaf).purposes.map((purpose) => ['-purpose', purpose === 'serverAuth' ? 'sslserver' : 'sslclient']);

test.for(['ECDSA-P256', 'RSA-2048'] as const)(
  'openssl verifies strictly every leaf of a cluster with %s',
  async (algorithm) => {
    const of = await world(algorithm);
    const leaves = await of.leaves();
    expect([...(await verified(of, leaves, purposesOf))]).toEqual([...leaves.keys()]);
  },
);

test('with two generations of every authority, leaves of both verify; after the old one is distrusted only the new ones do', async () => {
  const of = await world();
  const old = await of.leaves();
  const oldIds = new Map([...(await of.keysets())].map(([name, { primary }]) => [name, primary]));
  for (const name of AUTHORITY_NAMES) {
    const scope = scopeOf(name);
    const next = await of.pki.take(scope, name, await newGeneration(name, { now: of.clock.now() }));
    await of.pki.change(scope, name, (keyset) => addTrusted(keyset, next));
  }
  const verify = async (leaves: Leaves): Promise<readonly LeafName[]> => [...(await verified(of, leaves))];
  const all = [...old.keys()];
  const issuers = async () => new Set((await of.pki.issued('golden')).map(({ issuer }) => issuer.generation));
  const before = await issuers();
  // The new generation is trusted but does not sign yet.
  const between = await of.leaves();
  expect(await issuers()).toEqual(before);
  for (const name of AUTHORITY_NAMES) {
    const scope = scopeOf(name);
    await of.pki.change(scope, name, (keyset) => promote(keyset, keyset.trusted[1]!.id));
  }
  const fresh = await of.leaves();
  for (const leaves of [old, between, fresh]) expect(await verify(leaves)).toEqual(all);
  for (const keyset of (await of.keysets()).values())
    if (keyset.name !== 'sa') {
      expect(trustBundle(keyset).match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
      expect(signingCertificate(keyset).match(/BEGIN CERTIFICATE/g)).toHaveLength(1);
    }
  for (const name of AUTHORITY_NAMES) {
    const scope = scopeOf(name);
    await of.pki.change(scope, name, (keyset) => distrust(keyset, oldIds.get(name)!));
  }
  expect(await verify(old)).toEqual([]);
  expect(await verify(fresh)).toEqual(all);
});

test("only certificates of Muster's transport and of BMCs are valid for a machine whose clock begins in 2000", async () => {
  const of = await world();
  const at = ['-attime', String(TRANSPORT_BEGINS / 1000 + 3600)];
  const valid = [...(await verified(of, await of.leaves(), () => [at]))];
  expect(valid).toEqual(LEAF_NAMES.filter((leaf) => leafOf(leaf).begins === 'transport'));
});

test('a leaf never outlives its authority', async () => {
  const of = await world();
  of.clock.advance((3600 * 86_400_000) as never);
  const ends = [...(await of.leaves())].map(([, { certificate }]) => factsOf(certificate).notAfter);
  const caEnds = factsOf(signingCertificate((await of.keysets()).get('ca')!)).notAfter;
  expect(Math.max(...ends)).toBeLessThanOrEqual(caEnds);
});

/** The files of the first control plane, which is also a member of etcd. */
const filesOfCp1 = async (of: World) =>
  handout({
    roles: ['control-plane', 'etcd'],
    cluster: 'golden',
    user: CP1.name,
    keysets: await of.keysets(),
    leaves: await of.leaves(),
    signing: await of.signing(CP1.name),
    servers: { endpoint: 'https://api.golden.test:6443', local: 'https://10.0.0.11:6443' },
  });

test('a control plane with etcd gets the files of kubeadm with their modes', async () => {
  const of = await world();
  const files = await filesOfCp1(of);
  const found = new Map(files.map((file) => [file.path, file]));
  // A pair has its key in the file beside the certificate.
  const pairOf = (path: string) => {
    const beside = found.get(path.replace(/\.key$/, '.crt'));
    return beside?.content.kind === 'pair' ? beside : undefined;
  };
  const present = (path: string) =>
    pairOf(path) !== undefined || (found.has(path) && found.get(path)!.content.kind !== 'absent');
  const missing = Object.keys(goldenModes).filter((file) => !file.includes('/manifests/') && !present(file));
  // The deviations superAdmin and keysStay.
  expect(missing).toEqual([
    '/etc/kubernetes/pki/etcd/ca.key',
    '/etc/kubernetes/pki/front-proxy-ca.key',
    '/etc/kubernetes/super-admin.conf',
  ]);
  for (const [path, mode] of Object.entries(goldenModes)) {
    const file = present(path) ? found.get(path) : undefined;
    if (pairOf(path) && path.endsWith('.key'))
      expect(`${path} ${MODES.key.toString(8)}`).toBe(`${path} ${Number(mode)}`);
    if (file && file.content.kind !== 'link')
      expect(`${path} ${file.mode.toString(8)}`).toBe(`${path} ${Number(mode)}`);
  }
  for (const file of files) if (file.content.kind === 'secret') expect(file.mode, file.path).toBe(MODES.key);
});

test('of the CAs’ keys a control plane with etcd gets only the one with which Kubernetes signs, and removes the others', async () => {
  const of = await world();
  const files = await filesOfCp1(of);
  const text = files
    .map(({ content }) =>
      content.kind === 'secret' ? content.secret.reveal() : content.kind === 'text' ? content.text : '',
    )
    .join('');
  const keys = [];
  for (const name of KEYSET_NAMES) if (text.includes((await of.keyOf(name)).pem())) keys.push(name);
  expect(keys.sort()).toEqual(['ca', 'sa']);
  const removed = files.filter(({ content }) => content.kind === 'absent').map(({ path }) => path);
  expect(removed).toEqual(['/etc/kubernetes/pki/etcd/ca.key', '/etc/kubernetes/pki/front-proxy-ca.key']);
});

test('the CAs of the transport and of BMCs may sign leaves and bridges and have no alternative name; the CAs of a cluster are as kubeadm makes them', async () => {
  const of = await world();
  for (const [name, keyset] of await of.keysets()) {
    if (name === 'sa') continue;
    const certificate = signingCertificate(keyset);
    const text = execFileSync('openssl', ['x509', '-noout', '-text'], {
      input: certificate,
      encoding: 'utf8',
    });
    const shown = [/CA:TRUE.*/.exec(text)![0], /DNS:\S+/.exec(text)?.[0]];
    expect(shown).toEqual(
      AUTHORITIES[name].begins === 'transport'
        ? ['CA:TRUE, pathlen:1', undefined]
        : ['CA:TRUE', `DNS:${AUTHORITIES[name].commonName}`],
    );
  }
});

test('a worker gets no authority’s key and only its agent’s certificate', async () => {
  const of = await world();
  const files = handout({
    roles: ['worker'],
    cluster: 'golden',
    user: 'w1',
    keysets: await of.keysets(),
    leaves: new Map(),
    signing: await of.signing('x'),
    servers: { endpoint: 'https://api.golden.test:6443', local: 'https://127.0.0.1:6443' },
  });
  expect(files.map(({ path }) => path)).toEqual(['/etc/kubernetes/pki/ca-bundle.crt', '/etc/muster/ca.crt']);
  expect(files.filter(({ content }) => content.kind === 'secret')).toEqual([]);
});

test('with external etcd, its machines get no authority’s key, and control planes do not get etcd’s', async () => {
  const of = await world();
  const common = {
    cluster: 'golden',
    user: 'x',
    keysets: await of.keysets(),
    leaves: new Map(),
    signing: await of.signing('x'),
    servers: { endpoint: 'https://e:6443', local: 'https://l:6443' },
  };
  const keys = (roles: ('etcd' | 'control-plane')[]) =>
    handout({ ...common, roles })
      .filter(({ content }) => content.kind === 'secret')
      .map(({ path }) => path);
  expect(keys(['etcd'])).toEqual([]);
  expect(keys(['control-plane'])).toEqual(['/etc/kubernetes/pki/ca.key', '/etc/kubernetes/pki/sa.key']);
});

test('kubelet’s current certificate is a link to the one that Muster issues, also after kubelet turned it', async () => {
  const of = await world();
  const files = await filesOfCp1(of);
  const current = files.find(({ path }) => path.endsWith('/kubelet-client-current.pem'))!;
  const to = '/var/lib/kubelet/pki/kubelet-client-muster.pem';
  expect(current.content).toEqual({ kind: 'link', to });
  const held = files.find(({ path }) => path === to)!.content;
  if (held.kind !== 'secret') throw new Error(held.kind);
  expect(held.secret.reveal()).toMatch(/BEGIN CERT[\s\S]*END CERTIFICATE-----\n-----BEGIN EC /);
});

test('no two files of a machine have the same path', async () => {
  const paths = LEAF_NAMES.flatMap((leaf) => {
    const { delivery } = leafOf(leaf);
    if (delivery.form === 'pair') return [delivery.cert, delivery.key];
    if (delivery.form === 'combined') return [delivery.path, delivery.link, delivery.kubeconfig];
    if (delivery.form === 'kubeconfig-files')
      return [delivery.path, delivery.authority, delivery.pair, delivery.embedded];
    return delivery.form === 'kubeconfig' ? [delivery.path] : [];
  });
  expect(new Set(paths).size).toBe(paths.length);
});

test.for(KEY_ALGORITHMS)(
  'a key of %s is written as kubeadm writes it, and openssl reads it',
  async (algorithm) => {
    const key = await PrivateKey.generate(algorithm);
    const pem = key.pem();
    expect(pem).toMatch(algorithm.startsWith('RSA') ? /^-----BEGIN RSA PRIV/ : /^-----BEGIN EC PRIV/);
    execFileSync('openssl', ['pkey', '-check', '-noout'], { input: pem });
    expect(PrivateKey.fromPem(pem).publicKey().pin()).toBe(key.publicKey().pin());
  },
);
