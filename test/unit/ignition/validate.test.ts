/**
 * The Ignition validator with arbitrary input. test/peers/ignition.test.ts compares it with
 * Ignition itself.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { validateIgnition } from '../../../src/ignition/ignition-validate.ts';

const version = { ignition: { version: '3.3.0' } };

test('any input gives faults, each with a path', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (storage, other) => {
      for (const value of [
        storage,
        { ...version, storage },
        { ...version, passwd: other, systemd: storage },
      ]) {
        const faults = validateIgnition(value);
        for (const fault of faults) expect(typeof fault.path).toBe('string');
      }
    }),
    { numRuns: 1500 },
  );
});

test('a null is refused where a value is needed, and counts as absent elsewhere', () => {
  expect(validateIgnition(null)).toEqual([{ path: '', message: 'must be a mapping' }]);
  expect(validateIgnition({ ...version, storage: { files: [null] } })).toEqual([
    { path: 'storage.files[0]', message: 'must not be null' },
  ]);
  expect(validateIgnition({ ...version, storage: null, passwd: { users: null } })).toEqual([]);
});

test('a field of a newer spec is refused in older ones', () => {
  const config = (of: string) => ({
    ignition: { version: of },
    storage: { luks: [{ name: 'a', discard: true }] },
  });
  expect(validateIgnition(config('3.3.0'))).toEqual([
    { path: 'storage.luks[0].discard', message: 'only since spec 3.4.0; this is 3.3.0' },
  ]);
  expect(validateIgnition(config('3.4.0'))).toEqual([]);
});

test('nothing lies below a file or a link, which Ignition would find out on the machine', () => {
  const storage = (more: object) => ({ ...version, storage: more });
  const file = (path: string) => ({ path, contents: { source: 'data:,' } });
  expect(validateIgnition(storage({ files: [file('/etc/a'), file('/etc/a/b/c')] }))).toEqual([
    { path: 'storage.files[1].path', message: 'lies below the file /etc/a' },
  ]);
  expect(
    validateIgnition(
      storage({ files: [file('/opt/x/y')], links: [{ path: '/opt/x', target: '/srv', hard: false }] }),
    ),
  ).toEqual([{ path: 'storage.files[0].path', message: 'lies below the link /opt/x' }]);
  expect(validateIgnition(storage({ files: [file('/etc/a'), file('/etc/ab'), file('/etc/b/c')] }))).toEqual(
    [],
  );
});
