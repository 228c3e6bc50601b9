/**
 * Reads the names in certificate requests. openssl makes the requests; those that openssl cannot
 * make are put together by hand.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatIp } from '../../../src/base/ip.ts';
import { type AskedNames, readAskedNames } from '../../../src/pki/csr-names.ts';
import { element, TAG } from '../../../src/pki/der.ts';
import { assembled, attribute, EXTENSION_REQUEST, extension, oid, pairOf, requestOf } from './asking.ts';

const NONE: AskedNames = {
  ...{ commonNames: [], organizations: [], dns: [], ips: [], emails: [], uris: [], usages: [], others: [] },
};
const CN = '2.5.4.3';
const SAN = '2.5.29.17';

/** The names that a request asks for, or the reason why it cannot be read. */
const read = (text: string): AskedNames | string => {
  const result = readAskedNames(text);
  return result.ok ? result.asked : result.text;
};

test('a request by openssl with every kind of name is read', () => {
  const text = requestOf({
    commonName: 'system:node:w1',
    organizations: ['system:nodes', 'Bücher'],
    sans: [
      'DNS:w1',
      'DNS:w1.example',
      'IP:10.0.0.21',
      'IP:fd00::21',
      'email:a@b.example',
      'URI:spiffe://a/b',
    ],
    keyUsage: 'critical,digitalSignature,keyEncipherment',
    extendedKeyUsage: 'serverAuth,1.2.3.4',
    more: 'basicConstraints = critical,CA:TRUE',
  });
  expect(read(text)).toEqual({
    commonNames: ['system:node:w1'],
    organizations: ['system:nodes', 'Bücher'],
    dns: ['w1', 'w1.example'],
    ips: ['10.0.0.21', 'fd00::21'],
    emails: ['a@b.example'],
    uris: ['spiffe://a/b'],
    usages: ['digital signature', 'key encipherment', 'server auth', '1.2.3.4'],
    others: ['extension 2.5.29.19'],
  });
});

test('any names, addresses and usages that openssl writes are read back', () => {
  const word = fc.stringMatching(/^[a-z0-9]([a-z0-9:.-]{0,20}[a-z0-9])?$/);
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/);
  const ip4 = fc.bigInt(0n, 2n ** 32n - 1n).map((value) => formatIp({ family: 4, value }));
  // openssl spells out an IPv4 address in the last 32 bits of none in front: those are not IPv6 for
  // it alone.
  const ip6 = fc.bigInt(2n ** 100n, 2n ** 128n - 1n).map((value) => formatIp({ family: 6, value }));
  const usages = fc.uniqueArray(
    fc.constantFrom(
      ['digitalSignature', 'digital signature'],
      ['nonRepudiation', 'content commitment'],
      ['keyEncipherment', 'key encipherment'],
      ['dataEncipherment', 'data encipherment'],
      ['keyAgreement', 'key agreement'],
      ['keyCertSign', 'cert sign'],
      ['cRLSign', 'crl sign'],
      ['encipherOnly', 'encipher only'],
      ['decipherOnly', 'decipher only'],
    ),
    { minLength: 1, selector: ([name]) => name },
  );
  const some = <T>(one: fc.Arbitrary<T>) => fc.array(one, { maxLength: 3 });
  fc.assert(
    fc.property(
      fc.record({ cn: word, o: some(word), dns: some(label), ips: some(fc.oneof(ip4, ip6)), uses: usages }),
      ({ cn, o, dns, ips, uses }) => {
        const text = requestOf({
          commonName: cn,
          organizations: o,
          sans: [...dns.map((one) => `DNS:${one}`), ...ips.map((one) => `IP:${one}`)],
          keyUsage: uses.map(([name]) => name).join(','),
        });
        const asked = read(text) as AskedNames;
        expect({ ...asked, usages: [] }).toEqual({ ...NONE, commonNames: [cn], organizations: o, dns, ips });
        expect([...asked.usages].sort()).toEqual(uses.map(([, word]) => word).sort());
      },
    ),
    { numRuns: 40, seed: 5 },
  );
});

test('any number of parts is read in order', () => {
  const text = fc.string({ maxLength: 30, unit: 'grapheme' });
  const plain = fc.stringMatching(/^[ -~]{0,40}$/);
  const lists = fc.record({
    names: fc.array(text, { maxLength: 4 }),
    organizations: fc.array(text, { maxLength: 4 }),
    dns: fc.array(plain, { maxLength: 200 }),
    uris: fc.array(plain, { maxLength: 4 }),
    together: fc.boolean(),
  });
  fc.assert(
    fc.property(lists, ({ names, organizations, dns, uris, together }) => {
      const pairs = [
        ...names.map((one) => pairOf(CN, Buffer.from(one))),
        ...organizations.map((one) => pairOf('2.5.4.10', Buffer.from(one))),
      ];
      const general = [
        ...dns.map((one) => element(0x82, Buffer.from(one))),
        ...uris.map((one) => element(0x86, Buffer.from(one))),
      ];
      const list = element(TAG.sequence, extension(SAN, element(TAG.sequence, ...general)));
      const request = assembled({
        subject:
          together && pairs.length > 0
            ? [element(TAG.set, ...pairs)]
            : pairs.map((one) => element(TAG.set, one)),
        attributes: [attribute(EXTENSION_REQUEST, list)],
      });
      expect(read(request)).toEqual({ ...NONE, commonNames: names, organizations, dns, uris });
    }),
    { numRuns: 300, seed: 6 },
  );
});

test('a text of any string type is read as Go reads it', () => {
  const cn = (tag: number, octets: Buffer) =>
    read(assembled({ subject: [element(TAG.set, pairOf(CN, octets, tag))] }));
  const node = { ...NONE, commonNames: ['node'] };
  for (const tag of [0x0c, 0x12, 0x13, 0x14, 0x16]) expect(cn(tag, Buffer.from('node'))).toEqual(node);
  expect(cn(0x1e, Buffer.from('node\0', 'utf16le').swap16())).toEqual(node);
  expect(cn(0x0c, Buffer.from([0xff]))).toBe('a text that is not UTF-8');
  expect(cn(0x13, Buffer.from([0xe4]))).toBe('an octet that is not ASCII');
  expect(cn(0x1e, Buffer.from('odd'))).toBe('a text of half a character');
  expect(cn(0x04, Buffer.from('node'))).toBe('a text with tag 4');
});

test('two common names, other parts of a subject, and attributes are reported, not skipped', () => {
  const subject = ['a', 'b'].map((one) => element(TAG.set, pairOf(CN, Buffer.from(one))));
  const unit = element(TAG.set, pairOf('2.5.4.11', Buffer.from('unit')));
  const password = attribute('1.2.840.113549.1.9.7', element(0x0c, Buffer.from('secret')));
  expect(read(assembled({ subject: [...subject, unit], attributes: [password] }))).toEqual({
    ...NONE,
    commonNames: ['a', 'b'],
    others: ['2.5.4.11 in the subject', 'attribute 1.2.840.113549.1.9.7'],
  });
  expect(read(requestOf({ commonName: 'a', sans: ['RID:1.2.3', 'otherName:1.2.3;UTF8:x'] }))).toEqual({
    ...NONE,
    commonNames: ['a'],
    others: ['a registered OID', 'another kind of name'],
  });
});

const EMPTY = element(TAG.sequence);
const asking = (...extensions: readonly Buffer[]): string =>
  assembled({ attributes: [attribute(EXTENSION_REQUEST, element(TAG.sequence, ...extensions))] });
const usage = (...bits: readonly number[]): string =>
  asking(extension('2.5.29.15', element(TAG.bits, Buffer.from(bits))));
const general = (tag: number, ...octets: readonly number[]): string =>
  asking(extension(SAN, element(TAG.sequence, element(tag, Buffer.from(octets)))));

const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  ['another version', assembled({ version: 1 }), /version/],
  ['a part of a subject without a name', assembled({ subject: [element(TAG.set)] }), /nothing in it/],
  ['one extension twice', asking(extension(SAN, EMPTY), extension(SAN, EMPTY)), /2\.5\.29\.17 twice/],
  [
    'two lists of extensions',
    assembled({ attributes: [EMPTY, EMPTY].map((list) => attribute(EXTENSION_REQUEST, list)) }),
    /two lists/,
  ],
  [
    'a second value beside a list of extensions',
    assembled({ attributes: [attribute(EXTENSION_REQUEST, EMPTY, EMPTY)] }),
    /after the end/,
  ],
  ['octets after the names', asking(extension(SAN, Buffer.concat([EMPTY, EMPTY]))), /after the end/],
  [
    'a BOOLEAN that is written out although it is the default',
    asking(extension(SAN, EMPTY, element(TAG.boolean, Buffer.from([0])))),
    /BOOLEAN/,
  ],
  [
    'a second value in a part of the subject',
    assembled({ subject: [element(TAG.set, element(TAG.sequence, oid(CN), element(0x0c), element(0x0c)))] }),
    /after the end/,
  ],
  [
    'an attribute with more than a type and values',
    assembled({
      attributes: [element(TAG.sequence, oid(EXTENSION_REQUEST), element(TAG.set, EMPTY), EMPTY)],
    }),
    /after the end/,
  ],
  [
    'an extension with more than a value',
    asking(element(TAG.sequence, oid(SAN), element(TAG.octets, EMPTY), EMPTY)),
    /after the end/,
  ],
  [
    'an OID with a part that Go does not take',
    asking(
      element(
        TAG.sequence,
        element(TAG.oid, Buffer.from([0x55, 0x90, 0x80, 0x80, 0x80, 0x00])),
        element(TAG.octets),
      ),
    ),
    /too large/,
  ],
  ['an address of five octets', general(0x87, 10, 0, 0, 1, 0), /5 octets/],
  ['a name that is not ASCII', general(0x82, 0xc3, 0xa4), /ASCII/],
  ['a kind of name that there is not', general(0x89, 1), /tag 137/],
  ['bits with unused ones set', usage(5, 0xbf), /BIT STRING/],
  ['bits with zeros at the end', usage(0, 0xa0), /BIT STRING/],
  ['bits without their count', usage(), /BIT STRING/],
  [
    'an OID that could be shorter',
    asking(element(TAG.sequence, element(TAG.oid, Buffer.from([0x55, 0x80, 0x1d])), element(TAG.octets))),
    /could be shorter/,
  ],
  [
    'an OID that is cut off',
    asking(element(TAG.sequence, element(TAG.oid, Buffer.from([0x55, 0x9d])), element(TAG.octets))),
    /too early/,
  ],
  ['no PEM', 'nothing', /in PEM/],
  ['two requests', assembled({}) + assembled({}), /in PEM/],
];

test.each(REFUSED)('%s is refused', (_, text, says) => {
  expect(read(text)).toMatch(says);
});

test('values just inside the limits are read', () => {
  expect(read(usage(5, 0xa0))).toEqual({ ...NONE, usages: ['digital signature', 'key encipherment'] });
  expect(read(usage(7, 0, 0x80))).toEqual({ ...NONE, usages: ['decipher only'] });
  expect(read(usage(6, 0, 0x40))).toEqual({ ...NONE, usages: ['bit 9'] });
  expect(read(usage(0))).toEqual(NONE);
  expect(read(general(0x87, 10, 0, 0, 1))).toEqual({ ...NONE, ips: ['10.0.0.1'] });
  expect(read(asking(extension('2.999.268435455', EMPTY)))).toEqual({
    ...NONE,
    others: ['extension 2.999.268435455'],
  });
  expect(oid('2.5.4.3').toString('hex')).toBe('0603550403');
});
