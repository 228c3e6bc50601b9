/** Certificates of BMCs by Muster's CA, with virtual BMCs over real TLS, killed at every step. */
import { X509Certificate } from 'node:crypto';
import { connect } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ManualClock, systemClock } from '../../../src/base/clock.ts';
import { duration, type Millis, seconds, toMillis } from '../../../src/base/duration.ts';
import { silentLog } from '../../../src/base/log.ts';
import { type BmcAuthority, openBmcAuthority } from '../../../src/bmc/authority.ts';
import type { Bmc } from '../../../src/bmc/bmc.ts';
import { owesCertificate, signFor } from '../../../src/bmc/certificate.ts';
import { type ConnectDeps, openConnections } from '../../../src/bmc/connect.ts';
import type { Given } from '../../../src/bmc/known.ts';
import type { Reach } from '../../../src/bmc/reach.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import {
  certificateOf,
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
  type VirtualBmcOptions,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { openPki } from '../../../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { memoryVault } from './memory.ts';

const ADA = { user: 'ada', password: 'secret-of-ada' };
const credentials = { user: 'ada', password: { valueFrom: { secret: 'bmc', key: 'password' } } };

let bmc: VirtualBmc;
let store: ReturnType<typeof openMemoryStore>;
let authority: BmcAuthority;
beforeEach(async () => {
  store = openMemoryStore();
  authority = openBmcAuthority(
    openPki({ store, vault: vaultFrom(newVaultKey(), 'test'), clock: systemClock }),
  );
  await start();
});
afterEach(() => bmc.close());

/** Starts the BMC, or another one in its place. */
async function start(more: Partial<VirtualBmcOptions> = {}) {
  await bmc?.close();
  const options = { protocol: 'redfish', address: '127.0.0.1', port: 0, ...ADA, ...more } as const;
  bmc = await startVirtualBmc(options, new ImaginedMachine());
}
const reach = (more: Partial<Reach> = {}): Reach => ({
  ...{ address: '127.0.0.1', port: bmc.port, protocol: 'redfish', credentials, managedCertificate: true },
  ...more,
});
const open = (more: Partial<ConnectDeps> = {}) =>
  openConnections({
    ...{ store, log: silentLog, vault: memoryVault(), clock: systemClock },
    secret: () => ({ value: Buffer.from(ADA.password), since: 1 }),
    protocols: { redfish: openRedfish, ipmi: () => Promise.reject(new Error('no IPMI here')) },
    ...more,
  });
const sign = (request: string) => authority.sign('node-1', reach(), request);
const read = (one: Bmc) => one.power();

/** What the BMC shows now, in a connection of its own. */
const shown = () =>
  new Promise<X509Certificate>((done, fail) => {
    const socket = connect({ host: '127.0.0.1', port: bmc.port, rejectUnauthorized: false }, () => {
      done(socket.getPeerX509Certificate()!);
      socket.destroy();
    });
    socket.on('error', fail);
  });
const isOurs = async () => {
  const bundle = await authority.bundle();
  const seen = await shown();
  return bundle !== '' && seen.verify(new X509Certificate(bundle).publicKey);
};

test("a BMC shows a certificate of Muster's CA for its address, by a key of its own", async () => {
  const connections = await open();
  await connections.with('node-1', reach(), read);
  const before = connections.known('node-1')?.pin;
  expect(await isOurs()).toBe(false);
  await connections.certify('node-1', reach(), sign);
  expect(await isOurs()).toBe(true);
  const seen = await shown();
  expect(seen.checkIP('127.0.0.1')).toBe('127.0.0.1');
  const { pin, certificate, offered } = connections.known('node-1')!;
  expect(pin).toBe(seen.fingerprint256.replaceAll(':', '').toLowerCase());
  expect([pin === before, certificate?.pin, offered]).toEqual([false, pin, undefined]);
  // It counts for the next server too, and for other machines of the same BMC.
  const next = await open();
  expect(await next.with('node-1', reach(), read)).toBe('off');
  expect(await next.with('node-2', reach(), read)).toBe('off');
  await bmc.changeCertificate();
  await next.close();
  await expect((await open()).with('node-1', reach(), read)).rejects.toMatchObject({ code: 'pin-changed' });
});

test('a document may name what the BMC shows before, and that counts for nothing else', async () => {
  const own = await certificateOf('127.0.0.1');
  await start({ certificate: own });
  const sha256 = new X509Certificate(own.certificate).fingerprint256.replaceAll(':', '').toLowerCase();
  const pinned = reach({ certificate: { sha256 } });
  const connections = await open();
  await connections.certify('node-1', pinned, sign);
  expect(await isOurs()).toBe(true);
  expect(await (await open()).with('node-1', pinned, read)).toBe('off');
  const by = reach({ certificate: { ca: own.certificate } });
  expect(await (await open()).with('node-1', by, read)).toBe('off');
  const { managedCertificate: _, ...without } = pinned;
  await expect((await open()).with('node-1', without, read)).rejects.toMatchObject({ code: 'pin-changed' });
});

class Killed extends Error {}

/** Everything after so many steps fails, as for a server that ends there. */
function mortal(steps: number) {
  let left = steps;
  let dead = false;
  const step = async <T>(work: () => Promise<T>): Promise<T> => {
    // A step is cut off before it is done, or after it was done and before anybody knows.
    if (dead || left-- <= 0) {
      dead = true;
      throw new Killed('killed');
    }
    const done = await work();
    if (left-- <= 0) {
      dead = true;
      throw new Killed('killed');
    }
    return done;
  };
  const through = (one: Bmc): Bmc => {
    const certificates = {
      request: () => step(() => one.certificates!.request()),
      replace: (pem: string) => step(() => one.certificates!.replace(pem)),
    };
    return Object.assign(Object.create(null), {
      protocol: one.protocol,
      certificates,
      close: () => one.close(),
    });
  };
  return {
    store: {
      list: store.list.bind(store),
      commit: (...of: Parameters<typeof store.commit>) => step(() => store.commit(...of)),
    },
    protocols: {
      redfish: (access: Parameters<typeof openRedfish>[0]) =>
        step(async () => through(await openRedfish(access))),
      ipmi: () => Promise.reject(new Error('no IPMI here')),
    },
    sign: (request: string) => step(() => sign(request)),
  };
}

test('a server that is killed at any step leaves a BMC that the next one trusts and finishes', async () => {
  const ends: boolean[] = [];
  for (let steps = 0; ; steps++) {
    store = openMemoryStore();
    await start();
    const first = await open();
    await first.with('node-1', reach(), read);
    await first.close();
    const { sign: signs, ...parts } = mortal(steps);
    const dying = await open(parts);
    const end = await dying.certify('node-1', reach(), signs).then(
      () => 'done',
      (error: unknown) => (error instanceof Killed ? 'killed' : error),
    );
    const next = await open();
    expect([steps, await next.with('node-1', reach(), read)]).toEqual([steps, 'off']);
    ends.push(await isOurs());
    if (owesCertificate(reach(), next.known('node-1'), Date.now(), undefined))
      await next.certify('node-1', reach(), sign);
    expect([steps, await isOurs()]).toEqual([steps, true]);
    expect(next.known('node-1')?.certificate?.pin).toBe(next.known('node-1')?.pin);
    await next.close();
    if (end === 'done') break;
    expect([steps, end]).toEqual([steps, 'killed']);
    expect(steps).toBeLessThan(40);
  }
  // Some were cut off before the BMC had it, others afterwards.
  expect(new Set(ends)).toEqual(new Set([true, false]));
});

test('a BMC that shows it after a restart is asked once, and counts before and afterwards', async () => {
  await start({ traits: { certificate: 'after-restart' } });
  const clock = new ManualClock(Date.now() as Millis);
  const passing = setInterval(() => clock.advance(toMillis(seconds(1))), 2);
  try {
    let requests = 0;
    const counted = (request: string) => {
      requests++;
      return sign(request);
    };
    const connections = await open({ clock });
    for (let n = 0; n < 3; n++)
      await expect(connections.certify('node-1', reach(), counted)).rejects.toThrow('after a restart');
    expect([requests, await connections.with('node-1', reach(), read)]).toEqual([1, 'off']);
    bmc.restart();
    await connections.close();
    const next = await open({ clock });
    expect(await next.with('node-1', reach(), read)).toBe('off');
    expect([await isOurs(), next.known('node-1')?.offered]).toEqual([true, undefined]);
  } finally {
    clearInterval(passing);
  }
});

test('an answer that is lost is judged by what the BMC shows', async () => {
  await start({ faults: [{ on: '^certificate .*ReplaceCertificate', times: 1, lost: true }] });
  const connections = await open();
  await connections.certify('node-1', reach(), sign);
  expect(await isOurs()).toBe(true);
});

test('a certificate is due before its end, when it was ordered, and when another CA signs', () => {
  const issuedAt = Date.UTC(2026, 0, 1);
  const certificate: Given = {
    ...{ pin: 'a', serial: '01', generation: 'g1', issuedAt },
    notAfter: issuedAt + duration('365d'),
  };
  const known = { v: 1, lock: 'x', certificate } as const;
  const at = (days: number, more = {}, primary: string | undefined = 'g1') =>
    owesCertificate(
      { managedCertificate: true },
      { ...known, ...more },
      issuedAt + days * 86_400_000,
      primary,
    );
  expect([at(1), at(200), at(250)]).toEqual([false, false, true]);
  expect(at(1, { certify: { by: 'ada', at: issuedAt + 1 } })).toBe(true);
  expect([at(1, {}, 'g2'), at(1, {}, undefined)]).toEqual([true, false]);
  expect(owesCertificate({ managedCertificate: true }, undefined, 0, undefined)).toBe(true);
  expect(owesCertificate({}, known, issuedAt + duration('365d'), 'g2')).toBe(false);
});

test('a request that proves no key gets no certificate', async () => {
  const pki = openPki({ store, vault: vaultFrom(newVaultKey(), 'test'), clock: systemClock });
  await expect(signFor(pki, 'node-1', reach(), 'nonsense')).rejects.toMatchObject({ code: 'not-understood' });
});

test('a CA that would be one too many for all BMCs to know is refused', async () => {
  for (let made = 0; made < 7; made++) await authority.replace();
  await expect(authority.replace()).rejects.toMatchObject({ code: 'E_BMC' });
  await authority.forgetBefore(new Set());
  await authority.replace();
});

test('another CA signs after an order, and the one before ends when nobody needs it', async () => {
  const connections = await open();
  await connections.certify('node-1', reach(), sign);
  const first = await authority.primary();
  await authority.replace();
  expect(await authority.primary()).not.toBe(first);
  await authority.forgetBefore(new Set([first!]));
  expect((await authority.bundle()).match(/BEGIN/g)).toHaveLength(2);
  const known = connections.known('node-1');
  expect(owesCertificate(reach(), known, Date.now(), await authority.primary())).toBe(true);
  await connections.certify('node-1', reach(), sign);
  expect(connections.known('node-1')?.certificate?.generation).toBe(await authority.primary());
  await authority.forgetBefore(new Set([(await authority.primary())!]));
  expect((await authority.bundle()).match(/BEGIN/g)).toHaveLength(1);
  expect(await isOurs()).toBe(true);
});
