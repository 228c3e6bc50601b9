/**
 * Forged and invented DHCP messages: addresses that are given back, declined or taken in the name
 * of others, from the segment and from another subnet.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { formatIpv4 } from '../../src/base/ipv4.ts';
import type { Mac } from '../../src/base/mac.ts';
import type { DhcpPacket } from '../../src/pxe/dhcp/packet.ts';
import { ip } from '../peers/dhcp-segment.ts';
import { message } from '../unit/pxe/dhcp/kit.ts';
import { BOOT_HOST, MACHINES, Rig, SERVER_MODE, VICTIM_MAC } from './rig.ts';

const DIRECT = { to: `${BOOT_HOST}:67` };
const ACK = 5;
/** A documented machine without a reserved address. */
const STRANGER = '52:54:00:cc:00:02' as Mac;
const POOLED_MAC = '52:54:00:aa:00:71' as Mac;
const POOLED = `---
apiVersion: muster/v1
kind: Machine
metadata: {name: w3}
spec: {macs: ["${POOLED_MAC}"], profile: node}
`;

const invented = (n: number): Mac =>
  `02:00:00:00:${(n >> 8).toString(16).padStart(2, '0')}:${(n & 255).toString(16).padStart(2, '0')}` as Mac;
const typeOf = (packet: DhcpPacket | undefined) => packet?.options.get(53)?.[0];
const addressOf = (packet: DhcpPacket | undefined) => packet && formatIpv4(packet.yiaddr);

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open(SERVER_MODE + MACHINES + POOLED);
});
afterAll(() => rig.close());

/** The answer to a DISCOVER that has one. */
const discover = async (mac: Mac, wanted?: string): Promise<DhcpPacket | undefined> => {
  const packet = message('DISCOVER', { mac, ...(wanted ? { address: wanted } : {}) });
  return (await rig.dhcp('atk', [packet], { replies: 1 }))[0];
};

/** Takes a lease for `mac` at `vic`, and gives its interface the address. */
async function leased(mac: Mac): Promise<string> {
  const [offer] = await rig.dhcp('vic', [message('DISCOVER', { mac })], { replies: 1 });
  const address = addressOf(offer)!;
  const request = message('REQUEST', { mac, address, server: BOOT_HOST });
  const [ack] = await rig.dhcp('vic', [request], { replies: 1 });
  expect(typeOf(ack)).toBe(ACK);
  ip('-n', 'vic', 'link', 'set', 'eth0', 'address', mac);
  ip('-n', 'vic', 'addr', 'replace', `${address}/24`, 'dev', 'eth0');
  return address;
}

async function renews(mac: Mac, address: string): Promise<number | undefined> {
  const request = message('REQUEST', { mac, ciaddr: address });
  const [answer] = await rig.dhcp('vic', [request], { ...DIRECT, replies: 1 });
  return typeOf(answer);
}

/** Ends the address of the interface at `vic`. */
function leave(address: string): void {
  ip('-n', 'vic', 'addr', 'del', `${address}/24`, 'dev', 'eth0');
  ip('-n', 'vic', 'route', 'replace', 'default', 'dev', 'eth0');
}

const boundCount = async () => (await rig.muster.leases()).filter(({ state }) => state === 'bound').length;

it('release-steal: nobody gives back the address of another client, and nobody else gets it', async () => {
  const holder = '52:54:00:bb:00:02' as Mac;
  const address = await leased(holder);
  await rig.datagrams('atk', { ...DIRECT, port: 68 }, [
    message('RELEASE', { mac: holder, ciaddr: address, server: BOOT_HOST }),
  ]);
  await rig.muster.event('the refused RELEASE', ({ reason }) => reason?.code === 'release_foreign');
  expect(addressOf(await discover('52:54:00:66:00:99' as Mac, address))).not.toBe(address);
  expect(await renews(holder, address)).toBe(ACK);
  leave(address);
});

it('move-bound: a forged REQUEST does not give a running client another address', async () => {
  const holder = '52:54:00:bb:00:03' as Mac;
  const address = await leased(holder);
  for (const server of [BOOT_HOST, '10.77.0.9', undefined]) {
    const fields = { mac: holder, address: '10.77.0.150', ...(server ? { server } : {}) };
    await rig.dhcp('atk', [message('REQUEST', fields)]);
  }
  expect(await renews(holder, address)).toBe(ACK);
  leave(address);
});

it('decline-bound: a forged DECLINE does not take the lease of a running client', async () => {
  const holder = '52:54:00:bb:00:01' as Mac;
  const address = await leased(holder);
  await rig.datagrams('atk', { ...DIRECT, port: 68 }, [
    message('DECLINE', { mac: holder, address, server: BOOT_HOST }),
  ]);
  expect(await renews(holder, address)).toBe(ACK);
  await rig.muster.event(
    'the end of the probe',
    ({ reason, fields }) => reason?.code === 'decline_unproven' && fields?.address === address,
  );
  expect(await renews(holder, address)).toBe(ACK);
  expect(addressOf(await discover(holder))).toBe(address);
  leave(address);
});

it('decline-reserved: a forged DECLINE does not take the address that a document reserves', async () => {
  expect(addressOf(await discover(VICTIM_MAC))).toBe('10.77.0.11');
  await rig.dhcp('atk', [message('DECLINE', { mac: VICTIM_MAC, address: '10.77.0.11', server: BOOT_HOST })]);
  expect(addressOf(await discover(VICTIM_MAC))).toBe('10.77.0.11');
  await rig.muster.event(
    'the end of the probe',
    ({ reason, fields }) => reason?.code === 'decline_unproven' && fields?.address === '10.77.0.11',
  );
  expect(addressOf(await discover(VICTIM_MAC))).toBe('10.77.0.11');
});

it('starve-blind: a hundred REQUESTs without an OFFER do not empty a pool, from another subnet or here', async () => {
  for (const [place, giaddr] of [
    ['rem', undefined],
    ['rem', '10.77.0.250'],
    ['atk', undefined],
  ] as const) {
    const requests = Array.from({ length: 100 }, (_, n) =>
      message('REQUEST', {
        mac: invented(n),
        address: `10.77.0.${100 + n}`,
        server: BOOT_HOST,
        ...(giaddr ? { giaddr } : {}),
      }),
    );
    await rig.datagrams(place, { ...DIRECT, port: 68, wait: 2000 }, requests);
  }
  expect(await boundCount()).toBeLessThan(40);
  expect(addressOf(await discover('52:54:00:cc:00:01' as Mac))).toMatch(/^10\.77\.0\.1\d\d$/);
});

it('starve-segment: documented machines get their addresses while invented clients take all others', async () => {
  const clients = Array.from({ length: 150 }, (_, n) => invented(1000 + n));
  const answers: DhcpPacket[] = [];
  // A busy boot host does not hear all of so many packets at once.
  for (let round = 0; round < 10; round++) {
    const offers = await rig.dhcp(
      'atk',
      clients.map((mac) => message('DISCOVER', { mac })),
      { wait: 3000 },
    );
    const requests = offers.map((offer) =>
      message('REQUEST', {
        mac: offer.chaddr.subarray(0, 6).toString('hex').match(/../g)!.join(':') as Mac,
        address: formatIpv4(offer.yiaddr),
        server: BOOT_HOST,
      }),
    );
    answers.push(...(await rig.dhcp('atk', requests, { wait: 3000 })));
    if ((await rig.dhcp('atk', [message('DISCOVER', { mac: STRANGER })])).length === 0) break;
  }
  expect(answers.filter((answer) => typeOf(answer) === ACK).length).toBeGreaterThan(50);
  expect(await rig.dhcp('atk', [message('DISCOVER', { mac: STRANGER })], { wait: 2000 })).toEqual([]);
  expect(addressOf(await discover('52:54:00:aa:00:21' as Mac))).toBe('10.77.0.21');
  expect(addressOf(await discover(POOLED_MAC))).toBe('10.77.0.199');
  const short = answers.at(-1)!.options.get(51)!.readUInt32BE();
  expect(short).toBe(120);
});

it('big-options: what a lease would keep of a client’s options is bounded', async () => {
  for (const code of [61, 82]) {
    const mac = '52:54:00:aa:00:61' as Mac;
    const sent = message('DISCOVER', { mac, options: [[code, Buffer.alloc(900, 1)]] });
    expect(await rig.dhcp('atk', [sent])).toEqual([]);
  }
});
