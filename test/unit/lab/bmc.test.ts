/** Virtual BMCs with Muster's own clients: what each rule and trait does to them. */
import { afterEach, describe, expect, test } from 'vitest';
import type { Bmc } from '../../../src/bmc/bmc.ts';
import { openIpmi } from '../../../src/bmc/ipmi/client.socket.ts';
import { openRedfish } from '../../../src/bmc/redfish/client.socket.ts';
import { Faults, merged } from '../../../src/lab/bmc/faults.ts';
import {
  ImaginedMachine,
  startVirtualBmc,
  type VirtualBmc,
  type VirtualBmcOptions,
} from '../../../src/lab/bmc/virtual-bmc.server.ts';

const ADA = { user: 'ada', password: 'secret-of-ada' };
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

type Protocol = VirtualBmcOptions['protocol'];
async function virtual(protocol: Protocol, more: Partial<VirtualBmcOptions> = {}) {
  const machine = new ImaginedMachine();
  const options = { protocol, address: '127.0.0.1', port: 0, ...ADA, ...more };
  const bmc = await startVirtualBmc(options, machine);
  open.push(bmc);
  return { machine, bmc };
}

async function client(protocol: Protocol, { port }: VirtualBmc): Promise<Bmc> {
  const access = { address: '127.0.0.1', port, ...ADA };
  const opened =
    protocol === 'ipmi' ? await openIpmi(access) : await openRedfish({ ...access, trust: { pinned() {} } });
  open.push(opened);
  return opened;
}

describe.each(['ipmi', 'redfish'] as const)('%s', (protocol) => {
  test('power goes on from the network once, and off', async () => {
    const { machine, bmc } = await virtual(protocol);
    const bmcs = await client(protocol, bmc);
    expect(await bmcs.power()).toBe('off');
    await bmcs.bootOnce('network', { uefi: true });
    expect(await bmcs.boot()).toEqual({ target: 'network', uefi: true, persistent: false });
    await bmcs.order('on');
    await bmc.controller.settled();
    expect([await bmcs.power(), machine.on, bmc.controller.starts]).toEqual(['on', true, ['network']]);
    expect((await bmcs.boot()).target).toBe('none');
    await bmcs.order('off');
    await bmc.controller.settled();
    expect(machine.on).toBe(false);
  });

  test('an order is acknowledged, and nothing is done', async () => {
    const { machine, bmc } = await virtual(protocol, {
      faults: [{ on: '^power', acknowledged: true, times: 1 }],
    });
    const bmcs = await client(protocol, bmc);
    await bmcs.order('on');
    await bmc.controller.settled();
    expect([machine.on, await bmcs.power()]).toEqual([false, 'off']);
    await bmcs.order('on');
    await bmc.controller.settled();
    expect(machine.on).toBe(true);
  });

  test('a machine never starts, though its power is on', async () => {
    const { machine, bmc } = await virtual(protocol, { traits: { starts: 'never' } });
    const bmcs = await client(protocol, bmc);
    await bmcs.order('on');
    await bmc.controller.settled();
    expect([machine.on, await bmcs.power()]).toEqual([false, 'on']);
  });

  test('a boot once is read back and ignored', async () => {
    const { bmc } = await virtual(protocol, { traits: { bootOnce: 'ignored' } });
    const bmcs = await client(protocol, bmc);
    await bmcs.bootOnce('network', { uefi: false });
    expect((await bmcs.boot()).target).toBe('network');
    await bmcs.order('on');
    await bmc.controller.settled();
    expect(bmc.controller.starts).toEqual(['none']);
  });

  test('it is full of sessions', async () => {
    const { bmc } = await virtual(protocol, { traits: { sessions: 1 } });
    await client(protocol, bmc);
    await expect(client(protocol, bmc)).rejects.toMatchObject({ code: 'sessions-exhausted' });
    await open.pop()!.close();
    await client(protocol, bmc);
  });

  test('an account is locked after wrong passwords, and nobody gets in', async () => {
    const { bmc } = await virtual(protocol, { traits: { lockOut: { after: 2, forMs: 60_000 } } });
    for (let n = 0; n < 2; n++) bmc.controller.logsIn(ADA.user, 'wrong');
    await expect(client(protocol, bmc)).rejects.toMatchObject({ code: 'password' });
  });

  test('an answer that is lost, cut or damaged is no answer', async () => {
    for (const fault of [{ half: true }, { garbled: true }, { lost: true, times: 2 }] as const) {
      const { bmc } = await virtual(protocol, { faults: [{ on: '^read', times: 1, ...fault }] });
      // IPMI asks again; Redfish says that it did not understand, or has no answer. It asks again
      // only once, because a BMC may have closed a connection that was idle.
      const asked = client(protocol, bmc).then((bmcs) => bmcs.power());
      if (protocol === 'ipmi') expect(await asked).toBe('off');
      else await expect(asked).rejects.toThrow();
    }
  });
});

test('a rule counts its requests', () => {
  const faults = new Faults([{ on: '^power', after: 1, times: 1, lost: true }]);
  const seen = ['power', 'read', 'power', 'power'] as const;
  expect(seen.map((topic) => faults.of(topic, 'x') !== undefined)).toEqual([false, false, true, false]);
});

test('a merge patch changes and removes members of objects, and replaces all else', () => {
  expect(merged({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: null, e: 3 }, d: 'x' })).toEqual({
    a: { c: 2, e: 3 },
    d: 'x',
  });
});

test('a field of an answer of Redfish can be changed by a rule', async () => {
  const { bmc } = await virtual('redfish', {
    faults: [{ on: '^read GET /redfish/v1/Systems/1$', patch: { PowerState: 'PoweringOn' } }],
  });
  expect(await (await client('redfish', bmc)).power()).toBe('unknown');
});
