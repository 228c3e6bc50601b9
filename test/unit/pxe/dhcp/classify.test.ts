import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mac } from '../../../../src/base/mac.ts';
import { classify } from '../../../../src/pxe/dhcp/classify.ts';
import { decode } from '../../../../src/pxe/dhcp/packet.ts';
import { ARCHITECTURES } from '../../../../src/pxe/firmware/architectures.ts';
import { BIOS, capture, IPXE, message, UEFI } from './kit.ts';

function client(bytes: Uint8Array) {
  const decoded = decode(bytes);
  if (!decoded.ok) throw new Error(decoded.fault);
  return classify(decoded.packet);
}
const of = (options: Parameters<typeof message>[1] = {}) => client(message('DISCOVER', options));
const uuidOption = (hex: string): [number, Buffer] => [97, Buffer.from(hex, 'hex')];

describe('a client', () => {
  it.each([
    [
      'ovmf-pxe-discover',
      { stage: 'pxe', firmware: 'uefi', arch: 'x86_64', archCode: 7, mac: '52:54:00:aa:00:02' },
    ],
    ['ovmf-pxe-request', { stage: 'pxe', firmware: 'uefi', arch: 'x86_64', archCode: 7 }],
    ['ovmf-4011-request', { stage: 'pxe', firmware: 'uefi', arch: 'x86_64', archCode: 7 }],
    ['ovmf-http-discover', { stage: 'http', firmware: 'uefi', arch: 'x86_64', archCode: 16 }],
    [
      'ipxe-bios-discover',
      { stage: 'ipxe', firmware: 'bios', arch: 'x86_64', archCode: 0, ipxeVersion: '1.0.0' },
    ],
    [
      'ipxe-efi-discover',
      { stage: 'ipxe', firmware: 'uefi', arch: 'x86_64', archCode: 7, userClass: 'iPXE' },
    ],
    ['u-boot-discover', { stage: 'pxe', family: 'u-boot', vendorClass: 'U-Boot' }],
  ])('%s is read off its packet', (name, expected) => expect(client(capture(name))).toMatchObject(expected));

  it('is read by itself, however many others run the same software', () => {
    const vendor: [number, string] = [60, 'PXEClient:Arch:00000:UNDI:002001'];
    const id = uuidOption('00112233445566778899aabbccddeeff00');
    const plain = of({ options: [vendor] });
    const identified = of({ options: [vendor, id] });
    const pi = of({ mac: 'b8:27:eb:00:00:01' as Mac, options: [vendor] });
    expect(plain).toMatchObject({ archCode: 0, quirks: ['no-machine-id'] });
    expect(plain).not.toHaveProperty('uuid');
    expect(identified).toMatchObject({ archCode: 0, uuid: expect.any(String) });
    expect(identified).not.toHaveProperty('quirks');
    expect(pi).toMatchObject({ family: 'raspberry-pi', mac: 'b8:27:eb:00:00:01' });
    for (const [options, expected] of [
      [{ options: [vendor] }, plain],
      [{ options: [vendor, id] }, identified],
      [{ mac: 'b8:27:eb:00:00:01' as Mac, options: [vendor] }, pi],
    ] as const)
      expect(of(options as Parameters<typeof of>[0])).toEqual(expected);
    // The end of one option is not read as the beginning of the next one.
    expect(
      of({
        options: [
          [60, 'x'],
          [77, 'yz'],
        ],
      }),
    ).not.toEqual(
      of({
        options: [
          [60, 'xy'],
          [77, 'z'],
        ],
      }),
    );
  });

  it('without any sign of booting is an ordinary one', () => {
    expect(of({ options: [[60, 'dhcpcd-9.4.1:Linux-6.1']] })).toEqual({
      mac: '52:54:00:00:00:01',
      stage: 'none',
      vendorClass: 'dhcpcd-9.4.1:Linux-6.1',
    });
  });

  it('has the UUID that its firmware shows, from octets whose first three fields are little-endian', () => {
    expect(
      of({ options: [...UEFI!, uuidOption('0044454c4c4200103580 51b7c04f4d3532'.replace(' ', ''))] }).uuid,
    ).toBe('4c4c4544-0042-3510-8051-b7c04f4d3532');
  });

  it.each([
    ['missing', []],
    ['empty', [uuidOption('')]],
    ['of a wrong size', [uuidOption('0044454c4c')]],
    ['all zero', [uuidOption(`00${'00'.repeat(16)}`)]],
    ['all one', [uuidOption(`00${'ff'.repeat(16)}`)]],
    ['of another type', [uuidOption(`01${'ab'.repeat(16)}`)]],
  ])(
    'has no UUID when option 97 is missing, empty, of a wrong size, all zero or all one: %s',
    (_what, options) => {
      const found = of({ options: [...BIOS!, ...(options as [number, Buffer][])] });
      expect(found.uuid).toBeUndefined();
      expect(found.quirks).toContain('no-machine-id');
    },
  );

  it('reads architecture 9 as 7', () => {
    expect(
      of({
        options: [
          [60, 'PXEClient:Arch:00009'],
          [93, [0, 9]],
        ],
      }),
    ).toMatchObject({
      archCode: 7,
      arch: 'x86_64',
      firmware: 'uefi',
      quirks: ['arch-9-is-x64', 'no-machine-id'],
    });
  });

  it('takes the first architecture that it knows from a list', () => {
    expect(
      of({
        options: [
          [60, 'PXEClient'],
          [93, [0x77, 0x77, 0, 11, 0, 7]],
        ],
      }).arch,
    ).toBe('aarch64');
  });

  it('finds the architecture in the vendor class when option 93 is missing, and none when it is unknown', () => {
    expect(of({ options: [[60, 'PXEClient:Arch:00007:UNDI:003016']] }).archCode).toBe(7);
    expect(of({ options: [[60, 'PXEClient:Arch:00099:UNDI:003016']] }).archCode).toBeUndefined();
    expect(
      of({
        options: [
          [60, 'PXEClient'],
          [93, [0x12, 0x34]],
        ],
      }),
    ).toMatchObject({ stage: 'pxe' });
  });

  it('knows iPXE by its user class, plain or length-prefixed, and by option 175', () => {
    expect(of({ options: [...BIOS!, [77, 'iPXE']] })).toMatchObject({ stage: 'ipxe', firmware: 'bios' });
    expect(of({ options: [...BIOS!, [77, '\u0004iPXE']] })).toMatchObject({
      stage: 'ipxe',
      userClass: 'iPXE',
    });
    expect(of({ options: [...BIOS!, [175, [0x13, 1, 1]]] }).stage).toBe('ipxe');
    expect(of({ options: [...BIOS!, [77, 'pixiecore'], [175, [0x13, 1, 1]]] }).stage).toBe('ipxe');
    expect(of({ options: [...BIOS!, [77, 'something']] }).stage).toBe('pxe');
  });

  it('an iPXE that lists features without HTTP cannot fetch scripts', () => {
    expect(of({ options: [...BIOS!, [77, 'iPXE'], [175, [0x15, 1, 1, 0x18, 1, 1]]] }).stage).toBe(
      'ipxe-tftp',
    );
    expect(of({ options: [...BIOS!, [77, 'iPXE'], [175, [0xb1, 1, 1]]] }).stage).toBe('ipxe');
    expect(of({ options: [...BIOS!, [77, 'iPXE'], [175, [0x15, 9]]] }).stage).toBe('ipxe');
  });

  it('a Raspberry Pi is not an x86 BIOS, whatever it says', () => {
    const pi = client(message('DISCOVER', { mac: 'dc:a6:32:01:02:03' as never, options: BIOS! }));
    expect(pi).toMatchObject({ family: 'raspberry-pi', archCode: 41, arch: 'aarch64', stage: 'pxe' });
    expect(pi.firmware).toBeUndefined();
    // Boards whose addresses are of no known block, by option 97: before and since the Pi 4.
    for (const id of ['b1c2d3e4'.repeat(4), '525069341131c000010203040506b1c2', `35695052${'00'.repeat(12)}`])
      expect(
        client(message('DISCOVER', { options: [...BIOS!, [97, Buffer.from(`00${id}`, 'hex')]] })),
      ).toMatchObject({ family: 'raspberry-pi', arch: 'aarch64' });
    for (const id of ['00'.repeat(16), 'ff'.repeat(16), '4c4c4544003510548058b4c04f503532'])
      expect(
        client(message('DISCOVER', { options: [...BIOS!, [97, Buffer.from(`00${id}`, 'hex')]] })).family,
      ).toBeUndefined();
    // A Raspberry Pi that runs an ordinary system is an ordinary client.
    expect(client(message('DISCOVER', { mac: 'dc:a6:32:01:02:03' as never })).family).toBeUndefined();
  });

  it('stays a boot client when only its architecture is left', () => {
    expect(of({ options: [[93, [0, 7]]] })).toMatchObject({
      stage: 'pxe',
      quirks: ['request-without-vendor-class', 'no-machine-id'],
    });
  });

  it('a NUL at the end of the vendor class is not part of it', () => {
    expect(of({ options: [[60, 'PXEClient\0']] }).vendorClass).toBe('PXEClient');
  });

  it('never shows raw octets of the wire', () => {
    expect(
      of({
        options: [
          [60, '\u001b]0;x\u0007'],
          [77, '\u0002\u001b['],
        ],
      }),
    ).toMatchObject({
      vendorClass: '\\x1b]0;x\\x07',
      userClass: '\\x1b[',
    });
  });

  it('is found in any packet of an Ethernet client', () => {
    const code = fc.constantFrom(53, 60, 61, 77, 93, 94, 97, 175, 82);
    const options = fc.array(
      fc.tuple(
        code,
        fc.uint8Array({ maxLength: 40 }).map((a) => Buffer.from(a)),
      ),
    );
    fc.assert(
      fc.property(options, (list) => {
        const found = of({ options: list });
        expect(found.mac).toBe('52:54:00:00:00:01');
        expect(['pxe', 'http', 'ipxe', 'ipxe-tftp', 'none']).toContain(found.stage);
      }),
      { seed: 20261120, numRuns: 500 },
    );
  });
});

it('architectures have distinct codes, and those of HTTP are their own', () => {
  expect(new Set(ARCHITECTURES.map((a) => a.code)).size).toBe(ARCHITECTURES.length);
  expect(ARCHITECTURES.filter((a) => a.http).map((a) => a.code)).toEqual([
    15, 16, 17, 18, 19, 20, 23, 24, 26, 28,
  ]);
  expect(of({ options: IPXE! }).stage).toBe('ipxe');
});
