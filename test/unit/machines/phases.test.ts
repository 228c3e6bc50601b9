import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PHASES } from '../../../src/machines/machine.ts';
import { PHASE_EVENTS, type PhaseEvent, TRANSITIONS, transition } from '../../../src/machines/phases.ts';

describe('phases', () => {
  it('have a result for every event in every phase', () => {
    expect(Object.keys(TRANSITIONS).sort()).toEqual([...PHASES].sort());
    for (const phase of PHASES) {
      expect(Object.keys(TRANSITIONS[phase]).sort()).toEqual([...PHASE_EVENTS].sort());
      for (const event of PHASE_EVENTS) expect([...PHASES, null]).toContain(transition(phase, event));
    }
  });

  const REPORTS: PhaseEvent[] = ['kernel', 'configured', 'ready', 'failed', 'timeout'];

  it('leave ready only by a boot, an operator or a hold, never by a report', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...REPORTS)), (reports) => {
        let phase = 'ready' as (typeof PHASES)[number];
        for (const report of reports) phase = transition(phase, report) ?? phase;
        expect(phase).toBe('ready');
      }),
      { seed: 1 },
    );
  });

  it('never go back within one boot', () => {
    const rank: Record<string, number> = { booting: 0, starting: 1, configured: 2, ready: 3 };
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...REPORTS.slice(0, 3))), (reports) => {
        let phase = 'booting' as (typeof PHASES)[number];
        for (const report of reports) {
          const next = transition(phase, report) ?? phase;
          expect(rank[next]).toBeGreaterThanOrEqual(rank[phase]!);
          phase = next;
        }
      }),
      { seed: 2 },
    );
  });

  it('allow only acceptance for an unknown machine', () => {
    for (const event of PHASE_EVENTS.filter((one) => one !== 'accepted' && one !== 'removed'))
      expect(transition('discovered', event)).toBeNull();
    expect(transition('discovered', 'accepted')).toBe('registered');
  });

  it('ignore reports of a machine that has not booted or is held', () => {
    for (const phase of ['discovered', 'registered', 'held'] as const)
      for (const report of REPORTS) expect(transition(phase, report)).toBeNull();
  });

  it('accept reports of a machine that was silent', () => {
    expect(transition('starting', 'timeout')).toBe('failed');
    expect(transition('failed', 'ready')).toBe('ready');
  });

  it('allow every documented machine to boot', () => {
    for (const phase of PHASES.filter((one) => one !== 'discovered'))
      expect(transition(phase, 'booted')).toBe('booting');
  });
});
