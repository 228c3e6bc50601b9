/** Credentials are sealed to real TPMs (swtpm), and what we make fits what tpm2-tools make. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Millis } from '../../src/base/duration.ts';
import { makeCredential } from '../../src/pki/tpm/credential.ts';
import { endorsementFault } from '../../src/pki/tpm/endorsement-certificate.ts';
import { type EndorsementKey, readAttestationKey, readEndorsementKey } from '../../src/pki/tpm/tpm-keys.ts';
import { vendorCas } from '../../src/resources/tpm-spec.ts';
import { activate as activateInSoftware, softwareTpm } from '../unit/pki/tpm/software-tpm.ts';
import { type Tpm, TpmVendor } from './tpm-kit.ts';

let vendor: TpmVendor;
let tpm: Tpm;
let other: Tpm;

beforeAll(async () => {
  vendor = new TpmVendor();
  tpm = await vendor.make('tpm');
  other = await vendor.make('other');
});

afterAll(() => vendor.close());

const taken = <T>(read: { ok: true; key: T } | { ok: false; text: string }): T => {
  if (!read.ok) throw new Error(read.text);
  return read.key;
};

test.each(['rsa', 'ecc'] as const)(
  'a TPM with an %s key opens our credential, another TPM does not',
  (algorithm) => {
    const { ek, ak, name } = tpm.keys(algorithm);
    const key = taken(readAttestationKey(ak));
    expect(key.name).toEqual(name);
    const secret = randomBytes(32);
    const credential = makeCredential(taken(readEndorsementKey(ek)), key, secret);
    expect(tpm.activate(algorithm, credential)).toEqual(secret);
    other.keys(algorithm);
    expect(() => other.activate(algorithm, credential)).toThrow();
    // Another attestation key of the same TPM has another name.
    const again = ['-G', 'ecc', '-g', 'sha256', '-s', 'ecdsa', '-c', 'second.ctx', '-u', 'second'];
    tpm.tool('tpm2_createak', '-C', `${algorithm}.ek.ctx`, ...again);
    expect(() => tpm.activate(algorithm, credential, 'second.ctx')).toThrow();
  },
);

test.each(['rsa', 'ecc'] as const)(
  'what tpm2_makecredential seals (%s) is opened as ours is',
  (algorithm) => {
    const software = softwareTpm(algorithm);
    fs.writeFileSync(tpm.file('software.ek'), software.ek);
    fs.writeFileSync(tpm.file('plain'), 'a secret of 32 octets, or fewer');
    const name = taken(readAttestationKey(software.ak)).name.toString('hex');
    tpm.tool('tpm2_makecredential', '-u', 'software.ek', '-s', 'plain', '-n', name, '-o', 'made');
    expect(String(activateInSoftware(software, tpm.read('made')))).toBe('a secret of 32 octets, or fewer');
  },
);

test('a key that is loaded from outside has no attributes of an attestation key', () => {
  tpm.tool('tpm2_createprimary', '-C', 'o', '-G', 'ecc', '-c', 'primary.ctx');
  const ordinary = 'sign|userwithauth|sensitivedataorigin';
  tpm.tool(
    'tpm2_create',
    '-C',
    'primary.ctx',
    '-G',
    'ecc:ecdsa-sha256',
    '-a',
    ordinary,
    '-u',
    'soft',
    '-r',
    'soft.r',
  );
  expect(readAttestationKey(tpm.read('soft'))).toEqual({
    ok: false,
    text: expect.stringContaining('leave its TPM'),
  });
  expect(readEndorsementKey(tpm.read('soft')).ok).toBe(false);
});

test("a vendor's certificate counts for its own endorsement key and CA only", async () => {
  const key = taken(readEndorsementKey(tpm.keys('rsa').ek));
  tpm.tool('tpm2_nvread', '0x01c00002', '-C', 'o', '-o', 'certificate');
  const certificate = tpm.read('certificate');
  const now = Date.now() as Millis;
  const cas = (of: TpmVendor) => {
    const read = vendorCas([of.authority]);
    if (read === undefined) throw new Error('no CA');
    return read;
  };
  const fault = (of: EndorsementKey, from = cas(vendor), at = now) =>
    endorsementFault(certificate, of, from, at);
  expect(fault(key)).toBeUndefined();
  expect(
    endorsementFault(Buffer.concat([certificate, Buffer.alloc(300)]), key, cas(vendor), now),
  ).toBeUndefined();
  expect(fault(taken(readEndorsementKey(other.keys('rsa').ek)))).toContain('not that of the endorsement key');
  const copycat = new TpmVendor();
  try {
    await copycat.make('tpm');
    expect(fault(key, cas(copycat))).toContain('none of the vendorCAs');
  } finally {
    copycat.close();
  }
  expect(fault(key, cas(vendor), (now - 86_400_000) as Millis)).toContain('not valid now');
  expect(endorsementFault(undefined, key, cas(vendor), now)).toContain('delivered no certificate');
});
