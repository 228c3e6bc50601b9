import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Replayed } from '../../../src/cli/explain/packet.ts';
import { MESSAGE, OPTION } from '../../../src/pxe/dhcp/options.ts';
import { decode, encode } from '../../../src/pxe/dhcp/packet.ts';
import { DOCUMENTS } from '../api/world.ts';
import { ethernet, pcapOf } from './capture.ts';
import { run } from './run.ts';

const CAPTURES: Readonly<Record<string, string>> = JSON.parse(
  fs.readFileSync(path.join(import.meta.dirname, '../../golden/dhcp/captures.json'), 'utf8'),
);
const packet = (name: string): Buffer => Buffer.from(CAPTURES[name]!, 'hex');

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-packet-'));
afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));
const config = path.join(directory, 'config');
fs.mkdirSync(config);
fs.writeFileSync(path.join(config, 'all.yaml'), DOCUMENTS.replace('52:54:00:aa:00:01', '52:54:00:aa:00:02'));

function capture(name: string, frames: readonly Uint8Array[]): string {
  const file = path.join(directory, name);
  fs.writeFileSync(file, pcapOf(frames));
  return file;
}

const replay = async (file: string, ...more: string[]): Promise<Replayed[]> =>
  JSON.parse((await run(['explain', '--packet', file, '--config', config, '-o', 'json', ...more])).out);

describe('explain --packet', () => {
  it("replays a firmware's DISCOVER: who it is, what it gets, and the whole reply", async () => {
    const file = capture('discover.pcap', [ethernet(packet('ovmf-pxe-discover'))]);
    const [one] = await replay(file);
    expect(one).toMatchObject({
      type: 'DISCOVER',
      outcome: 'offered',
      network: 'lan',
      subject: 'node-1',
      client: { mac: '52:54:00:aa:00:02', stage: 'pxe', firmware: 'uefi' },
      decision: { kind: 'loader', loader: 'ipxe.efi', reason: { code: 'chainload' } },
      reply: { type: 'OFFER', file: 'ipxe.efi', siaddr: '10.77.0.1', to: '255.255.255.255:68' },
    });
  });

  it('goes on from packet to packet: the REQUEST that chose this server is confirmed', async () => {
    const discover = packet('ovmf-pxe-discover');
    const decoded = decode(discover);
    if (!decoded.ok) throw new Error(decoded.fault);
    const options = new Map(decoded.packet.options);
    options.set(OPTION.messageType, Buffer.from([MESSAGE.REQUEST]));
    options.set(OPTION.serverId, Buffer.from([10, 77, 0, 5]));
    options.set(OPTION.requestedAddress, Buffer.from([10, 77, 0, 100]));
    const request = encode({ ...decoded.packet, options }).bytes;
    const file = capture('two.pcap', [ethernet(discover), ethernet(request)]);
    const [offered, acked] = await replay(file);
    expect(offered).toMatchObject({ outcome: 'offered', address: '10.77.0.100' });
    // The capture was taken beside a server with another address; standing in its place, this one
    // is meant.
    expect(acked).toMatchObject({
      outcome: 'acked',
      reply: { type: 'ACK', yiaddr: '10.77.0.100', siaddr: '10.77.0.5' },
    });
  });

  it("in a proxy's capture, answers as the proxy, and leaves the lease to the other server", async () => {
    const discover = packet('ovmf-pxe-discover');
    const decoded = decode(discover);
    if (!decoded.ok) throw new Error(decoded.fault);
    const other = Buffer.from([10, 77, 0, 254]);
    const message = (type: number, server: Buffer, more: Partial<typeof decoded.packet>, vendor?: string) => {
      const options = new Map(type === MESSAGE.REQUEST ? decoded.packet.options : []);
      options.set(OPTION.messageType, Buffer.from([type]));
      options.set(OPTION.serverId, server);
      if (type === MESSAGE.REQUEST) options.set(OPTION.requestedAddress, Buffer.from([10, 77, 0, 50]));
      if (vendor) options.set(OPTION.vendorClass, Buffer.from(vendor));
      return encode({ ...decoded.packet, ...more, options }).bytes;
    };
    const yiaddr = 0x0a4d0032 as typeof decoded.packet.yiaddr;
    const file = capture('proxy.pcap', [
      ethernet(discover),
      ethernet(message(MESSAGE.OFFER, other, { op: 2, yiaddr }), [], 68),
      ethernet(message(MESSAGE.OFFER, Buffer.from([10, 77, 0, 9]), { op: 2 }, 'PXEClient'), [], 68),
      ethernet(message(MESSAGE.REQUEST, other, {})),
    ]);
    const proxied = path.join(directory, 'proxied');
    fs.mkdirSync(proxied);
    const documents = fs.readFileSync(path.join(config, 'all.yaml'), 'utf8');
    fs.writeFileSync(
      path.join(proxied, 'all.yaml'),
      documents.replace(/mode: server(, pools: [^\n]*\]|\n *pools:[^\n]*)?/, 'mode: proxy'),
    );
    const { out } = await run(['explain', '--packet', file, '--config', proxied, '-o', 'json']);
    const [offered, chosen] = JSON.parse(out) as Replayed[];
    expect(offered).toMatchObject({ reply: { yiaddr: '0.0.0.0', siaddr: '10.77.0.9', file: 'ipxe.efi' } });
    expect(chosen!.outcome).not.toMatch(/acked|nak/);
    expect(chosen!.reply?.type ?? 'none').not.toBe('ACK');
  });

  it('prints it for people, with every option by name', async () => {
    const file = capture('people.pcap', [ethernet(packet('ipxe-bios-discover'))]);
    const { code, out } = await run(['explain', '--packet', file, '--config', config]);
    expect(code).toBe(0);
    expect(out).toMatch(/DISCOVER 52:54:00:/);
    expect(out).toMatch(/outcome +An address was offered\. \(offered\)/);
    expect(out).toMatch(/option +54 server-identifier: 10\.77\.0\.1/);
  });

  it('takes the network that is named', async () => {
    const file = capture('named.pcap', [ethernet(packet('ovmf-pxe-discover'))]);
    expect((await replay(file, '--network', 'lan'))[0]).toMatchObject({ network: 'lan' });
    const wrong = await run(['explain', '--packet', file, '--config', config, '--network', 'moon']);
    expect(wrong).toMatchObject({ code: 1, err: expect.stringContaining('there are lan') });
  });

  it('tells of damage instead of failing', async () => {
    const file = capture('bad.pcap', [ethernet(packet('ovmf-pxe-discover').subarray(0, 200))]);
    expect(await replay(file)).toMatchObject([{ outcome: 'malformed', detail: 'short' }]);
  });

  it.for([
    ['a file that is no capture', 'neither pcap nor pcapng', Buffer.alloc(100)],
    ['a capture without DHCP', 'no DHCP packet', pcapOf([ethernet(Buffer.from('x'), [], 53)])],
  ] as const)('refuses %s', async ([, message, bytes]) => {
    const file = path.join(directory, 'wrong');
    fs.writeFileSync(file, bytes);
    const { code, err } = await run(['explain', '--packet', file, '--config', config]);
    expect(code).toBe(1);
    expect(err).toContain(message);
  });

  it('asks for the documents', async () => {
    expect(await run(['explain', '--packet', 'x'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--config'),
    });
  });
});
