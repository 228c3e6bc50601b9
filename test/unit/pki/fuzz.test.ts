/** Damaged certificate requests give the names that they ask for, or a reason. */
import { expect, test } from 'vitest';
import { parseIp } from '../../../src/base/ip.ts';
import { readAskedNames } from '../../../src/pki/csr-names.ts';
import { decodeGiven } from '../../../src/pki/given-secrets.ts';
import { formatPem, parsePem } from '../../../src/pki/pem.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { damagedOctets, damagedRecords, damagedTexts, unless } from '../fuzzing.ts';
import { requestOf } from './asking.ts';

const SEEDS = [
  requestOf({
    commonName: 'system:node:w1',
    organizations: ['system:nodes'],
    sans: ['DNS:w1', 'IP:10.0.0.21', 'IP:fd00::21', 'email:a@b.example', 'URI:spiffe://a/b', 'RID:1.2.3'],
    keyUsage: 'critical,digitalSignature,keyEncipherment',
    extendedKeyUsage: 'serverAuth,1.2.3.4',
    more: 'basicConstraints = critical,CA:TRUE',
  }),
  requestOf({ commonName: 'system:node:w1', organizations: ['system:nodes'] }),
];

test('200,000 requests with damaged octets: names or a reason, never an exception', async () => {
  const octets = SEEDS.map((text) => parsePem(text)![0]!.octets);
  let taken = 0;
  await damagedOctets('requests for certificates', octets, (changed) => {
    const read = readAskedNames(formatPem({ label: 'CERTIFICATE REQUEST', octets: changed }));
    if (!read.ok) {
      if (read.text === '') throw new Error('no reason');
      return;
    }
    taken++;
    const { ips, ...texts } = read.asked;
    if (ips.some((one) => parseIp(one) === undefined)) throw new Error('no address');
    if (
      Object.values(texts)
        .flat()
        .some((one) => typeof one !== 'string')
    )
      throw new Error('no text');
  });
  expect(taken).toBeGreaterThan(1000);
});

test('200,000 damaged texts of requests: names or a reason, never an exception', async () => {
  let refused = 0;
  await damagedTexts('texts of requests for certificates', SEEDS, (text) => {
    if (!readAskedNames(text).ok) refused++;
  });
  expect(refused).toBeGreaterThan(1000);
});

test('200,000 damaged records are values or faults, never another exception', async () => {
  const sealed = vaultFrom(newVaultKey(), 'test').seal('r', 'value');
  let taken = 0;
  await damagedRecords('records of Secrets', [{ v: 1, since: 1, sealed }], (text) => {
    const read = unless(['E_PKI'], () => decodeGiven('r', text));
    if (read === undefined) return;
    taken++;
    if (!Number.isSafeInteger(read.since) || typeof read.sealed !== 'object')
      throw new Error('out of bounds');
  });
  expect(taken).toBeGreaterThan(100);
});
