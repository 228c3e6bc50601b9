/**
 * A host of the segment sets the address of a control plane and asks for its certificate, which
 * would bring it the keys of the cluster. Its tier of trust is segment: no operator looks.
 */
import { afterAll, beforeEach, expect, it } from 'vitest';
import type { Mac } from '../../src/base/mac.ts';
import { ip } from '../peers/dhcp-segment.ts';
import { Agent, filesIn, HTTP, scriptOf, sessionIn, takeLease, takeOver } from './machine.ts';
import {
  ADDRESS,
  ATTACKER_MAC,
  BOOT_HOST,
  MACHINES,
  Rig,
  SERVER_MAC,
  SERVER_MODE,
  VICTIM_MAC,
} from './rig.ts';

const CP1 = '10.77.0.11';

const rig = await Rig.open(SERVER_MODE + MACHINES);
afterAll(() => rig.close());

/** Gives the attacker's interface this address alone. */
function set(address: string): void {
  ip('-n', 'atk', '-4', 'addr', 'flush', 'dev', 'eth0');
  ip('-n', 'atk', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
}
beforeEach(() => set(ADDRESS.atk));

/** Why the boot host last refused an agent in the name of cp1. */
const refusal = async (): Promise<string | undefined> =>
  (await rig.muster.events()).findLast(({ kind, subject }) => kind === 'agent.refused' && subject === 'cp1')
    ?.reason?.code;

/** An ARP reply, by which the boot host's kernel learns who has an address. */
function says(address: string, mac: Mac): Buffer {
  const octets = (text: string) => Buffer.from(text.replaceAll(':', ''), 'hex');
  const dotted = (text: string) => Buffer.from(text.split('.').map(Number));
  const [mine, host] = [octets(mac), octets(SERVER_MAC)];
  const head = Buffer.from('0806' + '0001' + '0800' + '06' + '04' + '0002', 'hex');
  return Buffer.concat([host, mine, head, mine, dotted(address), host, dotted(BOOT_HOST)]);
}

it('gets nothing by the free address of a machine that was never on', async () => {
  set(CP1);
  expect(await takeOver(rig, 'atk', VICTIM_MAC)).not.toHaveProperty('certificate');
  expect(await refusal()).toBe('no_lease');
});

it('gets nothing with a lease that the machine has taken, while other hardware answers for its address', async () => {
  expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe(CP1);
  ip('-n', 'vic', 'link', 'set', 'eth0', 'down');
  set(CP1);
  expect(await takeOver(rig, 'atk', VICTIM_MAC)).not.toHaveProperty('certificate');
  expect(await refusal()).toBe('other_hardware');
  expect(await rig.operator('get', 'machines')).not.toContain('ALARM');
});

it('gets nothing by the address of a machine that is on and boots, with all that its documents say', async () => {
  ip('-n', 'vic', 'link', 'set', 'eth0', 'up');
  ip('-n', 'vic', 'route', 'replace', 'default', 'dev', 'eth0');
  expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe(CP1);
  const { body: script } = await scriptOf(rig, 'vic', VICTIM_MAC);
  const { body } = await rig.http('vic', `${HTTP}/boot/${sessionIn(script)}/user-data`);
  const [mine, thief] = [new Agent(rig, 'vic', filesIn(body)), new Agent(rig, 'atk', filesIn(body))];
  set(CP1);
  await rig.frames('atk', [says(CP1, ATTACKER_MAC)], { wait: 0 });
  expect((await thief.redeem()).status).toBe(403);
  expect(await refusal()).toBe('other_hardware');
  // The machine is not kept from its own certificate by that.
  set(ADDRESS.atk);
  ip('neigh', 'flush', 'to', CP1);
  expect((await mine.redeem()).status).toBe(200);
  for (const agent of [mine, thief]) agent.close();
});

it('is the machine if it also forges its hardware address and takes its lease: tier segment does not prevent that', async () => {
  const CP2 = '52:54:00:aa:00:31' as Mac;
  ip('-n', 'atk', '-4', 'addr', 'flush', 'dev', 'eth0');
  ip('-n', 'atk', 'link', 'set', 'eth0', 'address', CP2);
  ip('-n', 'atk', 'route', 'replace', 'default', 'dev', 'eth0');
  expect(await takeLease(rig, 'atk', CP2)).toBe('10.77.0.31');
  expect(await takeOver(rig, 'atk', CP2)).toMatchObject({ certificate: true });
});
