/** What the patterns of documents' fields have to hold, whatever the field. */
import { expect, test } from 'vitest';
import { absolutePath } from '../../../src/resources/fields.ts';
import { resourcePages } from '../../../src/resources/reference.ts';

/** All patterns in the JSON Schemas. */
function patterns(): readonly string[] {
  const found: string[] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, part] of Object.entries(value))
      if (key === 'pattern' && typeof part === 'string') found.push(part);
      else walk(part);
  };
  for (const [name, text] of resourcePages()) if (name.endsWith('.json')) walk(JSON.parse(text));
  return found;
}

test('no pattern of a field has a dot that stops at a line break, and each is bound to both ends', () => {
  const all = patterns();
  expect(all.length).toBeGreaterThan(20);
  for (const pattern of all) {
    const outside = pattern.replace(/\\./g, '').replace(/\[[^\]]*\]/g, '');
    expect(outside, pattern).not.toContain('.');
    expect(pattern).toMatch(/^\^.*\$$/s);
  }
});

test.each([
  '/tmp/x\n/../../etc/shadow',
  '/tmp/x\r/../../etc/shadow',
  '/tmp/x\u2028/../../etc/shadow',
  '/tmp/x\u2029/..',
  '/..',
  '/a/../b',
  '/a\nb',
  '/a\0b',
  '/a\x1b[2J',
  'a/b',
])('%j is not an absolute path', (text) => {
  expect(absolutePath.safeParse(text).success).toBe(false);
});

test.each(['/', '/a', '/a/..b/c..', '/tmp/ä ö', '/a/...'])('%j is an absolute path', (text) => {
  expect(absolutePath.safeParse(text).success).toBe(true);
});
