/** Messages of DNS updates, their signatures, and what damaged answers do. */
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeUpdate, readAnswer, readTsigKey, sign } from '../../../../src/pxe/names/message.ts';

const SECRET = Buffer.from('a secret of a name server').toString('base64');
const KEY = readTsigKey(`hmac-sha256:muster:${SECRET}`)!;
const update = (id = 7) =>
  encodeUpdate({
    ...{ id, zone: 'lab.example', ttl: 300 },
    add: [{ name: 'a.lab.example', type: 'A', data: '10.77.0.11' }],
    remove: [{ name: '11.0.77.10.in-addr.arpa', type: 'PTR', data: 'a.lab.example' }],
  });
/** The answer of a server, signed over the request's signature as well (RFC 8945 §5.3). */
function signedAnswer(id: number, mac: Buffer, key = KEY, code = 0): Buffer {
  const header = Buffer.from([id >> 8, id & 255, 0xa8, code, 0, 0, 0, 0, 0, 0, 0, 0]);
  const length = Buffer.from([mac.length >> 8, mac.length & 255]);
  const time = Buffer.from([0, 0, 0x65, 0, 0, 0, 0x01, 0x2c]);
  const name = Buffer.from('\x06muster\0', 'latin1');
  const algorithm = Buffer.from('\x0bhmac-sha256\0', 'latin1');
  const variables = [name, Buffer.from([0, 255, 0, 0, 0, 0]), algorithm, time, Buffer.alloc(4)];
  const own = createHmac('sha256', key.secret)
    .update(Buffer.concat([length, mac, header, ...variables]))
    .digest();
  const data = Buffer.concat([
    ...[algorithm, time, Buffer.from([0, own.length]), own],
    ...[header.subarray(0, 2), Buffer.alloc(4)],
  ]);
  header[11] = 1;
  const record = Buffer.from([0, 250, 0, 255, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([header, name, record, data]);
}

/**
 * What a flipped bit of {@link signedAnswer} may change unseen: the names in its signature's
 * record, for which ours are signed, and the copy of its id.
 */
const UNSIGNED = [...Array.from({ length: 31 }, (_, n) => 12 + n), 85, 86];

describe('a DNS update', () => {
  it('names its zone, deletes one record with class NONE, and adds one with a time to live', () => {
    expect(update().toString('hex')).toBe(
      [
        '00072800000100000002000003',
        ['6c6162076578616d706c65000006', '0001'].join(''),
        [
          '023131013002373702313007696e2d61646472046172706100',
          '000c00fe00000000000f01610',
          '36c6162076578616d706c6500',
        ].join(''),
        '0161036c6162076578616d706c6500000100010000012c00040a4d000b',
      ].join(''),
    );
  });

  it('takes keys as tsig-keygen and nsupdate write them, and nothing else', () => {
    const file = `key "muster." {\n\talgorithm hmac-sha512;\n\tsecret "${SECRET}";\n};\n`;
    expect(readTsigKey(file)).toMatchObject({ name: 'muster', algorithm: 'hmac-sha512' });
    expect(readTsigKey(`Muster:${SECRET}\n`)).toMatchObject({ name: 'muster', algorithm: 'hmac-sha256' });
    for (const text of ['', 'muster', `hmac-md5:muster:${SECRET}`, 'muster:no base64!', 'key "a" {}', ':::'])
      expect(readTsigKey(text), text).toBeUndefined();
  });

  it('counts as taken only by an answer to it that is signed with its key', () => {
    const { mac } = sign(update(), KEY, 1_700_000_000);
    const sent = { id: 7, key: KEY, mac };
    expect(readAnswer(signedAnswer(7, mac), sent)).toBeUndefined();
    expect(readAnswer(signedAnswer(8, mac), sent)).toBe('an answer to something else');
    const other = { ...KEY, secret: Buffer.from('another secret') };
    expect(readAnswer(signedAnswer(7, mac, other), sent)).toBe('its answer is signed with another key');
    expect(readAnswer(signedAnswer(7, Buffer.alloc(32)), sent)).toBe('its answer is signed with another key');
    const plain = Buffer.from([0, 7, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect(readAnswer(plain, sent)).toBe('its answer is not signed');
    expect(readAnswer(plain, { id: 7 })).toBeUndefined();
    expect(readAnswer(signedAnswer(7, mac, KEY, 5), sent)).toBe('REFUSED');
  });

  it('is never taken by damaged octets, which never throw', () => {
    const { mac } = sign(update(), KEY, 1_700_000_000);
    const good = signedAnswer(7, mac);
    const sent = { id: 7, key: KEY, mac };
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const bad = Buffer.from(good);
        bad[at] = bad[at]! ^ flip;
        if (readAnswer(bad, sent) === undefined) expect(UNSIGNED).toContain(at);
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (noise) => {
        expect(readAnswer(Buffer.concat([good.subarray(0, 12), noise]), sent)).toEqual(expect.any(String));
        expect(readAnswer(good.subarray(0, noise.length), sent)).toEqual(expect.any(String));
      }),
    );
  });
});
