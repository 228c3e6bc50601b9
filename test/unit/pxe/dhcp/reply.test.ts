import { describe, expect, it } from 'vitest';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import { OPTION, printable } from '../../../../src/pxe/dhcp/options.ts';
import {
  CAPTURES,
  capture,
  dump,
  IPXE,
  ip,
  type Known,
  message,
  network,
  onWire,
  UEFI,
  type World,
  world,
} from './kit.ts';

const OVMF = '52:54:00:aa:00:02';

/** The OFFER and the ACK that a client with `options` gets. */
async function exchange(w: World, options: Parameters<typeof message>[1] = {}) {
  const offer = onWire(await w.send(message('DISCOVER', options)));
  const address = '10.77.0.100';
  const ack = onWire(await w.send(message('REQUEST', { ...options, address, server: '10.77.0.1' })));
  return [offer, ack] as const;
}
const known = (machine: Known) => world({ known: { '52:54:00:00:00:01': machine } });

describe('a reply', () => {
  it.each(CAPTURES.filter((name) => name !== 'ovmf-4011-request'))(
    'to %s is octet by octet the golden one',
    async (name) => {
      const w = await world({ known: { [OVMF]: { name: 'node-2', address: '10.77.0.52' } } });
      // The captured REQUEST asks for an address of the network where it was captured.
      const at =
        name === 'ovmf-pxe-request'
          ? [
              network({
                subnet: { base: ipv4('10.78.0.0'), prefix: 24 },
                pools: [{ start: ipv4('10.78.0.50'), end: ipv4('10.78.0.99') }],
                serverAddress: ipv4('10.78.0.1'),
                gateway: ipv4('10.78.0.254'),
              }),
            ]
          : w.networks;
      w.networks = at;
      const step = await w.send(capture(name));
      await expect(dump(step)).toMatchFileSnapshot(`../../../golden/dhcp/reply-to-${name}.txt`);
    },
  );

  it('to a request on port 4011 is octet by octet the golden one', async () => {
    const w = await world({
      networks: [
        network({
          subnet: { base: ipv4('10.78.0.0'), prefix: 24 },
          pools: [],
          serverAddress: ipv4('10.78.0.1'),
        }),
      ],
    });
    const source = { address: ipv4('10.78.0.52'), port: 4011 };
    const step = await w.send(capture('ovmf-4011-request'), { port: 4011, source });
    await expect(dump(step)).toMatchFileSnapshot('../../../golden/dhcp/reply-to-ovmf-4011-request.txt');
  });

  it('firmware gets 60, 97 and 43=060108ff, in OFFER and ACK', async () => {
    for (const reply of await exchange(await world(), { options: UEFI! })) {
      expect(printable(reply.options.get(OPTION.vendorClass)!)).toBe('PXEClient');
      expect(reply.options.get(OPTION.machineId)).toEqual(UEFI!.find(([code]) => code === 97)![1]);
      expect(reply.options.get(OPTION.vendorSpecific)).toEqual(Buffer.from('060108ff', 'hex'));
      expect(reply.file).toBe('ipxe.efi');
    }
  });

  it('the header and options 66 and 67 always name the same server and file', async () => {
    for (const options of [UEFI!, IPXE!]) {
      for (const reply of await exchange(await world(), { options })) {
        expect(reply.siaddr).toBe(ipv4('10.77.0.1'));
        expect(reply.sname).toBe('10.77.0.1');
        expect(printable(reply.options.get(OPTION.tftpServerName)!)).toBe(reply.sname);
        expect(reply.options.get(OPTION.bootFile)!.toString('latin1')).toBe(`${reply.file}\0`);
      }
    }
  });

  it('the boot file name in option 67 ends with a NUL for firmware that loads by TFTP', async () => {
    const [offer] = await exchange(await world(), { options: UEFI! });
    expect(offer.options.get(OPTION.bootFile)!.at(-1)).toBe(0);
  });

  it('style binl names no file before the firmware asks port 4011', async () => {
    const w = await known({ style: 'binl' });
    for (const reply of await exchange(w, { options: UEFI! })) {
      expect(reply.options.has(OPTION.vendorSpecific)).toBe(false);
      expect(reply.options.has(OPTION.bootFile)).toBe(false);
      expect(reply.file).toBe('');
      expect(printable(reply.options.get(OPTION.vendorClass)!)).toBe('PXEClient');
    }
    const source = { address: ipv4('10.77.0.100'), port: 4011 };
    const asked = onWire(
      await w.send(message('REQUEST', { options: UEFI!, ciaddr: '10.77.0.100' }), { port: 4011, source }),
    );
    expect(asked.file).toBe('ipxe.efi');
    expect(asked.options.has(OPTION.vendorSpecific)).toBe(false);
    // An iPXE with a script never asks port 4011, so the style is for firmware only.
    const [script] = await exchange(w, { options: IPXE! });
    expect(script.file).toMatch(/start\.ipxe$/);
  });

  it('HTTP firmware gets its class and a URL, no option 43', async () => {
    const options: [number, Buffer | string | number[]][] = [
      [60, 'HTTPClient:Arch:00016:UNDI:003016'],
      [93, [0, 16]],
    ];
    for (const reply of await exchange(await world(), { options })) {
      expect(printable(reply.options.get(OPTION.vendorClass)!)).toBe('HTTPClient');
      expect(printable(reply.options.get(OPTION.bootFile)!)).toBe('http://10.77.0.1:8080/loaders/ipxe.efi');
      expect(reply.file).toBe('http://10.77.0.1:8080/loaders/ipxe.efi');
      expect(reply.options.has(OPTION.vendorSpecific)).toBe(false);
    }
  });

  it('a URL longer than the header field is in option 67 only', async () => {
    const url = `http://10.77.0.1:8080/${'a'.repeat(120)}.efi`;
    const [offer] = await exchange(await known({ file: url }), {
      options: [
        [60, 'HTTPClient'],
        [93, [0, 16]],
      ],
    });
    expect(offer.file).toBe('');
    expect(printable(offer.options.get(OPTION.bootFile)!)).toBe(url);
  });

  it('tells iPXE not to wait for a proxy where Muster is the only server', async () => {
    const [offer] = await exchange(await world(), { options: IPXE! });
    expect(offer.options.get(OPTION.ipxe)).toEqual(Buffer.of(0xb0, 1, 1));
    const w = await world({ networks: [network({ mode: 'proxy' })] });
    expect(onWire(await w.send(message('DISCOVER', { options: IPXE! }))).options.has(OPTION.ipxe)).toBe(
      false,
    );
  });

  it('U-Boot gets siaddr and file and no option 60', async () => {
    const w = await world({ known: { '52:54:00:aa:00:21': { file: 'boot.scr' } } });
    const reply = onWire(await w.send(capture('u-boot-discover')));
    expect([reply.siaddr, reply.file]).toEqual([ipv4('10.77.0.1'), 'boot.scr']);
    expect(reply.options.has(OPTION.vendorClass)).toBe(false);
    expect(reply.options.has(OPTION.vendorSpecific)).toBe(false);
  });

  it('a Raspberry Pi gets the menu that its ROM looks for', async () => {
    const mac = 'b8:27:eb:01:02:03' as never;
    const w = await world({ known: { 'b8:27:eb:01:02:03': { file: 'bootcode.bin' } } });
    const step = await w.send(
      message('DISCOVER', {
        mac,
        options: [
          [60, 'PXEClient:Arch:00000:UNDI:002001'],
          [93, [0, 0]],
        ],
      }),
    );
    const menu = onWire(step).options.get(OPTION.vendorSpecific)!;
    expect(menu.toString('latin1')).toContain('Raspberry Pi Boot   ');
    expect(menu.toString('hex')).toMatch(/^0601080917000014.*0a0400505845ff$/);
  });

  it('an ordinary client gets no boot options, however many files there are', async () => {
    const [offer] = await exchange(await known({ file: 'ipxe.efi' }), {});
    expect([...offer.options.keys()]).toEqual([53, 54, 51, 58, 59, 1, 3, 6, 28]);
    expect([offer.siaddr, offer.sname, offer.file]).toEqual([0, '', '']);
  });

  it('a boot client whose decision gives no file gets an ordinary lease', async () => {
    const [offer] = await exchange(await known({ file: null }), { options: UEFI! });
    expect(offer.yiaddr).toBe(ipv4('10.77.0.100'));
    expect(
      [OPTION.vendorClass, OPTION.vendorSpecific, OPTION.bootFile].some((c) => offer.options.has(c)),
    ).toBe(false);
  });

  it('the OFFER already has renewal times', async () => {
    const [offer] = await exchange(await world());
    expect([51, 58, 59].map((code) => offer.options.get(code)!.readUInt32BE(0))).toEqual([3600, 1800, 3150]);
  });

  it('has what the client asked for, and everything when it did not say', async () => {
    const served = network({ domain: 'rack.example', mtu: 9000, ntp: [ipv4('10.77.0.1')] });
    const w = await world({ networks: [served], known: { '52:54:00:00:00:01': { name: 'node-1' } } });
    const [all] = await exchange(w);
    expect([...all.options.keys()]).toEqual([53, 54, 51, 58, 59, 1, 3, 6, 12, 15, 26, 28, 42]);
    const [some] = await exchange(w, { options: [[55, [1, 3, 12]]] });
    expect([...some.options.keys()]).toEqual([53, 54, 51, 58, 59, 1, 3, 6, 12]);
    expect(printable(some.options.get(12)!)).toBe('node-1');
  });

  it('echoes client identifier and relay information unaltered, the latter last (RFC 6842, RFC 3046)', async () => {
    const options: [number, Buffer][] = [
      [61, Buffer.from('ff00112233', 'hex')],
      [82, Buffer.from('0104000a000b', 'hex')],
    ];
    for (const reply of await exchange(
      await world({ networks: [network({ relays: [ipv4('10.77.0.2')] })] }),
      { giaddr: '10.77.0.2', options },
    )) {
      expect(reply.options.get(61)).toEqual(options[0]![1]);
      expect([...reply.options.keys()].at(-1)).toBe(82);
      expect(reply.options.get(82)).toEqual(options[1]![1]);
    }
    const w = await world();
    // A snooping switch adds option 82 with giaddr 0, and drops a reply without it.
    const snooped = (address: string) => message('REQUEST', { address, options });
    for (const reply of [...(await exchange(w, { options })), onWire(await w.send(snooped('10.99.0.1')))])
      expect(reply.options.get(82)).toEqual(options[1]![1]);
    const nak = onWire(await w.send(message('REQUEST', { address: '10.99.0.1', options: [options[0]!] })));
    expect(nak.options.get(61)).toEqual(options[0]![1]);
    expect(nak.options.get(54)).toEqual(ip('10.77.0.1'));
  });
});
