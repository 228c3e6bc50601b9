/** Lines of what a serial port prints. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { endsBoot, SerialText } from '../../../src/bmc/serial-text.ts';

function read(...chunks: readonly string[]): readonly string[] {
  const text = new SerialText();
  const lines = chunks.flatMap((chunk) => text.take(Buffer.from(chunk)));
  return [...lines, text.rest()];
}

test('lines end with a line feed, a return, or both', () => {
  expect(read('SeaBIOS\r\nBooting from ROM..\nprogress 1\rprogress 2\r\n')).toEqual([
    'SeaBIOS',
    'Booting from ROM..',
    'progress 1',
    'progress 2',
    '',
  ]);
});

test('a screen that firmware draws by moving the cursor is lines as well', () => {
  expect(read('\u001b[2J\u001b[01;01HPress F2\u001b[02;01Hfor Setup')).toEqual([
    '',
    '',
    'Press F2',
    'for Setup',
  ]);
});

test('octets in any pieces make the same lines', () => {
  const whole = '\u001b[2JBIOS größe\r\n\u001b[10;20HNo bootable device\r\nlogin: ';
  fc.assert(
    fc.property(fc.array(fc.nat(Buffer.byteLength(whole))), (cuts) => {
      const octets = Buffer.from(whole);
      const at = [0, ...cuts.toSorted((a, b) => a - b), octets.length];
      const text = new SerialText();
      const lines = at.slice(1).flatMap((end, n) => text.take(octets.subarray(at[n]!, end)));
      expect([...lines, text.rest()]).toEqual(read(whole));
    }),
  );
});

test('what has no line break is bounded', () => {
  const text = new SerialText();
  expect(text.take(Buffer.alloc(10_000, 'a')).every((line) => line.length === 1000)).toBe(true);
  expect(text.rest().length).toBeLessThanOrEqual(1000);
});

test('a reboot and a power-off end a boot', () => {
  expect(endsBoot('[  123.456789] reboot: Restarting system')).toBe(true);
  expect(endsBoot('reboot: Power down')).toBe(true);
  expect(endsBoot('the reboot went well')).toBe(false);
});
