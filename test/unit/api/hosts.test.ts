/** The boot hosts that share a store, as operators see them and order of them. */
import { expect, test } from 'vitest';
import { checkHosts, type Hosts, holders, ready } from '../../../src/api/hosts.ts';
import { HOSTS } from '../../../src/api/operations/hosts.ts';
import { rehearse } from '../../../src/base/rehearsal.ts';
import type { HostSeen } from '../../../src/store/etcd/hosts.ts';

const seen = (host: string, given: Partial<HostSeen> = {}): HostSeen => ({
  ...{ host, session: host, role: 'standby', version: '0.1.0', since: 0, addresses: ['10.0.0.1'] },
  ...{ revision: 90, agoMs: 4000, skewMs: 12, ...given },
});
const SELF = seen('host1', { role: 'acting', revision: 100, agoMs: 0, skewMs: 0 });

function world(...others: HostSeen[]) {
  const done: string[] = [];
  const hosts: Hosts = {
    ...{ shared: true, list: () => [SELF, ...others], revision: () => 100, now: () => 100_000 },
    wantedFiles: () => 'now',
    removedFile: () => {},
    invite(name, shared) {
      done.push(`invited ${name}${shared ? ' with the certificate' : ''}`);
      return 'code';
    },
    invited: (name) => name === 'host9',
    callOff: (name) => void done.push(`called off ${name}`),
    forget: async (name) => done.push(`forgot ${name}`) > 0,
    handOver: () => void done.push('handed over'),
  };
  const call = async (key: string, params = {}, body: unknown = {}): Promise<unknown> => {
    const { handler } = HOSTS.find((one) => one.key === key)!;
    const request = {
      params,
      query: new URLSearchParams(),
      headers: {},
      body: [Buffer.from(JSON.stringify(body))],
    };
    const answer = await handler(request as never, { hosts });
    return JSON.parse(answer.body as string);
  };
  return { hosts, done, call };
}

test('a host that fell silent, or whose clock is off, fails the check of the acting one', () => {
  const check = (...others: HostSeen[]) => checkHosts(world(...others).hosts);
  expect(check(seen('host2'))).toEqual({
    ...{ name: 'boot hosts', ok: true },
    detail: 'host1 acts; host2 would take over',
  });
  expect(check()).toMatchObject({ ok: true, detail: 'host1 acts; no other host would take over' });
  const silent = check(seen('host2', { agoMs: 130_000 }), seen('host3'));
  expect(silent!.ok).toBe(false);
  expect(silent!.detail).toBe(
    'host1 acts; host3 would take over; host2 has not been heard for 2 minutes: start it, or `muster host forget host2`',
  );
  expect(check(seen('host2', { skewMs: -3500 }))!.detail).toContain('the clock of host2 is 3.5 s behind');
  expect(checkHosts({ shared: false, list: () => [], wantedFiles: () => undefined })).toBeUndefined();
});

test('a host that has not read the store yet, or acts, would not take over', () => {
  const hosts = [seen('a'), seen('b', { revision: 0 }), seen('c', { agoMs: 40_000 }), SELF];
  expect(hosts.map(ready)).toEqual([true, false, false, false]);
});

test('the list says who does what, how far it is behind and how far its clock is off', async () => {
  const { call } = world(seen('host2', { agoMs: 60_000, skewMs: undefined }));
  expect(await call('GET /v1/hosts')).toMatchObject({
    kind: 'HostList',
    items: [
      { name: 'host1', state: 'acting', behind: 0, skewMs: 0 },
      { name: 'host2', state: 'silent', behind: 10, heard: '1970-01-01T00:00:40.000Z' },
    ],
  });
});

test('a hand-over needs a host that stands by, and a rehearsal of it changes nothing', async () => {
  const alone = world(seen('host2', { agoMs: 40_000 }));
  await expect(alone.call('POST /v1/hosts/hand-over')).rejects.toThrow('no other host has been heard');
  const { call, done } = world(seen('host2'), seen('host3'));
  expect(await rehearse(() => call('POST /v1/hosts/hand-over'))).toEqual(['hand over to another host']);
  expect(done).toEqual([]);
  expect(await call('POST /v1/hosts/hand-over')).toEqual({ standbys: ['host2', 'host3'] });
  expect(done).toEqual(['handed over']);
});

test('a host is forgotten once it is silent, and not before', async () => {
  const { call, done } = world(seen('host2'), seen('host3', { agoMs: 90_000 }));
  const forget = (name: string) => call('DELETE /v1/hosts/:name', { name });
  await expect(forget('host2')).rejects.toThrow('host2 was heard just now');
  await expect(forget('host1')).rejects.toThrow('host1 was heard just now');
  await expect(forget('host4')).rejects.toThrow('there is no boot host "host4"');
  expect(await forget('host3')).toEqual({ forgotten: 'host3' });
  expect(done).toEqual(['forgot host3']);
});

test('a host that cannot fetch a file is named with the reason, one that still fetches is no fault', () => {
  const files = { of: 'now', lacks: ['a'.repeat(64)], lacking: 1, octets: 3 * 2 ** 20 };
  const check = (given: object) => checkHosts(world(seen('host2', { files: { ...files, ...given } })).hosts)!;
  expect(check({})).toMatchObject({
    ok: true,
    detail: 'host1 acts; host2 would take over; host2 fetches 1 file of images or artifacts (3 MiB)',
  });
  const full = check({ trouble: { code: 'full', text: '/var: 1 MiB is free' } });
  expect(full.ok).toBe(false);
  expect(full.detail).toContain(
    'host2 lacks 1 file of images or artifacts (3 MiB): its disk is full: /var: 1 MiB is free',
  );
  const cut = check({ of: '', trouble: { code: 'unreachable', text: 'it does not answer' } });
  expect(cut).toMatchObject({ ok: false, detail: expect.stringContaining('cannot ask which files') });
});

test('a host counts as having a file when it has compared the list of now, and told all that it lacks', () => {
  const of = (given: object) =>
    seen('host2', { files: { of: 'now', lacks: [], lacking: 0, octets: 0, ...given } });
  const have = (...others: HostSeen[]) => holders(world(...others).hosts)('b'.repeat(64));
  expect(have(of({}))).toEqual(['host1', 'host2']);
  expect(have(of({ lacks: ['b'.repeat(64)], lacking: 1 }))).toEqual(['host1']);
  expect(have(of({ of: 'before' }))).toEqual(['host1']);
  expect(have(of({ lacks: [], lacking: 200 }))).toEqual(['host1']);
  expect(have({ ...of({}), agoMs: 60_000 }, seen('host3'))).toEqual(['host1']);
});

test('only a new name is invited, and only where the store is shared', async () => {
  const { call, done, hosts } = world(seen('host2'), seen('host3', { agoMs: 90_000 }));
  const invite = (host: string, more = {}) => call('POST /v1/hosts/invitations', {}, { host, ...more });
  expect(await invite('host4')).toEqual({ code: 'code', seconds: 900 });
  expect(await invite('host3', { shareCertificate: true })).toMatchObject({ code: 'code' });
  await expect(invite('host2')).rejects.toThrow('there is a boot host "host2"');
  expect(await rehearse(() => invite('host5'))).toEqual(['invite the boot host host5']);
  const callOff = (name: string) => call('DELETE /v1/hosts/invitations/:name', { name });
  expect(await callOff('host9')).toEqual({ calledOff: 'host9' });
  await expect(callOff('host8')).rejects.toThrow('host8 is not invited');
  expect(done).toEqual(['invited host4', 'invited host3 with the certificate', 'called off host9']);
  Object.assign(hosts, { shared: false });
  await expect(invite('host4')).rejects.toThrow('the store of this host is its own');
});
