/**
 * Bridges: leaves of a new CA are accepted by programs that know only the old one, by openssl,
 * Node and curl; and the transitions that a rotation calls.
 */
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import tls from 'node:tls';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import { noRoomForBridge } from '../../../src/pki/issue.ts';
import { type KeyAlgorithm, PrivateKey } from '../../../src/pki/keys.ts';
import {
  addTrusted,
  foundKeyset,
  generationId,
  type Keyset,
  make,
  primaryOf,
  promote,
} from '../../../src/pki/keyset.ts';
import { AUTHORITY_NAMES } from '../../../src/pki/keysets.ts';
import { generationsByKeyId } from '../../../src/pki/transitions.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { issuerKeyIdOf, readAuthority, selfSign } from '../../../src/pki/x509.ts';
import { CP1, GOLDEN, scopeOf, temporary, verifyFaults, type World, world } from './kit.ts';

/** A world in which each CA has a new generation that signs and is in no bundle yet. */
async function promoted(algorithm?: KeyAlgorithm): Promise<World> {
  const of = await world(algorithm);
  of.clock.advance(1000 as Millis);
  for (const name of AUTHORITY_NAMES) {
    const { generation } = await of.pki.transition(scopeOf(name), name, { do: 'make' });
    await of.pki.transition(scopeOf(name), name, { do: 'promote', generation });
  }
  return of;
}

const certificateOf = (keyset: Keyset, id: string): string =>
  [...keyset.made, ...keyset.trusted, ...keyset.distrusted].find((one) => one.id === id)!.certificate!;

test.each(['ECDSA-P256', 'RSA-2048'] as const)(
  'openssl accepts every leaf of a new CA (%s) with the old one alone, the new one alone and both, in its strict mode',
  async (algorithm) => {
    const of = await promoted(algorithm);
    const leaves = await of.leaves();
    for (const name of AUTHORITY_NAMES) {
      const keyset = (await of.keysets()).get(name)!;
      const old = keyset.trusted[0]!.id;
      const [before, after] = [certificateOf(keyset, old), certificateOf(keyset, keyset.primary)];
      using directory = temporary();
      for (const [leaf, { certificate }] of leaves) {
        const issuer = new X509Certificate(certificate);
        if (!issuer.verify(primaryOf(keyset).publicKey.object) || leaf.includes('probe')) continue;
        const file = directory.write(`${leaf}.crt`, certificate);
        for (const trust of [before, after, before + after, after + before]) {
          const bundle = directory.write('trust.crt', trust);
          expect([...verifyFaults(bundle, [file], ['-untrusted', file])]).toEqual([]);
        }
        expect(verifyFaults(directory.write('trust.crt', before), [file]).size).toBe(1);
      }
    }
  },
);

/** Starts a server that requires a client certificate that `trust` signed. */
async function listening(own: { cert: string; key: string }, trust: string) {
  const server = tls.createServer({ ...own, ca: trust, requestCert: true, rejectUnauthorized: true });
  server.on('secureConnection', (socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nfine'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.dispose]: () => void server.close(),
  };
}

/** What the server says; a refusal arrives after the handshake in TLS 1.3. */
function asked(port: number, own: { cert: string; key: string }, trust: string): Promise<string> {
  const socket = tls.connect({ port, host: '127.0.0.1', servername: 'cp1', ca: trust, ...own });
  return new Promise((done) => {
    let text = '';
    socket.on('data', (part) => (text += String(part)));
    socket.on('error', (error) => done((error as NodeJS.ErrnoException).code ?? error.message));
    socket.on('end', () => done(text.slice(-4)));
  });
}

test('Node and curl accept old and new leaves with old and new trust on both sides, and no leaf of the new CA without its bridge', async () => {
  const of = await world();
  const old = await of.leaves();
  of.clock.advance(1000 as Millis);
  const { generation } = await of.pki.transition('golden', 'etcd-ca', { do: 'make' });
  await of.pki.transition('golden', 'etcd-ca', { do: 'promote', generation });
  const fresh = await of.leaves();
  const keyset = (await of.keysets()).get('etcd-ca')!;
  const before = certificateOf(keyset, keyset.trusted[0]!.id);
  const after = certificateOf(keyset, generation);
  const pairOf = (leaves: typeof old, leaf: 'etcd-server' | 'etcd-peer') => {
    const { certificate, key } = leaves.get(leaf)!;
    return { cert: certificate, key: key.pem() };
  };
  using directory = temporary();
  const curl = async (port: number, own: { cert: string; key: string }, trust: string) => {
    const files = [
      ['--cacert', directory.write('ca', trust)],
      ['--cert', directory.write('cert', own.cert)],
      ['--key', directory.write('key', own.key)],
    ].flat();
    const connect = ['--connect-to', `cp1::127.0.0.1:${port}`];
    const { stdout } = await promisify(execFile)('curl', ['-s', ...files, ...connect, 'https://cp1/']);
    return stdout;
  };
  // All leaves are new; each side knows the old CA alone, the new one alone, or both.
  for (const trust of [before, after, before + after]) {
    using server = await listening(pairOf(fresh, 'etcd-server'), trust);
    for (const known of [before, after, after + before]) {
      expect(await asked(server.port, pairOf(fresh, 'etcd-peer'), known)).toBe('fine');
      expect(await curl(server.port, pairOf(fresh, 'etcd-peer'), known)).toBe('fine');
    }
  }
  // Leaves of both with the old trust, as while leaves are replaced.
  using server = await listening(pairOf(old, 'etcd-server'), before);
  expect(await asked(server.port, pairOf(fresh, 'etcd-peer'), before)).toBe('fine');
  const bare = (pem: string): string => pem.slice(0, pem.indexOf('-----END') + 26);
  const unbridged = { ...pairOf(fresh, 'etcd-peer'), cert: bare(pairOf(fresh, 'etcd-peer').cert) };
  expect(await asked(server.port, unbridged, before)).not.toBe('fine');
  // After the end the old leaves are refused.
  using ended = await listening(pairOf(fresh, 'etcd-server'), after);
  expect(await asked(ended.port, pairOf(old, 'etcd-peer'), after)).not.toBe('fine');
});

test('a bridge has the name and key of the new CA, lets only leaves follow, and ends with the first of both', async () => {
  const of = await promoted();
  const keyset = (await of.keysets()).get('ca')!;
  const next = primaryOf(keyset);
  const [bridge] = next.bridges!;
  const parsed = new X509Certificate(bridge!.certificate);
  const facts = readAuthority(bridge!.certificate);
  expect(bridge!.issuer).toBe(keyset.trusted[0]!.id);
  expect(parsed.subject).toBe(new X509Certificate(next.certificate!).subject);
  expect(parsed.publicKey.equals(next.publicKey.object)).toBe(true);
  expect(facts).toMatchObject({ isCa: true, maySign: true, pathLength: 0 });
  expect(facts.keyId).toBe(readAuthority(next.certificate!).keyId);
  expect(facts.notAfter).toBe(readAuthority(keyset.trusted[0]!.certificate!).notAfter);
  expect(issuerKeyIdOf(bridge!.certificate)).toBe(readAuthority(keyset.trusted[0]!.certificate!).keyId);
});

test('a CA without room for a bridge signs none, so its successor has to be trusted before it signs', async () => {
  const now = Date.now() as Millis;
  const key = await PrivateKey.generate();
  const facts = {
    subject: { commonName: 'narrow' },
    sans: { dns: [], ips: [] },
    publicKey: key.publicKey(),
    purposes: [],
    ca: true,
    notBefore: (now - 1000) as Millis,
    notAfter: (now + 60_000) as Millis,
  };
  const narrow = (await selfSign({ ...facts, pathLength: 0 }, key)).pem;
  expect(noRoomForBridge(narrow, now)).toMatch(/path length is 0/);
  expect(noRoomForBridge((await selfSign({ ...facts, ca: false }, key)).pem, now)).toMatch(/sign others/);
  const wide = (await selfSign(facts, key)).pem;
  expect(noRoomForBridge(wide, now)).toBeUndefined();
  expect(noRoomForBridge(wide, (now + 60_000) as Millis)).toMatch(/ended/);
  const publicKey = key.publicKey();
  const taken = { id: generationId(publicKey), createdAt: now, publicKey, key, certificate: narrow };
  const vault = vaultFrom(newVaultKey(), 'test');
  const place = { scope: 'golden', keyset: 'ca', now } as const;
  const old = await vault.take({ ...place, taken, bridgesFrom: [] });
  const keyset: Keyset = foundKeyset('ca', old);
  const next = await vault.make({ ...place, bridgesFrom: [old] });
  expect(next.bridges).toBeUndefined();
  expect(() => promote(make(keyset, next), next.id)).toThrow(/not trusted/);
  expect(promote(addTrusted(keyset, next), next.id).primary).toBe(next.id);
});

test('the transitions of a rotation lead all keysets from one generation to the next, with the writes of the caller', async () => {
  const of = await world();
  for (const name of ['ca', 'etcd-ca', 'front-proxy-ca', 'sa', 'encryption'] as const) {
    of.clock.advance(1000 as Millis);
    const record = `/test/${name}`;
    const { generation, state } = await of.pki.transition('golden', name, { do: 'make' }, (after, id) => [
      { key: record, put: JSON.stringify({ id, after }), expect: 'absent' },
    ]);
    expect(JSON.parse((await of.store.get(record))!.value)).toEqual({ id: generation, after: state });
    expect(state.made).toEqual([generation]);
    const old = state.primary;
    const step = (what: 'trust' | 'promote' | 'distrust' | 'trust-again' | 'forget', id: string) =>
      of.pki.transition('golden', name, { do: what, generation: id }).then((done) => done.state);
    expect(await step('trust', generation)).toMatchObject({ primary: old, trusted: [old, generation] });
    expect(await step('promote', generation)).toMatchObject({ primary: generation });
    expect(await step('distrust', old)).toMatchObject({ trusted: [generation], distrusted: [old] });
    expect(await step('trust-again', old)).toMatchObject({ trusted: [old, generation] });
    await step('distrust', old);
    expect(await step('forget', old)).toMatchObject({ made: [], trusted: [generation], distrusted: [] });
    await expect(step('forget', generation)).rejects.toMatchObject({ code: 'E_KEYSET' });
  }
});

test('a step whose caller’s expectation does not hold changes nothing', async () => {
  const of = await world();
  const before = (await of.keysets()).get('ca')!;
  const also = () => [{ key: '/test/x', put: '{}', expect: 7 }];
  await expect(of.pki.transition('golden', 'ca', { do: 'make' }, also)).rejects.toMatchObject({
    code: 'E_CONFLICT',
  });
  expect((await of.keysets()).get('ca')!.made).toEqual(before.made);
});

test('a probe is signed by any generation, a distrusted one too, without its bridge; every other leaf by the primary alone', async () => {
  const of = await promoted();
  const keyset = (await of.keysets()).get('ca')!;
  const [old, next] = [keyset.trusted[0]!.id, keyset.primary];
  await of.pki.transition('golden', 'ca', { do: 'distrust', generation: old });
  const publicKey = (await PrivateKey.generate()).publicKey();
  const order = { holder: CP1, cluster: GOLDEN, publicKey };
  const known = generationsByKeyId((await of.keysets()).values());
  for (const generation of [old, next]) {
    const { certificate, issuer } = await of.pki.issue('golden', { ...order, leaf: 'probe', generation });
    expect(issuer.generation).toBe(generation);
    expect(certificate.match(/BEGIN/g)).toHaveLength(1);
    expect(new X509Certificate(certificate).subject).toBe('CN=muster-probe');
    expect(known.get(issuerKeyIdOf(certificate)!)).toEqual({
      keyset: 'ca',
      generation,
      state: generation === old ? 'distrusted' : 'trusted',
    });
  }
  await expect(of.pki.issue('golden', { ...order, leaf: 'kubelet', generation: old })).rejects.toMatchObject({
    code: 'E_PKI',
  });
});
