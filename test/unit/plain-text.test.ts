/** What others wrote cannot steer the terminal of the one who reads it. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { colouredText, plainText } from '../../src/base/plain-text.ts';

test('titles, clipboards, cursors and turned writing go, letters and line ends stay', () => {
  expect(plainText('a\u001b]52;c;aGk=\u0007b\u001b[2Jc\u202ed\u2066e\r\nf\tg\u0085ü')).toBe('abcde\nf\tgü');
  expect(plainText('\u001b[31mred\u001b[0m')).toBe('red');
});

test('of all texts, only colours and plain characters are left', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(plainText(text)).not.toMatch(/[^\P{C}\n\t]/u);
      expect(colouredText(text).replace(/\u001b\[[0-9;]*m/g, '')).not.toMatch(/[^\P{C}\n\t]/u);
    }),
  );
  expect(colouredText('\u001b[1mb\u001b[0m\u001b]0;t\u0007')).toBe('\u001b[1mb\u001b[0m');
});
