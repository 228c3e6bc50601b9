/** The search for Redfish services, over real multicast, with BMCs that answer and with others. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { searchRedfish } from '../../src/bmc/redfish/ssdp.socket.ts';
import { answerOf, SSDP } from '../../src/bmc/redfish/ssdp.ts';
import { ImaginedMachine, startVirtualBmc, type VirtualBmc } from '../../src/lab/bmc/virtual-bmc.server.ts';
import { bridge, remove } from './dhcp-segment.ts';

const OWN = '10.78.0.1';
const BMC = '10.78.0.10';
const HOSTILE = ['10.78.0.20', '10.78.0.21', '10.78.0.22'] as const;
const UUID = '92384634-2938-2342-8820-489239905423';

let bmc: VirtualBmc;
beforeAll(async () => {
  bridge('bmcs', ...[OWN, BMC, ...HOSTILE].map((address) => `${address}/24`));
  const login = { user: 'ada', password: 'secret-of-ada' };
  const options = { protocol: 'redfish', address: BMC, port: 0, ...login, identity: { uuid: UUID } } as const;
  bmc = await startVirtualBmc({ ...options, answersSearches: true }, new ImaginedMachine());
});
afterAll(async () => {
  await bmc.close();
  remove([], ['bmcs']);
});

/** Somebody at an address who hears searches, and answers what he likes. */
async function hears(address: string, answer: (to: (text: Buffer) => void) => void) {
  const socket = createSocket({ type: 'udp4', reuseAddr: true });
  socket.bind(SSDP.port, SSDP.address);
  await once(socket, 'listening');
  socket.addMembership(SSDP.address, address);
  const out = createSocket('udp4');
  out.bind({ address, port: 0 });
  await once(out, 'listening');
  let heard = 0;
  socket.on('message', (_, { port, address: to }) => {
    heard++;
    answer((text) => out.send(text, port, to, () => {}));
  });
  return {
    heard: () => heard,
    close: () => [socket, out].map((one) => one.close()),
  };
}

test('a BMC on the segment answers with the URL of its Redfish', async () => {
  expect(await searchRedfish([OWN])).toEqual([
    { sender: BMC, uuid: UUID, location: `https://${BMC}:${bmc.port}/redfish/v1/` },
  ]);
});

test('nobody is asked from an address that this host does not have', async () => {
  expect(await searchRedfish(['192.0.2.1'])).toEqual([]);
});

test('who answers for others, with nonsense, or without end, is shown as that or not at all', async () => {
  const [other, nonsense, flood] = HOSTILE;
  const answer = answerOf({ uuid: 'bad', location: `https://${BMC}/redfish/v1/` });
  const open = [
    await hears(other, (send) => send(answer)),
    await hears(nonsense, (send) => {
      for (let n = 0; n < 50; n++) send(Buffer.from('HTTP/1.1 200 OK\r\nUSN: nonsense\r\n\r\n'));
    }),
    await hears(flood, (send) => {
      for (let n = 0; n < 2000; n++)
        send(answerOf({ uuid: `f${n}`, location: `https://${flood}/redfish/v1` }));
    }),
  ];
  try {
    const begun = performance.now();
    const found = await searchRedfish([OWN]);
    expect(performance.now() - begun).toBeLessThan(10_000);
    const bySender = new Map(found.map((one) => [one.sender, one]));
    expect(bySender.get(other)).toMatchObject({ elsewhere: true });
    expect(bySender.has(nonsense)).toBe(false);
    expect(found.filter(({ sender }) => sender === flood)).toHaveLength(1);
    // Each search is asked twice, and no more.
    expect(open.map((one) => one.heard())).toEqual([2, 2, 2]);
  } finally {
    for (const one of open) one.close();
  }
});
