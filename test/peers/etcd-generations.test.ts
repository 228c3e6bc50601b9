/**
 * A cluster is founded with two generations of each CA, as during a rotation: both are trusted, one
 * signs, and certificates of either are accepted. Uses the real agent, real etcd and the shipped
 * boot host.
 */
import { X509Certificate } from 'node:crypto';
import https from 'node:https';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import type { EtcdClient } from '../../src/cluster/joining/user-credentials.ts';
import { newGeneration } from '../../src/pki/issue.ts';
import { PrivateKey } from '../../src/pki/keys.ts';
import { addTrusted, promote } from '../../src/pki/keyset.ts';
import { openPki } from '../../src/pki/pki.ts';
import { vaultWith } from '../../src/pki/vault.ts';
import { openSealer, VAULT_KEY_FILE } from '../../src/pki/vault-key.files.ts';
import { openSqliteStore } from '../../src/store/sqlite.files.ts';
import { DEBIAN_13, type Rack, until, withRack } from './etcd/rack.ts';

const PKI = '/etc/kubernetes/pki/etcd';

interface Client {
  readonly certificate: string;
  readonly key: string;
}

/**
 * Makes a cluster's keys with two generations of each keyset, before any member asks for them: the
 * second signs, both are trusted. Returns an etcd client whose certificate the first one signed. No
 * server may have the store open.
 */
async function twoGenerations(state: string, cluster: string): Promise<Client> {
  const store = await openSqliteStore({
    path: join(state, 'muster.db'),
    log: silentLog,
    metrics: createMetrics(),
  });
  try {
    const vault = vaultWith(openSealer({ file: join(state, VAULT_KEY_FILE) }));
    const pki = openPki({ store, vault, clock: systemClock });
    const names = [...(await pki.found(cluster)).keys()];
    expect(names).toEqual(expect.arrayContaining(['ca', 'etcd-ca', 'front-proxy-ca', 'sa']));
    const key = await PrivateKey.generate();
    const { certificate } = await pki.issue(cluster, {
      leaf: 'etcd-person',
      holder: { name: 'before', addresses: [] },
      cluster: { name: cluster, dnsDomain: '', serviceAddresses: [], endpointNames: { dns: [], ips: [] } },
      publicKey: key.publicKey(),
    });
    for (const name of names) {
      const next = await pki.take(cluster, name, await newGeneration(name, { now: systemClock.now() }));
      await pki.change(cluster, name, (keyset) => promote(addTrusted(keyset, next), next.id));
    }
    return { certificate, key: key.pem() };
  } finally {
    await store.close();
  }
}

const certificatesOf = (bundle: string): readonly X509Certificate[] =>
  (bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
    (pem) => new X509Certificate(pem),
  );

/** The position in the bundle of the authority that signed the certificate. */
const signersOf = (certificate: string, bundle: string): readonly number[] =>
  certificatesOf(bundle).flatMap(({ publicKey }, n) =>
    new X509Certificate(certificate).verify(publicKey) ? [n] : [],
  );

async function client(rack: Rack, user: string): Promise<EtcdClient> {
  const { code, output } = await rack.muster('cluster', 'etcd-client', 'one', '--user', user, '-o', 'json');
  expect(code, output).toBe(0);
  return JSON.parse(output) as EtcdClient;
}

/** The members in the list of the member at `url`. */
function membersBy(url: string, { certificate, key }: Client, ca: string): Promise<number> {
  return new Promise((done, fail) => {
    const asking = https.request(
      `${url}/v3/cluster/member/list`,
      { method: 'POST', ca, cert: certificate, key, agent: false, signal: AbortSignal.timeout(10_000) },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (part) => (text += part));
        answer.on('error', fail);
        answer.on('end', () => done((JSON.parse(text) as { members: unknown[] }).members.length));
      },
    );
    asking.on('error', fail);
    asking.end('{}');
  });
}

test(
  'a cluster whose CAs have two generations is founded, and clients of both are accepted',
  { timeout: 600_000 },
  withRack(
    async (rack) => {
      await rack.host.kill();
      const before = await twoGenerations(rack.host.state, 'one');
      await rack.host.start();
      await Promise.all(rack.all.map((machine) => machine.powerOn()));
      await rack.healthy();
      rack.writer.start();

      const after = await client(rack, 'after');
      expect(certificatesOf(after.ca)).toHaveLength(2);
      expect([signersOf(before.certificate, after.ca), signersOf(after.certificate, after.ca)]).toEqual([
        [0],
        [1],
      ]);
      for (const machine of rack.all) {
        const read = (file: string) => machine.read(`${PKI}/${file}`) ?? '';
        await until(`${machine.name} trusts both`, () => read('ca-bundle.crt') === after.ca, rack.state);
        for (const leaf of ['server.crt', 'peer.crt', 'healthcheck-client.crt'])
          await until(
            `${leaf} of ${machine.name} is of the one that signs`,
            () => signersOf(read(leaf), after.ca).join() === '1',
            rack.state,
          );
      }
      for (const { url } of after.members)
        for (const credentials of [before, after])
          await until(
            `${url} believes it`,
            async () => (await membersBy(url, credentials, after.ca)) === 3,
            rack.state,
          );
      await rack.nothingLost();
    },
    { etcd: DEBIAN_13 },
  ),
);
