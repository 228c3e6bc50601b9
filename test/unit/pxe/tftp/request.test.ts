import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeTftp, encodeRead } from '../../../../src/pxe/tftp/codec.ts';
import { agree, blockCount, isEmptyFile, loaderName, toNetascii } from '../../../../src/pxe/tftp/request.ts';

function asked(options: Record<string, string>, mode = 'octet', size = 1_000_000) {
  const packet = decodeTftp(encodeRead('ipxe.efi', mode, Object.entries(options)));
  if (packet.kind !== 'read') throw new Error('not a request');
  return agree(packet, size, 1500);
}

describe('the name in a request', () => {
  it.each([
    ['ipxe.efi', 'ipxe.efi'],
    ['/ipxe.efi', 'ipxe.efi'],
    ['//ipxe.efi', 'ipxe.efi'],
    ['\\ipxe.efi', 'ipxe.efi'],
    ['./ipxe.efi', 'ipxe.efi'],
    ['undionly.kpxe\xff', 'undionly.kpxe'],
  ])('%j means %j', (sent, name) => expect(loaderName(sent)).toBe(name));

  it.each([
    '../etc/passwd',
    '..\\..\\etc\\passwd',
    '/etc/passwd',
    'ipxe.efi/../../etc/passwd',
    '%2e%2e/ipxe.efi',
    '..',
    '.',
    '/',
    '',
    'C:\\ipxe.efi',
    'a'.repeat(200),
    'ipxe efi',
    'ipxe.efi\n',
  ])('%j means nothing', (sent) => expect(loaderName(sent)).toBeUndefined());

  it('never means anything but a plain name, whatever was sent', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60, unit: fc.constantFrom(...'./\\%2eabc\0\xff:~$ ') }), (sent) => {
        const name = loaderName(sent);
        if (name !== undefined) {
          expect(name).toMatch(/^[A-Za-z0-9._+-]{1,128}$/);
          expect(['.', '..']).not.toContain(name);
        }
      }),
      { numRuns: 5000 },
    );
  });

  it("of GRUB's lists is known in any directory", () => {
    expect(isEmptyFile('/boot/grub/x86_64-efi/command.lst')).toBe(true);
    expect(isEmptyFile('boot\\grub\\FS.LST')).toBe(true);
    expect(isEmptyFile('pxelinux.cfg/default')).toBe(false);
  });
});

describe('options', () => {
  it('are acknowledged only when asked for, in their order', () => {
    expect(asked({}).acknowledged).toEqual([]);
    expect(asked({ tsize: '0', blksize: '1468', windowsize: '4' })).toEqual({
      blockSize: 1468,
      window: 4,
      timeout: undefined,
      acknowledged: [
        ['tsize', '1000000'],
        ['blksize', '1468'],
        ['windowsize', '4'],
      ],
    });
  });

  it('that are unknown or malformed are ignored, not answered with an error', () => {
    const sizes = { blksize: '7', windowsize: '0', timeout: '256', tsize: 'x', multicast: '', rollover: '1' };
    expect(asked(sizes)).toMatchObject({ blockSize: 512, window: 1, timeout: undefined, acknowledged: [] });
    expect(asked({ blksize: '-1', windowsize: '1e9', timeout: '0' }).acknowledged).toEqual([]);
  });

  it('are cut to what the link and the server carry, never raised', () => {
    expect(asked({ blksize: '65464' }).acknowledged).toEqual([['blksize', '1468']]);
    expect(asked({ blksize: '70000' }).acknowledged).toEqual([['blksize', '1468']]);
    expect(asked({ blksize: '8' }).blockSize).toBe(8);
    expect(asked({ windowsize: '65535' }).acknowledged).toEqual([['windowsize', '64']]);
  });

  it('have the timeout echoed unchanged and used', () => {
    expect(asked({ timeout: '3' })).toMatchObject({ timeout: 3000, acknowledged: [['timeout', '3']] });
  });

  it('the answer to tsize leaves out the size of an empty file, because curl would give up', () =>
    expect(asked({ tsize: '0', blksize: '600' }, 'octet', 0).acknowledged).toEqual([['blksize', '600']]));

  it('have no size for translated text', () =>
    expect(asked({ tsize: '0', blksize: '600' }, 'netascii').acknowledged).toEqual([['blksize', '600']]));
});

describe('a file in blocks', () => {
  it('ends with a short block, an empty one if its size is a multiple', () => {
    expect([0, 1, 511, 512, 513, 1024].map((size) => blockCount(size, 512))).toEqual([1, 1, 1, 2, 2, 3]);
  });

  it('as netascii has CR LF for LF and CR NUL for CR', () =>
    expect(toNetascii(Buffer.from('a\nb\r\n\r')).toString('latin1')).toBe('a\r\nb\r\0\r\n\r\0'));
});
