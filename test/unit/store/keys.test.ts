/**
 * The key layout: every key belongs to one kind of record, and only src/store/keys.ts builds and
 * parses keys.
 */
import { expect, test } from 'vitest';
import { KEYS, type Keys, PKI_PREFIX } from '../../../src/store/keys.ts';
import { read, sources, withoutComments } from '../../audit/tree.ts';

const all = Object.values(KEYS) as unknown as readonly Keys[];

/**
 * A value for each parameter of a pattern. The last one contains a slash if the pattern ends in
 * `…`.
 */
const valuesFor = (pattern: string): readonly string[] =>
  pattern
    .split('/')
    .filter((segment) => segment === segment.toUpperCase())
    .map((segment, n) => (segment.endsWith('…') ? `a${n}/b` : `a${n}`));

test('a key is parsed into the values that it was built from', () => {
  for (const { pattern, key, parse } of all)
    expect(parse(key(...valuesFor(pattern))), pattern).toEqual(valuesFor(pattern));
});

test('the layout of keys does not change, because stores contain it', () => {
  expect(KEYS.document.key('Machine', 'node-1')).toBe('document/Machine/node-1');
  expect(KEYS.lease.key('rack', '10.77.0.20')).toBe('lease/rack/10.77.0.20');
  expect(KEYS.keyset.key('blue', 'etcd-ca')).toBe('pki/blue/keyset/etcd-ca');
  expect(KEYS.encryption.key('blue')).toBe('pki/blue/encryption');
  expect(KEYS.issued.key('blue', '0a')).toBe('pki/blue/issued/0a');
  expect(KEYS.secret.key('tickets')).toBe('pki/_muster/secret/tickets');
  expect(KEYS.artifact.key('image/registry.k8s.io/pause:3.10')).toBe(
    'artifact/image/registry.k8s.io/pause:3.10',
  );
  expect(all.map(({ pattern }) => pattern).sort()).toEqual([
    'agent/MACHINE',
    'artifact/NAME…',
    'bmc/MACHINE',
    'change-evidence/CLUSTER/ID/ROUTE/STEP',
    'change/CLUSTER',
    'clock',
    'document/KIND/NAME',
    'etcd-space/CLUSTER',
    'file/PATH…',
    'founding/CLUSTER',
    'hook/CLUSTER/MACHINE',
    'inventory/MACHINE',
    'join-tokens/CLUSTER/MACHINE',
    'later-keys/CLUSTER',
    'lease/NETWORK/ADDRESS',
    'life',
    'machine/NAME',
    'name/ZONE/RECORD…',
    'nodes/CLUSTER/MACHINE',
    'objects/CLUSTER/MACHINE',
    'operator-session/HASH',
    'operator-token/ID',
    'operator/NAME',
    'passkey/ID',
    'past-change/CLUSTER/ID',
    'pki/SCOPE/encryption',
    'pki/SCOPE/exported',
    'pki/SCOPE/issued/SERIAL',
    'pki/SCOPE/keyset/NAME',
    'pki/SCOPE/renewals',
    'pki/_muster/data/MACHINE/FILESYSTEM',
    'pki/_muster/given/NAME/KEY',
    'pki/_muster/secret/NAME',
    'power/MACHINE',
    'release/CLUSTER',
    'restored/CLUSTER',
    'running/CLUSTER/MACHINE',
    'session/ID',
    'test/MACHINE/ID',
    'ticket/SESSION',
    'turn/CLUSTER/MACHINE',
    'wipe/MACHINE/ID',
  ]);
});

test('a prefix ends before the first parameter without a value', () => {
  expect(KEYS.lease.prefix()).toBe('lease/');
  expect(KEYS.lease.prefix('rack')).toBe('lease/rack/');
  expect(KEYS.keyset.prefix()).toBe(PKI_PREFIX);
  expect(KEYS.keyset.prefix('blue')).toBe('pki/blue/keyset/');
  expect(KEYS.secret.prefix()).toBe('pki/_muster/secret/');
});

test('no two kinds of records overlap', () => {
  for (const one of all)
    for (const other of all)
      if (other !== one)
        expect(
          other.parse(one.key(...valuesFor(one.pattern))),
          `${one.pattern} and ${other.pattern}`,
        ).toBeUndefined();
});

test('keys of other kinds and damaged keys are not parsed', () => {
  for (const text of ['', 'lease', 'lease/rack', 'lease/rack/', 'lease//1', 'lease/rack/1/2', 'leases/a/b'])
    expect(KEYS.lease.parse(text), text).toBeUndefined();
});

test('every kind of record names a room that exists and says what it holds', () => {
  const rooms = new Set(sources('src').map((file) => file.split('/')[1]));
  for (const { pattern, room, holds } of all) {
    expect(rooms, pattern).toContain(room);
    expect(holds, pattern).not.toBe('');
  }
});

test('no other file builds a key or the beginning of one', () => {
  // The command line and the lab never open the store; they print names like `machine/node-1`.
  const apart = /^src\/(cli|lab)\/|^src\/store\/keys\.ts$/;
  const beginnings = [...new Set(all.map(({ pattern }) => pattern.split('/')[0]!))];
  const built = new RegExp(`['"\`](?:${beginnings.join('|')})/(?:[A-Za-z_]*/)*(?:\\$\\{|['"\`])`);
  const found = sources('src')
    .filter((file) => !apart.test(file))
    .filter((file) => built.test(withoutComments(read(file))));
  expect(found).toEqual([]);
});
