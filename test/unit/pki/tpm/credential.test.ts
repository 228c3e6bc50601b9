/** Keys of TPMs and credentials that are sealed to them; peers/tpm.test.ts uses a real TPM 2.0. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeCredential } from '../../../../src/pki/tpm/credential.ts';
import { readAttestationKey, readEndorsementKey } from '../../../../src/pki/tpm/tpm-keys.ts';
import {
  AK_ATTRIBUTES,
  activate,
  attestationArea,
  EK_ATTRIBUTES,
  endorsementArea,
  nameOfArea,
  softwareTpm,
} from './software-tpm.ts';

/** Public areas that swtpm made by tpm2_createek and tpm2_createak. */
const SWTPM = {
  ecc: '007a0023000b000300b20020837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa0006008000430010000300100020295262c44d8cdc3f6423b14a6317046ad1bc7d25fb41045b6d08c8d96ca86eda0020c2d7ba06ddd09e54760cb32ddb3f034f7f925efaec9376430613b220eca2a569',
  ak: '00580023000b00050072000000100018000b0003001000200e635677fc2bae5f793291cad73c0ffd644404f020944db0af63068916fa774000202cdc306370024d84bbff8d508462ca1049ea78e4e3af341a17b6d21eba68ca7c',
  name: '000b929658d2da88f1feda66ecc87944e78cd0c54e135717e83ad58bc4ae1a6f37bd',
} as const;

const octets = (text: string): Buffer => Buffer.from(text, 'hex');
const taken = <T>(
  read: { readonly ok: true; readonly key: T } | { readonly ok: false; readonly text: string },
): T => {
  if (!read.ok) throw new Error(read.text);
  return read.key;
};

test('keys of a real TPM are read, and the attestation key has the name that its TPM gave it', () => {
  expect(taken(readEndorsementKey(octets(SWTPM.ecc))).publicKey.object.asymmetricKeyType).toBe('ec');
  expect(taken(readAttestationKey(octets(SWTPM.ak))).name.toString('hex')).toBe(SWTPM.name);
});

test.each(['rsa', 'ecc'] as const)(
  'a TPM with an %s endorsement key opens what was sealed to it',
  (algorithm) => {
    const tpm = softwareTpm(algorithm);
    const secret = randomBytes(32);
    const sealed = makeCredential(
      taken(readEndorsementKey(tpm.ek)),
      taken(readAttestationKey(tpm.ak)),
      secret,
    );
    expect(activate(tpm, sealed)).toEqual(secret);
    expect(sealed.includes(secret)).toBe(false);
    expect(activate({ ...tpm, privateKey: softwareTpm(algorithm).privateKey }, sealed)).toBeUndefined();
    expect(activate(tpm, sealed, nameOfArea(attestationArea()))).toBeUndefined();
  },
);

test('a secret longer than what a TPM takes is refused', () => {
  const tpm = softwareTpm();
  const [ek, ak] = [taken(readEndorsementKey(tpm.ek)), taken(readAttestationKey(tpm.ak))];
  expect(() => makeCredential(ek, ak, Buffer.alloc(33))).toThrow('1 to 32 octets');
  expect(() => makeCredential(ek, ak, Buffer.alloc(0))).toThrow('1 to 32 octets');
});

const P256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
const RSA_1024 = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
const P384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey;

test.each([
  ['may sign', endorsementArea(P256, { attributes: EK_ATTRIBUTES | (1 << 18) }), 'attributes or policy'],
  ['may leave its TPM', endorsementArea(P256, { attributes: EK_ATTRIBUTES & ~2 }), 'attributes or policy'],
  ['came from outside', endorsementArea(P256, { attributes: EK_ATTRIBUTES & ~32 }), 'attributes or policy'],
  ['has another policy', endorsementArea(P256, { policy: Buffer.alloc(32) }), 'attributes or policy'],
  ['has AES-256', endorsementArea(P256, { bits: 256 }), 'AES-128-CFB'],
  ['is RSA-1024', endorsementArea(RSA_1024), 'does not have 2048 bits'],
  ['is on P-384', endorsementArea(P384), 'do not have 32 octets'],
  ['is an attestation key', attestationArea(), 'attributes or policy'],
  ['has octets behind it', Buffer.concat([endorsementArea(P256), Buffer.alloc(1)]), '1 octets after the end'],
  ['is cut off', endorsementArea(P256).subarray(0, -1), 'wanted'],
  ['is too long', Buffer.alloc(1025), 'more than 1024'],
])('an endorsement key that %s is refused', (_what, area, text) => {
  expect(readEndorsementKey(area)).toEqual({ ok: false, text: expect.stringContaining(text) });
});

test('a point outside the curve is refused', () => {
  const area = Buffer.from(endorsementArea(P256));
  area[area.length - 1] = area.at(-1)! ^ 1;
  expect(readEndorsementKey(area)).toEqual({ ok: false, text: 'a point that is not on P-256' });
});

test.each([
  ['of software', AK_ATTRIBUTES & ~2],
  ['that may be duplicated', AK_ATTRIBUTES & ~16],
  ['that was imported', AK_ATTRIBUTES & ~32],
  ['that signs everything', AK_ATTRIBUTES & ~(1 << 16)],
  ['that does not sign', AK_ATTRIBUTES & ~(1 << 18)],
  ['that also decrypts', AK_ATTRIBUTES | (1 << 17)],
])('an attestation key %s is refused', (_what, attributes) => {
  expect(readAttestationKey(attestationArea({ attributes })).ok).toBe(false);
});

test('an endorsement key does not pose as an attestation key', () => {
  expect(readAttestationKey(softwareTpm().ek).ok).toBe(false);
  expect(readAttestationKey(attestationArea({ scheme: 0x19 })).ok).toBe(false);
});
