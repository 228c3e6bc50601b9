import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { millis } from '../../../src/base/duration.ts';
import { plainAddress } from '../../../src/base/ip.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { readIdentity, serialKey, uuidKey } from '../../../src/machines/identity.ts';
import type { BootSession, MachineStatus } from '../../../src/machines/machine.ts';
import { isUsableMac } from '../../../src/machines/placeholders.ts';
import { DISBELIEF, judgeReport, logTail, MAX_LOG_TAIL } from '../../../src/machines/reports.ts';
import { createSessions } from '../../../src/machines/sessions.ts';
import { foldSeen, mergeSighting, readSession, readStatus } from '../../../src/machines/status.ts';
import { jsonMutants, xorshift } from '../pxe/tftp/mutate.ts';
import { withoutTraces } from '../traces.ts';

const MAC = '52:54:00:aa:00:01' as BootSession['mac'];

const session = (more: Partial<BootSession> = {}): BootSession => ({
  v: 1,
  id: 'x',
  machine: 'node-1',
  mac: '52:54:00:aa:00:01' as BootSession['mac'],
  network: 'rack',
  openedAt: 0 as BootSession['openedAt'],
  steps: [{ step: 'script', at: 0 as BootSession['openedAt'] }],
  profile: 'worker',
  ...more,
});
const closed = (why: 'ready' | 'failed' | 'superseded' | 'expired') => ({
  at: 0 as BootSession['openedAt'],
  why,
});
const facts = {
  session: session(),
  live: true,
  documented: true,
  phase: 'booting' as const,
  step: 'kernel',
  own: true,
};

describe('a report', () => {
  it('is accepted from the machine’s address, in order, in a live session that was given a boot', () => {
    expect(judgeReport(facts)).toEqual({ believed: true, repeat: false });
  });

  it.each([
    ['bad_step', { step: 'rooted' }],
    ['session_unknown', { session: undefined }],
    ['session_over', { live: false }],
    ['session_over', { session: session({ closed: closed('expired') }), live: false }],
    ['session_over', { session: session({ closed: closed('failed') }), live: false, step: 'ready' }],
    ['session_superseded', { session: session({ closed: closed('superseded') }), live: false }],
    ['machine_gone', { documented: false }],
    ['foreign_address', { own: false }],
    ['out_of_order', { session: session({ steps: [{ step: 'ready', at: 0 as never }] }) }],
    ['impossible', { phase: 'held' as const }],
    ['impossible', { phase: undefined }],
  ] as const)('is refused: %s', (code, more) => {
    expect(judgeReport({ ...facts, ...more })).toMatchObject({
      believed: false,
      reason: { code, text: DISBELIEF[code] },
    });
  });

  it('is refused when no boot was given in its session', () => {
    const { profile: _, ...bare } = session();
    expect(judgeReport({ ...facts, session: bare })).toMatchObject({ reason: { code: 'no_boot' } });
  });

  it('may be repeated only if it ended its session', () => {
    const over = { ...facts, session: session({ closed: closed('ready') }), live: false };
    expect(judgeReport({ ...over, step: 'ready' })).toEqual({ believed: true, repeat: true });
    expect(judgeReport({ ...over, step: 'ready', own: false })).toMatchObject({ believed: false });
    expect(judgeReport({ ...over, step: 'configured' })).toMatchObject({ believed: false });
  });

  it('is accepted when the peer address has the form of dual-stack sockets', () => {
    expect(plainAddress('::ffff:10.0.0.1')).toBe('10.0.0.1');
    expect(plainAddress('fe80::1')).toBe('fe80::1');
  });
});

describe('a log’s tail', () => {
  it('is the end of the log in whole characters, without control sequences for a terminal', () => {
    expect(logTail('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007text\r\nnext\rline\t\u0000\u009b')).toBe(
      'red text\nnext\nline\t',
    );
    const long = logTail('ä'.repeat(MAX_LOG_TAIL));
    expect(Buffer.byteLength(long)).toBe(MAX_LOG_TAIL);
    expect(long).toMatch(/^ä+$/);
  });
});

/**
 * A small generator with a fixed seed: 200,000 inputs must not take longer than a second or two.
 */
function random(seed: number) {
  let state = seed;
  return (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}
const SEED = 0x4d757374;
const PIECES = [
  '\u001b[',
  '\u001b]',
  '\u0000',
  '\r',
  '\n',
  'ä',
  '\ud800',
  '\u200f',
  'm',
  ';',
  '0',
  'error ',
  '\u0007',
  '😀',
  '-',
  ':',
  '4c4c4544',
  ' ',
  '.',
  'Default string',
  '52:54:00:aa:00:01',
];

describe(`200,000 inputs, seed ${SEED}`, () => {
  it('never make reading a log, an identity or a record throw, grow or hang', () =>
    withoutTraces(() => {
      const next = random(SEED);
      const text = () => Array.from({ length: next(12) }, () => PIECES[next(PIECES.length)]).join('');
      for (let n = 0; n < 200_000; n++) {
        const one = text();
        const tail = logTail(one);
        if (/[^\P{C}\n\t]/u.test(tail)) throw new Error(`control character left of ${JSON.stringify(one)}`);
        const identity = readIdentity({ macs: [one, text()], uuid: one, serial: one, product: one });
        if (identity.macs.length > 2) throw new Error(JSON.stringify(one));
        serialKey(one);
        uuidKey(one);
      }
    }));

  it('are read as statuses or skipped', () =>
    withoutTraces(() => {
      const statuses: MachineStatus[] = [
        { v: 1, phase: 'ready', since: millis(1), bootsWithoutReady: 0, seen: { macs: [] } },
        {
          v: 1,
          phase: 'failed',
          since: millis(1),
          firstSeen: millis(1),
          lastSeen: millis(2),
          reason: { code: 'reported', text: 'no disk' },
          session: 'id',
          bootsWithoutReady: 2,
          logTail: 'the end',
          seen: {
            macs: [MAC],
            bootMacs: [MAC],
            uuid: 'u',
            serial: 's',
            arch: 'x86_64',
            firmware: 'uefi',
            network: 'n',
          },
        },
      ];
      for (const one of statuses) expect(readStatus(JSON.stringify(one))).toEqual(one);
      console.log(`record fuzz seed ${SEED}, 200,000 inputs each`);
      const status = jsonMutants(statuses, xorshift(SEED));
      let read = 0;
      for (let n = 0; n < 200_000; n++) {
        const one = readStatus(status());
        // Uses the status that was read: updates it with a packet, folds it and shows it.
        if (one) {
          mergeSighting(one.seen, { bootMac: MAC, macs: [MAC], serial: 'x' });
          foldSeen(one.seen, statuses[1]!.seen);
          one.reason?.text.trim();
          one.seen.macs.every(isUsableMac);
          read++;
        }
      }
      expect(read).toBeGreaterThan(1000);
    }));

  it('are read as sessions or skipped', () =>
    withoutTraces(() => {
      const sessions: BootSession[] = [
        session(),
        { ...session(), closed: { at: millis(2), why: 'ready' }, loader: 'ipxe.efi', peer: '10.77.0.10' },
      ];
      for (const one of sessions) expect(readSession(JSON.stringify(one))).toEqual(one);
      const stored = jsonMutants(sessions, xorshift(SEED));
      let read = 0;
      for (let n = 0; n < 200_000; n++) {
        const one = readSession(stored());
        if (one === undefined) continue;
        read++;
        const loaded = createSessions({ metrics: createMetrics(), clock: new ManualClock() });
        loaded.load([one]);
        loaded.sweep();
        if (!Number.isFinite(one.openedAt + one.steps.length + (one.closed?.at ?? 0)))
          throw new Error(one.id);
      }
      expect(read).toBeGreaterThan(1000);
    }));

  it('that are not records are skipped', () => {
    for (const text of ['', 'null', '1', '[]', '{"v":2}', '{"v":1}', '{']) {
      expect(readStatus(text)).toBeUndefined();
      expect(readSession(text)).toBeUndefined();
    }
  });

  it('of reports are judged, whatever they contain', () => {
    fc.assert(
      fc.property(fc.string(), fc.boolean(), fc.boolean(), fc.boolean(), (step, own, live, documented) => {
        const judged = judgeReport({ ...facts, step, own, live, documented });
        expect(judged.believed).toBe(false);
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });
});
