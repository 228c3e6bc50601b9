import { describe, expect, test } from 'vitest';
import { GuestConsole } from '../../../torture/console.ts';
import { CUTS, SECTOR, VolatileDisk } from '../../../torture/disk.ts';

const sectors = (count: number, value: number) => Buffer.alloc(count * SECTOR, value);
const disk = () => new VolatileDisk(sectors(64, 0));
const half = () => 0.5;

describe('the disk whose power is cut', () => {
  test('shows writes immediately, and keeps flushed ones', () => {
    for (const cut of CUTS) {
      const it = disk();
      it.write(SECTOR, sectors(2, 7));
      expect(it.read(SECTOR, 2 * SECTOR)).toEqual(sectors(2, 7));
      it.flush();
      expect(it.powerCut(cut, half)).toMatchObject({ unflushedWrites: 0, survivingSectors: 0 });
      expect(it.read(SECTOR, 2 * SECTOR)).toEqual(sectors(2, 7));
    }
  });

  test('loses all, some or the youngest of the writes that were not flushed', () => {
    const surviving = (cut: (typeof CUTS)[number], draws: number[]) => {
      const it = disk();
      it.write(0, sectors(2, 1));
      it.write(2 * SECTOR, sectors(2, 2));
      it.powerCut(cut, () => draws.shift()!);
      return [0, 1, 2, 3].map((sector) => it.read(sector * SECTOR, 1)[0]);
    };
    expect(surviving('lose all', [])).toEqual([0, 0, 0, 0]);
    expect(surviving('keep some writes', [0.9, 0.1])).toEqual([0, 0, 2, 2]);
    expect(surviving('keep some sectors', [0.1, 0.9, 0.9, 0.1])).toEqual([1, 0, 0, 2]);
    expect(surviving('keep the oldest', [0.4])).toEqual([1, 1, 0, 0]);
    expect(surviving('keep the oldest', [0.99])).toEqual([1, 1, 2, 2]);
  });

  test('has the older content where a newer write is lost', () => {
    const it = disk();
    it.write(0, sectors(1, 1));
    it.flush();
    it.write(0, sectors(1, 2));
    it.powerCut('lose all', half);
    expect(it.read(0, SECTOR)).toEqual(sectors(1, 1));
  });

  test('calls back once, in the write that makes the given number unflushed', () => {
    const it = disk();
    let rung = 0;
    it.alarm(2, () => rung++);
    it.write(0, sectors(1, 1));
    it.flush();
    it.write(0, sectors(1, 1));
    expect(rung).toBe(0);
    it.write(0, sectors(1, 1));
    it.write(0, sectors(1, 1));
    expect(rung).toBe(1);
  });
});

describe('the guest’s console', () => {
  test('counts a commit as acknowledged only when its line is complete', () => {
    const console = new GuestConsole(10_000);
    console.take('mounted\nrevision 3\nhave 0 5\nload\na 0:6 1:1\na 0:7\na 0:');
    console.end('cut');
    const named = new Map([[1, 4]]);
    expect(console.missing(named)).toBe(4);
    expect(console.acknowledged(named)).toBe(3);
    expect([...named]).toEqual([
      [1, 1],
      [0, 7],
    ]);
  });

  test('ignores what a store that was not opened completely had printed', () => {
    const console = new GuestConsole(10_000);
    console.take('mounted\nrevision 3\nhave 0 5\n');
    console.end('cut');
    const named = new Map([[0, 9]]);
    console.acknowledged(named);
    expect([...named]).toEqual([[0, 9]]);
  });

  test('ends all waits when the guest prints nothing for too long', async () => {
    const console = new GuestConsole(20);
    await expect(console.until('load')).rejects.toThrow('no output for 20 ms');
  });
});
