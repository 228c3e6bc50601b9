import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeTftp,
  encodeAck,
  encodeError,
  encodeOack,
  encodeRead,
  TFTP_ERROR,
  type TftpRequest,
  writeDataHeader,
} from '../../../../src/pxe/tftp/codec.ts';
import { agree, isEmptyFile, loaderName, MAX_WINDOW } from '../../../../src/pxe/tftp/request.ts';
import { mutant, xorshift } from './mutate.ts';

/**
 * Requests as firmware sends them (captured): EDK2's probe and its second request, iPXE, curl,
 * atftp, U-Boot.
 */
const CAPTURED = {
  'EDK2 asking for the size': '\0\x01ipxe.efi\0octet\0tsize\x000\0blksize\x001468\0windowsize\x004\0',
  'EDK2 fetching': '\0\x01ipxe.efi\0octet\0blksize\x001468\0windowsize\x004\0',
  iPXE: '\0\x01undionly.kpxe\0octet\0blksize\x001432\0tsize\x000\0',
  'a BIOS ROM': '\0\x01undionly.kpxe\0octet\0tsize\x000\0',
  curl: '\0\x01/undionly.kpxe\0octet\0tsize\x000\0blksize\x001468\0timeout\x006\0',
  atftp: '\0\x01undionly.kpxe\0octet\0blksize\x001468\0windowsize\x008\0',
  'U-Boot': '\0\x01bzImage\0octet\0timeout\x005\0tsize\x000\0blksize\x001468\0',
  'tftp-hpa': '\0\x01undionly.kpxe\0netascii\0',
};

describe('a TFTP request', () => {
  it.each(Object.entries(CAPTURED))('of %s is read as it was meant', (_, text) => {
    const packet = decodeTftp(Buffer.from(text, 'latin1'));
    expect(packet).toMatchObject({ kind: 'read', mode: expect.stringMatching(/^(octet|netascii)$/) });
    if (packet.kind !== 'read') return;
    expect(encodeRead(packet.filename, packet.mode, packet.options).toString('latin1')).toBe(text);
  });

  it('has option names and modes in any case, and the first of two equal options counts', () => {
    const packet = decodeTftp(Buffer.from('\0\x01a\0OcTeT\0BLKSIZE\x001024\0blksize\x008\0', 'latin1'));
    expect(packet).toEqual({
      kind: 'read',
      filename: 'a',
      mode: 'octet',
      options: new Map([['blksize', '1024']]),
    });
  });

  it('may lack its last NUL, as some ROMs send it', () => {
    expect(decodeTftp(Buffer.from('\0\x01a\0octet', 'latin1'))).toMatchObject({
      kind: 'read',
      mode: 'octet',
    });
  });

  it.each([
    ['nothing', '', 'short'],
    ['one octet', '\x01', 'short'],
    ['no name', '\0\x01\0octet\0', 'request'],
    ['no mode', '\0\x01name\0', 'request'],
    ['an unknown opcode', '\0\x09abcd', 'opcode'],
    ['an opcode of two octets', '\x01\x01name\0octet\0', 'opcode'],
    ['a name that does not end', `\0\x01${'a'.repeat(1600)}`, 'long'],
  ])('with %s is malformed, with its reason', (_, text, why) =>
    expect(decodeTftp(Buffer.from(text, 'latin1'))).toEqual({ kind: 'malformed', why }),
  );
});

/**
 * Checks what the server makes of a decoded request: a plain name or none, and options in range.
 */
function understood(request: TftpRequest): void {
  const name = loaderName(request.filename);
  if (name !== undefined && !/^(?!\.{1,2}$)[A-Za-z0-9._+-]{1,128}$/.test(name))
    throw new Error('no plain name');
  if (isEmptyFile(request.filename) && !/\.lst$/i.test(request.filename)) throw new Error('no list of GRUB');
  const { blockSize, window, timeout, acknowledged } = agree(request, 1_000_000, 1500);
  if (!(blockSize >= 8 && blockSize <= 1468 && window >= 1 && window <= MAX_WINDOW))
    throw new Error('blocks that cannot be sent');
  if (timeout !== undefined && !(timeout >= 1000 && timeout <= 255_000)) throw new Error('no time-out');
  for (const [option, value] of acknowledged)
    if (!request.options.has(option) || !/^[0-9]+$/.test(value))
      throw new Error('not asked for, or no number');
}

describe('a TFTP packet', () => {
  it('goes to octets and back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e6 }), (block) => {
        expect(decodeTftp(encodeAck(block))).toEqual({ kind: 'ack', block: block & 0xffff });
        const data = Buffer.alloc(8);
        writeDataHeader(data, 2, block);
        expect([...data]).toEqual([0, 0, 0, 3, (block >> 8) & 255, block & 255, 0, 0]);
      }),
    );
    expect(decodeTftp(encodeError(TFTP_ERROR.unknownTid, 'no'))).toEqual({
      kind: 'error',
      code: 5,
      message: 'no',
    });
    expect(encodeOack([['blksize', '1468']]).toString('latin1')).toBe('\0\x06blksize\x001468\0');
  });

  it('with an error has a message that is safe for a log, whatever the peer wrote', () => {
    const packet = decodeTftp(
      Buffer.concat([Buffer.from([0, 5, 0, 0]), Buffer.from('\x1b[2J\n\xff'.repeat(90), 'latin1')]),
    );
    expect(packet.kind).toBe('error');
    if (packet.kind === 'error') expect(packet.message).toMatch(/^[\x20-\x7e]{1,100}$/);
  });

  it('is decoded without a throw from any octets, 250,000 times', () => {
    const seed = 0x7f7b0001;
    console.log(`fuzz seed ${seed}`);
    const random = xorshift(seed);
    const seeds = [
      ...Object.values(CAPTURED).map((text) => Buffer.from(text, 'latin1')),
      encodeAck(65535),
      encodeError(8, 'User aborted the transfer'),
      encodeOack([['tsize', '1']]),
      Buffer.from([0, 3, 0, 1, 1, 2, 3]),
      Buffer.alloc(0),
    ];
    const kinds = new Map<string, number>();
    for (let n = 0; n < 250_000; n++) {
      const packet = decodeTftp(mutant(seeds, random));
      kinds.set(packet.kind, (kinds.get(packet.kind) ?? 0) + 1);
      if (packet.kind === 'read' && (packet.filename === '' || packet.options.size > 750))
        throw new Error('a request without a name, or more options than octets allow');
      if (packet.kind === 'read') understood(packet);
    }
    // The mutants reach every branch, not only the refusals.
    expect([...kinds.keys()].sort()).toEqual(['ack', 'data', 'error', 'malformed', 'oack', 'read', 'write']);
  });
});
