/** Serial over LAN against a BMC whose packets get lost, come twice, or are nonsense. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeSol, encodeSol, SolLine } from '../../../src/bmc/ipmi/sol.ts';

const EMPTY = Buffer.alloc(0);

/** A BMC that takes text in order, and prints packets; `loses` says which datagrams get lost. */
function rig(loses: (n: number) => boolean, takes = 100) {
  const timers: (() => void)[] = [];
  let n = 0;
  let last = 0;
  let [typed, printed, ended] = ['', '', false];
  const line: SolLine = new SolLine(
    {
      send(payload) {
        if (loses(n++)) return;
        const read = decodeSol(payload);
        if (!read.ok || read.value.number === 0) return;
        const { number, octets } = read.value;
        const part = octets.subarray(0, takes);
        if (number !== last) typed += part.toString();
        last = number;
        const answer = { number: 0, acknowledged: number, accepted: part.length, status: 0 };
        if (!loses(n++)) timers.push(() => line.take(encodeSol({ ...answer, octets: EMPTY })));
      },
      printed: (octets) => (printed += octets.toString()),
      ended: () => (ended = true),
      after(_, call) {
        timers.push(call);
        return () => timers.splice(timers.indexOf(call), timers.includes(call) ? 1 : 0);
      },
    },
    20,
  );
  const run = (): void => {
    for (let turn = 0; turn < 10_000 && timers.length > 0; turn++) timers.shift()!();
  };
  return { line, run, state: () => ({ typed, printed, ended }) };
}

test('typed text arrives once and in order, although packets and acknowledgements get lost', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 1 }), { maxLength: 8 }),
      fc.infiniteStream(fc.nat(3)),
      (texts, luck) => {
        const { line, run, state } = rig(() => luck.next().value === 0, 7);
        const ascii = texts.map((text) => text.replace(/[^\x20-\x7e]/g, '?'));
        for (const text of ascii) line.type(Buffer.from(text));
        run();
        expect(state()).toMatchObject({ typed: ascii.join(''), ended: false });
      },
    ),
  );
});

test('what the machine prints is shown once, also when its packet comes again', () => {
  const { line, state } = rig(() => false);
  const packet = (number: number, text: string) =>
    encodeSol({ number, acknowledged: 0, accepted: 0, status: 0, octets: Buffer.from(text) });
  for (const one of [packet(1, 'POST '), packet(1, 'POST '), packet(2, 'code 12')]) line.take(one);
  expect(state().printed).toBe('POST code 12');
});

test('a BMC that does not answer, or says so, ends the line', () => {
  const silent = rig(() => true);
  silent.line.type(Buffer.from('hello'));
  silent.run();
  expect(silent.state().ended).toBe(true);
  const told = rig(() => false);
  told.line.take(encodeSol({ number: 0, acknowledged: 0, accepted: 0, status: 0x10, octets: EMPTY }));
  expect(told.state().ended).toBe(true);
});

test('text beyond what a slow line can hold is refused whole', () => {
  const { line, state } = rig(() => true);
  expect(line.type(Buffer.alloc(16 * 1024, 'a'))).toBe(true);
  expect(line.type(Buffer.alloc(16 * 1024, 'b'))).toBe(false);
  expect(state().typed).toBe('');
});

test('no packet of a BMC makes the line throw', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (packets) => {
      const { line } = rig(() => false);
      line.type(Buffer.from('x'));
      for (const one of packets) line.take(Buffer.from(one));
    }),
  );
});
