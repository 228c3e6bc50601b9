/** What a machine gets that an operator wants to look at, and when that is over. */
import { expect, test } from 'vitest';
import { seconds, toMillis } from '../../../../src/base/duration.ts';
import type { Life } from '../../../../src/machines/machine.ts';
import {
  document,
  HASH,
  IMAGE,
  leaseFor,
  MAC1,
  machine,
  NETWORK,
  WORKER,
  type World,
  world,
} from './world.ts';

const DISCOVERY = document('Image', 'discovery', {
  os: 'discovery',
  arch: 'x86_64',
  kernel: { sha256: HASH('a'), name: 'vmlinuz' },
  initrds: [{ sha256: HASH('b'), name: 'initrd' }],
  configFormat: 'none',
});
const RESCUING = { ...NETWORK, spec: { ...NETWORK.spec, discovery: { image: 'discovery' } } };
const PEER = leaseFor(MAC1);
const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcNAMZZfRiAAhyBYI15Jz0+Zzx28DEptsF4c2liEcP2';
const HOST_KEY = `${KEY.slice(0, -1)}A root@(none)\n`;

/** A machine that is rescued, in the discovery system. */
async function rescued(out = false): Promise<{ w: World; id: string }> {
  const w = await world([
    RESCUING,
    DISCOVERY,
    IMAGE,
    WORKER,
    machine('node-1', [MAC1], { profile: 'worker' }),
  ]);
  const until = new Date(w.clock.now() + toMillis(seconds(3600))).toISOString();
  const rescue = { key: `${KEY} ada`, until, ...(out && { out: { text: 'fan', by: 'bob' } }) };
  const life: Life = { at: w.clock.now(), state: 'rescue', text: 'dead', by: 'ada', rescue };
  w.roster.change(w.roster.get('node-1')!, { life });
  const { decision, session } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ kind: 'discovery', reason: { code: 'rescues' } });
  return { w, id: session!.id };
}
/** The machine asks all the time. */
const passTheTime = (w: World, id: string): void => {
  w.clock.advance(toMillis(seconds(1800)));
  expect(w.boot.waits(id)).toEqual({ do: 'rescue', name: 'node-1' });
  w.clock.advance(toMillis(seconds(1801)));
};
const lifeOf = (w: World) => w.roster.get('node-1')!.status.life;

test('the order is given to the machine itself alone, which says by which key its server is known', async () => {
  const { w, id } = await rescued();
  expect(w.boot.waits(id)).toEqual({ do: 'rescue', name: 'node-1' });
  expect(await w.boot.rescue(id, HOST_KEY, '10.77.0.250')).toBe('refused');
  expect(await w.boot.rescue(id, 'ssh-ed25519 short', PEER)).toBe('unreadable');
  expect(await w.boot.rescue(id, HOST_KEY, PEER)).toEqual({ text: `seconds 3600\nkey ${KEY} ada\n` });
  expect(lifeOf(w)!.rescue).toMatchObject({
    begun: true,
    address: PEER,
    hostKey: HOST_KEY.split(' root')[0],
  });
  // A repeated question is answered; a second system is not.
  expect(await w.boot.rescue(id, HOST_KEY, PEER)).toHaveProperty('text');
  expect(await w.boot.rescue(id, KEY, PEER)).toBe('refused');
  expect(w.boot.config(id, 'user-data', { baseUrl: 'http://10.77.0.1', peer: PEER }).ok).toBe(false);
  expect(await w.boot.wipeOrder(id, PEER)).toBe('refused');
});

test('the boot after a rescue is an ordinary one, and one that never began is given again', async () => {
  const { w } = await rescued();
  const { decision, session } = await w.powerOn(MAC1);
  expect(decision).toMatchObject({ reason: { code: 'rescues' } });
  await w.boot.rescue(session!.id, HOST_KEY, PEER);
  expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'script' });
  expect(lifeOf(w)).toBeUndefined();
  expect(await w.boot.rescue(session!.id, HOST_KEY, PEER)).toBe('refused');
});

test('a machine that was taken out before is that again, and is switched off', async () => {
  const { w, id } = await rescued(true);
  await w.boot.rescue(id, HOST_KEY, PEER);
  passTheTime(w, id);
  expect(w.boot.waits(id)).toEqual({ do: 'off', name: 'node-1' });
  expect(lifeOf(w)).toMatchObject({ state: 'taken-out', text: 'fan', by: 'bob' });
  expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'hold', reason: { code: 'not_in_use' } });
});

test('when the time is over the system reboots, and gets what its documents say', async () => {
  const { w, id } = await rescued();
  await w.boot.rescue(id, HOST_KEY, PEER);
  passTheTime(w, id);
  expect(w.boot.waits(id)).toEqual({ do: 'reboot', name: 'node-1' });
  expect(lifeOf(w)).toBeUndefined();
  expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'script' });
});
