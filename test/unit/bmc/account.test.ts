/**
 * Muster's own account on BMCs, with the virtual BMC of both protocols: first contact, new
 * passwords, and a server that ends at any step. No BMC is locked out, and no password is lost.
 */
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { afterLogin, decodeOwn, newPassword, OWN_USER } from '../../../src/bmc/account.ts';
import { type Bmc, BmcFault } from '../../../src/bmc/bmc.ts';
import { type ConnectDeps, openConnections } from '../../../src/bmc/connect.ts';
import { openIpmi } from '../../../src/bmc/ipmi/client.socket.ts';
import type { Reach } from '../../../src/bmc/reach.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import { type FaultRule, Faults } from '../../../src/lab/bmc/faults.ts';
import {
  certificateOf,
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { memoryVault } from './memory.ts';

const PROTOCOLS = ['redfish', 'ipmi'] as const;
const CERTIFICATE = await certificateOf('127.0.0.1');
const FACTORY = { user: 'root', password: 'calvin' };

const started: VirtualBmc[] = [];
afterEach(async () => {
  for (const one of started.splice(0)) await one.close();
});

/** A BMC that locks an account after three wrong passwords, and what a boot host keeps of it. */
async function newSite(
  protocol: (typeof PROTOCOLS)[number],
  more: Partial<Reach['credentials']> & object = {},
) {
  const bmc = await startVirtualBmc(
    {
      ...{ protocol, address: '127.0.0.1', port: 0, certificate: CERTIFICATE, ...FACTORY },
      traits: { lockOut: { after: 3, forMs: 3_600_000 } },
    },
    new ImaginedMachine(),
  );
  started.push(bmc);
  const credentials = {
    ...{ user: FACTORY.user, managed: 'beside' as const },
    password: { valueFrom: { secret: 'bmc', key: 'factory' } },
    ...more,
  };
  const reach: Reach = { address: '127.0.0.1', port: bmc.port, protocol, credentials };
  return { bmc, reach, store: openMemoryStore(), vault: memoryVault() };
}
type Site = Awaited<ReturnType<typeof newSite>>;

/** What ends a server: nothing works from the step on that `lives` refuses. */
type Lives = () => void;
const always: Lives = () => {};

/** A server. It counts as a step whatever leaves something behind. */
function serve({ store, vault }: Site, lives: Lives = always) {
  const step = async <T>(work: () => Promise<T>): Promise<T> => {
    lives();
    const done = await work();
    lives();
    return done;
  };
  const watched = (bmc: Bmc): Bmc => ({
    ...{ protocol: bmc.protocol, power: () => bmc.power(), order: (order) => bmc.order(order) },
    ...{ boot: () => bmc.boot(), identify: (seconds) => bmc.identify(seconds) },
    bootOnce: (target, how) => bmc.bootOnce(target, how),
    show: (view) => bmc.show(view),
    console: (how) => bmc.console(how),
    setAccount: (login) => step(() => bmc.setAccount(login)),
    switchOff: (user) => step(() => bmc.switchOff(user)),
    close: () => bmc.close(),
  });
  const deps: ConnectDeps = {
    store: { list: store.list.bind(store), commit: (writes) => step(() => store.commit(writes)) },
    vault: { get: vault.get, put: (name, text) => step(() => vault.put(name, text)) },
    secret: () => ({ value: Buffer.from(FACTORY.password), since: 1 }),
    protocols: {
      redfish: (access) => step(async () => watched(await openRedfish(access))),
      ipmi: (access) => step(async () => watched(await openIpmi(access))),
    },
    ...{ clock: systemClock, log: silentLog },
  };
  return openConnections(deps);
}

const power = (bmc: Bmc) => bmc.power();
const accounts = ({ bmc }: Site) =>
  bmc.controller.accounts.filter(({ name }) => name !== '').map(({ name, enabled }) => ({ name, enabled }));
const ownOf = ({ bmc }: Site) => bmc.controller.accounts.find(({ name }) => name === OWN_USER)?.password;
const sealed = ({ vault }: Site) => decodeOwn(vault.kept.get('bmc.node-1')).map(({ text }) => text);
const locked = ({ bmc }: Site) => bmc.controller.log.filter(({ text }) => text.includes('locked'));

describe.each(PROTOCOLS)('by %s', (protocol) => {
  test('the first contact makes an account with a password that only the vault has', async () => {
    const site = await newSite(protocol);
    const server = await serve(site);
    expect(await server.keep('node-1', site.reach)).toEqual(['account-made']);
    expect(accounts(site)).toEqual([
      { name: 'root', enabled: true },
      { name: OWN_USER, enabled: true },
    ]);
    expect(sealed(site)).toEqual([ownOf(site)]);
    expect(JSON.stringify(await site.store.list(''))).not.toContain(ownOf(site));
    expect(await server.keep('node-1', site.reach)).toEqual([]);
    // The log-in of the document is not needed any more.
    site.bmc.controller.accounts[1]!.password = 'another';
    expect(await (await serve(site)).with('node-1', site.reach, power)).toBe('off');
  });

  test('the log-in of the document is switched off where it says so', async () => {
    const site = await newSite(protocol, { managed: 'alone' });
    const server = await serve(site);
    expect(await server.keep('node-1', site.reach)).toEqual(['account-made', 'log-in-off']);
    expect(accounts(site)[0]).toEqual({ name: 'root', enabled: false });
    expect(await server.keep('node-1', site.reach)).toEqual([]);
    expect(await server.with('node-1', site.reach, power)).toBe('off');
  });

  test('a log-in that is named as that of Muster gets the new password itself', async () => {
    const site = await newSite(protocol);
    Object.assign(site.bmc.controller.accounts[1]!, { name: OWN_USER });
    const reach = { ...site.reach, credentials: { ...site.reach.credentials!, user: OWN_USER } };
    const server = await serve(site);
    expect(await server.keep('node-1', reach)).toEqual(['account-made']);
    expect(accounts(site)).toEqual([{ name: OWN_USER, enabled: true }]);
    expect(ownOf(site)).toBe(sealed(site)[0]);
    expect(await server.with('node-1', reach, power)).toBe('off');
  });

  test('a server that ends at any step of the first contact or of a new password goes on', async () => {
    for (const isFirst of [true, false]) {
      let isWhole = false;
      for (let last = 1; !isWhole; last++) {
        const site = await newSite(protocol, { managed: 'alone' });
        if (!isFirst) await (await serve(site)).keep('node-1', site.reach);
        const before = ownOf(site);
        const order = { by: 'ada', at: Date.now() + (isFirst ? 0 : 1) };
        if (!isFirst) await new Promise((done) => setTimeout(done, 2));
        let steps = 0;
        const dying = await serve(site, () => {
          if (++steps > last) throw new Error('the server ended');
        });
        try {
          if (!isFirst) await dying.note('node-1', site.reach, { due: order });
          await dying.keep('node-1', site.reach);
          isWhole = true;
        } catch (error) {
          if (error instanceof BmcFault) throw error;
        }
        const next = await serve(site);
        const at = `${protocol}, ended after step ${last}`;
        expect(await next.with('node-1', site.reach, power), at).toBe('off');
        if (!isFirst) await next.note('node-1', site.reach, { due: order });
        await next.keep('node-1', site.reach);
        expect(sealed(site), at).toEqual([ownOf(site)]);
        expect(ownOf(site), at).not.toBe(before);
        expect(accounts(site)[0], at).toEqual({ name: 'root', enabled: false });
        expect(locked(site), at).toEqual([]);
        await site.bmc.close();
        started.pop();
        if (last > 60) throw new Error('it never ends');
      }
    }
  }, 60_000);

  test('a BMC that accepts a password and keeps the old one is left with the old one', async () => {
    const site = await newSite(protocol);
    await (await serve(site)).keep('node-1', site.reach);
    const before = ownOf(site);
    const rule: FaultRule =
      protocol === 'redfish'
        ? { on: '^password PATCH', acknowledged: true }
        : { on: '^password set-user-password', acknowledged: true };
    Object.assign(site.bmc.controller, { faults: new Faults([rule]) });
    const server = await serve(site);
    await server.note('node-1', site.reach, { due: { by: 'ada', at: Date.now() + 1 } });
    await expect(server.keep('node-1', site.reach)).rejects.toThrow('keeps the old one');
    expect(ownOf(site)).toBe(before);
    expect(sealed(site)[0]).toBe(before);
    expect(await server.with('node-1', site.reach, power)).toBe('off');
    expect(locked(site)).toEqual([]);
  });

  test('a new password whose answer is lost is the one that counts', async () => {
    const site = await newSite(protocol);
    await (await serve(site)).keep('node-1', site.reach);
    const rule: FaultRule = { on: '^password', lost: true, times: protocol === 'redfish' ? 1 : 4 };
    Object.assign(site.bmc.controller, { faults: new Faults([rule]) });
    const server = await serve(site);
    await server.note('node-1', site.reach, { due: { by: 'ada', at: Date.now() + 1 } });
    const before = ownOf(site);
    expect(await server.keep('node-1', site.reach)).toEqual(['password-replaced']);
    expect(ownOf(site)).not.toBe(before);
    expect(sealed(site)).toEqual([ownOf(site)]);
  }, 20_000);

  test('a BMC that was reset to its factory settings gets its account again', async () => {
    const site = await newSite(protocol, { managed: 'alone' });
    await (await serve(site)).keep('node-1', site.reach);
    const { controller } = site.bmc;
    Object.assign(controller.accounts[2]!, { name: '', password: '', enabled: false });
    Object.assign(controller.accounts[1]!, { enabled: true });
    const server = await serve(site);
    expect(await server.with('node-1', site.reach, power)).toBe('off');
    expect(await server.keep('node-1', site.reach)).toEqual(['account-made', 'log-in-off']);
    expect(await server.with('node-1', site.reach, power)).toBe('off');
  });
});

test('machines of one BMC share one account', async () => {
  const site = await newSite('redfish');
  const server = await serve(site);
  await server.keep('node-1', site.reach);
  const first = ownOf(site);
  expect(await server.keep('node-2', site.reach)).toEqual([]);
  expect(ownOf(site)).toBe(first);
  expect(server.known('node-2')?.own).toEqual(server.known('node-1')?.own);
  await server.note('node-2', site.reach, { due: { by: 'ada', at: Date.now() + 1 } });
  expect(await server.keep('node-2', site.reach)).toEqual(['password-replaced']);
  expect(await (await serve(site)).with('node-1', site.reach, power)).toBe('off');
});

test('a BMC with slots for accounts gets all of a new account in one request', async () => {
  const site = await newSite('redfish');
  Object.assign(site.bmc.controller.traits, { accounts: 'slots' });
  expect(await (await serve(site)).keep('node-1', site.reach)).toEqual(['account-made']);
  expect(site.bmc.controller.accounts[2]).toMatchObject({ name: OWN_USER, enabled: true, privilege: 4 });
});

test('a password is one that IPMI and the rules of BMCs take, and no two are the same', () => {
  const all = Array.from({ length: 500 }, newPassword);
  for (const one of all) expect(one).toMatch(/^[A-Za-z](?=.*[-_+=.])(?=.*\d|.*[2-9])[\w+=.-]{15}$/);
  expect(new Set(all).size).toBe(500);
});

test('the password that worked is never dropped', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { minLength: 1, maxLength: 2 }), fc.nat(1), (ages, at) => {
      const passwords = ages.map((age, n) => ({ text: `p${n}`, at: age }));
      const worked = Math.min(at, passwords.length - 1);
      const after = afterLogin(passwords, worked);
      expect(after[0]).toBe(passwords[worked]);
      // One that the BMC may still take stays.
      for (const one of passwords) if (one.at > after[0]!.at) expect(after).toContain(one);
    }),
  );
});
