import { describe, expect, test } from 'vitest';
import { type BenchCase, compare, median, merge, percentile, resultsPage } from '../../../bench/compare.ts';

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
