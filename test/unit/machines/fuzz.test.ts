/** Damaged lines of consoles are read or refused within their limits. */
import { expect, test } from 'vitest';
import { consolePart, MAX_LINE } from '../../../src/machines/console.ts';
import { damagedTexts, unless } from '../fuzzing.ts';

test('damaged lines of a console stay plain text without the boot session', async () => {
  const session = 'AbCdEfGhIjKlMnOpQrStUv';
  const boot = '00000000-0000-4000-8000-000000000001';
  const seeds = [
    `[    0.000000] Command line: quiet muster.url=http://10.77.0.1:8080/boot/${session} x\r\n[    0.1] a\n`,
    `\u001b[1;31mred\u001b]0;title\u0007 http://h/boot/${session} token=abc Bearer abc abcdef.0123456789abcdef\n`,
  ];
  await damagedTexts('console', seeds, (lines) =>
    unless(['E_TOO_LARGE'], () => {
      const part = consolePart({ boot, lines }, [session]);
      for (const line of part.lines) {
        expect(line.length).toBeLessThanOrEqual(MAX_LINE);
        expect(line).not.toMatch(/[\0-\x08\x0a-\x1f\x7f-\x9f\u202e]/);
        expect(line).not.toContain(session);
      }
    }),
  );
});
