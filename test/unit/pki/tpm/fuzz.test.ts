/** Damaged keys and certificates of TPMs are read, or refused with a reason. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Millis } from '../../../../src/base/duration.ts';
import { makeCredential } from '../../../../src/pki/tpm/credential.ts';
import { endorsementFault } from '../../../../src/pki/tpm/endorsement-certificate.ts';
import { nameOf, readPublicArea } from '../../../../src/pki/tpm/public-area.ts';
import { readAttestationKey, readEndorsementKey } from '../../../../src/pki/tpm/tpm-keys.ts';
import { vendorCas } from '../../../../src/resources/tpm-spec.ts';
import { damagedOctets, INPUTS } from '../../fuzzing.ts';
import { temporary } from '../kit.ts';
import { attestationArea, softwareTpm } from './software-tpm.ts';

const TPMS = [softwareTpm('rsa'), softwareTpm('ecc')];
const AK = readAttestationKey(attestationArea());

test('damaged public areas of TPMs: a key that can be used, or a reason', async () => {
  let taken = 0;
  let sealed = 0;
  await damagedOctets(
    'public areas',
    TPMS.flatMap(({ ek, ak }) => [ek, ak]),
    (octets) => {
      const read = readPublicArea(octets);
      if (!read.ok) {
        if (read.text === '') throw new Error('no reason');
        return;
      }
      taken++;
      if (nameOf(read.area).length !== 34) throw new Error('no name');
      readAttestationKey(octets);
      const ek = readEndorsementKey(octets);
      if (!ek.ok || !AK.ok || sealed >= 2000) return;
      sealed++;
      makeCredential(ek.key, AK.key, Buffer.alloc(32));
    },
  );
  expect(taken).toBeGreaterThan(INPUTS / 200);
  expect(sealed).toBeGreaterThan(INPUTS / 2000);
});

test('damaged certificates of endorsement keys: believed only unchanged, never an exception', async () => {
  using directory = temporary();
  const key = readEndorsementKey(TPMS[1]!.ek);
  if (!key.ok) throw new Error(key.text);
  const file = directory.write('ek.pem', key.key.publicKey.pem());
  const at = (name: string): string => path.join(path.dirname(file), name);
  const openssl = (...words: readonly string[]) => execFileSync('openssl', words, { stdio: 'pipe' });
  const ca = [
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-subj',
    '/CN=Vendor',
  ];
  openssl('req', ...ca, '-keyout', at('ca.key'), '-out', at('ca.crt'));
  openssl('req', '-new', '-key', at('ca.key'), '-subj', '/CN=TPM', '-out', at('ek.csr'));
  const sign = ['-CA', at('ca.crt'), '-CAkey', at('ca.key'), '-force_pubkey', file, '-outform', 'DER'];
  openssl('x509', '-req', '-in', at('ek.csr'), ...sign, '-out', at('ek.der'));
  const cas = vendorCas([readFileSync(at('ca.crt'), 'latin1')]);
  if (cas === undefined) throw new Error('no CA');
  const der = readFileSync(at('ek.der'));
  const now = Date.now() as Millis;
  const fault = (octets: Buffer) => endorsementFault(octets, key.key, cas, now);
  expect(fault(der)).toBeUndefined();
  let refused = 0;
  await damagedOctets('certificates of endorsement keys', [der], (octets) => {
    const why = fault(octets);
    if (why === undefined && !octets.subarray(0, der.length).equals(der)) throw new Error('believed');
    if (why !== undefined) refused++;
  });
  expect(refused).toBeGreaterThan(INPUTS / 200);
});
