/** The agent's inventory of the real machine that the test runs on, in both shells. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readInventory } from '../../src/machines/inventory.ts';
import { SHELLS, SOURCE } from './agent-kit.ts';

test.each(SHELLS)('the inventory agrees with what the kernel says (%s)', (...shell) => {
  const run = fs.mkdtempSync(path.join(os.tmpdir(), 'inventory-'));
  const script = `root= run=${run}
    . ${SOURCE}/muster-base.sh; . ${SOURCE}/muster-inventory.sh
    take_inventory; cat "$run/inventory.new"; inventory_arrived; take_inventory; ls "$run"`;
  const [program, ...words] = shell as readonly string[];
  const text = execFileSync(program!, [...words, '-c', script], { encoding: 'utf8' });
  fs.rmSync(run, { recursive: true });
  // The second one is not due before an hour has passed.
  expect(text.trimEnd().split('\n').at(-1)).toBe('inventory');
  const inventory = readInventory(text)!;
  const kilobytes = /^MemTotal: *(\d+)/m.exec(fs.readFileSync('/proc/meminfo', 'utf8'))![1];
  expect(inventory.memoryBytes).toBe(Number(kilobytes) * 1024);
  expect(inventory.processors?.threads).toBe(os.cpus().length);
  const listed = execFileSync('lsblk', ['-dnb', '-e', '1,2,7,11', '-o', 'NAME,SIZE'], { encoding: 'utf8' });
  const disks = listed
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.trim().split(/ +/))
    .filter(([name, size]) => size !== '0' && !name!.startsWith('zram'));
  expect(inventory.disks.map(({ name, bytes }) => [name, String(bytes)])).toEqual(disks);
});
