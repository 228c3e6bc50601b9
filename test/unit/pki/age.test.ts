/** Files that a passphrase opens. test/peers/age.test.ts opens them with age itself. */
import { generateX25519Identity } from 'age-encryption';
import { expect, test } from 'vitest';
import {
  ageDecrypt,
  ageEncrypt,
  ageOpen,
  ageSeal,
  readIdentities,
  readRecipient,
} from '../../../src/pki/age.ts';

const PASSPHRASE = 'correct horse battery';
const WRONG = { code: 'E_EXPORT' };
/** scrypt takes a millisecond instead of a second. */
const CHEAP = 8;
const CHUNK = 64 * 1024;

test.each([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])(
  'a file of %i octets opens with its passphrase only, and not after any octet was changed or cut off',
  async (size) => {
    const octets = Buffer.alloc(size, 'muster');
    const file = await ageEncrypt(octets, { passphrase: PASSPHRASE }, CHEAP);
    expect((await ageDecrypt(file, { passphrase: PASSPHRASE })).equals(octets)).toBe(true);
    await expect(ageDecrypt(file, { passphrase: 'another passphrase' })).rejects.toMatchObject(WRONG);
    for (const place of [0, 30, 60, 100, 120, 160, 175, file.length - 20, file.length - 1]) {
      const changed = Buffer.from(file);
      changed[place]! ^= 1;
      await expect(ageDecrypt(changed, { passphrase: PASSPHRASE }), String(place)).rejects.toMatchObject(
        WRONG,
      );
    }
    await expect(ageDecrypt(file.subarray(0, -1), { passphrase: PASSPHRASE })).rejects.toMatchObject(WRONG);
    await expect(ageDecrypt(file.subarray(0, 100), { passphrase: PASSPHRASE })).rejects.toMatchObject(WRONG);
    // Without its last chunk the file ends too early.
    if (size === 3 * CHUNK)
      await expect(
        ageDecrypt(file.subarray(0, -(CHUNK + 16)), { passphrase: PASSPHRASE }),
      ).rejects.toMatchObject(WRONG);
  },
);

test('a file that would take hours or all memory to open is refused', async () => {
  const file = String(
    (await ageEncrypt(Buffer.alloc(0), { passphrase: PASSPHRASE }, CHEAP)).toString('latin1'),
  );
  for (const work of ['21', '30', '99', '0', '-1'])
    await expect(
      ageDecrypt(Buffer.from(file.replace(/ 8\n/, ` ${work}\n`), 'latin1'), { passphrase: PASSPHRASE }),
    ).rejects.toMatchObject(WRONG);
});

test('two exports of the same keys have nothing in common but the format', async () => {
  const [one, two] = await Promise.all(
    [0, 1].map(() => ageEncrypt(Buffer.from('keys'), { passphrase: PASSPHRASE }, CHEAP)),
  );
  expect(one!.subarray(24).equals(two!.subarray(24))).toBe(false);
  expect(one!.subarray(-20).equals(two!.subarray(-20))).toBe(false);
});

// The secret key is 32 octets 0x42.
const RECIPIENT = 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj';
const IDENTITY = 'AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX';

async function* pieces(octets: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size);
}

test('a stream for a recipient opens with its identity alone, in whatever pieces it comes', async () => {
  const recipients = [readRecipient(RECIPIENT)] as const;
  const octets = Buffer.alloc(3 * CHUNK + 5, 'muster');
  const parts: Uint8Array[] = [];
  for await (const part of ageSeal(pieces(octets, 1000), { recipients })) parts.push(part);
  const file = Buffer.concat(parts);
  const open = async (size: number, key: Parameters<typeof ageOpen>[1]): Promise<Buffer> => {
    const found: Uint8Array[] = [];
    for await (const part of ageOpen(pieces(file, size), key)) found.push(part);
    return Buffer.concat(found);
  };
  const identities = readIdentities(`# created: today\n${IDENTITY}\n`);
  for (const size of [7, 4096, file.length])
    expect((await open(size, { identities })).equals(octets)).toBe(true);
  const other = readIdentities(await generateX25519Identity());
  await expect(open(4096, { identities: other })).rejects.toMatchObject(WRONG);
  await expect(open(4096, { passphrase: PASSPHRASE })).rejects.toMatchObject(WRONG);
});

test('a recipient that was mistyped is refused, and an identity is not shown', () => {
  const swapped = RECIPIENT.replace('zvky', 'zvyk');
  expect(() => readRecipient(swapped)).toThrow('is not a recipient of age');
  expect(() => readRecipient(IDENTITY)).toThrow('is not a recipient of age');
  expect(() => readIdentities(IDENTITY.replace('GFPY', 'GFYP'))).toThrow(/^the file holds no identity/);
});
