/**
 * The machine that attackers pose as gets everything by the same steps: without this, a refused
 * attack would show nothing.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { IPXE, message } from '../unit/pxe/dhcp/kit.ts';
import { bootFileOf, HTTP, takeLease, takeOver } from './machine.ts';
import { ADDRESS, BOOT_HOST, Rig, UNSERVED, udpFrame, VICTIM_MAC } from './rig.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

it('the machine itself gets its lease, script, configuration, certificate and the keys in its plan', async () => {
  expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe('10.77.0.11');
  const haul = await takeOver(rig, 'vic', VICTIM_MAC);
  expect(haul).toMatchObject({ script: expect.stringContaining('/boot/'), certificate: true });
  expect(haul.secrets).toContain('/etc/kubernetes/pki/ca.key');
  expect(await rig.operator('get', 'machines')).toMatch(/^cp1 /m);
});

it('attackers reach the boot host from where they are', async () => {
  for (const [place, host] of [
    ['atk', BOOT_HOST],
    ['rem', BOOT_HOST],
    ['far', UNSERVED],
  ] as const)
    expect((await rig.in(place, ['ping', '-c1', '-W5', host])).code).toBe(0);
});

it('an attacker on the segment can send what it likes from any address, and sees every answer', async () => {
  const payload = message('DISCOVER', { mac: VICTIM_MAC, options: IPXE! });
  const frame = udpFrame({
    ...{ fromMac: VICTIM_MAC, toMac: 'ff:ff:ff:ff:ff:ff', from: '0.0.0.0', fromPort: 68 },
    ...{ to: '255.255.255.255', toPort: 67, payload },
  });
  const [offer] = await rig.frames('atk', [frame], { wait: 1000 });
  expect(offer).toMatchObject({ source: BOOT_HOST, destination: '255.255.255.255', destinationPort: 68 });
  const [decoded] = await rig.dhcp('atk', [payload]);
  expect(bootFileOf(decoded!)).toContain(HTTP);
  expect(ADDRESS.atk).toBe('10.77.0.66');
});
