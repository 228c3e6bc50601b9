import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Millis } from '../../../../src/base/duration.ts';
import {
  type Effect,
  newTransfer,
  type Outcome,
  step,
  type TransferEvent,
  type TransferPlan,
  type TransferState,
} from '../../../../src/pxe/tftp/transfer.ts';
import { xorshift } from './mutate.ts';

const ms = (n: number) => n as Millis;
const plan = (blocks: number, window = 1, oack = window > 1): TransferPlan => ({
  blocks,
  window,
  oack,
  timeout: undefined,
});

/** A transfer under test: takes events and keeps everything that was sent. */
class Bench {
  state: TransferState = newTransfer;
  now = 0;
  readonly sent: number[] = [];
  oacks = 0;
  errors: number[] = [];
  outcome: Outcome | undefined;
  readonly plan: TransferPlan;
  constructor(p: TransferPlan) {
    this.plan = p;
    this.feed({ kind: 'start' });
  }
  feed(event: TransferEvent, after = 1): readonly Effect[] {
    this.now += after;
    const { state, effects } = step(this.plan, this.state, event, ms(this.now));
    this.state = state;
    for (const effect of effects) {
      if (effect.do === 'data') for (let n = effect.from; n <= effect.to; n++) this.sent.push(n);
      if (effect.do === 'oack') this.oacks++;
      if (effect.do === 'error') this.errors.push(effect.code);
      if (effect.do === 'end') this.outcome = effect.outcome;
    }
    return effects;
  }
  ack(block: number, after = 1) {
    return this.feed({ kind: 'ack', block: block & 0xffff }, after);
  }
  /** Waits until the deadline and steps with it. */
  silence() {
    return this.feed({ kind: 'timeout' }, this.state.deadline - this.now);
  }
}

describe('a transfer', () => {
  it('goes block by block without options', () => {
    const t = new Bench(plan(3));
    expect(t.sent).toEqual([1]);
    t.ack(1);
    t.ack(2);
    t.ack(3);
    expect(t.sent).toEqual([1, 2, 3]);
    expect(t.outcome).toBe('served');
  });

  it('with options waits for ACK 0 before the first block', () => {
    const t = new Bench(plan(1, 1, true));
    expect([t.oacks, t.sent.length]).toEqual([1, 0]);
    t.ack(1);
    expect(t.sent).toEqual([]);
    t.ack(0);
    expect(t.sent).toEqual([1]);
  });

  it('of an empty file is one block', () => {
    const t = new Bench(plan(1));
    t.ack(1);
    expect(t.outcome).toBe('served');
  });

  it('continues after block numbers roll over to 0, twice', () => {
    const t = new Bench(plan(140_000));
    for (let n = 1; n <= 140_000; n++) t.ack(n, 0.01);
    expect(t.outcome).toBe('served');
    expect(t.sent.length).toBe(140_000);
  });

  it('never sends twice because of duplicate ACKs (RFC 1123 §4.2.3.1: no Sorcerer’s Apprentice)', () => {
    const t = new Bench(plan(50));
    for (let n = 1; n <= 50; n++) {
      t.ack(n);
      t.ack(n);
      t.ack(n - 1);
    }
    expect(t.sent).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
  });

  it.each([
    ['without options', plan(10)],
    ['with options and a large window', plan(10, 64, true)],
  ])('sends a client that acknowledges nothing one packet, and repeats it once (%s)', (_what, of) => {
    const t = new Bench(of);
    while (!t.outcome) t.silence();
    expect(t.oacks + t.sent.length).toBe(2);
    expect(t.now).toBeGreaterThan(20_000);
    // A repeated request gets the packet again, but not more often than every half second.
    const asked = new Bench(of);
    for (let n = 0; n < 100; n++) asked.feed({ kind: 'again' });
    expect(asked.oacks + asked.sent.length).toBe(1);
    asked.feed({ kind: 'again' }, 500);
    expect(asked.oacks + asked.sent.length).toBe(2);
    // A late acknowledgement still counts.
    asked.silence();
    asked.silence();
    asked.silence();
    asked.ack(of.oack ? 0 : 1);
    expect(asked.state.confirmed).toBe(true);
    expect(asked.sent.length).toBeGreaterThan(0);
  });

  it('backs off exponentially and gives up (RFC 1123 §4.2.3.2)', () => {
    const t = new Bench(plan(10));
    t.ack(1, 1000);
    const waits: number[] = [];
    while (!t.outcome) {
      waits.push(t.state.deadline - t.now);
      t.silence();
    }
    expect(t.outcome).toBe('timeout');
    for (let i = 1; i < waits.length; i++) expect(waits[i]).toBe(Math.min(waits[i - 1]! * 2, 16_000));
    expect(waits.length).toBe(7);
  });

  it('uses the time-out that the client asked for (RFC 2349)', () => {
    const t = new Bench({ ...plan(10, 1, true), timeout: ms(3000) });
    expect(t.state.deadline - t.now).toBe(3000);
    t.ack(0);
    t.ack(1);
    expect(t.state.deadline - t.now).toBe(3000);
  });

  it('measures the round trip where the client gave no time-out, and not on repeated blocks', () => {
    const t = new Bench(plan(20));
    for (let n = 1; n < 10; n++) t.ack(n, 400);
    const span = t.state.deadline - t.now;
    expect(span).toBeGreaterThan(400);
    expect(span).toBeLessThan(1200);
    t.silence();
    const before = t.state.roundTrip;
    t.ack(10, 9000);
    expect(t.state.roundTrip).toBe(before);
  });

  it('sends a window, and the next one after its last block (RFC 7440)', () => {
    const t = new Bench(plan(10, 4));
    t.ack(0);
    expect(t.sent).toEqual([1, 2, 3, 4]);
    t.ack(4);
    t.ack(8);
    expect(t.sent.slice(4)).toEqual([5, 6, 7, 8, 9, 10]);
    t.ack(10);
    expect(t.outcome).toBe('served');
  });

  it('continues after the last block that arrived when a block of a window is lost', () => {
    const t = new Bench(plan(10, 4));
    t.ack(0);
    t.ack(2);
    expect(t.sent.slice(4)).toEqual([3, 4, 5, 6]);
  });

  it('repeats a window whose first block is lost, once, however often the client says so', () => {
    const t = new Bench(plan(10, 4));
    t.ack(0, 10);
    t.ack(4, 10);
    expect(t.sent.slice(4)).toEqual([5, 6, 7, 8]);
    for (let n = 0; n < 5; n++) t.ack(4, 20);
    expect(t.sent.slice(8)).toEqual([5, 6, 7, 8]);
  });

  it('ignores ACKs from before and from beyond', () => {
    const t = new Bench(plan(100, 4));
    t.ack(0);
    t.ack(4);
    const before = t.sent.length;
    for (const block of [3, 2, 1, 9, 10, 5000, 65535]) t.ack(block, 0);
    expect(t.sent.length).toBe(before);
  });

  it('a transfer that the client aborts after it has learned the size is a probe, not a failure (EDK2: error 8; BIOS ROMs: error 0)', () => {
    for (const code of [8, 0]) {
      const t = new Bench(plan(10, 4));
      t.feed({ kind: 'error', code, message: 'User aborted the transfer' });
      expect(t.outcome).toBe('probed');
      expect(t.errors).toEqual([]);
    }
    const midway = new Bench(plan(10));
    midway.ack(1);
    midway.feed({ kind: 'error', code: 0, message: 'no space' });
    expect(midway.outcome).toBe('aborted');
  });

  it('whose last acknowledgement is lost is unconfirmed, not failed', () => {
    const t = new Bench(plan(2));
    t.ack(1);
    while (!t.outcome) t.silence();
    expect(t.outcome).toBe('unconfirmed');
  });

  it('answers a repeated request with the first packet again, until the client makes progress, unless it was just sent', () => {
    const t = new Bench(plan(3));
    t.feed({ kind: 'again' });
    expect(t.sent).toEqual([1]);
    t.feed({ kind: 'again' }, 600);
    expect(t.sent).toEqual([1, 1]);
    t.ack(1);
    t.feed({ kind: 'again' });
    expect(t.sent).toEqual([1, 1, 2]);
  });

  it('sends few packets to an address that never answers', () => {
    const t = new Bench(plan(1000));
    while (!t.outcome) t.silence();
    expect(t.sent.length).toBeLessThanOrEqual(5);
  });

  it('that another one replaces sends nothing to the client', () => {
    const t = new Bench(plan(10));
    t.feed({ kind: 'superseded' });
    expect([t.errors, t.outcome]).toEqual([[], 'superseded']);
    const last = new Bench(plan(1));
    last.feed({ kind: 'superseded' });
    expect(last.outcome).toBe('unconfirmed');
  });

  it('that is stopped sends an error to the client and ends', () => {
    const t = new Bench(plan(10));
    t.feed({ kind: 'stop', outcome: 'shutdown', code: 0, message: 'bye' });
    expect([t.errors, t.outcome]).toEqual([[0], 'shutdown']);
    expect(t.ack(1)).toEqual([]);
  });
});

/**
 * A client that follows RFC 7440 §4 (accepts blocks in order only; acknowledges at the end of a
 * window and when a block is missing), behind a network that loses, doubles and reorders packets.
 */
function simulate(
  p: TransferPlan,
  network: { loss: number; doubling: number; reorder: number; seed: number },
) {
  const random = xorshift(network.seed);
  const chance = (percent: number) => random() % 100 < percent;
  const t = new Bench(p);
  let got = 0;
  let inWindow = 0;
  let toClient: number[] = p.oack ? [0] : [...t.sent];
  const told = () => p.oack && toClient.includes(0);
  let rounds = 0;
  const acks: number[] = [];
  while (t.outcome === undefined && rounds++ < 20_000) {
    // The network towards the client.
    const arriving = toClient.flatMap((block) =>
      chance(network.loss) ? [] : chance(network.doubling) ? [block, block] : [block],
    );
    if (chance(network.reorder)) arriving.reverse();
    toClient = [];
    let complained = false;
    for (const block of arriving) {
      if (block === 0) {
        if (got === 0) acks.push(0);
      } else if (block === got + 1) {
        got++;
        inWindow++;
        if (inWindow === p.window || got === p.blocks) {
          acks.push(got);
          inWindow = 0;
        }
      } else if (!complained) {
        complained = true;
        acks.push(got);
        inWindow = 0;
      }
    }
    // The network towards the server.
    const before = t.sent.length;
    const oacks = t.oacks;
    let quiet = true;
    for (const ack of acks.splice(0)) {
      if (chance(network.loss)) continue;
      quiet = false;
      t.ack(ack, 5);
      if (chance(network.doubling)) t.ack(ack, 1);
    }
    if (quiet || t.sent.length === before) t.silence();
    toClient = t.sent.slice(before);
    if (t.oacks > oacks || told()) toClient.unshift(0);
  }
  return { t, got, rounds };
}

describe('over a bad network', () => {
  it('a transfer ends with the whole file, whatever is lost, doubled or out of order', () => {
    fc.assert(
      fc.property(
        fc.record({
          blocks: fc.integer({ min: 1, max: 200 }),
          window: fc.integer({ min: 1, max: 64 }),
          loss: fc.integer({ min: 0, max: 15 }),
          doubling: fc.integer({ min: 0, max: 50 }),
          reorder: fc.integer({ min: 0, max: 30 }),
          seed: fc.integer({ min: 1, max: 2 ** 31 }),
        }),
        ({ blocks, window, ...network }) => {
          const { t, got, rounds } = simulate(plan(blocks, window), network);
          expect(rounds).toBeLessThan(20_000);
          if (t.outcome === 'served' || t.outcome === 'unconfirmed') expect(got).toBe(blocks);
          else expect(t.outcome).toBe('timeout');
        },
      ),
      { numRuns: 400, seed: 20261120 },
    );
  });

  it('doubling every packet costs about one repeat of each window, not more and more of them', () => {
    const one = simulate(plan(300, 1), { loss: 0, doubling: 100, reorder: 0, seed: 7 });
    expect(one.t.sent.length).toBe(300);
    const many = simulate(plan(300, 8), { loss: 0, doubling: 100, reorder: 0, seed: 7 });
    expect(many.t.outcome).toBe('served');
    expect(many.t.sent.length).toBeLessThanOrEqual(600 + 2 * 8);
  });
});

describe('the state machine', () => {
  it('keeps its invariants over 300,000 random events', () => {
    const seed = 0x7f7b0002;
    console.log(`fuzz seed ${seed}`);
    const random = xorshift(seed);
    let ended = 0;
    let events = 0;
    while (events < 300_000) {
      const p: TransferPlan = {
        blocks: 1 + (random() % (random() % 4 === 0 ? 200_000 : 40)),
        window: 1 + (random() % 64),
        oack: random() % 2 === 0,
        timeout: random() % 3 === 0 ? ms(1000 * (1 + (random() % 255))) : undefined,
      };
      let state = newTransfer;
      let now = 0;
      let silent = 0;
      for (let n = 0; n < 200 && state.phase !== 'ended'; n++, events++) {
        now += random() % 3000;
        const near = (state.acked + (random() % 70) - 3) & 0xffff;
        const event: TransferEvent =
          n === 0
            ? { kind: 'start' }
            : (
                [
                  { kind: 'ack', block: near },
                  { kind: 'ack', block: near },
                  { kind: 'ack', block: random() & 0xffff },
                  { kind: 'timeout' },
                  { kind: 'again' },
                  { kind: 'start' },
                  ...(random() % 40 === 0
                    ? [{ kind: 'error', code: random() % 10, message: '' } as const]
                    : []),
                ] satisfies TransferEvent[]
              )[random() % 6]!;
        if (event.kind === 'timeout') now = Math.max(now, state.deadline);
        const next = step(p, state, event, ms(now));
        const s = next.state;
        if (s.acked < state.acked || s.acked > s.sent || s.sent > p.blocks)
          throw new Error('blocks out of order');
        if (s.sent - s.acked > p.window) throw new Error('more than a window is out');
        // A repeated request gets the first packet again and changes nothing else.
        if (s.phase !== 'ended' && s.deadline <= now && next.effects.length > 0 && event.kind !== 'again')
          throw new Error('no deadline ahead');
        for (const effect of next.effects)
          if (
            effect.do === 'data' &&
            (effect.from <= s.acked || effect.to > s.sent || effect.from > effect.to)
          )
            throw new Error('a block outside of the window');
        if (next.effects.length > 2) throw new Error('too many effects');
        silent = s.acked > state.acked ? 0 : event.kind === 'timeout' ? silent + 1 : silent;
        if (silent > 10 && s.phase !== 'ended') throw new Error('it does not give up');
        state = s;
      }
      if (state.phase === 'ended') {
        ended++;
        if (step(p, state, { kind: 'ack', block: 1 }, ms(now)).effects.length > 0)
          throw new Error('an ended transfer speaks');
      }
    }
    expect(ended).toBeGreaterThan(100);
  });
});
