/** The code on the console, and the table of keys that wait for an approval. */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { approvalCode, isCode, newNonce, normalCode } from '../../../../src/agent/identity/approval-code.ts';
import { NO_TPM } from '../../../../src/agent/identity/redeem-decision.ts';
import { createWaiting } from '../../../../src/agent/identity/waiting.ts';
import { heldSeconds } from '../../../../src/agent/serve/agent-api.ts';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration, type Millis } from '../../../../src/base/duration.ts';
import type { TicketFacts } from '../../../../src/machines/tickets.ts';
import { PrivateKey } from '../../../../src/pki/keys.ts';
import { anyText } from '../../texts.ts';

const OF = { machine: 'cp1', pin: 'ab'.repeat(32), authority: 'CA\n', nonce: '00'.repeat(16) };

describe('a code', () => {
  it('is the same for the same machine, key, CA and nonce, and another one if any of them differs', () => {
    const code = approvalCode(OF);
    expect(approvalCode({ ...OF })).toBe(code);
    const others = [
      { machine: 'cp2' },
      { pin: 'ac'.repeat(32) },
      { authority: 'CB\n' },
      { nonce: `01${'00'.repeat(15)}` },
    ].map((more) => approvalCode({ ...OF, ...more }));
    expect(new Set([code, ...others]).size).toBe(5);
  });

  it('is read as people type it: in lower case, without the dash, with letters that look like digits', () => {
    for (const typed of ['7QK-3FD', '7qk3fd', ' 7qk 3fd ', '7QK-3FD\n'])
      expect(normalCode(typed)).toBe('7QK-3FD');
    expect(normalCode('oil-0oi')).toBe('011-001');
  });

  test('codes of any keys have the form that is accepted, and any text is read or found to be none', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (machine, authority) => {
        const code = approvalCode({ machine, pin: 'ab'.repeat(32), authority, nonce: newNonce() });
        expect(isCode(code)).toBe(true);
        expect(normalCode(code.toLowerCase())).toBe(code);
      }),
      { numRuns: 2000, seed: 7 },
    );
    fc.assert(
      fc.property(anyText({ maxLength: 50 }), (text) => {
        expect(isCode(normalCode(text))).toBeTypeOf('boolean');
      }),
      { numRuns: 3000, seed: 7 },
    );
  });
});

const FACTS: TicketFacts = {
  session: { id: 'S', machine: 'cp1' },
  current: true,
  unproven: false,
  accepted: true,
  ticketed: true,
  age: 0 as Millis,
  addresses: new Set(),
  doubt: () => undefined,
  trust: { tier: 'approved', from: 'Machine/cp1' },
  vendorCas: [],
};
const key = (await PrivateKey.generate()).publicKey();
const asked = (pin: string, address = '10.77.0.11', machine = 'cp1') => ({
  machine,
  facts: FACTS,
  key,
  pin,
  tpm: NO_TPM,
  address,
  known: true,
  replaces: false,
});

it('keys that wait are asked for every two seconds in a rack, and often enough to be known in a data centre', () => {
  expect([1, 200, 1000, 20_000].map(heldSeconds)).toEqual([2, 2, 10, 20]);
});

describe('the table of keys that wait', () => {
  const open = () => {
    const clock = new ManualClock(0 as Millis);
    return { clock, waiting: createWaiting(clock) };
  };

  it('keeps the nonce of a key while it asks, and draws another one after it was away', () => {
    const { clock, waiting } = open();
    const first = waiting.ask(asked('a'))!;
    expect(first.isNew).toBe(true);
    clock.advance(duration('20s'));
    expect(waiting.ask(asked('a'))).toEqual({ nonce: first.nonce, isNew: false });
    clock.advance(duration('20s'));
    expect(waiting.of('cp1')).toHaveLength(1);
    clock.advance(duration('20s'));
    expect(waiting.of('cp1')).toEqual([]);
    const again = waiting.ask(asked('a'))!;
    expect(again.isNew).toBe(true);
    expect(again.nonce).not.toBe(first.nonce);
  });

  it('draws other nonces after three wrong codes', () => {
    const { waiting } = open();
    const { nonce } = waiting.ask(asked('a'))!;
    expect([1, 2].map(() => waiting.wrong('cp1'))).toEqual([false, false]);
    expect(waiting.of('cp1')[0]!.nonce).toBe(nonce);
    expect(waiting.wrong('cp1')).toBe(true);
    expect(waiting.of('cp1')[0]!.nonce).not.toBe(nonce);
  });

  it('leaves a key its place when another host tries key after key, from its address or others', () => {
    const { waiting } = open();
    const { nonce } = waiting.ask(asked('mine'))!;
    for (let n = 0; n < 100; n++) waiting.ask(asked(`same-${n}`));
    expect(waiting.of('cp1').map(({ pin }) => pin)).toEqual(['mine', 'same-0', 'same-1', 'same-2']);
    for (let n = 0; n < 100; n++) waiting.ask(asked(`other-${n}`, `10.77.0.${n + 20}`));
    expect(waiting.of('cp1')).toHaveLength(16);
    expect(waiting.of('cp1')[0]).toMatchObject({ pin: 'mine', nonce });
  });

  it('takes 20,000 keys and no more, and is free again when they do not ask any more', () => {
    const { clock, waiting } = open();
    for (let n = 0; n < 20_000; n++) waiting.ask(asked('a', '10.77.0.11', `m${n}`));
    expect(waiting.ask(asked('a', '10.77.0.11', 'one-more'))).toBeUndefined();
    clock.advance(duration('31s'));
    expect(waiting.ask(asked('a', '10.77.0.11', 'one-more'))).toBeDefined();
    expect(waiting.list()).toHaveLength(1);
  });
});
