/** DHCP options of the operator's own: from the document to the octets that a client reads. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import { type DhcpOption, dhcpOptions, octetsOf } from '../../../../src/resources/dhcp-options.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';
import { message, network, onWire, UEFI, world } from './kit.ts';

const options = (...list: object[]): DhcpOption[] => dhcpOptions.parse(list);
const faultOf = (...list: object[]): string | undefined =>
  dhcpOptions.safeParse(list).error?.issues[0]?.message;
const bytes = (option: object): string | undefined => {
  const made = octetsOf(option as DhcpOption);
  return made.fault ? made.fault.message : made.octets.toString('hex');
};

describe('the octets of an option', () => {
  it.each([
    [{ option: 119, value: ['lab.example', 'a'] }, '036c6162076578616d706c6500016100'],
    [{ option: 'domain-search', value: 'a' }, '016100'],
    [{ option: 'log-servers', value: ['10.77.0.2', '10.77.0.3'] }, '0a4d00020a4d0003'],
    [{ option: 42, value: '10.77.0.2' }, '0a4d0002'],
    [{ option: 114, value: 'http://x/onie' }, Buffer.from('http://x/onie').toString('hex')],
    [
      {
        option: 121,
        value: [
          { to: '10.9.0.0/16', via: '10.77.0.254' },
          { to: '0.0.0.0/0', via: '10.77.0.1' },
          { to: '10.8.128.0/17', via: '10.77.0.2' },
        ],
      },
      '100a090a4d00fe000a4d0001110a08800a4d0002',
    ],
    [
      {
        option: 43,
        value: [
          { code: 1, type: 'ip', value: '10.0.0.1' },
          { code: 2, value: 'ab' },
        ],
      },
      '01040a00000102026162',
    ],
    [{ option: 43, value: '01:02:03' }, '010203'],
    [{ option: 2, value: -3600 }, 'fffff1f0'],
    [{ option: 108, value: 300 }, '0000012c'],
    [{ option: 224, type: 'uint8', value: 7 }, '07'],
    [{ option: 19, value: true }, '01'],
    [{ option: 7, type: 'hex', value: '0a4d00020a4d0003' }, '0a4d00020a4d0003'],
    [{ option: 119, type: 'hex', value: '036c6162c000' }, '036c6162c000'],
    [{ option: 119, type: 'hex', value: '036c6162000161c000' }, '036c6162000161c000'],
    [{ option: 121, type: 'hex', value: '000a4d0001100a090a4d00fe' }, '000a4d0001100a090a4d00fe'],
  ])('%o', (option, octets) => {
    expect(bytes(option)).toBe(octets);
  });
});

describe('an option is refused', () => {
  it.each([
    [{ option: 53, value: 1 }, /part of the protocol/],
    [{ option: 80, type: 'hex', value: '00' }, /part of the protocol/],
    [{ option: 90, type: 'hex', value: '00' }, /part of the protocol/],
    [{ option: 145, type: 'hex', value: '01' }, /part of the protocol/],
    [{ option: 7, type: 'hex', value: '0a4d00' }, /3 octets are no value of type ips/],
    [{ option: 19, type: 'hex', value: '0100' }, /2 octets are no value of type flag/],
    [{ option: 114, type: 'hex', value: '41ff' }, /no value of type text/],
    [{ option: 108, type: 'hex', value: '012c' }, /no value of type uint32/],
    [{ option: 119, type: 'hex', value: '036c61' }, /no value of type domains/],
    [{ option: 119, type: 'hex', value: 'c000' }, /no value of type domains/],
    [{ option: 121, type: 'hex', value: '08' }, /no value of type routes/],
    [{ option: 121, type: 'hex', value: '210a4d00010a0a4d0001' }, /no value of type routes/],
    [{ option: 1, value: '255.0.0.0' }, /follows from `subnet`/],
    [{ option: 67, value: 'x', vendorClass: 'PXEClient' }, /pxe\.loader/],
    [{ option: 51, value: 5 }, /leaseTime/],
    [{ option: 'domain-serch', value: ['a'] }, /did you mean "domain-search"/],
    [{ option: 230, value: 'x' }, /say its type/],
    [{ option: 0, value: 'x' }, /1 to 254/],
    [{ option: 300, value: 'x' }, /1 to 254/],
    [{ option: 119, type: 'text', value: 'x' }, /of type domains/],
    [{ option: 7, value: ['10.77.0'] }, /IPv4 addresses/],
    [{ option: 121, value: ['10.9.0.0/16'] }, /list of routes/],
    [{ option: 121, value: [{ to: '10.9.0.1/16', via: '10.77.0.1' }] }, /host bits/],
    [{ option: 224, type: 'hex', value: '0' }, /hexadecimal/],
    [{ option: 23, value: 256 }, /from 0 to 255/],
    [{ option: 114, value: 'ü' }, /ASCII/],
    [{ option: 252, value: 'x'.repeat(1025) }, /longer than 1024/],
    [{ option: 23, value: 0 }, /at least 1/],
    [{ option: 26, value: 67, vendorClass: 'phone' }, /at least 68/],
    [{ option: 26, type: 'hex', value: '0043' }, /at least 68/],
    [{ option: 46, value: 3 }, /H-node/],
    [{ option: 114, value: 'https://portal.example/a b' }, /without blanks/],
    [{ option: 'wpad-url', value: 'proxy.example' }, /must be a URL/],
  ])('%o', (option, why) => {
    expect(faultOf(option)).toMatch(why);
  });

  it('when it is listed twice, by number and by name', () => {
    expect(faultOf({ option: 119, value: 'a' }, { option: 'domain-search', value: 'b' })).toMatch(
      /listed twice/,
    );
    expect(
      faultOf({ option: 43, value: '01', vendorClass: 'A' }, { option: 43, value: '02', vendorClass: 'B' }),
    ).toBeUndefined();
  });

  it('whatever it is, with a sentence and without an exception', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.integer({ min: -5, max: 300 }), fc.string()),
        fc.jsonValue(),
        (option, value) => {
          const made = octetsOf({ option, value, type: 'routes' } as never);
          expect(made.fault === undefined ? made.octets.length > 0 : made.fault.message.length > 0).toBe(
            true,
          );
        },
      ),
    );
  });
});

describe('a reply', () => {
  const rack = (more: object) => [network(more)];
  const ask = async (of: Parameters<typeof world>[0], sent: Parameters<typeof message>[1] = {}) =>
    onWire(await (await world(of)).send(message('DISCOVER', sent)));

  it('names the server and the file of phones and switches, and never those of clients that boot', async () => {
    const networks = rack({
      options: options(
        { option: 66, value: 'phones.example', always: true },
        { option: 67, value: 'ztp.cfg', always: true, vendorClass: 'Arista' },
      ),
    });
    const texts = async (vendorClass: string) => {
      const { options: given } = await ask({ networks }, { options: [[60, Buffer.from(vendorClass)]] });
      return [66, 67].map((code) => given.get(code)?.toString('latin1'));
    };
    expect(await texts('Arista;DCS-7050')).toEqual(['phones.example', 'ztp.cfg']);
    expect(await texts('phone')).toEqual(['phones.example', undefined]);
    expect(await texts('PXEClient:Arch:00007:UNDI:003016')).not.toContain('phones.example');
  });

  it('has them for a client that asks for them, or that names nothing', async () => {
    const networks = rack({ options: options({ option: 119, value: 'lab.example' }) });
    expect((await ask({ networks })).options.has(119)).toBe(true);
    const list = (...codes: number[]): [number, Buffer][] => [[55, Buffer.from(codes)]];
    expect((await ask({ networks }, { options: list(1, 119) })).options.has(119)).toBe(true);
    expect((await ask({ networks }, { options: list(1, 3) })).options.has(119)).toBe(false);
    const always = rack({ options: options({ option: 119, value: 'lab.example', always: true }) });
    expect((await ask({ networks: always }, { options: list(1, 3) })).options.has(119)).toBe(true);
  });

  it('has that of the machine before that of the pool, and that before the network’s', async () => {
    const of = (text: string) => options({ option: 15, value: text });
    const pools = [{ start: ipv4('10.77.0.100'), end: ipv4('10.77.0.199'), options: of('pool') }];
    const known = { '52:54:00:00:00:01': { name: 'node-1', options: of('machine') } };
    const value = async (w: Parameters<typeof world>[0]) => (await ask(w)).options.get(15)?.toString();
    expect(await value({ networks: rack({ options: of('network') }) })).toBe('network');
    expect(await value({ networks: rack({ options: of('network'), pools }) })).toBe('pool');
    expect(await value({ networks: rack({ options: of('network'), pools }), known })).toBe('machine');
  });

  it('has those of a vendor class for that class alone, and PXE firmware keeps its option 43', async () => {
    const networks = rack({ options: options({ option: 43, value: '0102', vendorClass: 'ArubaAP' }) });
    const aruba = await ask({ networks }, { options: [[60, Buffer.from('ArubaAP.303')]] });
    expect(aruba.options.get(43)?.toString('hex')).toBe('0102');
    expect((await ask({ networks })).options.has(43)).toBe(false);
    const all = rack({ options: options({ option: 43, value: '0102' }) });
    expect((await ask({ networks: all }, { options: UEFI! })).options.get(43)?.toString('hex')).toBe(
      '060108ff',
    );
  });

  it('adds the gateway to classless routes, which make clients ignore it', async () => {
    const routes = [{ to: '10.9.0.0/16', via: '10.77.0.253' }];
    const reply = await ask({ networks: rack({ options: options({ option: 121, value: routes }) }) });
    expect(reply.options.get(121)?.toString('hex')).toBe('100a090a4d00fd000a4d00fe');
  });
});

it('documents take them by number and name', () => {
  const text = `
apiVersion: muster/v1
kind: Network
metadata: {name: rack1}
spec:
  subnet: 10.77.0.0/24
  dhcp:
    mode: server
    options: [{option: 114, value: "https://portal.example"}]
    pools: [{start: 10.77.0.100, end: 10.77.0.199, options: [{option: domain-search, value: [a.example]}]}]
---
apiVersion: muster/v1
kind: Machine
metadata: {name: a}
spec: {macs: ["52:54:00:00:00:01"], dhcpOptions: [{option: 3, value: 10.77.0.2}]}
`;
  expect(parseDocuments(text, 'a.yaml').faults).toEqual([]);
});
