/** The signature of a release, made by openssl as scripts/release.sh makes it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  RELEASE_FILE,
  RELEASE_SIGNATURE,
  releaseFault,
  releaseText,
} from '../../../src/base/release.files.ts';

const AGENT = 'a'.repeat(64);
const dir = mkdtempSync(join(tmpdir(), 'muster-release-'));
const [file, signature] = [join(dir, RELEASE_FILE), join(dir, RELEASE_SIGNATURE)];
const key = (name: string): string => join(dir, name);

const openssl = (...words: string[]) => execFileSync('openssl', words, { stdio: 'pipe' });
const sign = (by: string) =>
  openssl('pkeyutl', '-sign', '-rawin', '-inkey', key(`${by}.pem`), '-in', file, '-out', signature);

beforeAll(() => {
  for (const name of ['ours', 'theirs']) {
    openssl('genpkey', '-algorithm', 'ed25519', '-out', key(`${name}.pem`));
    openssl('pkey', '-in', key(`${name}.pem`), '-pubout', '-out', key(`${name}.pub`));
  }
  openssl('genpkey', '-algorithm', 'RSA', '-out', key('rsa.pem'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const fault = (by = 'ours.pub', agent = AGENT) => releaseFault(dir, key(by), agent);

test('a release counts whose signature was made with the operator’s key, for this version and this agent', () => {
  writeFileSync(file, releaseText('c0ffee', AGENT));
  sign('ours');
  expect(fault()).toBeUndefined();
  expect(fault('theirs.pub')).toMatch(/was not made with the key of .*theirs\.pub/);
  expect(fault('ours.pub', 'b'.repeat(64))).toMatch(/with another agent/);
});

test('without a key no release is asked for', () => {
  expect(releaseFault('/nowhere', undefined, AGENT)).toBeUndefined();
});

test('whatever cannot be read or understood is a reason, and nothing is thrown', () => {
  writeFileSync(file, '{}');
  sign('ours');
  expect(fault()).toMatch(/^The release could not be verified/);
  writeFileSync(file, releaseText('c0ffee', AGENT).replace('c0ffee', 'c0ffed'));
  expect(fault()).toMatch(/was not made with the key/);
  writeFileSync(signature, '');
  expect(fault()).toMatch(/was not made with the key/);
  rmSync(signature);
  expect(fault()).toMatch(/no such file/);
  expect(fault('none.pub')).toMatch(/no such file/);
  expect(fault('rsa.pem')).toMatch(/no Ed25519 key/);
  writeFileSync(key('junk.pub'), 'junk');
  expect(fault('junk.pub')).toMatch(/^The release could not be verified/);
});
