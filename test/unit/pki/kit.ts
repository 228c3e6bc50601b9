/** A founded cluster, and openssl to verify its certificates. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ManualClock } from '../../../src/base/clock.ts';
import type { Millis } from '../../../src/base/duration.ts';
import type { Held } from '../../../src/pki/handout.ts';
import {
  type ClusterNames,
  type Holder,
  LEAF_NAMES,
  type LeafName,
  leafOf,
} from '../../../src/pki/hierarchy.ts';
import { type KeyAlgorithm, PrivateKey } from '../../../src/pki/keys.ts';
import { type Keyset, primaryOf } from '../../../src/pki/keyset.ts';
import { type KeysetName, keysetRow } from '../../../src/pki/keysets.ts';
import { openPki, type Pki } from '../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { BMC_SCOPE, MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';

/** The cluster that kubeadm's golden files were made for. */
export const GOLDEN: ClusterNames = {
  name: 'golden',
  dnsDomain: 'cluster.local',
  serviceAddresses: ['10.96.0.1'],
  endpointNames: { dns: ['api.golden.test'], ips: ['10.0.0.10'] },
};
export const CP1: Holder = { name: 'cp1', addresses: ['10.0.0.11'] };

export interface World {
  readonly pki: Pki;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly keysets: () => Promise<ReadonlyMap<KeysetName, Keyset>>;
  /** One certificate of every kind, with keys made here. */
  readonly leaves: () => Promise<ReadonlyMap<LeafName, Required<Held>>>;
  /** What a control plane gets of the private keys. */
  readonly signing: (machine: string) => ReturnType<Pki['handedOut']>;
  /** The private key that signs. */
  readonly keyOf: (name: KeysetName) => Promise<PrivateKey>;
}

const OF_MUSTER = [MUSTER_SCOPE, BMC_SCOPE] as const;

/** The scope that has a keyset, for those of a cluster `cluster`. */
export const scopeOf = (name: KeysetName, cluster = 'golden'): string =>
  ({ cluster, muster: MUSTER_SCOPE, bmcs: BMC_SCOPE })[keysetRow(name).scope];

/** `authority`: how long its CAs live; as the table in src/pki/hierarchy.ts says by default. */
export async function world(
  algorithm?: KeyAlgorithm,
  start = Date.now(),
  authority?: Millis,
): Promise<World> {
  const store = openMemoryStore();
  const clock = new ManualClock(start as Millis);
  const lifetimes = authority === undefined ? {} : { authority };
  const pki = openPki({ store, clock, vault: vaultFrom(newVaultKey(), 'test'), lifetimes });
  await pki.found('golden', algorithm);
  for (const scope of OF_MUSTER) await pki.found(scope, algorithm);
  const keysets = async () => {
    const all = ['golden', ...OF_MUSTER].map(async (scope) => [...(await pki.keysets(scope))]);
    return new Map((await Promise.all(all)).flat());
  };
  const key = algorithm && (await PrivateKey.generate(algorithm));
  const leaves = async () => {
    const made = new Map<LeafName, Required<Held>>();
    for (const leaf of LEAF_NAMES) {
      const own = key ?? (await PrivateKey.generate());
      const scope = scopeOf(leafOf(leaf).parent);
      const order = { leaf, holder: CP1, cluster: GOLDEN, publicKey: own.publicKey() };
      made.set(leaf, { certificate: (await pki.issue(scope, order)).certificate, key: own });
    }
    return made;
  };
  const signing = async (machine: string) => pki.handedOut('golden', machine, await pki.keysets('golden'));
  const keyOf = async (name: KeysetName) => {
    const scope = scopeOf(name);
    const generation = primaryOf((await pki.keysets(scope)).get(name)!);
    return PrivateKey.fromPem((await pki.exported(scope, name, generation)).reveal());
  };
  return { pki, store, clock, keysets, leaves, signing, keyOf };
}

/** A temporary directory, which the caller's `using` removes. */
export function temporary(): Disposable & {
  write(name: string, text: string): string;
  readonly path: string;
} {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-pki-'));
  return {
    path: directory,
    write(name, text) {
      const file = path.join(directory, name);
      fs.writeFileSync(file, text, { mode: 0o600 });
      return file;
    },
    [Symbol.dispose]: () => fs.rmSync(directory, { recursive: true, force: true }),
  };
}

/**
 * File → message of openssl, for each certificate that it refuses. One process verifies all.
 */
export function verifyFaults(
  trust: string,
  leaves: readonly string[],
  options: readonly string[] = [],
): ReadonlyMap<string, string> {
  const strict = ['-x509_strict', '-check_ss_sig', '-no-CApath', '-no-CAstore', '-CAfile', trust];
  const { stdout, stderr } = spawnSync('openssl', ['verify', ...strict, ...options, ...leaves], {
    encoding: 'utf8',
  });
  const good = new Set(stdout.split('\n').flatMap((line) => line.match(/^(.*): OK$/)?.[1] ?? []));
  return new Map(leaves.filter((leaf) => !good.has(leaf)).map((leaf) => [leaf, stderr]));
}

/** A certificate as openssl reads it, in the form of the golden file. */
export function factsOf(pem: string) {
  const text = execFileSync('openssl', ['x509', '-noout', '-text', '-nameopt', 'RFC2253'], {
    input: pem,
    encoding: 'utf8',
  });
  const after = (heading: string): string[] => {
    const found = new RegExp(`${heading}: ?(?:critical)?\\s*\\n\\s*(.*)`).exec(text)?.[1];
    return found === undefined
      ? []
      : found.split(',').map((part) => part.trim().replace('IP Address:', 'IP:'));
  };
  const line = (heading: string): string => new RegExp(`${heading}\\s*: ?(.*)`).exec(text)![1]!.trim();
  return {
    subject: line('Subject').split(',').sort(),
    issuer: line('Issuer'),
    sans: after('X509v3 Subject Alternative Name').sort(),
    usage: after('X509v3 Key Usage'),
    purposes: after('X509v3 Extended Key Usage'),
    ca: after('X509v3 Basic Constraints')[0] === 'CA:TRUE',
    critical: [...text.matchAll(/X509v3 ([A-Za-z ]+): critical/g)].map((found) => found[1]!),
    ski: text.includes('X509v3 Subject Key Identifier'),
    aki: text.includes('X509v3 Authority Key Identifier'),
    notBefore: Date.parse(line('Not Before')),
    notAfter: Date.parse(line('Not After ')),
  };
}

/** Replaces a keyset of the cluster `golden` by a new generation, step by step, without a wait. */
export async function rotateCompletely(pki: Pki, name: 'ca' | 'front-proxy-ca' | 'sa'): Promise<void> {
  const old = (await pki.keysets('golden')).get(name)!.primary;
  const { generation } = await pki.transition('golden', name, { do: 'make' });
  for (const step of ['trust', 'promote'] as const)
    await pki.transition('golden', name, { do: step, generation });
  for (const step of ['distrust', 'forget'] as const)
    await pki.transition('golden', name, { do: step, generation: old });
}
