/** Certificate requests of machines: openssl's are read, and invalid ones get no certificate. */
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CSR_LIMIT, readCsr } from '../../../src/pki/csr.ts';
import { DerReader, TAG } from '../../../src/pki/der.ts';
import { keyWeakness, PrivateKey } from '../../../src/pki/keys.ts';
import { formatPem, parsePem } from '../../../src/pki/pem.ts';
import { withoutTraces } from '../traces.ts';
import { CP1, factsOf, GOLDEN, temporary, world } from './kit.ts';

/** A request by openssl for a given key. */
function request(
  key: KeyObject | string,
  subject = '/CN=anything/O=system:masters',
  digest = 'sha256',
): string {
  using directory = temporary();
  const pem = typeof key === 'string' ? key : String(key.export({ type: 'pkcs8', format: 'pem' }));
  const file = directory.write('key.pem', pem);
  const config = directory.write(
    'req.cnf',
    '[req]\ndistinguished_name=dn\n[dn]\n[x]\nsubjectAltName=DNS:evil.example,IP:6.6.6.6\nbasicConstraints=CA:TRUE\n',
  );
  const options = ['-new', '-key', file, '-subj', subject, '-config', config, '-reqexts', 'x', `-${digest}`];
  return execFileSync('openssl', ['req', ...options], { encoding: 'utf8' });
}

const pair = (type: 'rsa' | 'ec', options: object) =>
  generateKeyPairSync(type as 'rsa', options as { modulusLength: number }).privateKey;

/** A P-256 request by openssl; fixed, so that the damaged ones are always the same. */
const good = `-----BEGIN CERTIFICATE REQUEST-----
MIIBEDCBtgIBADAqMRcwFQYDVQQKDA5zeXN0ZW06bWFzdGVyczEPMA0GA1UEAwwG
bm9kZS0xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEnP7O9+AvQKw5ciPnEGIG
AxA+YMnMNEhkmljJtgRSeshw5mP5mnFI68CSr66f3OqSZUaIlv+/TefxrQGK2YNt
46AqMCgGCSqGSIb3DQEJDjEbMBkwFwYDVR0RBBAwDoIGbm9kZS0xhwQKAAABMAoG
CCqGSM49BAMCA0kAMEYCIQDEaVMJRt9cDfP7iQFdTKPC7/HMXbfGTUwNLV+GWudg
4AIhALNtsHZ+H164AO45dpt5V216AegFoWdXZ/b8pUh08S2t
-----END CERTIFICATE REQUEST-----
`;
const octets = parsePem(good)![0]!.octets;

test.for([
  ['P-256', 'ec', { namedCurve: 'P-256' }, 'sha256'],
  ['P-384', 'ec', { namedCurve: 'P-384' }, 'sha384'],
  ['RSA-2048', 'rsa', { modulusLength: 2048 }, 'sha256'],
  ['RSA-2048 with SHA-512', 'rsa', { modulusLength: 2048 }, 'sha512'],
] as const)(
  'a request of openssl with %s is taken, and its key is the one found',
  ([, type, options, digest]) => {
    const key = pair(type, options);
    const read = readCsr(request(key, '/CN=x', digest));
    expect(read).toMatchObject({ ok: true });
    if (read.ok)
      expect(read.publicKey.pin()).toBe(
        PrivateKey.fromPem(String(key.export({ type: 'pkcs8', format: 'pem' })))
          .publicKey()
          .pin(),
      );
  },
);

test.for([
  ['RSA of 1024 bits', 'rsa', { modulusLength: 1024 }, 'sha256'],
  ['RSA with exponent 3', 'rsa', { modulusLength: 2048, publicExponent: 3 }, 'sha256'],
  ['P-521', 'ec', { namedCurve: 'P-521' }, 'sha256'],
  ['secp256k1', 'ec', { namedCurve: 'secp256k1' }, 'sha256'],
] as const)('%s is refused as weak', ([, type, options, digest]) => {
  expect(readCsr(request(pair(type, options), '/CN=x', digest))).toMatchObject({
    ok: false,
    reason: 'weak-key',
  });
});

test('Ed25519 is refused, because some programs cannot use it', () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  expect(keyWeakness(privateKey)).toMatch(/ed25519/);
});

test('a signature with SHA-1 or by another key is refused', () => {
  expect(readCsr(request(pair('rsa', { modulusLength: 2048 }), '/CN=x', 'sha1'))).toMatchObject({
    reason: 'signature',
  });
  const stolen = Buffer.from(octets);
  stolen[stolen.length - 4]! ^= 1;
  expect(readCsr(formatPem({ label: 'CERTIFICATE REQUEST', octets: stolen }))).toMatchObject({ ok: false });
  // Another key's signature over the same octets.
  const outside = new DerReader(new DerReader(octets).next(TAG.sequence).body);
  const info = outside.next(TAG.sequence).whole;
  const algorithm = outside.next(TAG.sequence).whole;
  const forged = sign('sha256', info, pair('ec', { namedCurve: 'P-256' }));
  const bits = Buffer.concat([Buffer.from([TAG.bits, forged.length + 1, 0]), forged]);
  const body = Buffer.concat([info, algorithm, bits]);
  const head = Buffer.from([TAG.sequence, 0x82, body.length >> 8, body.length & 255]);
  expect(
    readCsr(formatPem({ label: 'CERTIFICATE REQUEST', octets: Buffer.concat([head, body]) })),
  ).toMatchObject({ ok: false, reason: 'signature' });
});

test('names, SANs and extensions of a request never reach the certificate', async () => {
  const { pki } = await world();
  const read = readCsr(good);
  if (!read.ok) throw new Error(read.text);
  const issued = await pki.issue('golden', {
    leaf: 'kubelet',
    holder: CP1,
    cluster: GOLDEN,
    publicKey: read.publicKey,
  });
  const facts = factsOf(issued.certificate);
  expect(facts).toMatchObject({ subject: ['CN=system:node:cp1', 'O=system:nodes'], sans: [], ca: false });
  expect(issued.publicKey).toBe(read.publicKey.pin());
});

test('a text that is too large, not PEM, or more than one request is refused with its reason', () => {
  expect(readCsr('x'.repeat(CSR_LIMIT + 1))).toMatchObject({ reason: 'too-large' });
  expect(readCsr('')).toMatchObject({ reason: 'not-pem' });
  expect(readCsr(good + good)).toMatchObject({ reason: 'not-pem' });
  expect(readCsr(good.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'))).toMatchObject({ reason: 'not-pem' });
  expect(readCsr(`${good}trailing`)).toMatchObject({ reason: 'not-pem' });
  expect(readCsr(good.replaceAll('\n', '\r\n'))).toMatchObject({ ok: true });
});

test('octets after the request are refused', () => {
  const longer = Buffer.concat([octets, Buffer.from([0])]);
  expect(readCsr(formatPem({ label: 'CERTIFICATE REQUEST', octets: longer }))).toMatchObject({
    reason: 'malformed',
  });
});

/** A deterministic, fast generator that is good enough to damage octets. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('200,000 damaged requests: none throws, none is accepted', () =>
  withoutTraces(() => {
    const roll = dice(7);
    const reasons = new Map<string, number>();
    for (let n = 0; n < 200_000; n++) {
      let text: string;
      if (n % 8 < 4) {
        // Texts are cut, reversed or, one in sixteen, get a character replaced.
        const at = roll(good.length);
        const kind = roll(16);
        text =
          kind === 0
            ? `${good.slice(0, at)}${String.fromCharCode(roll(256))}${good.slice(at + 1)}`
            : kind < 8
              ? good.slice(0, at)
              : good.slice(at) + good.slice(0, at);
      } else {
        // Octets are cut or, one in eight, some are replaced. These take most of the time, because
        // their signature is checked.
        let changed = Buffer.from(octets);
        if (n % 8 < 7) changed = changed.subarray(0, roll(changed.length));
        else for (let times = 1 + roll(4); times > 0; times--) changed[roll(changed.length)] = roll(256);
        if (changed.equals(octets)) continue;
        text = formatPem({ label: 'CERTIFICATE REQUEST', octets: changed });
      }
      const read = readCsr(text);
      if (read.ok) {
        // Only blank space may differ.
        expect(parsePem(text)![0]!.octets).toEqual(octets);
        continue;
      }
      reasons.set(read.reason, (reasons.get(read.reason) ?? 0) + 1);
    }
    expect([...reasons.keys()].sort()).toEqual(['malformed', 'not-pem', 'signature']);
    expect(reasons.get('malformed')).toBeGreaterThan(50_000);
    expect(reasons.get('not-pem')).toBeGreaterThan(50_000);
  }));

test('PEM is read back as it was written', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          label: fc.stringMatching(/^[A-Z][A-Z0-9 ]{0,20}[A-Z]$/),
          octets: fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
        }),
        { maxLength: 4 },
      ),
      (blocks) => {
        expect(parsePem(blocks.map(formatPem).join('\n'))).toEqual(blocks);
      },
    ),
    { seed: 4 },
  );
});

test('any text is read as PEM or refused, and never throws', () => {
  const line = fc.constantFrom(
    '-----BEGIN A-----',
    '-----END A-----',
    '-----',
    'QUJD',
    '',
    ' ',
    '\0',
    '=',
    'é',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(line, fc.string()), { maxLength: 12 }), (lines) => {
      parsePem(lines.join('\n'));
    }),
    { seed: 5, numRuns: 2000 },
  );
});
