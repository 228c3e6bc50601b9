import { describe, expect, test } from 'vitest';
import {
  type BenchCase,
  compare,
  marked,
  median,
  merge,
  percentile,
  resultsPage,
  spread,
} from '../../../bench/compare.ts';

const where = { suite: 'tftp', at: '2026-11-20T10:00', machine: 'two cores' };
const bench = (figure: Partial<BenchCase['figures'][string]>): BenchCase => ({
  figures: { rate: { name: 'Rate', unit: 'MB/s', better: 'more', ...figure } },
  ours: async () => ({}),
});
const rounds = (ours: number[], peer?: number[]) => ({
  ours: ours.map((rate) => ({ rate })),
  peers: peer ? { atftpd: peer.map((rate) => ({ rate })) } : {},
});

describe('a result of the bench', () => {
  test('is the median of the rounds and its ratio to that of the peer', () => {
    const [result] = compare(
      bench({ aimRatio: { atftpd: 0.8 } }),
      rounds([90, 10, 80], [100, 300, 90]),
      where,
    );
    expect(result).toMatchObject({ ours: 80, peer: 100, peerName: 'atftpd', ratio: 0.8, met: true });
    expect(result!.aim).toBe('at least 0.8 of atftpd');
  });

  test('meets an aim at least or at most, as the figure says which is better', () => {
    const met = (figure: Partial<BenchCase['figures'][string]>, ours: number, peer?: number) =>
      compare(bench(figure), rounds([ours], peer === undefined ? undefined : [peer]), where)[0]!.met;
    expect(met({ aim: 10 }, 10)).toBe(true);
    expect(met({ aim: 10 }, 9.99)).toBe(false);
    expect(met({ aim: 5, better: 'less' }, 5)).toBe(true);
    expect(met({ aim: 5, better: 'less' }, 5.01)).toBe(false);
    expect(met({ aimRatio: { atftpd: 1 } }, 99, 100)).toBe(false);
    expect(met({ aimRatio: { atftpd: 1 }, better: 'less' }, 99, 100)).toBe(true);
    expect(met({}, 1)).toBeNull();
  });

  test('of a busy host meets nothing, and the page says so', () => {
    const [result] = compare(bench({ aim: 1 }), rounds([5]), { ...where, busy: true });
    expect(result).toMatchObject({ met: false, busy: true });
    expect(resultsPage([result!], {})).toContain('| *busy* |');
    expect(resultsPage([result!], {})).not.toContain('missed');
  });

  test('is marked with both commits when it lost more than a tenth, by its ratio where there is a peer', () => {
    const of = (commit: string, ours: number, peer: number, figure = {}) =>
      compare(bench(figure), rounds([ours], [peer]), { ...where, commit })[0]!;
    expect(marked(of('b', 80, 100), of('a', 100, 100)).worse).toBe('20 % worse, a..b');
    // The host is slower for both.
    expect(marked(of('b', 50, 50), of('a', 100, 100)).worse).toBeUndefined();
    expect(marked(of('b', 91, 100), of('a', 100, 100)).worse).toBeUndefined();
    const less = { better: 'less' } as const;
    expect(marked(of('b', 150, 100, less), of('a', 100, 100, less)).worse).toBe('50 % worse, a..b');
    expect(marked({ ...of('b', 1, 100), busy: true }, of('a', 100, 100)).worse).toBeUndefined();
    expect(marked(of('b', 1, 100), undefined).worse).toBeUndefined();
  });

  test('has a spread: how far its rounds lie apart', () => {
    expect(spread([100, 95, 105])).toBeCloseTo(0.1);
    expect(spread([7])).toBe(0);
  });

  test('has no peer and no ratio when no peer has the figure', () => {
    const measured = { ours: [{ rate: 1 }], peers: { atftpd: [{}] } };
    expect(compare(bench({}), measured, where)).toMatchObject([{ peer: null, peerName: null, ratio: null }]);
  });

  test('replaces earlier ones of its suite only; the page says why an aim is missed', () => {
    const of = (suite: string, ours: number, figure = {}) =>
      compare(bench(figure), rounds([ours]), { ...where, suite });
    const missed = of('dhcp', 3, { aim: 4, ifMissed: 'The profile shows the disk.' });
    const all = merge([...of('tftp', 1), ...of('dhcp', 2)], missed, ['dhcp']);
    expect(all.map((result) => [result.suite, result.ours])).toEqual([
      ['dhcp', 3],
      ['tftp', 1],
    ]);
    const page = resultsPage(all, { dhcp: 'Exchanges.' });
    expect(page).toContain('| Rate | MB/s | 3 |  |  |  | at least 4 MB/s | **missed** (1) |');
    expect(page).toContain('(1) The profile shows the disk.');
    expect(page).toContain('Exchanges.');
    expect(page).not.toContain('All ratios');
  });

  test('replaces only the same figure when a part of its suite was measured', () => {
    const named = (name: string, ours: number) => compare(bench({ name }), rounds([ours]), where);
    const all = merge([...named('a', 1), ...named('b', 1)], named('b', 2), ['tftp'], { partial: true });
    expect(all.map(({ name, ours }) => [name, ours])).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
  });

  test('is in the table of all ratios on top of the page when it has a peer', () => {
    const aimed = compare(bench({ aimRatio: { atftpd: 1 } }), rounds([80], [100]), where);
    const lines = resultsPage([...aimed, ...compare(bench({}), rounds([3]), where)], {}).split('\n');
    expect(lines.filter((line) => /^\| tftp/.test(line))).toEqual([
      '| tftp | Rate | atftpd | 0.8 | more | at least 1 of atftpd | **missed** (1) |',
    ]);
    expect(lines.indexOf('## All ratios')).toBeLessThan(lines.indexOf('## tftp'));
  });

  test('shares one explanation with other results that miss their aims for the same reason', () => {
    const missed = compare(
      bench({ aimRatio: { atftpd: 1, tftpd: 1 }, ifMissed: `${'Because of the kernel. '.repeat(10)}End.` }),
      { ours: [{ rate: 1 }], peers: { atftpd: [{ rate: 2 }], tftpd: [{ rate: 3 }] } },
      where,
    );
    const page = resultsPage(missed, {});
    expect(page.match(/\*\*missed\*\* \(1\)/g)).toHaveLength(4);
    expect(page).toContain('(1) Because of the kernel.');
    expect(page.match(/End\./g)).toHaveLength(1);
    expect(page.split('\n').every((line) => line.startsWith('|') || line.length <= 120)).toBe(true);
  });
});

test('median and percentile', () => {
  expect([median([3, 1, 2]), median([4, 1, 2, 3]), median([])]).toEqual([2, 2.5, Number.NaN]);
  const hundred = Array.from({ length: 100 }, (_, i) => i);
  expect([percentile(hundred, 0.99), percentile(hundred, 1), percentile([7], 0.5)]).toEqual([99, 99, 7]);
});
