/** Damaged certificate requests give the names that they ask for, or a reason. */
import { expect, test } from 'vitest';
import { parseIp } from '../../../src/base/ip.ts';
import { ageOpen, ageSeal, readIdentities, readRecipient } from '../../../src/pki/age.ts';
import { readAskedNames } from '../../../src/pki/csr-names.ts';
import { decodeDataKey } from '../../../src/pki/data-keys.ts';
import { decodeGiven } from '../../../src/pki/given-secrets.ts';
import { formatPem, parsePem } from '../../../src/pki/pem.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { damagedOctets, damagedRecords, damagedTexts, INPUTS, unless } from '../fuzzing.ts';
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

test('requests with damaged octets: names or a reason, never an exception', async () => {
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
  expect(taken).toBeGreaterThan(INPUTS / 200);
});

test('damaged texts of requests: names or a reason, never an exception', async () => {
  let refused = 0;
  await damagedTexts('texts of requests for certificates', SEEDS, (text) => {
    if (!readAskedNames(text).ok) refused++;
  });
  expect(refused).toBeGreaterThan(INPUTS / 200);
});

test('damaged records are values or faults, never another exception', async () => {
  const sealed = await vaultFrom(newVaultKey(), 'test').seal('r', 'value');
  let taken = 0;
  await damagedRecords('records of Secrets', [{ v: 1, since: 1, sealed }], (text) => {
    const read = unless(['E_PKI'], () => decodeGiven('r', text));
    if (read === undefined) return;
    taken++;
    if (!Number.isSafeInteger(read.since) || typeof read.sealed !== 'object')
      throw new Error('out of bounds');
  });
  expect(taken).toBeGreaterThan(INPUTS / 2000);
});

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}

const RECIPIENT = 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj';
const IDENTITY = 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX';

test('damaged files of age do not open, and none is opened to other octets', async () => {
  const recipients = [readRecipient(RECIPIENT)] as const;
  const identities = readIdentities(IDENTITY);
  const plain = Buffer.from('all keys');
  const seed: Uint8Array[] = [];
  for await (const piece of ageSeal(once(plain), { recipients })) seed.push(piece);
  let opened = 0;
  await damagedOctets(
    'files of age',
    [Buffer.concat(seed)],
    async (octets) => {
      const found: Uint8Array[] = [];
      try {
        for await (const piece of ageOpen(once(octets), { identities })) found.push(piece);
      } catch (error) {
        if ((error as { code?: string }).code !== 'E_EXPORT') throw error;
        return;
      }
      if (!Buffer.concat(found).equals(plain)) throw new Error('opened to other octets');
      opened++;
    },
    INPUTS / 10,
  );
  expect(opened).toBeLessThan(INPUTS / 20);
});

test('damaged recipients of age are those that were written, or refused', async () => {
  let taken = 0;
  await damagedTexts('recipients of age', [RECIPIENT], (text) => {
    const read = unless(['E_USAGE'], () => readRecipient(text));
    if (read === undefined) return;
    taken++;
    if (read !== RECIPIENT) throw new Error('a mistyped recipient was taken');
  });
  expect(taken).toBeLessThan(INPUTS / 2);
});

test('damaged records of data filesystems’ keys are values or faults, never another exception', async () => {
  const sealed = await vaultFrom(newVaultKey(), 'test').seal('r', 'value');
  let taken = 0;
  await damagedRecords('records of data filesystems’ keys', [{ v: 1, since: 1, sealed }], (text) => {
    const read = unless(['E_PKI'], () => decodeDataKey('r', text));
    if (read === undefined) return;
    taken++;
    if (!Number.isSafeInteger(read.since) || typeof read.sealed !== 'object')
      throw new Error('out of bounds');
  });
  expect(taken).toBeGreaterThan(INPUTS / 2000);
});
