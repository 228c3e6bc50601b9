/** The boot hosts that share a store, as operators see them and order of them. */
import { expect, test } from 'vitest';
import { checkHosts, type Hosts, ready } from '../../../src/api/hosts.ts';
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
    forget: async (name) => done.push(`forgot ${name}`) > 0,
    handOver: () => void done.push('handed over'),
  };
  const call = async (key: string, params = {}): Promise<unknown> => {
    const { handler } = HOSTS.find((one) => one.key === key)!;
    const request = { params, query: new URLSearchParams(), headers: {}, body: [] };
    const { body } = await handler(request as never, { hosts });
    return JSON.parse(body as string);
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
