/** What those see who watch a serial console live. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LiveText } from '../../../src/bmc/live-text.ts';

const SECRET = '0a1b2c3d-secret';

function watched() {
  const calls: (() => void)[] = [];
  const live = new LiveText({
    hidden: (text) => text.replaceAll(SECRET, '[hidden]'),
    after: (_, call) => calls.push(call),
  });
  let seen = '';
  live.subscribe(({ text }) => {
    seen += text;
  });
  return {
    live,
    seen: () => seen,
    pass() {
      for (const call of calls.splice(0)) call();
    },
  };
}

test('a typed letter is seen at the second look, and escape sequences stay', () => {
  const { live, seen, pass } = watched();
  live.take(Buffer.from('\u001b[1mlogin: \u001b[0m r'));
  pass();
  pass();
  expect(seen()).toBe('\u001b[1mlogin: \u001b[0m r');
});

test('however a secret is cut into packets, nobody sees a part of it', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), fc.boolean(), (cuts, often) => {
      const { live, seen, pass } = watched();
      let left = `url=http://x/${SECRET}/a b\r\n`;
      for (let n = 0; left !== ''; n++) {
        live.take(Buffer.from(left.slice(0, cuts[n % cuts.length])));
        left = left.slice(cuts[n % cuts.length]);
        if (often || n % 3 === 0) pass();
      }
      for (let n = 0; n < 3; n++) pass();
      expect(seen()).toBe('url=http://x/[hidden]/a b\r\n');
    }),
  );
});

test('what is kept for the next watcher is bounded, and words without an end are passed on', () => {
  const { live, seen, pass } = watched();
  for (let n = 0; n < 100; n++) {
    live.take(Buffer.from('x'.repeat(1000)));
    pass();
  }
  expect(seen().length).toBeGreaterThan(90_000);
  expect(live.kept().reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(8192);
});
